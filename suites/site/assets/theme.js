// Chooses light or dark before anything is painted. Loaded in the head.
"use strict";
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("enginebench-theme");
  } catch {
    // A browser may forbid storage for pages that were opened from disk.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
