// Light or dark: as the system says, or as the reader chose before. Works without storage, as in a private window.
(function () {
  "use strict";
  const root = document.documentElement;
  const KEY = "silobench-theme";
  const read = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const write = (value) => { try { localStorage.setItem(KEY, value); } catch { /* the choice lasts for this page */ } };
  const stored = read();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  // On a phone the navigation scrolls sideways. scrollIntoView would also begin the tab order there.
  const showCurrent = () => {
    const link = document.querySelector("nav [aria-current]"), bar = link?.closest("nav");
    if (!bar) return;
    const [inner, outer] = [link.getBoundingClientRect(), bar.getBoundingClientRect()];
    bar.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  };

  document.addEventListener("DOMContentLoaded", () => {
    showCurrent();
    unfold();
    const button = document.querySelector("[data-theme-toggle]");
    if (!button) return;
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      write(root.dataset.theme);
      label();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  });

  // A link to a folded part opens it.
  const unfold = () => {
    const part = document.getElementById(location.hash.slice(1));
    if (part?.matches("details")) part.open = true;
  };
  addEventListener("hashchange", unfold);

  // What is folded is printed too.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.folded = ""; }
  });
  addEventListener("afterprint", () => {
    for (const part of document.querySelectorAll("details[data-folded]")) { part.open = false; delete part.dataset.folded; }
  });
})();
