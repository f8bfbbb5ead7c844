// Keys of one letter act wherever one is on the page, which is in the way of whoever speaks to the machine or presses keys by
// accident: a switch in the dialog that lists them turns them off, for this browser. `data-keys` says so to other scripts.
(function () {
  "use strict";
  const KEY = "dedupfs-keys", OFF = "off";
  const root = document.documentElement;

  function isOff() {
    try {
      return localStorage.getItem(KEY) === OFF;
    } catch {
      return root.dataset.keys === OFF;
    }
  }

  function apply(isNowOff) {
    if (isNowOff) root.dataset.keys = OFF;
    else delete root.dataset.keys;
    for (const box of document.querySelectorAll("[data-keys-switch]")) box.checked = !isNowOff;
  }

  function choose(isNowOff) {
    try {
      if (isNowOff) localStorage.setItem(KEY, OFF);
      else localStorage.removeItem(KEY);
    } catch {
      // Storage is off: the choice lasts as long as this page.
    }
    apply(isNowOff);
  }

  document.addEventListener("change", function (event) {
    if (event.target.matches("[data-keys-switch]")) choose(!event.target.checked);
  });
  window.addEventListener("storage", function (event) {
    if (event.key === KEY) apply(isOff());
  });
  window.addEventListener("pageshow", () => apply(isOff()));
  apply(isOff());
})();
