// Pictures of files: those that are looked at are asked for, all in one request, until they are there. Without it a page
// has the pictures that were there when it was made, and asks for the others once.
(function () {
  "use strict";

  const form = document.getElementById("thumbs");
  if (!form || !("IntersectionObserver" in window)) return;

  const MOST = 200;
  const FIRST_WAIT = 400, LONGEST_WAIT = 15000, FULL_WAIT = 10000;
  // What has just come into view is asked for together with what comes right after it.
  const GATHER = 60;

  const visible = new Set();
  let timer = null, isAsking = false, wait = FIRST_WAIT, earliest = 0;

  // --- What is looked at ---
  const observer = new IntersectionObserver(function (entries) {
    let isNew = false;
    for (const entry of entries) {
      if (entry.isIntersecting && !visible.has(entry.target)) {
        visible.add(entry.target);
        isNew = true;
      } else if (!entry.isIntersecting) visible.delete(entry.target);
    }
    // A new one is asked for at once, unless the server said that it takes no more for now.
    if (isNew) {
      wait = FIRST_WAIT;
      schedule(GATHER);
    }
  }, { rootMargin: "200px" });

  function find() {
    for (const tile of document.querySelectorAll("[data-thumb]:not([data-watched])")) {
      tile.dataset.watched = "";
      observer.observe(tile);
    }
  }

  function settle(tile) {
    observer.unobserve(tile);
    visible.delete(tile);
    delete tile.dataset.thumb;
  }

  function forgetRemoved() {
    for (const tile of visible) if (!tile.isConnected) settle(tile);
  }

  // --- Asking ---
  function schedule(delay) {
    if (isAsking) return;
    clearTimeout(timer);
    timer = setTimeout(ask, Math.max(delay, earliest - Date.now()));
  }

  // One request asks for pictures of one size; those of another are next.
  function wanted() {
    forgetRemoved();
    const tiles = [...visible];
    const size = tiles.length ? tiles[0].dataset.size : "";
    const files = new Map();
    for (const tile of tiles) {
      if (tile.dataset.size !== size || (files.size >= MOST && !files.has(tile.dataset.thumb))) continue;
      files.set(tile.dataset.thumb, [...(files.get(tile.dataset.thumb) || []), tile]);
    }
    return { size, files };
  }

  async function ask() {
    const { size, files } = wanted();
    if (isAsking || files.size === 0 || document.hidden) return;
    isAsking = true;
    let isAnswered = false;
    try {
      const body = new URLSearchParams(new FormData(form));
      body.set("size", size);
      for (const file of files.keys()) body.append("file", file);
      const response = await fetch(form.action, { method: "POST", body });
      // Whoever was logged out is sent to the login: nothing more comes until the page is loaded again.
      if (response.redirected || response.status === 403 || response.status === 400) return stop();
      if (response.ok) {
        take(await response.json(), files);
        isAnswered = true;
      }
    } catch {
      // The server is away for now.
    } finally {
      isAsking = false;
    }
    again(isAnswered);
  }

  function stop() {
    observer.disconnect();
    visible.clear();
  }

  // What waits is asked for less and less often; what was not asked for yet comes at once, if there is an answer at all.
  function again(isAnswered) {
    if (visible.size === 0) return;
    const isNew = isAnswered && [...visible].some((tile) => !("asked" in tile.dataset));
    schedule(isNew ? GATHER : wait);
    wait = Math.min(wait * 1.6, LONGEST_WAIT);
  }

  function take(answer, files) {
    earliest = answer.is_full ? Date.now() + FULL_WAIT : 0;
    for (const [file, tiles] of files) {
      const picture = answer.pictures[file] || { status: "none" };
      for (const tile of tiles) {
        tile.dataset.asked = "";
        if (picture.status === "ready") show(tile, picture);
        else if (picture.status === "failed") fail(tile, picture.why);
        else if (picture.status === "none") settle(tile);
        // Asked for again last, so that no page with more than one request's worth starves.
        else if (visible.delete(tile)) {
          visible.add(tile);
          say(tile, answer.is_full ? form.dataset.full : form.dataset.waiting);
        }
      }
    }
  }

  // --- Showing ---
  function say(tile, words) {
    const place = tile.querySelector("[data-words]");
    if (place && !tile.querySelector("img")) place.textContent = words;
  }

  // Once more for a tile whose picture was gone from the disk when it was fetched: it is being made again.
  function watchAgain(tile, file) {
    say(tile, "");
    if ("again" in tile.dataset) return;
    tile.dataset.again = "";
    tile.dataset.thumb = file;
    observer.observe(tile);
  }

  function show(tile, picture) {
    const file = tile.dataset.thumb;
    const image = new Image(picture.width, picture.height);
    image.className = "thumb is-new";
    image.alt = tile.dataset.alt || "";
    image.decoding = "async";
    settle(tile);
    wait = FIRST_WAIT;
    image.addEventListener("load", function () {
      // The drawing that is sent in place of a picture is of another size.
      if (image.naturalWidth !== picture.width || image.naturalHeight !== picture.height) return watchAgain(tile, file);
      say(tile, "");
      for (const old of tile.querySelectorAll("img, noscript")) old.remove();
      tile.append(image);
    });
    image.addEventListener("error", () => watchAgain(tile, file));
    // By its first address the page would show what it has of it already: the drawing.
    image.src = picture.address + ("again" in tile.dataset ? "?again" : "");
  }

  function fail(tile, why) {
    const words = form.dataset.none.replace("%s", () => why);
    settle(tile);
    if (tile.querySelector("img")) return;
    tile.classList.add("is-failed");
    tile.title = words;
    tile.querySelector("use").setAttribute("href", "#icon-attention");
    say(tile, words);
    if (tile.querySelector("[data-words]")) return;
    const read = document.createElement("span");
    read.className = "only-read";
    read.textContent = ` (${words})`;
    tile.append(read);
  }

  document.addEventListener("visibilitychange", function () {
    if (document.hidden) return;
    wait = FIRST_WAIT;
    schedule(GATHER);
  });
  document.addEventListener("htmx:afterSettle", find);
  window.addEventListener("pageshow", find);
  find();
})();
