// What makes pages more convenient; each page works without it.
(function () {
  "use strict";

  // --- Copy. `navigator.clipboard` exists only behind TLS or on this machine itself, so there is the old way as well.
  function copySelected(source) {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    let done = true;
    if (navigator.clipboard) {
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        done = copySelected(source);
      }
    } else {
      done = copySelected(source);
    }
    if (done) button.querySelector("[data-label]").textContent = button.dataset.done;
  }

  function reveal(root) {
    for (const button of root.querySelectorAll(":is([data-copy], [data-dialog])[hidden]")) button.hidden = false;
  }

  // --- Dialogs open by a button that names them, and close by a click beside them.
  function openDialog(name) {
    const dialog = document.getElementById(name);
    if (dialog && !dialog.open) dialog.showModal();
  }

  // --- Panels that open in place close by Escape and by a click elsewhere.
  function closePanels(except) {
    for (const panel of document.querySelectorAll("details[data-panel][open]")) {
      if (!except || !panel.contains(except)) panel.open = false;
    }
  }

  document.addEventListener("click", function (event) {
    closePanels(event.target);
    const button = event.target.closest("[data-copy]");
    const opener = event.target.closest("[data-dialog]");
    if (button) copy(button);
    else if (opener) openDialog(opener.dataset.dialog);
    else if (event.target.matches("dialog[open]")) event.target.close();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape") return;
    const open = document.querySelector("details[data-panel][open]");
    closePanels(null);
    if (open) open.querySelector("summary").focus();
  });

  document.addEventListener("DOMContentLoaded", function () {
    reveal(document);
    // A row of choices may be wider than the screen.
    for (const chosen of document.querySelectorAll(".choice[aria-current]")) {
      chosen.parentElement.scrollLeft = chosen.offsetLeft - chosen.parentElement.offsetLeft - 40;
    }
  });
  document.addEventListener("htmx:afterSettle", () => reveal(document));
})();
