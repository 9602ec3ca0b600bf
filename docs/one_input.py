"""Draw the README's picture, docs/one-input.png, from the rows of the experiment of that name."""

import tempfile
from pathlib import Path

from matplotlib import pyplot

from keytokens.experiments import experiment, run_experiment
from keytokens.experiments.one_input import draw_gaps, draw_plane
from keytokens.report import figures


def main() -> None:
    """The local case: paths on the left, distance from the limit on the right."""
    with tempfile.TemporaryDirectory() as out:
        rows = run_experiment(experiment("one-input"), out)
    rows = rows.filter(rows["case"] == "local")
    with figures.style():
        figure, (plane, gaps) = pyplot.subplots(1, 2, figsize=(8.2, 3.7))
        draw_plane(plane, rows.filter(rows["arithmetic"] == "safe float64"), "local")
        plane.set(title="from six starts to two tokens")
        draw_gaps(gaps, rows)
        gaps.set(title="distance from the dashed direction")
        figure.savefig(Path(__file__).with_name("one-input.png"), metadata={"Software": None})


if __name__ == "__main__":
    main()
