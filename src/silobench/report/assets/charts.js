// Charts that answer: values under the pointer or the arrow keys, series that can be switched off, zoom.
// The data are in each chart, as JSON. Every text is set as text, never as HTML. Without this script charts are complete.
(function () {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const WIDE = 1000, TOP = 8, LETTER = 7.2, MOST = 14; // units across, pixels above the marks and of a letter, lines of a tip
  let tip = null, last = null; // what is shown, and the chart that shows it

  const make = (name, attributes, parent) => {
    const part = document.createElementNS(SVG, name);
    for (const key in attributes) part.setAttribute(key, attributes[key]);
    if (parent) parent.append(part);
    return part;
  };
  const element = (name, kind, parent) => {
    const part = document.createElement(name);
    part.className = kind;
    if (parent) parent.append(part);
    return part;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const text = (value) => Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));

  // --- scales -------------------------------------------------------------------------------------------
  const bend = (axis, value) => axis.log ? Math.log10(Math.max(value, 1e-300)) : value;
  const share = (axis, value) => (bend(axis, value) - bend(axis, axis.low)) / (bend(axis, axis.high) - bend(axis, axis.low));
  const valueAt = (axis, part) => {
    const at = bend(axis, axis.low) + part * (bend(axis, axis.high) - bend(axis, axis.low));
    return axis.log ? 10 ** at : at;
  };
  const withUnit = (axis, words) => !axis.unit ? words : axis.unit === "percent" ? words + "%" : words + " " + axis.unit;
  const nameOf = (axis, value) => axis.names ? axis.names[Math.round(value)] ?? "" : text(value);

  function ticks(axis, low, high, most) {
    if (axis.names) return axis.names.map((_, place) => place).filter((place) => place >= low && place <= high);
    if (axis.log) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const factor of [1, 2, 5]) found.push(factor * 10 ** power);
      const inside = found.filter((at) => at >= low && at <= high);
      if (inside.length > 1) return inside.filter((_, place) => place % Math.ceil(inside.length / most) === 0);
    } // a short part between 2 and 5 has none of them
    const raw = (high - low) / (most - 1), power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= raw * (1 - 1e-9));
    if (axis.whole) step = Math.max(1, Math.ceil(step));
    const found = [];
    for (let place = Math.ceil(low / step - 1e-9); place * step <= high + 1e-9 * step; place++) found.push(place * step);
    return found;
  }

  // --- the tip --------------------------------------------------------------------------------------------
  function showTip(head, lines, x, y) {
    if (!tip) { tip = element("div", "chart-tip", document.body); tip.setAttribute("aria-hidden", "true"); }
    tip.replaceChildren();
    element("b", "", tip).textContent = head;
    for (const line of lines.slice(0, MOST)) {
      const row = element("div", "", tip);
      if (line.colour) element("i", line.colour, row);
      element("span", "", row).textContent = line.name;
      element("strong", "", row).textContent = line.words;
    }
    if (lines.length > MOST) element("div", "", tip).textContent = lines.length - MOST + " more";
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    const left = x + gap + box.width > innerWidth - 8 ? x - gap - box.width : x + gap;
    tip.style.left = clamp(left, 8, Math.max(8, innerWidth - box.width - 8)) + "px";
    tip.style.top = clamp(y - box.height / 2, 8, Math.max(8, innerHeight - box.height - 8)) + "px";
  }
  const hideTip = () => { if (tip) tip.hidden = true; };

  // --- one chart --------------------------------------------------------------------------------------------
  class Chart {
    constructor(root, data) {
      Object.assign(this, { root, data, kind: root.dataset.chart, hidden: new Set(), place: -1, view: [0, 1] });
      this.body = root.querySelector(".chart-body");
      this.plot = root.querySelector(".chart-plot");
      this.marks = root.querySelector(".chart-marks");
      this.height = Number(this.marks.getAttribute("height"));
      this.first = this.marks.getAttribute("viewBox");
      this.colours = (data.series ?? []).map((_, place) => this.colour(place));
      this.title = this.untitled();
      this.live = element("div", "chart-live", root);
      this.live.setAttribute("aria-live", "polite");
      this.body.tabIndex = 0;
      this.body.setAttribute("role", "group");
      this.canZoom = this.kind === "line" && this.stops().length > 2 && !data.axis.names;
      this.body.setAttribute("aria-label", this.title + ". Arrow keys show values" + (this.canZoom ? ", + and - zoom, Escape shows all." : "."));
      for (const key of root.querySelectorAll(".chart-key[data-series]")) this.makeButton(key);
      this.listen();
      this.hint();
    }

    hint() { // where the plot is wider than the page
      const words = element("p", "chart-hint");
      words.textContent = "scrolls sideways →";
      this.body.before(words);
      const show = () => {
        const scrolls = this.body.scrollWidth > this.body.clientWidth + 1;
        words.hidden = !scrolls;
        this.body.classList.toggle("scrolls", scrolls);
      };
      new ResizeObserver(show).observe(this.body);
      show();
    }

    colour(place) {
      const part = this.marks.querySelector(`.series[data-series="${place}"]`);
      return part ? [...part.classList].find((name) => /^s\d$/.test(name)) : "";
    }

    untitled() { // titles of the browser would cover the tip
      const title = this.plot.querySelector(":scope > title"), words = title ? title.textContent : "";
      this.plot.setAttribute("aria-label", words);
      for (const one of this.plot.querySelectorAll(":scope > title, .series > title")) one.remove();
      return words;
    }

    makeButton(key) {
      const button = element("button", key.className);
      button.type = "button";
      button.dataset.series = key.dataset.series;
      button.setAttribute("aria-pressed", "true");
      button.append(...key.childNodes);
      key.replaceWith(button);
      button.addEventListener("click", () => this.toggle(Number(button.dataset.series), button));
    }

    toggle(place, button) {
      const off = !this.hidden.has(place);
      if (off) this.hidden.add(place); else this.hidden.delete(place);
      button.setAttribute("aria-pressed", String(!off));
      for (const part of this.root.querySelectorAll(`.series[data-series="${place}"], [data-of="${place}"]`)) part.classList.toggle("is-hidden", off);
      if (this.view[0] > 0 || this.view[1] < 1) this.zoom(...this.view);
    }

    listen() {
      const { plot, data } = this;
      plot.addEventListener("pointermove", (event) => { if (this.from === undefined) this.point(event); else this.drag(event); });
      plot.addEventListener("pointerleave", (event) => { if (this.from === undefined && event.pointerType !== "touch") this.leave(); });
      plot.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") this.point(event); });
      this.body.addEventListener("keydown", (event) => this.key(event));
      this.body.addEventListener("blur", () => this.leave());
      if (!this.canZoom) return;
      plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || event.pointerType === "touch") return;
        this.from = this.across(event);
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener("pointerup", (event) => this.drop(event));
      plot.addEventListener("pointercancel", () => this.drop(null));
      plot.addEventListener("dblclick", () => this.zoom(0, 1));
      this.reset = element("button", "chart-reset", this.root);
      Object.assign(this.reset, { type: "button", textContent: "Show all", hidden: true });
      this.reset.addEventListener("click", () => { this.zoom(0, 1); this.body.focus(); });
      this.root.dataset.view = ""; // what is shown of the axis, for pages that put the chart in place again
      this.root.addEventListener("silobench:view", (event) => {
        if (event.detail) this.zoom(...event.detail.split(" ").map((value) => share(data.axis, Number(value))));
      });
    }

    across(event) { const box = this.plot.getBoundingClientRect(); return clamp((event.clientX - box.left) / box.width, 0, 1); }
    inView(part) { return this.view[0] + part * (this.view[1] - this.view[0]); } // from the plot to all of the axis
    onPlot(part) { return (part - this.view[0]) / (this.view[1] - this.view[0]); }

    // --- what there is to show: stops along an axis, fields or points --------------------------------------
    stops() {
      const { data } = this;
      if (data.points || data.rows) return [];
      if (data.x) return data.x;
      return [...new Set(data.series.flatMap((one) => one.x))].sort((a, b) => a - b);
    }

    lines(stop) {
      const lines = [];
      this.data.series.forEach((one, place) => {
        const at = (one.x ?? this.data.x).indexOf(stop);
        if (this.hidden.has(place) || at < 0 || one.y[at] === null || one.y[at] === undefined) return;
        const axis = one.right ? this.data.right : this.data.value;
        const spread = one.s && one.s[at] ? " ± " + text(one.s[at]) : "";
        const guess = one.mark && one.mark[at] !== null ? " (mark " + text(one.mark[at]) + ")" : "";
        lines.push({ name: one.name, colour: this.colours[place], words: withUnit(axis, text(one.y[at]) + spread) + guess, y: one.y[at] });
      });
      return this.kind === "line" ? lines.sort((a, b) => b.y - a.y) : lines;
    }

    point(event) {
      const box = this.plot.getBoundingClientRect(), down = event.clientY - box.top - TOP;
      if (down < -TOP || down > this.height + 4) { this.leave(); return; }
      const { data } = this;
      let place;
      if (data.rows) {
        const row = clamp(Math.floor(down / this.height * data.rows.length), 0, data.rows.length - 1);
        const column = Math.max(0, data.starts.findLastIndex((start) => start <= this.across(event)));
        place = row * data.columns.length + column;
      } else if (data.points) {
        const far = (one) => Math.hypot(one.x * box.width - (event.clientX - box.left), one.y - down);
        const seen = data.points.map((one, at) => [this.hidden.has(one.series) ? Infinity : far(one), at]);
        const [distance, at] = seen.reduce((best, one) => one[0] < best[0] ? one : best, [Infinity, -1]);
        if (distance > 40) { this.leave(); return; }
        place = at;
      } else {
        const part = this.isLying() ? down / this.height : this.inView(this.across(event));
        const stops = this.stops();
        place = stops.reduce((best, stop, at) => Math.abs(share(data.axis, stop) - part) < Math.abs(share(data.axis, stops[best]) - part) ? at : best, 0);
      }
      this.show(place, event.clientX, event.clientY);
    }

    isLying() { return this.kind === "row" || this.kind === "dot"; }

    show(place, x, y, isSpoken) {
      if (last && last !== this) last.leave();
      last = this;
      const { data } = this, box = this.plot.getBoundingClientRect();
      let head, lines, right, down;
      this.place = place;
      if (data.rows) {
        const row = Math.floor(place / data.columns.length), column = place % data.columns.length;
        const value = data.texts ? data.texts[row][column] : data.values[row][column];
        const words = typeof value === "number" ? text(value) + (data.unit ? " " + data.unit : "") : value || "no value";
        head = [[data.row, data.rows[row]], [data.column, data.columns[column]]].map(([title, name]) => title && !name.startsWith(title) ? title + " " + name : name).join(", ");
        lines = [{ name: words, words: "" }];
        right = box.width * (data.starts[column] + 0.5 / data.columns.length);
        down = (row + 0.5) / data.rows.length * this.height;
      } else if (data.points) {
        const one = data.points[place];
        head = one.name + (one.front ? " (on the Pareto front)" : "");
        lines = [data.axis, data.value].map((axis, at) => ({ name: axis.title, words: one.texts[at] }));
        right = one.x * box.width; down = one.y;
        this.ring(right, down);
      } else {
        const stop = this.stops()[place], part = share(data.axis, stop);
        head = data.axis.names ? nameOf(data.axis, stop) : data.axis.title + " " + withUnit(data.axis, text(stop));
        lines = this.lines(stop);
        right = this.isLying() ? box.width / 2 : this.onPlot(part) * box.width;
        down = this.isLying() ? part * this.height : this.height / 3;
        this.cross(right);
      }
      showTip(head, lines, x ?? box.left + right, y ?? box.top + TOP + down);
      if (isSpoken) this.live.textContent = head + ": " + lines.map((line) => (line.name + " " + line.words).trim()).join(", ");
    }

    cross(right) {
      this.clear();
      if (!this.isLying()) this.pointer = make("line", { class: "chart-cross", x1: right, x2: right, y1: TOP, y2: TOP + this.height }, this.plot);
    }

    ring(right, down) { this.clear(); this.pointer = make("circle", { class: "chart-ring", cx: right, cy: TOP + down, r: 8 }, this.plot); }
    clear() { if (this.pointer) this.pointer.remove(); this.pointer = null; }
    leave() { this.clear(); if (last === this) hideTip(); }

    // --- keys and zoom ------------------------------------------------------------------------------------
    key(event) {
      if (event.target !== this.body || event.ctrlKey || event.metaKey || event.altKey) return;
      const { data } = this, across = data.columns ? data.columns.length : 1;
      const count = data.rows ? data.rows.length * across : (data.points ?? this.stops()).length;
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: data.rows ? across : 1, ArrowUp: data.rows ? -across : -1 };
      const ends = { Home: 0, End: count - 1 };
      const middle = (this.view[0] + this.view[1]) / 2, half = (this.view[1] - this.view[0]) / 2;
      if (event.key in steps || event.key in ends) {
        if (!count) return;
        let place = event.key in ends ? ends[event.key] : this.place < 0 ? 0 : this.place + steps[event.key];
        place = clamp(place, 0, count - 1);
        this.show(place, undefined, undefined, true);
      } else if (this.canZoom && (event.key === "+" || event.key === "=")) this.zoomAround(middle, half / 2);
      else if (this.canZoom && event.key === "-") this.zoomAround(middle, half * 2);
      else if (event.key === "Escape") { this.leave(); if (this.canZoom) this.zoom(0, 1); }
      else return;
      event.preventDefault();
    }

    zoomAround(middle, half) {
      const stop = this.place >= 0 ? share(this.data.axis, this.stops()[this.place]) : middle;
      const start = clamp(stop - half, 0, Math.max(0, 1 - 2 * half));
      this.leave();
      this.zoom(start, Math.min(1, start + 2 * half));
    }

    drag(event) {
      if (!this.brush) this.brush = make("rect", { class: "chart-brush", y: TOP, height: this.height }, this.plot);
      const [low, high] = [this.from, this.across(event)].sort((a, b) => a - b);
      this.brush.setAttribute("x", 100 * low + "%");
      this.brush.setAttribute("width", 100 * (high - low) + "%");
      this.leave();
    }

    drop(event) {
      const from = this.from;
      this.from = undefined;
      if (this.brush) this.brush.remove();
      this.brush = null;
      if (!event || from === undefined) return;
      const [low, high] = [from, this.across(event)].sort((a, b) => a - b);
      if (high - low > 0.02) this.zoom(this.inView(low), this.inView(high));
    }

    zoom(low, high) {
      if (high - low < 0.005) return;
      const { data } = this, all = low <= 0 && high >= 1;
      this.view = all ? [0, 1] : [low, high];
      this.root.classList.toggle("is-zoomed", !all);
      this.marks.classList.toggle("is-cut", !all);
      this.reset.hidden = all;
      this.root.dataset.view = all ? "" : this.view.map((part) => valueAt(data.axis, part)).join(" ");
      const y = all || data.right ? [data.value.low, data.value.high] : this.reach();
      const top = this.height * (1 - share(data.value, y[1])), bottom = this.height * (1 - share(data.value, y[0]));
      this.marks.setAttribute("viewBox", all ? this.first : `${WIDE * low} ${top} ${WIDE * (high - low)} ${bottom - top}`);
      for (const part of this.root.querySelectorAll(".chart-ends")) part.classList.toggle("is-hidden", !all);
      this.redraw(y);
      this.live.textContent = all ? "all shown" : "shown: " + ends(data.axis, low, high);
    }

    reach() { // the values of the visible series in the visible part, with a margin
      const { data } = this, values = [];
      data.series.forEach((one, place) => (one.x ?? data.x).forEach((stop, at) => {
        const part = share(data.axis, stop), spread = one.s ? one.s[at] : 0;
        if (!this.hidden.has(place) && part >= this.view[0] && part <= this.view[1] && one.y[at] !== null) values.push(one.y[at] - spread, one.y[at] + spread);
      }));
      if (!values.length) return [data.value.low, data.value.high];
      const low = Math.min(...values), high = Math.max(...values);
      if (data.value.log) return [Math.max(low / 1.2, data.value.low), high * 1.2];
      const margin = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
      return [low - margin, high + margin];
    }

    redraw(y) {
      const { data } = this, [low, high] = this.view.map((part) => valueAt(data.axis, part));
      const below = this.plot.querySelector(".chart-x"), left = this.root.querySelector(".chart-left");
      const grid = this.plot.querySelector(".chart-grid"), base = TOP + this.height;
      for (const old of below.querySelectorAll(".tick")) old.remove();
      for (const at of ticks(data.axis, low, high, 6))
        make("text", { class: "tick", x: 100 * this.onPlot(share(data.axis, at)) + "%", y: base + 16, "text-anchor": "middle" }, below).textContent = nameOf(data.axis, at);
      left.replaceChildren();
      grid.replaceChildren();
      const scale = { ...data.value, low: y[0], high: y[1] }, stops = ticks(data.value, y[0], y[1], 6);
      this.leftWidth ??= Number(left.getAttribute("width"));
      const wide = Math.max(this.leftWidth, ...stops.map((at) => Math.round(LETTER * text(at).length + 9))), x = wide - 6;
      left.setAttribute("width", wide); // the numbers of a part may have more digits
      for (const at of stops) {
        const down = TOP + this.height * (1 - share(scale, at));
        make("line", { x2: "100%", y1: down, y2: down }, grid);
        make("text", { class: "tick", x, y: down + 4, "text-anchor": "end" }, left).textContent = text(at);
      }
      for (const level of this.plot.querySelectorAll(".level-name[data-value]")) {
        const part = share(scale, Number(level.dataset.value));
        level.classList.toggle("is-hidden", part < 0 || part > 1);
        level.setAttribute("y", TOP + this.height * (1 - part) - 5);
      }
    }
  }

  const ends = (axis, low, high) => axis.title + " " + [low, high].map((part) => text(valueAt(axis, part))).join(" to ");

  function start(parent) {
    for (const root of parent.querySelectorAll(".chart[data-chart]:not([data-ready])")) {
      const source = root.querySelector("script.chart-data");
      if (!source) continue;
      root.dataset.ready = "";
      new Chart(root, JSON.parse(source.textContent));
    }
  }

  addEventListener("scroll", () => { if (last) last.leave(); }, { passive: true });
  addEventListener("pointerdown", (event) => { if (last && !last.plot.contains(event.target)) last.leave(); });
  window.silobenchCharts = { start }; // for pages that add charts later
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => start(document));
  else start(document);
})();
