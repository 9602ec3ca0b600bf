// One marked word at a time, by click or by arrow keys: its numbers stand below the text.
const walkMarks = function (region, detail) {
  const help = "Click a marked word, or use the arrow keys here, for its numbers.";
  const marks = function () { return Array.from(region.querySelectorAll("mark")); };
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
    const all = marks(), at = all.findIndex(function (mark) { return mark.classList.contains("picked"); });
    pick(all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))]);
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
