// Examples: sort, filter, confusion cells; a click shows the text above.
(function () {
  const list = byId("documents");
  if (!list) return;
  const SHOWN = 15, classes = model.data.classes;
  const documents = model.data.examples.map(function (one, d) {
    const why = model.explain(one.text);
    const sorted = why.probabilities.slice().sort(function (a, b) { return b - a; });
    return { text: one.text, label: one.label, place: d, decision: why.decision,
      sure: why.probabilities[why.decision], gap: sorted[0] - sorted[1] };
  });
  const labelled = documents.every(function (one) { return one.label !== null; });
  const sort = byId("documents-sort"), filter = byId("documents-filter"), search = byId("documents-search");
  let cell = null, page = 0, found = [];

  const orders = {
    "given": function (a, b) { return a.place - b.place; },
    "uncertain": function (a, b) { return a.gap - b.gap || a.place - b.place; },
    "certain": function (a, b) { return b.gap - a.gap || a.place - b.place; },
    "long": function (a, b) { return b.text.length - a.text.length || a.place - b.place; },
  };

  function kept(one) {
    const right = one.label === one.decision, wanted = search.value.trim().toLowerCase();
    if (filter.value === "right" && !right || filter.value === "wrong" && right) return false;
    if (cell && (one.label !== cell[0] || one.decision !== cell[1])) return false;
    return one.text.toLowerCase().includes(wanted);
  }

  function find() { found = documents.filter(kept).sort(orders[sort.value]); page = 0; show(); }

  function entry(one) {
    const right = one.label === one.decision;
    const sign = labelled ? (right ? "✓ " : "✗ ") : "";
    const told = sign + classes[one.decision] + " " + percent(one.sure) +
      (labelled && !right ? ", labelled " + classes[one.label] : "");
    const snippet = one.text.length > 150 ? one.text.slice(0, 150) + "…" : one.text;
    const button = node("button", { type: "button", class: "document" },
      node("span", { class: "told" + (labelled && !right ? " wrong" : "") }, told),
      node("span", { class: "snippet" }, snippet));
    button.addEventListener("click", function () { trial.load(one.text); });
    return node("li", {}, button);
  }

  function show() {
    const from = page * SHOWN, rows = found.slice(from, from + SHOWN);
    list.replaceChildren(...rows.map(entry));
    byId("documents-count").textContent = found.length
      ? (from + 1) + "–" + (from + rows.length) + " of " + found.length : "nothing found";
    byId("documents-back").disabled = page === 0;
    byId("documents-next").disabled = from + rows.length >= found.length;
  }

  function confusion() {
    const body = classes.map(function (name, t) {
      return node("tr", {}, node("th", { scope: "row" }, "labelled " + name), ...classes.map(function (other, p) {
        const count = documents.filter(function (d) { return d.label === t && d.decision === p; }).length;
        const button = node("button", { type: "button", "aria-pressed": "false",
          "aria-label": count + " labelled " + name + ", decided " + other }, String(count));
        button.addEventListener("click", function () {
          const same = cell && cell[0] === t && cell[1] === p;
          for (const each of byId("confusion").querySelectorAll("button")) each.setAttribute("aria-pressed", "false");
          cell = same ? null : [t, p];
          button.setAttribute("aria-pressed", String(!same));
          find();
        });
        return node("td", { class: t === p ? "diagonal" : "" }, button);
      }));
    });
    const right = documents.filter(function (d) { return d.label === d.decision; }).length;
    byId("confusion-caption").textContent = right + " of " + documents.length + " decided as labelled. Press a cell to see its texts.";
    byId("confusion-head").replaceChildren(node("td", {}), ...classes.map(function (name) { return node("th", { scope: "col" }, "decided " + name); }));
    byId("confusion").replaceChildren(...body);
  }

  if (labelled) confusion();
  else for (const part of document.querySelectorAll(".labelled")) part.hidden = true;
  sort.addEventListener("change", find);
  filter.addEventListener("change", find);
  search.addEventListener("input", later(find, 80));
  byId("documents-back").addEventListener("click", function () { page -= 1; show(); });
  byId("documents-next").addEventListener("click", function () { page += 1; show(); });
  walkable(list);
  find();
})();
