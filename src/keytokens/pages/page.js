"use strict";
// What every page has: a theme switch and tables that sort.
(function () {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["system", "light", "dark"];
  let theme = 0;
  button.hidden = false;
  button.addEventListener("click", function () {
    theme = (theme + 1) % themes.length;
    if (theme === 0) delete root.dataset.theme;
    else root.dataset.theme = themes[theme];
    button.textContent = "Theme: " + themes[theme];
  });

  function key(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.key === undefined ? cell.textContent.trim() : cell.dataset.key;
    const number = text === "" ? NaN : Number(text.replace("−", "-").replace("%", ""));
    return Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function sortBy(table, heads, column) {
    const head = heads[column];
    const up = head.getAttribute("aria-sort") === "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, function (row) { return [key(row, column), row]; });
    rows.sort(function (a, b) { return up ? compare(a[0], b[0]) : compare(b[0], a[0]); });
    for (const pair of rows) body.append(pair[1]);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.append(...head.childNodes);
      head.append(sorter);
      sorter.addEventListener("click", function () { sortBy(table, heads, column); });
    });
  }
})();
