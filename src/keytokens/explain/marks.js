// One marked word at a time, by click or by arrow keys: its numbers stand below the text.
// A long text stands in passages; `fill` marks one that was not looked at yet.
const walkMarks = function (region, detail, fill) {
  const help = "Click a marked word, or use the arrow keys here, for its numbers.";
  const marksOf = function (part) {
    if (fill) fill(part);
    return Array.from(part.querySelectorAll("mark"));
  };
  // The mark before (step -1) or after (1) this one, in the next passages where this one has no more.
  function beside(mark, step) {
    const passages = region.querySelectorAll(".passage"), parts = passages.length ? Array.from(passages) : [region];
    let p = Math.max(0, parts.findIndex(function (part) { return part.contains(mark); }));
    let here = marksOf(parts[p]), at = mark ? here.indexOf(mark) + step : 0;
    while (at < 0 || at >= here.length) {
      p += step;
      if (!parts[p]) return mark;
      here = marksOf(parts[p]);
      at = step > 0 ? 0 : here.length - 1;
    }
    return here[at];
  }
  function pick(mark) {
    for (const other of region.querySelectorAll(".picked")) other.classList.remove("picked");
    detail.textContent = mark ? "“" + mark.textContent + "”: " + mark.title : help;
    if (!mark) return;
    mark.classList.add("picked");
    mark.scrollIntoView({ block: "nearest" });
  }
  region.addEventListener("click", function (event) { pick(event.target.closest("mark")); });
  region.addEventListener("keydown", function (event) {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    pick(beside(region.querySelector("mark.picked"), step));
    event.preventDefault();
  });
  pick(null);
  return pick;
};
const saveJson = function (value, name) {
  const text = JSON.stringify(value, null, 1);
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(address);
};
