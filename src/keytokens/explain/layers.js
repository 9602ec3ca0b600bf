// A page of explanations: the marks show another layer, the texts sort and filter, all is saved.
(function () {
  const byId = function (id) { return document.getElementById(id); };
  const texts = JSON.parse(byId("data").textContent);
  const bodies = Array.from(document.querySelectorAll(".one"));
  const layers = byId("layers"), sort = byId("sort"), filter = byId("filter"), search = byId("search");
  byId("tools").hidden = false;
  for (const region of document.querySelectorAll(".marked")) walkMarks(region, region.nextElementSibling);

  layers.addEventListener("change", function () {
    for (const sign of document.querySelectorAll(".signs")) sign.hidden = layers.selectedIndex === 1;
    for (const mark of document.querySelectorAll("mark[data-layers]")) {
      const layer = mark.dataset.layers.split(" ")[layers.selectedIndex];
      mark.className = "t " + layer[0];
      mark.dataset.k = layer.slice(1);
    }
  });

  // Offsets count code points, as in Python.
  function plain(one) {
    const points = Array.from(one.text);
    const tokens = one.tokens.map(function (row) {
      const text = row[0] === row[1] ? "<cls>" : points.slice(row[0], row[1]).join("");
      return { text: text, start: row[0], end: row[1], attention: row[2], value: row[2] > 0 ? row[3] / row[2] : 0, contribution: row[3] };
    });
    return Object.assign({}, one, { place: undefined, tokens: tokens });
  }
  byId("save").addEventListener("click", function () { saveJson(texts.map(plain), "explanations.json"); });
  if (!sort) return;

  const places = bodies.map(function (_, k) { return k; });
  const sure = bodies.map(function (one) { return Number(one.dataset.sure); });
  const orders = {
    given: function (a, b) { return a - b; },
    uncertain: function (a, b) { return sure[a] - sure[b] || a - b; },
    certain: function (a, b) { return sure[b] - sure[a] || a - b; },
  };
  function find() {
    const wanted = search.value.trim().toLowerCase();
    let count = 0;
    for (const k of places.sort(orders[sort.value])) {
      const section = bodies[k].closest("section");
      const found = (filter.value === "" || texts[k].place === Number(filter.value)) &&
        texts[k].text.toLowerCase().includes(wanted);
      section.hidden = !found;
      count += found;
      section.parentNode.append(section);
    }
    byId("count").textContent = count + " of " + bodies.length;
  }
  for (const control of [sort, filter]) control.addEventListener("change", find);
  search.addEventListener("input", find);
  find();
})();
