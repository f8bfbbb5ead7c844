// Counts down between two answers of the server: it says how many seconds are left, whatever this machine's clock says.
(function () {
  "use strict";

  let element = null;
  let until = 0;

  function tick() {
    const found = document.querySelector("[data-countdown]");
    if (!found) return;
    if (found !== element) {
      element = found;
      until = performance.now() + Number(found.dataset.countdown) * 1000;
    }
    const left = Math.max(0, Math.ceil((until - performance.now()) / 1000));
    const words = left + " s";
    if (found.textContent !== words) found.textContent = words;
  }

  document.addEventListener("DOMContentLoaded", tick);
  document.addEventListener("htmx:afterSettle", tick);
  setInterval(tick, 250);
})();
