// A page that nobody looks at doesn't ask; when it is looked at again it asks at once.
(function () {
  "use strict";

  document.addEventListener("htmx:beforeRequest", function (event) {
    if (document.hidden && event.target.id === "maintenance") event.preventDefault();
  });
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) htmx.trigger("#maintenance", "shown");
  });
})();
