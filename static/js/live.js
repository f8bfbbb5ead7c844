// What all live parts of pages have in common: they ask only while somebody looks, they take neither the focus nor what was
// opened away, they say when the server is away, and they tell which of the jobs somebody waits for have ended.
(function () {
  "use strict";

  const POLLS = '[hx-trigger*="every "]';
  const PILL = "running-now";

  // --- Only while somebody looks. A part of the page that asks brings the pill with it, so the pill is asked for only where
  // there is none: one request, however much is shown.
  const PILL_EVERY = 10000;

  function askForPill() {
    const pill = document.getElementById(PILL);
    if (!pill || !pill.dataset.now || document.hidden || document.querySelector(POLLS)) return;
    htmx.ajax("GET", pill.dataset.now, { source: pill, swap: "none" });
  }

  document.addEventListener("htmx:beforeRequest", function (event) {
    if (document.hidden && event.detail.elt.matches(POLLS)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) return;
    for (const part of document.querySelectorAll(POLLS)) htmx.ajax("GET", part.getAttribute("hx-get"), { source: part });
    askForPill();
  });
  setInterval(function () {
    if (document.querySelector(`#${PILL}[data-active]`)) askForPill();
  }, PILL_EVERY);

  // --- Focus stays, and what was opened stays open, also where an element has no id of its own: it is found again by its
  // place below the nearest one that has.
  function placeOf(element) {
    const steps = [];
    let at = element;
    while (at && !at.id) {
      if (!at.parentElement) return null;
      steps.unshift([...at.parentElement.children].indexOf(at));
      at = at.parentElement;
    }
    return at && { id: at.id, steps, tag: element.tagName };
  }

  function findAgain(place) {
    let at = document.getElementById(place.id);
    for (const step of place.steps) at = at && at.children[step];
    return at && at.tagName === place.tag ? at : null;
  }

  function isLive(part) {
    return part.id === PILL || part.matches(POLLS);
  }

  let focused = null, opened = [];

  function remember(event) {
    const active = document.activeElement;
    // Where somebody presses a button in a form, what is under their hand afterwards is the answer's business.
    const isByItself = isLive(event.detail.requestConfig.elt);
    focused = isByItself && active && active !== document.body ? { element: active, place: placeOf(active) } : null;
    const panels = isByItself ? document.querySelectorAll("details[open]") : [];
    opened = [...panels].map((panel) => ({ element: panel, place: placeOf(panel) }));
  }

  function putBack() {
    for (const { element, place } of opened) {
      const again = !element.isConnected && place && findAgain(place);
      if (again) again.open = true;
    }
    if (focused && !focused.element.isConnected && document.activeElement === document.body) {
      const again = focused.place && findAgain(focused.place);
      if (again) again.focus({ preventScroll: true });
    }
  }

  // --- The server may be away, or have ended the login.
  function offline(isOffline) {
    const line = document.getElementById("offline");
    if (line) line.hidden = !isOffline;
  }

  document.addEventListener("htmx:sendError", () => offline(true));
  document.addEventListener("htmx:responseError", () => offline(true));
  document.addEventListener("htmx:beforeSwap", function (event) {
    const asked = new URL(event.detail.pathInfo.finalRequestPath, location.href);
    const answered = new URL(event.detail.xhr.responseURL, location.href);
    if (event.detail.xhr.responseURL && asked.pathname !== answered.pathname) {
      // Sent elsewhere, most likely to the login: a whole page, not a part of this one.
      event.detail.shouldSwap = false;
      location.reload();
    } else if (event.detail.xhr.status < 400) {
      offline(false);
      remember(event);
    }
  });

  // --- Jobs somebody waits for: those they started (the server names them) and those a page shows (`data-watch`). They are
  // kept for this tab, from page to page, until an answer says that they have ended.
  const KEY = "dedupfs-watched", MOST = 20;
  const STAYS = 20000;

  function watched() {
    try {
      return new Set((sessionStorage.getItem(KEY) || "").split(" ").filter(Boolean));
    } catch {
      return new Set(); // storage is off: there are no toasts
    }
  }

  function keep(jobs) {
    try {
      sessionStorage.setItem(KEY, [...jobs].slice(-MOST).join(" "));
    } catch {
      // As above.
    }
  }

  function note() {
    const jobs = watched();
    const pill = document.getElementById(PILL);
    const named = pill ? [...(pill.dataset.watched || "").split(" ")] : [];
    for (const part of document.querySelectorAll("[data-watch]")) named.push(part.dataset.watch);
    for (const job of named.filter(Boolean)) jobs.add(job);
    for (const job of pill ? (pill.dataset.ended || "").split(" ") : []) jobs.delete(job);
    keep(jobs);
  }

  function dismiss(toast) {
    const next = toast.nextElementSibling || toast.previousElementSibling;
    const hadFocus = toast.contains(document.activeElement);
    toast.remove();
    if (hadFocus) (next ? next.querySelector("[data-dismiss]") : document.getElementById("content")).focus();
  }

  // Good news goes by itself, unless somebody is at it; what failed stays until it is dismissed.
  function letGo(toast) {
    setTimeout(function () {
      if (document.hidden || toast.matches(":hover, :focus-within")) letGo(toast);
      else toast.remove();
    }, STAYS);
  }

  function showToasts() {
    for (const toast of document.querySelectorAll(".toast:not([data-shown])")) {
      toast.dataset.shown = "";
      if (toast.classList.contains("is-ok")) letGo(toast);
    }
  }

  document.addEventListener("htmx:configRequest", function (event) {
    const jobs = watched();
    if (jobs.size && isLive(event.detail.elt)) event.detail.headers["X-Watched"] = [...jobs].join(" ");
  });
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-dismiss]");
    if (button) dismiss(button.closest(".toast"));
  });
  document.addEventListener("htmx:afterSettle", function () {
    putBack();
    note();
    showToasts();
  });
  document.addEventListener("DOMContentLoaded", function () {
    note();
    // What somebody waits for may have ended while they went from page to page.
    if (watched().size && !document.querySelector(`#${PILL}[data-active]`)) askForPill();
  });
})();
