// The filters of a leaderboard: datasets, kinds of skew, methods and budgets. Ranks are counted anew from decided pairs.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const form = document.querySelector("[data-board-filters]");
  const source = document.querySelector("script[data-board]");
  if (!form || !source) return;
  const { methods, boards } = JSON.parse(source.textContent);
  const blocks = [...document.querySelectorAll("[data-board-setting]")];
  const standings = document.querySelector("[data-board-standings]");
  const count = document.querySelector("[data-board-count]");
  const records = blocks.map((block) => new Map([...block.querySelectorAll("tbody tr")].map((row) => [row.dataset.method, row.querySelector(".records")])));
  const original = standings && { rows: [...standings.tBodies[0].rows], caption: standings.caption.textContent };
  form.hidden = false;

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // The numbers of chosen methods that are better, equal and worse, by method.
  function places(setting, chosen) {
    const ranked = setting.ranked.filter((one) => chosen.has(one));
    const result = new Map();
    if (ranked.length < 2) return result;
    const better = new Set(setting.better.map(([a, b]) => `${a} ${b}`));
    for (const one of ranked) {
      const above = ranked.filter((other) => better.has(`${other} ${one}`)).length;
      const below = ranked.filter((other) => better.has(`${one} ${other}`)).length;
      result.set(one, { above, below, ties: ranked.length - 1 - above - below, rivals: ranked.length - 1 });
    }
    return result;
  }

  const rankText = (place) => (place ? `${place.above + 1}${place.ties ? "=" : ""}` : "-");

  function cells(row, texts) {
    for (const text of texts) row.append(element("td", text, "number"));
  }

  function showSetting(place, setting, chosen, ranks) {
    const lines = setting.lines.filter(([method]) => typeof method === "string" || chosen.has(method));
    const key = ([method]) => (ranks.has(method) ? ranks.get(method).above : typeof method === "string" ? 1e9 : 1e6);
    lines.sort((a, b) => key(a) - key(b));
    const rows = lines.map(([method, ...texts]) => {
      const name = typeof method === "string" ? method : methods[method];
      const rank = ranks.get(method);
      const row = element("tr", undefined, typeof method === "string" ? "reference" : rank && rank.above === 0 ? "first" : "");
      const head = element("th", name);
      head.scope = "row";
      row.dataset.method = name;
      row.append(element("td", typeof method === "string" ? "reference" : rankText(rank), "rank"), head);
      cells(row, texts);
      row.append(records[place].get(name)?.cloneNode(true) ?? element("td", ""));
      return row;
    });
    for (const method of setting.outside.filter((one) => chosen.has(one))) {
      const row = element("tr", undefined, "outside");
      const head = element("th", methods[method]);
      const note = element("td", "no tested round inside the budget");
      head.scope = "row";
      note.colSpan = blocks[place].querySelectorAll("thead th").length - 2;
      row.append(element("td", "-", "rank"), head, note);
      rows.push(row);
    }
    blocks[place].querySelector("tbody").replaceChildren(...rows);
    return rows.length > 0;
  }

  // A generator of numbers from 0 to 1 that gives the same ones each time (mulberry32).
  function numbers(seed) {
    return () => {
      seed = (seed + 0x6d2b79f5) | 0;
      let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // The means of resampled values, in order.
  function resampled(values) {
    const next = numbers(1);
    const means = Array.from({ length: 2000 }, () => mean(values.map(() => values[Math.floor(next() * values.length)])));
    return means.sort((a, b) => a - b);
  }

  function interval(values) {
    if (values.length < 2) return null;
    const means = resampled(values);
    return [means[49], means[1949]];
  }

  function isAhead(a, b) {
    const shared = [...a.keys()].filter((place) => b.has(place));
    if (shared.length < 6) return false;
    return interval(shared.map((place) => a.get(place) - b.get(place)))[1] < 0;
  }

  function showStandings(visible) {
    const relative = new Map();
    const every = new Map();
    let settings = 0;
    visible.forEach((ranks, place) => {
      if (ranks.size) settings += 1;
      for (const [method, one] of ranks) {
        if (!relative.has(method)) relative.set(method, new Map()), every.set(method, []);
        relative.get(method).set(place, (one.above + one.ties / 2) / one.rivals);
        every.get(method).push(one);
      }
    });
    const lines = [...every].map(([method, list]) => {
      const ranks = list.map((one) => 1 + one.above + one.ties / 2);
      const total = (name) => list.reduce((sum, one) => sum + one[name], 0);
      const ahead = settings === 1 ? list[0].above : [...relative.keys()].filter((other) => other !== method && isAhead(relative.get(other), relative.get(method))).length;
      const beaten = mean([...relative.get(method).values()]);
      return { method, list, ranks, ahead, beaten, total, span: interval(ranks) };
    });
    lines.sort((a, b) => a.beaten - b.beaten || b.list.length - a.list.length);
    const most = Math.max(0, ...lines.map((line) => line.list.length));
    const rows = lines.filter((line) => 4 * line.list.length >= most).map((line) => {
      const row = element("tr", undefined, line.ahead === 0 ? "first" : "");
      const shared = lines.filter((other) => other.ahead === line.ahead).length > 1;
      const head = element("th", methods[line.method]);
      head.scope = "row";
      row.append(element("td", `${line.ahead + 1}${shared ? "=" : ""}`, "rank"), head);
      cells(row, [
        line.list.length, mean(line.ranks).toFixed(2),
        line.span ? `[${line.span[0].toFixed(2)}, ${line.span[1].toFixed(2)}]` : "-",
        line.list.filter((one) => one.above === 0).length,
        line.list.filter((one) => one.above + one.ties === 0).length,
        `${line.total("below")} / ${line.total("ties")} / ${line.total("above")}`,
      ]);
      return row;
    });
    standings.tBodies[0].replaceChildren(...rows);
  }

  function update() {
    const data = new FormData(form);
    const chosen = new Set(data.getAll("method").map(Number));
    const board = boards[Number(data.get("budget"))];
    const whole = !data.get("dataset") && !data.get("skew") && chosen.size === methods.length && data.get("budget") === "0";
    const visible = new Map();
    let shown = 0;
    blocks.forEach((block, place) => {
      const ranks = places(board.settings[place], chosen);
      const has = showSetting(place, board.settings[place], chosen, ranks);
      const fits = (name) => !data.get(name) || block.dataset[name] === data.get(name);
      block.hidden = !(has && fits("dataset") && fits("skew"));
      shown += !block.hidden;
      if (!block.hidden) visible.set(place, ranks);
    });
    count.textContent = whole ? "" : `${shown} of ${blocks.length} settings, ${chosen.size} of ${methods.length} methods`;
    for (const part of document.querySelectorAll(".board .answer, .board .figures")) part.hidden = !whole; // about all runs
    if (!standings) return;
    const budget = form.elements.budget.selectedOptions[0].textContent;
    const ranked = [...visible.values()].filter((ranks) => ranks.size).length;
    standings.caption.textContent = whole ? original.caption : `Methods over ${ranked} setting${ranked === 1 ? "" : "s"}, ${budget}`;
    if (whole) standings.tBodies[0].replaceChildren(...original.rows);
    else showStandings(visible);
  }

  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
});
