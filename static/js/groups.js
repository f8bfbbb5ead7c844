// Groups of duplicates: marking, keys, the preview and the choice by hand. Each page works without it.
(function () {
  "use strict";

  const language = document.documentElement.lang || "en";
  const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

  // Decimal units and one digit after the point, as the server writes them.
  function sizeWords(bytes) {
    let value = bytes, unit = 0;
    while (unit < UNITS.length - 1 && Math.round(value * 10) / 10 >= 1000) {
      value /= 1000;
      unit += 1;
    }
    const digits = unit ? 1 : 0;
    const number = value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return `${number} ${UNITS[unit]}`;
  }

  // "%s of %s": each place gets the next word.
  function filled(words, ...values) {
    return values.reduce((text, value) => text.replace("%s", () => value), words);
  }

  // --- Marking ---
  const bar = document.getElementById("marked");
  const rows = () => [...document.querySelectorAll("[data-group]")];
  const markOf = (row) => row.querySelector("[data-mark]");

  // The first mark raises the bar, which must not cover the row that somebody with a keyboard is at.
  function raise(isRaised) {
    const isNew = bar.hidden && isRaised, row = document.activeElement.closest("[data-group]");
    bar.hidden = !isRaised;
    if (isNew && row && document.activeElement.matches(":focus-visible")) row.scrollIntoView({ block: "nearest" });
  }

  function countMarks() {
    if (!bar) return;
    const marked = rows().filter((row) => markOf(row).checked);
    const words = bar.querySelector("[data-marked]");
    const bytes = marked.reduce((sum, row) => sum + Number(row.dataset.bytes), 0);
    const groups = filled(marked.length === 1 ? words.dataset.one : words.dataset.many, marked.length.toLocaleString(language));
    words.textContent = `${groups}, ${sizeWords(bytes)}`;
    raise(marked.length > 0);
    for (const row of rows()) row.classList.toggle("is-marked", markOf(row).checked);
    const all = document.querySelector("[data-mark-all] input");
    all.checked = marked.length > 0 && marked.length === rows().length;
    all.indeterminate = marked.length > 0 && !all.checked;
  }

  function markEvery(isMarked) {
    for (const row of rows()) markOf(row).checked = isMarked;
    countMarks();
  }

  // --- The row one is at ---
  let last = null;

  function currentRow() {
    const active = document.activeElement;
    const row = active && active.closest("[data-group]");
    if (row) return row;
    return last && last.isConnected ? last : null;
  }

  function goTo(row) {
    last = row;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  let goesOn = false;

  function move(step) {
    const all = rows(), here = currentRow();
    const index = here ? all.indexOf(here) + step : 0;
    const more = document.getElementById("load-more");
    if (all[index]) goTo(all[index]);
    else if (index >= all.length && more && !goesOn) {
      goesOn = true;
      more.click();
    }
  }

  function showPreview() {
    const row = currentRow();
    if (row) row.querySelector("[data-preview]").click();
  }

  // --- Keys ---
  const FIELDS = "input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]";
  // What static/js/keys.js switches off.
  const LETTERS = ["j", "k", "x", "a", "?"];
  const PRESSED_BY_SPACE = "button, summary, input, select, textarea";

  function onKey(event) {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || target.closest(FIELDS)) return;
    if (document.querySelector("dialog[open]")) return;
    if (document.documentElement.dataset.keys === "off" && LETTERS.includes(event.key)) return;
    const row = currentRow();
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "?") openDialog("keys");
    // The bar comes after all rows, which is a long way by Tab.
    else if (event.key === "a" && bar && !bar.hidden) bar.querySelector(".mark-tools :is(select, a, button)").focus();
    else if (event.key === "x" && row && markOf(row)) {
      markOf(row).checked = !markOf(row).checked;
      countMarks();
    } else if (event.key === " " && row && !target.closest(PRESSED_BY_SPACE)) showPreview();
    else if (event.key === "Enter" && target === row) row.querySelector("[data-open]").click();
    else return;
    event.preventDefault();
  }

  // --- Dialogs ---
  function openDialog(name) {
    const dialog = document.getElementById(name);
    if (dialog && !dialog.open) dialog.showModal();
  }

  // --- Choosing by hand ---
  const choice = document.querySelector("[data-choice]");
  const copies = () => [...choice.querySelectorAll("[data-copy-of]")];
  const goes = (copy) => copy.querySelector("input[value=remove]").checked;

  // A copy comes back when every name of it goes, also those that no library holds.
  function freedInodes(going) {
    const names = new Map();
    for (const copy of going) names.set(copy.dataset.copyOf, (names.get(copy.dataset.copyOf) || 0) + 1);
    const whole = going.filter((copy) => names.get(copy.dataset.copyOf) >= Number(copy.dataset.links));
    return new Set(whole.map((copy) => copy.dataset.copyOf)).size;
  }

  function countChoice() {
    const words = choice && choice.querySelector("[data-chosen]");
    if (!words) return;
    const all = copies(), going = all.filter(goes);
    const isWhole = all.length >= Number(choice.dataset.files);
    const isLast = isWhole && going.length > 0 && !all.some((copy) => "counts" in copy.dataset && !goes(copy));
    const freed = freedInodes(going) * Number(choice.dataset.size);
    if (isLast) words.textContent = words.dataset.last;
    else if (going.length === 0) words.textContent = words.dataset.none;
    else {
      const total = Number(choice.dataset.files).toLocaleString(language);
      words.textContent = filled(words.dataset.some, going.length.toLocaleString(language), total, sizeWords(freed));
    }
    words.classList.toggle("is-refused", isLast);
    document.getElementById("make-plan").disabled = isLast || going.length === 0;
  }

  function keepOnly(kept) {
    for (const copy of copies()) {
      const remove = copy.querySelector("input[value=remove]");
      const isGoing = copy !== kept && !remove.disabled;
      (isGoing ? remove : copy.querySelector("input[value=keep]")).checked = true;
    }
    countChoice();
  }

  // The server reads a thousand fields and no more: all marks travel together in one.
  function inOneField(data) {
    const choices = [...data].filter(([name]) => name.startsWith("choice-"));
    const groups = data.getAll("group");
    for (const [name] of choices) data.delete(name);
    data.delete("group");
    if (choices.length) data.set("choices", choices.map(([name, value]) => `${name.slice("choice-".length)}:${value}`).join(","));
    if (groups.length) data.set("groups", groups.join(","));
  }

  // --- Wiring ---
  function begin() {
    for (const element of document.querySelectorAll("[data-mark-all], [data-clear], [data-only]")) {
      element.hidden = false;
    }
    for (const raised of document.querySelectorAll(".mark-bar")) raised.classList.add("is-raised");
    countMarks();
    countChoice();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", function (event) {
    last = event.target.closest("[data-group]") || last;
  });
  document.addEventListener("change", function (event) {
    const all = event.target.closest("[data-mark-all]");
    if (all) markEvery(event.target.checked);
    else if (event.target.matches("[data-mark]")) countMarks();
    else if (choice && choice.contains(event.target)) countChoice();
  });
  document.addEventListener("click", function (event) {
    const only = event.target.closest("[data-only]");
    if (only) keepOnly(only.closest("[data-copy-of]"));
    else if (event.target.closest("[data-clear]")) markEvery(false);
    else if (event.target.closest(".menu-item[data-preview]")) event.target.closest("details").open = false;
  });

  // "Load more" takes its button away: what is new gets the focus that the button had.
  let firstNew = null;
  document.addEventListener("htmx:beforeSwap", function (event) {
    const target = event.detail.target;
    // Other parts of the page come by themselves, at any moment: they leave the focus where it is.
    if (target.id !== "more" && target.id !== "more-copies") return;
    const list = target.id === "more" ? rows : copies;
    firstNew = goesOn || target.contains(document.activeElement) ? { list, index: list().length } : null;
  });
  document.addEventListener("htmx:afterSettle", function (event) {
    begin();
    if (event.detail.target.id === "preview-body") openDialog("preview");
    const element = firstNew && firstNew.list()[firstNew.index];
    if (!element) return;
    if (goesOn) goTo(element);
    else element.focus({ preventScroll: true });
    firstNew = null;
    goesOn = false;
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    if (event.detail.target.id === "more" && !event.detail.successful) goesOn = false;
  });
  document.addEventListener("formdata", (event) => inOneField(event.formData));
  window.addEventListener("pageshow", begin);
  begin();
})();
