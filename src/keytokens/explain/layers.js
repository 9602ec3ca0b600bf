// The marks show another layer: contribution, attention or value.
(function () {
  const label = document.getElementById("layers"), chosen = label.querySelector("select");
  label.hidden = false;
  chosen.addEventListener("change", function () {
    for (const sign of document.querySelectorAll(".signs")) sign.hidden = chosen.selectedIndex === 1;
    for (const mark of document.querySelectorAll("mark[data-layers]")) {
      const layer = mark.dataset.layers.split(" ")[chosen.selectedIndex];
      mark.className = "t " + layer[0];
      mark.dataset.k = layer.slice(1);
    }
  });
})();
