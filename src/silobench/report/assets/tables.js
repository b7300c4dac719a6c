// Tables that sort, filter and copy themselves as CSV. Without this script they are plain tables.
(function () {
  "use strict";
  const UNITS = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, ms: 1e-3, s: 1, min: 60, h: 3600 };
  const NUMBER = /^[\s<>≥≤≈~[(]*([+\-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*(kB|MB|GB|TB|B|ms|min|s|h|x)?(?![a-z\d.])/i;
  const FILTERED_ABOVE = 8; // rows

  // The number that a text begins with, in the unit of its kind; a deviation after it is ignored. NaN for other texts.
  function number(text) {
    const match = NUMBER.exec(text);
    if (!match) return NaN;
    return parseFloat(match[1].replaceAll(",", "").replace("−", "-")) * (UNITS[match[2]] ?? 1);
  }

  const first = (cell) => (cell?.textContent ?? "").trim();

  // The text of a cell with a space between its parts.
  function whole(cell) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const parts = [];
    while (walker.nextNode()) parts.push(walker.currentNode.textContent.trim());
    return parts.filter(Boolean).join(" ");
  }

  function compare(a, b, numeric) {
    if (a === "" || b === "") return 0;
    return numeric ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true });
  }

  function sort(table, place, direction) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, text: first(row.cells[place]) }));
    const known = rows.filter(({ text }) => text !== "" && text !== "-");
    const numeric = known.length > 0 && known.every(({ text }) => !Number.isNaN(number(text)));
    const blank = ({ text }) => text === "" || (numeric && Number.isNaN(number(text)));
    const sign = direction === "ascending" ? 1 : -1;
    rows.sort((a, b) => blank(a) - blank(b) || (blank(a) ? 0 : sign * compare(a.text, b.text, numeric)));
    body.append(...rows.map(({ row }) => row));
    for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
    table.tHead.rows[0].cells[place].setAttribute("aria-sort", direction);
  }

  function sortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        sort(table, place, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
      });
    });
  }

  function filterable(table, tools) {
    const input = document.createElement("input");
    const count = document.createElement("span");
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.type = "search";
    input.placeholder = "Filter rows";
    input.setAttribute("aria-label", "Filter the rows of this table");
    count.className = "count";
    count.setAttribute("role", "status");
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, place) => {
        row.hidden = !words.every((word) => texts[place].includes(word));
        shown += !row.hidden;
      });
      count.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    };
    input.addEventListener("input", show);
    tools.append(input, count);
    show();
  }

  // A spreadsheet computes text that begins like a formula. Scores such as +1.2 ± 0.3 are none.
  const FORMULA = /^[=@]|^[+-](?![\d.,%±≈†*()\s]*(kB|MB|GB|TB|B|ms|min|s|h)?$)./;
  const plain = (text) => (FORMULA.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  // The table as it is shown: sorted, and without the rows that a filter hides.
  function csv(table) {
    const rows = [table.tHead.rows[0], ...table.tBodies[0].rows].filter((row) => !row.hidden);
    return rows.map((row) => [...row.cells].map((cell) => quoted(plain(whole(cell).replace(/\s+/g, " ")))).join(",")).join("\n") + "\n";
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // pages from disk have no clipboard in some browsers
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  function copying(button, text) {
    const label = button.textContent;
    button.type = "button";
    button.addEventListener("click", async () => {
      await copy(text());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }

  function hint(box, tools) {
    const words = document.createElement("span");
    words.className = "hint";
    words.textContent = "scrolls sideways →";
    tools.append(words);
    const show = () => { words.hidden = box.scrollWidth <= box.clientWidth + 1; };
    new ResizeObserver(show).observe(box);
    show();
  }

  function equip(holder) {
    const table = holder.querySelector("table");
    const box = holder.querySelector(".scroll");
    const tools = document.createElement("div");
    tools.className = "tools";
    holder.prepend(tools);
    if (table.tBodies[0].rows.length > FILTERED_ABOVE) filterable(table, tools);
    const button = document.createElement("button");
    button.textContent = "Copy as CSV";
    copying(button, () => csv(table));
    tools.append(button);
    if (table.tBodies[0].rows.length > 1) sortable(table);
    hint(box, tools);
  }

  function start(parent) {
    for (const holder of parent.querySelectorAll(".table:not([data-ready])")) {
      holder.dataset.ready = "";
      equip(holder);
    }
    for (const holder of parent.querySelectorAll(".copied:not([data-ready])")) {
      holder.dataset.ready = "";
      const button = document.createElement("button");
      button.textContent = "Copy";
      copying(button, () => holder.querySelector("pre").textContent);
      holder.prepend(button);
    }
  }

  window.silobenchTables = { start }; // for pages that add tables later
  document.addEventListener("DOMContentLoaded", () => start(document));
})();
