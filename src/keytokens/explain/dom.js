// Small helpers: every text enters the page as text, never as markup.
const byId = function (id) { return document.getElementById(id); };
const node = function (tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const name of Object.keys(attributes || {})) {
    if (name === "class") made.className = attributes[name];
    else made.setAttribute(name, attributes[name]);
  }
  made.append(...children);
  return made;
};
const shown = function (x) { // two digits of what fixed decimals would hide
  return x === 0 || Math.abs(x) >= 0.01 ? x.toFixed(4) : x.toPrecision(2);
};
const signed = function (x) { return (x < 0 ? "−" : "+") + shown(Math.abs(x)); };
const percent = function (p) {
  if (p >= 0.001 && p <= 0.999) return (100 * p).toFixed(1) + " %";
  return p > 0.5 ? "> 99.9 %" : "< 0.1 %";
};
const level = function (amount, largest) {
  return largest > 0 ? Math.min(9, Math.round(9 * Math.abs(amount) / largest)) : 0;
};
const later = function (work, delay) {
  let timer = 0;
  return function () { clearTimeout(timer); timer = setTimeout(work, delay); };
};

// The text with its words marked. layer: contribution | attention | value.
const marked = function (why, layer) {
  const amount = function (word) {
    if (layer === "attention") return word.attention;
    if (layer === "value") return word.attention > 0 ? word.contribution / word.attention : 0;
    return word.contribution;
  };
  const largest = why.words.reduce(function (most, word) {
    return Math.max(most, Math.abs(amount(word)));
  }, 0);
  const pieces = document.createDocumentFragment();
  let last = 0;
  for (const word of why.words) {
    pieces.append(why.text.slice(last, word.start));
    const piece = why.text.slice(word.start, word.end), k = level(amount(word), largest);
    last = word.end;
    if (!word.known) pieces.append(node("span", { class: "unknown", title: "not in the vocabulary" }, piece));
    else if (k === 0) pieces.append(piece);
    else {
      const kind = layer === "attention" ? "w" : amount(word) > 0 ? "p" : "n";
      const told = "contribution " + signed(word.contribution) + ", attention " + shown(word.attention);
      pieces.append(node("mark", { class: "t " + kind, "data-k": k, title: told }, piece));
    }
  }
  pieces.append(why.text.slice(last));
  return pieces;
};

// Arrow keys walk through a list of buttons.
const walkable = function (list) {
  list.addEventListener("keydown", function (event) {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    const buttons = Array.from(list.querySelectorAll("button"));
    const next = buttons[buttons.indexOf(document.activeElement) + step];
    if (next) { next.focus(); event.preventDefault(); }
  });
};
