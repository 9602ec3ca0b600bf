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
const shown = function (x) { // fewer decimals from ten on, two digits of what they would hide
  if (Math.abs(x) >= 10) return x.toFixed(Math.abs(x) < 100 ? 2 : 1);
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
// Once it has been quiet for a moment: at least as long as the work itself took the last time.
const later = function (work, delay) {
  let timer = 0, took = 0;
  const run = function () {
    const start = performance.now();
    work();
    took = performance.now() - start;
  };
  return function () { clearTimeout(timer); timer = setTimeout(run, Math.max(delay, took)); };
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
