// Light, dark, or as the system says. Loaded before the first paint, so that a page never flashes in the other theme.
// And the zone this browser is in, for the times on the pages that come (frame/zones.py).
(function () {
  "use strict";
  const KEY = "dedupfs-theme";
  const root = document.documentElement;

  function chosen() {
    try {
      const value = localStorage.getItem(KEY);
      return value === "light" || value === "dark" ? value : "system";
    } catch {
      return "system";
    }
  }

  function apply(theme) {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    for (const button of document.querySelectorAll("[data-choose-theme]")) {
      button.setAttribute("aria-pressed", String(button.dataset.chooseTheme === theme));
    }
  }

  function choose(theme) {
    try {
      if (theme === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // Storage is off: the choice lasts as long as this page.
    }
    apply(theme);
  }

  function tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const secure = location.protocol === "https:" ? "; secure" : "";
    if (zone) document.cookie = `dedupfs_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
  }

  tellZone();
  apply(chosen());
  document.addEventListener("DOMContentLoaded", function () {
    for (const group of document.querySelectorAll("[data-theme-switch]")) group.hidden = false;
    apply(chosen());
  });
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-choose-theme]");
    if (button) choose(button.dataset.chooseTheme);
  });
  window.addEventListener("storage", function (event) {
    if (event.key === KEY) apply(chosen());
  });
})();
