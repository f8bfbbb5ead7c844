// The trash: marking, keys, and the list anew when an act has ended. Each page works without it.
(function () {
  "use strict";

  const language = document.documentElement.lang || "en";
  const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  const opened = location.href;
  const bar = document.getElementById("marked");
  const marks = () => [...document.querySelectorAll("[data-mark]")];
  const rows = () => [...document.querySelectorAll("[data-row]")];

  // Decimal units and one digit after the point, as the server writes them.
  function sizeWords(bytes) {
    let value = bytes, unit = 0;
    while (unit < UNITS.length - 1 && Math.round(value * 10) / 10 >= 1000) {
      value /= 1000;
      unit += 1;
    }
    const digits = unit ? 1 : 0;
    return `${value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${UNITS[unit]}`;
  }

  // --- Marking ---
  // The first mark raises the bar, which must not cover the row that somebody with a keyboard is at.
  function raise(isRaised) {
    const isNew = bar.hidden && isRaised, row = document.activeElement.closest("[data-row]");
    bar.hidden = !isRaised;
    if (isNew && row && document.activeElement.matches(":focus-visible")) row.scrollIntoView({ block: "nearest" });
  }

  function countMarks() {
    if (!bar) return;
    const marked = marks().filter((mark) => mark.checked);
    const words = bar.querySelector("[data-marked]");
    const bytes = marked.reduce((sum, mark) => sum + Number(mark.closest("[data-row]").dataset.bytes), 0);
    const form = marked.length === 1 ? words.dataset.one : words.dataset.many;
    words.textContent = `${form.replace("%s", () => marked.length.toLocaleString(language))}, ${sizeWords(bytes)}`;
    raise(marked.length > 0);
    for (const mark of marks()) mark.closest("[data-row]").classList.toggle("is-marked", mark.checked);
    const all = document.querySelector("[data-mark-all] input");
    all.checked = marked.length > 0 && marked.length === marks().length;
    all.indeterminate = marked.length > 0 && !all.checked;
  }

  function markEvery(isMarked) {
    for (const mark of marks()) mark.checked = isMarked;
    countMarks();
  }

  // --- Keys: as in the list of groups ---
  const FIELDS = "input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]";
  // What static/js/keys.js switches off.
  const LETTERS = ["j", "k", "x", "a", "?"];
  let last = null;

  function currentRow() {
    const active = document.activeElement;
    const row = active && active.closest("[data-row]");
    return row || (last && last.isConnected ? last : null);
  }

  function move(step) {
    const all = rows(), here = currentRow();
    const row = all[here ? all.indexOf(here) + step : 0];
    if (!row) return;
    last = row;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function onKey(event) {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || target.closest(FIELDS)) return;
    if (document.querySelector("dialog[open]")) return;
    if (document.documentElement.dataset.keys === "off" && LETTERS.includes(event.key)) return;
    const row = currentRow(), mark = row && row.querySelector("[data-mark]");
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "a" && bar && !bar.hidden) bar.querySelector(".mark-tools button").focus();
    else if (event.key === "x" && mark) {
      mark.checked = !mark.checked;
      countMarks();
    } else if (event.key === "Enter" && row && target === row) row.querySelector("[data-open]").click();
    else return;
    event.preventDefault();
  }

  // --- Wiring ---
  function begin() {
    for (const element of document.querySelectorAll("[data-mark-all], [data-clear]")) element.hidden = false;
    if (bar) bar.classList.add("is-raised");
    countMarks();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", function (event) {
    last = event.target.closest("[data-row]") || last;
  });
  document.addEventListener("change", function (event) {
    if (event.target.closest("[data-mark-all]")) markEvery(event.target.checked);
    else if (event.target.matches("[data-mark]")) countMarks();
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-clear]")) markEvery(false);
  });

  // The server reads a thousand fields and no more: all marks travel together in one.
  document.addEventListener("formdata", function (event) {
    const items = event.formData.getAll("item");
    event.formData.delete("item");
    if (items.length) event.formData.set("items", items.join(","));
  });

  // What was marked meanwhile is not thrown away: then a button loads the list anew. The list begins where it began: by now
  // the address may name a page that was loaded later.
  document.addEventListener("trash-changed", function () {
    if (marks().some((mark) => mark.checked)) document.body.dataset.isOld = "";
    else location.replace(opened);
  });

  // "Load more" takes its button away: what is new gets the focus that the button had.
  let firstNew = null;
  document.addEventListener("htmx:beforeSwap", function (event) {
    const target = event.detail.target;
    if (target.id === "more") firstNew = target.contains(document.activeElement) ? rows().length : null;
  });
  document.addEventListener("htmx:afterSettle", function () {
    begin();
    for (const element of document.querySelectorAll("[data-anew]")) element.hidden = !("isOld" in document.body.dataset);
    const row = firstNew !== null && rows()[firstNew];
    firstNew = null;
    if (row) row.focus({ preventScroll: true });
  });
  window.addEventListener("pageshow", begin);
  begin();
})();
