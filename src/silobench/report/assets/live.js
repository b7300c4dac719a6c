// A page of the live view renews itself: it asks the server for the version of the site, fetches itself when that has
// changed, and replaces the parts that differ. What a reader has opened, sorted, filtered, hidden or scrolled stays.
(function () {
  "use strict";
  const EVERY = 2000; // milliseconds between questions
  const GONE_AFTER = 2; // questions without an answer
  const CONTAINERS = "main, article, section, details, .figures, nav, nav ul"; // scripts add nothing to their children
  const RENEWED = "main, header nav";
  const versionOf = (page) => page.querySelector("script[data-version]")?.dataset.version;
  const state = { version: versionOf(document), source: null, answer: null, failures: 0, paused: false, since: null };

  // --- what a reader did with a part of the page ---

  // How each kind of element is read and set again. A control is used as a reader would use it.
  const KINDS = [
    ["details", (one) => one.open, (one, value) => { one.open = value; }],
    ["input, select, textarea", (one) => (one.type === "checkbox" || one.type === "radio" ? one.checked : one.value), fill],
    ["th[scope=col]", (one) => one.getAttribute("aria-sort"), sort],
    ["[aria-pressed]", (one) => one.getAttribute("aria-pressed"), press],
    [".scroll", (one) => [one.scrollLeft, one.scrollTop], (one, [left, top]) => one.scrollTo({ left, top, behavior: "instant" })],
    ["[data-view]", (one) => one.dataset.view, (one, value) => one.dispatchEvent(new CustomEvent("silobench:view", { detail: value }))],
  ];

  function fill(input, value) {
    if (input.type === "checkbox" || input.type === "radio") input.checked = value;
    else input.value = value;
    for (const name of ["input", "change"]) input.dispatchEvent(new Event(name, { bubbles: true }));
  }

  function press(button, value) {
    if (button.getAttribute("aria-pressed") !== value) button.click();
  }

  function sort(head, value) {
    const button = head.querySelector("button");
    for (let tries = 0; button && value && tries < 2 && head.getAttribute("aria-sort") !== value; tries++) button.click();
  }

  // Names of elements that hold in the next edition too: by heading, text and number, not by place.
  function named(root, selector) {
    const counts = new Map();
    const elements = [...(root.matches(selector) ? [root] : []), ...root.querySelectorAll(selector)];
    return elements.map((one) => {
      const owner = one.closest("figure, .table, details, section");
      const heading = owner?.querySelector("figcaption, caption, summary, h2, h3")?.firstChild?.textContent ?? "";
      const text = one.matches("button, th, summary") ? one.textContent.trim() : one.getAttribute("aria-label") ?? "";
      const name = [heading.trim(), text].join("|");
      counts.set(name, (counts.get(name) ?? 0) + 1);
      return [`${name}|${counts.get(name)}`, one];
    });
  }

  const remember = (root) => KINDS.map(([selector, read]) => new Map(named(root, selector).map(([name, one]) => [name, read(one)])));

  function restore(root, values) {
    KINDS.forEach(([selector, read, write], place) => {
      for (const [name, one] of named(root, selector)) {
        const value = values[place].get(name);
        if (value !== undefined && JSON.stringify(read(one)) !== JSON.stringify(value)) write(one, value);
      }
    });
  }

  const FOCUSED = "a, button, input, select, summary, [tabindex]";

  function focused(root) {
    const entry = root.contains(document.activeElement) && named(root, FOCUSED).find(([, one]) => one === document.activeElement);
    return entry ? entry[0] : null;
  }

  // --- from one edition to the next ---

  const words = (one) => [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data.trim()).join("");

  // `old` and `fresh` are as the server sent them, `part` is what scripts and the reader made of `old`.
  function renew(part, old, fresh) {
    if (old.isEqualNode(fresh)) return;
    const counts = [part, old, fresh].map((one) => one.children.length);
    const alike = part.matches(CONTAINERS) && old.cloneNode().isEqualNode(fresh.cloneNode()) && words(old) === words(fresh);
    if (alike && counts[0] === counts[1] && counts[1] === counts[2]) {
      const [parts, olds, freshes] = [part, old, fresh].map((one) => [...one.children]);
      parts.forEach((child, place) => renew(child, olds[place], freshes[place]));
    } else replace(part, document.importNode(fresh, true));
  }

  function replace(part, fresh) {
    const [values, focus] = [remember(part), focused(part)];
    part.replaceWith(fresh);
    for (const tip of document.querySelectorAll(".chart-tip")) tip.hidden = true; // it may be that of a chart that is gone
    for (const scripts of [window.silobenchTables, window.silobenchCharts]) scripts?.start(document);
    restore(fresh, values);
    if (focus) named(fresh, FOCUSED).find(([name]) => name === focus)?.[1].focus({ preventScroll: true });
  }

  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

  async function fetched() {
    const answer = await fetch(location.pathname, { cache: "no-cache" });
    return answer.ok ? parsed(await answer.text()) : null; // none: a page whose runs are gone stays as it is
  }

  // A reader who drags or selects is not disturbed.
  let dragging = false;
  addEventListener("pointerdown", () => { dragging = true; });
  for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, () => { dragging = false; });
  const busy = () => dragging || !(getSelection()?.isCollapsed ?? true);

  async function update() {
    const fresh = await fetched();
    if (!fresh || busy()) return;
    const top = scrollY;
    document.title = fresh.title;
    const [olds, freshes] = [state.source ?? fresh, fresh].map((source) => [...source.querySelectorAll(RENEWED)]);
    [...document.querySelectorAll(RENEWED)].forEach((part, place) => {
      if (!freshes[place]) return;
      if (state.source && olds[place]) renew(part, olds[place], freshes[place]);
      else replace(part, document.importNode(freshes[place], true));
    });
    scrollTo({ top, behavior: "instant" });
    state.source = fresh;
    state.version = versionOf(fresh);
  }

  // The page as the server sent it; none if there is a newer one by now.
  async function baseline() {
    const page = await fetched();
    return page && versionOf(page) === state.version ? page : null;
  }

  // --- the line at the bottom ---

  const bar = document.createElement("aside");
  const text = document.createElement("span");
  const alarm = document.createElement("strong");
  const problems = document.createElement("details");
  const pause = document.createElement("button");

  function build() {
    bar.className = "live";
    bar.setAttribute("aria-label", "Live view");
    alarm.setAttribute("role", "alert");
    problems.append(document.createElement("summary"), document.createElement("ul"));
    pause.type = "button";
    pause.addEventListener("click", () => {
      state.paused = !state.paused;
      show();
      if (!state.paused) ask();
    });
    bar.append(alarm, text, pause, problems);
    document.body.append(bar);
    show();
  }

  const clock = (time) => new Date(time).toLocaleTimeString();

  function show() {
    const { answer } = state;
    const gone = state.failures >= GONE_AFTER;
    const message = gone ? `The server does not answer since ${clock(state.since)}. Start silobench watch again to go on.` : "";
    if (alarm.textContent !== message) alarm.textContent = message;
    bar.classList.toggle("gone", gone);
    text.textContent = answer ? `${answer.progress.text} · last updated ${clock(answer.updated)}` : "Asking the server …";
    const lines = answer?.problems ?? [];
    problems.hidden = !lines.length;
    problems.firstChild.textContent = lines.length === 1 ? "1 notice" : `${lines.length} notices`;
    problems.lastChild.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    pause.textContent = state.paused ? "Go on" : "Pause";
  }

  // --- the loop ---

  async function ask() {
    try {
      state.source ??= await baseline();
      state.answer = await (await fetch("/live.json", { cache: "no-cache" })).json();
      state.failures = 0;
      if (state.answer.version !== state.version) await update();
    } catch {
      if (!state.failures++) state.since = Date.now();
    }
    show();
  }

  async function loop() {
    if (!state.paused && !document.hidden) await ask();
    setTimeout(loop, EVERY);
  }

  build();
  loop();
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !state.paused) ask(); });
})();
