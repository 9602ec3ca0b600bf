"""keytokens reproduce: the papers' figures, with verdicts, on one page."""

import os
from pathlib import Path

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to fill.")
@click.option("--quick", is_flag=True, help="Fewer seeds: everything in a few minutes.")
@click.option("--list", "listing", is_flag=True, help="Name the experiments and stop.")
@click.option("--force", is_flag=True, help="Compute finished cells again.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes to spread over.")
@click.option("--scheduler", metavar="ADDRESS", help="A dask scheduler to spread over.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A file of labelled texts for the experiments on real text; may be given again. "
    "Default: the files in KEYTOKENS_DATA, separated as in PATH.",
)
def command(
    names: tuple[str, ...],
    out: Path | None,
    quick: bool,
    listing: bool,
    force: bool,
    workers: int,
    scheduler: str | None,
    data: tuple[Path, ...],
) -> None:
    """Run experiments (all, or those named) and write rows, figures and report.html to a folder.

    Finished cells are kept: after Ctrl-C the same command goes on where it stopped.
    """
    from keytokens._extras import require
    from keytokens.experiments import EXPERIMENTS, experiment, run_experiments
    from keytokens.report.page import write_report

    if listing:
        _list()
        return
    if out is None:
        raise click.UsageError("--out DIR must be given; got nothing.")
    chosen = [experiment(name) for name in names or EXPERIMENTS]
    for module in ("jax", "matplotlib"):  # said now, not after the first cells
        require(module, "lab")
    data = data or _files_of_environment()
    able = [e for e in chosen if data or not e.needs_data]
    for e in chosen:
        if e not in able:
            click.echo(f"{e.name}: left out, it needs --data FILE or KEYTOKENS_DATA", err=True)
    if not able:
        raise click.UsageError("--data FILE must be given for these experiments; got nothing.")
    options = {"quick": quick, "workers": workers, "scheduler": scheduler, "force": force}
    try:
        run_experiments(able, out, data=data, **options)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        click.echo("Finished cells are kept: the same command goes on from here.", err=True)
        raise
    finally:  # what is finished is on the page, whatever happened to the rest
        if any(out.glob("*/experiment.json")):
            write_report(out, list(EXPERIMENTS))
    click.echo(_summary(out, [e.name for e in able]))
    click.echo(out / "report.html")


def _files_of_environment() -> tuple[Path, ...]:
    paths = [Path(p) for p in os.environ.get("KEYTOKENS_DATA", "").split(os.pathsep) if p]
    return tuple(paths)


def _list() -> None:
    from keytokens.experiments import EXPERIMENTS, experiment

    width = max(map(len, EXPERIMENTS))
    for name in EXPERIMENTS:
        click.echo(f"{name:{width}}  {experiment(name).title}")


def _summary(out: Path, names: list[str]) -> str:
    """One line a claim."""
    import json

    lines = []
    for name in names:
        record = json.loads((out / name / "experiment.json").read_text(encoding="utf-8"))
        for v in record["verdicts"]:
            number = "-" if v["number"] is None else f"{v['number']:.3g}"
            bound = f"{v['side']} {v['threshold']:g}"
            lines.append(f"{v['outcome']:22} {name}: {v['claim']} [{number}, {bound}]")
    return "\n".join(lines)
