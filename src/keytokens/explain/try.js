// Type a text: it is tokenised, classified and marked as you type.
const trial = (function () {
  const box = byId("text"), layer = byId("layer"), target = byId("target");
  const classes = model.data.classes;
  const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
  let current = null;

  function explained() {
    const chosen = target ? target.value : "";
    return model.explain(box.value, chosen === "" ? undefined : Number(chosen));
  }

  function verdict(why) {
    const label = classes[why.decision];
    const parts = why.contributions.reduce(function (x, y) { return x + y; }, 0);
    const name = classes[model.K === 1 ? 1 : why.output];
    byId("verdict").replaceChildren(
      "Decision: ", node("strong", {}, label), " " + percent(why.probabilities[why.decision]));
    const bias = model.bias[why.output];
    byId("sum").textContent = "logit for " + name + ": " + signed(why.logits[why.output]) +
      (bias === 0 ? ", the sum of all contributions" : " = tokens " + signed(parts) + " + bias " + signed(bias));
    byId("legend-for").textContent = "speaks for " + name;
  }

  function bars(why) {
    byId("bars").replaceChildren(...why.probabilities.map(function (p, k) {
      const fill = node("span", { class: "fill" });
      fill.style.setProperty("width", (100 * p).toFixed(2) + "%");
      return [node("span", { class: "bar-name" }, classes[k]),
        node("span", { class: "track" }, fill), node("span", { class: "bar-number" }, percent(p))];
    }).flat());
  }

  function listed(names) {
    const more = names.length > 12 ? ", and " + (names.length - 12) + " more" : "";
    return names.slice(0, 12).map(function (name) { return "“" + name + "”"; }).join(", ") + more;
  }

  function remarks(why) {
    const sets = model.smallest(why.seen, why.decision);
    const lines = [
      "Attention is spread over " + model.effective(why).toFixed(1) + " effective tokens; " +
      model.carrying(why, 0.8) + " carry 80 % of the contributions.",
    ];
    if (sets.sufficient !== undefined) {
      lines.push(sets.sufficient.length
        ? "Smallest set that alone keeps the decision (" + sets.sufficient.length + "): " + listed(sets.sufficient)
        : "The decision stands without any known token: the constant part alone keeps it.");
    }
    if (sets.flipping !== undefined) {
      lines.push(sets.flipping
        ? "Smallest set whose removal changes it (" + sets.flipping.length + "): " + listed(sets.flipping)
        : "No removal of tokens changes the decision.");
    }
    byId("remarks").replaceChildren(...lines.map(function (line) { return node("li", {}, line); }));
  }

  function rows(why) {
    const order = why.seen.columns.map(function (_, j) { return j; }).sort(function (a, b) {
      return Math.abs(why.contributions[b]) - Math.abs(why.contributions[a]) || a - b;
    });
    const largest = order.length ? Math.abs(why.contributions[order[0]]) : 0;
    byId("carriers").replaceChildren(...order.slice(0, 12).map(function (j) {
      const s = why.seen.columns[j], c = why.contributions[j];
      const name = s === model.V ? "constant <cls>" : model.vocabulary[s];
      const fill = node("span", { class: "fill " + (c > 0 ? "p" : "n") });
      fill.style.setProperty("width", (largest > 0 ? 100 * Math.abs(c) / largest : 0).toFixed(1) + "%");
      return node("tr", {}, node("th", { scope: "row" }, name),
        node("td", { class: "number" }, shown(why.attention[j])),
        node("td", { class: "number" }, signed(why.values[j])),
        node("td", { class: "number " + (c > 0 ? "for" : "against") }, signed(c)),
        node("td", { class: "spark", "aria-hidden": "true" }, node("span", { class: "track" }, fill)));
    }));
  }

  const passages = markedIn(byId("marked"));
  const pick = walkMarks(byId("marked"), byId("detail"), passages.fill);

  function show() {
    const why = current = explained();
    const unknown = why.words.filter(function (word) { return !word.known; }).length;
    verdict(why); bars(why); remarks(why); rows(why);
    for (const sign of document.querySelectorAll(".signs")) sign.hidden = layer.value === "attention";
    passages.show(why, layer.value);
    pick(null);
    byId("counted").textContent = why.words.length + " tokens, " + unknown + " not in the vocabulary";
    byId("save").disabled = false;
  }

  function save() { saveJson(model.plain(current), "explanation.json"); }

  function load(text) {
    box.value = text;
    turn();
    show();
    byId("try-it").scrollIntoView();
    box.focus({ preventScroll: true });
  }

  // As dir="auto" would, which takes a browser seconds on a text of a megabyte.
  function turn() {
    const letter = /\p{L}/u.exec(box.value);
    box.dir = letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
  }

  const soon = later(show, 30);
  box.addEventListener("input", function () { turn(); soon(); });
  layer.addEventListener("change", show);
  if (target) target.addEventListener("change", show);
  byId("save").addEventListener("click", save);
  byId("clear").addEventListener("click", function () { load(""); });
  turn();
  show();
  return { load: load };
})();
