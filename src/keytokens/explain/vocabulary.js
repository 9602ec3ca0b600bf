// All tokens by value and attention, searchable; where examples are given, their contexts.
(function () {
  const SHOWN = 40;
  const search = byId("search"), sort = byId("vocabulary-sort"), target = byId("vocabulary-class");
  let page = 0, found = [];
  const mid = function (x) { // the attention of a typical token: scales e^a, changes no order
    return Float64Array.from(x.subarray(0, model.V)).sort()[model.V >> 1] || 0;
  }(model.attention);

  function output() { return target ? Number(target.value) : 0; }

  function describe(s) {
    const k = output();
    let a = 0, pull = 0, share = 0;
    for (let m = 0; m < model.M; m += 1) {
      const e = Math.exp(model.attention[m * (model.V + 1) + s] - mid);
      a += model.attention[m * (model.V + 1) + s] / model.M;
      share += e;
      pull += e * model.valueOf(m, k, s);
    }
    return { name: model.vocabulary[s], a: a, b: share > 0 ? pull / share : 0, pull: pull / model.M };
  }

  const orders = {
    "for": function (x, y) { return y.pull - x.pull; },
    "against": function (x, y) { return x.pull - y.pull; },
    "attention": function (x, y) { return y.a - x.a; },
    "value": function (x, y) { return y.b - x.b; },
    "name": function (x, y) { return x.name < y.name ? -1 : 1; },
  };

  function find() {
    const wanted = search.value.trim().toLowerCase();
    found = [];
    for (let s = 0; s < model.V; s += 1) {
      if (model.vocabulary[s].includes(wanted)) found.push(describe(s));
    }
    found.sort(orders[sort.value]);
    page = 0;
    show();
  }

  function show() {
    const from = page * SHOWN, rows = found.slice(from, from + SHOWN);
    byId("vocabulary-rows").replaceChildren(...rows.map(function (one) {
      const name = byId("contexts")
        ? node("button", { type: "button", class: "linkish" }, one.name) : one.name;
      if (byId("contexts")) name.addEventListener("click", function () { contexts(one.name); });
      return node("tr", {}, node("th", { scope: "row" }, name),
        node("td", { class: "number" }, signed(one.a)),
        node("td", { class: "number" }, signed(one.b)),
        node("td", { class: "number " + (one.pull > 0 ? "for" : "against") }, signed(one.pull)));
    }));
    const to = from + rows.length;
    byId("vocabulary-count").textContent = found.length
      ? (from + 1) + "–" + to + " of " + found.length.toLocaleString("en") : "nothing found";
    byId("vocabulary-back").disabled = page === 0;
    byId("vocabulary-next").disabled = to >= found.length;
  }

  // Where a token stands in the examples, with what is around it.
  function contexts(name) {
    const lines = [], wanted = name.split(" ");
    for (const [d, document_] of model.data.examples.entries()) {
      const words = model.tokens(document_.text);
      for (let i = 0; i + wanted.length <= words.length && lines.length < 30; i += 1) {
        if (wanted.some(function (word, k) { return words[i + k].word !== word; })) continue;
        const start = words[i].start, end = words[i + wanted.length - 1].end, text = document_.text;
        const link = node("button", { type: "button", class: "linkish" }, "text " + (d + 1));
        link.addEventListener("click", function () { trial.load(text); });
        lines.push(node("li", {}, link, " …" + text.slice(Math.max(0, start - 45), start),
          node("strong", {}, text.slice(start, end)), text.slice(end, end + 45) + "…"));
      }
    }
    byId("contexts-title").textContent = lines.length ? "“" + name + "” in the examples" + (lines.length === 30 ? " (the first 30 places)" : "") : "“" + name + "” stands in none of the examples";
    byId("contexts").replaceChildren(...lines);
    byId("contexts-title").scrollIntoView({ block: "nearest" });
  }

  search.addEventListener("input", later(find, 80));
  sort.addEventListener("change", find);
  if (target) target.addEventListener("change", find);
  byId("vocabulary-back").addEventListener("click", function () { page -= 1; show(); });
  byId("vocabulary-next").addEventListener("click", function () { page += 1; show(); });
  find();
})();
