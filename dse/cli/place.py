"""``dse place``: the placement dynamic program alone."""

from pathlib import Path
from typing import Any

import click

from dse.cli.run import ending_at_once, run, run_options, settings_from
from dse.cli.terminal import console, print_table
from dse.placement.answer import answer
from dse.placement.formats import read_problem
from dse.result import Result, digest, document_of


@click.command("place")
@click.argument("layers", type=click.Path(path_type=Path))
@run_options
def command(layers: Path, **options: Any) -> None:
    """Place the layer graph LAYERS (JSON, dse.placement/1; docs/formats.md) with a proven optimum."""
    settings = settings_from(options)
    problem = read_problem(layers)
    with ending_at_once():
        run(
            settings,
            "place",
            {"layers": str(layers)},
            digest(document_of(problem)),
            lambda _directory: answer(problem, settings.seed),
            _show,
        )


def _show(result: Result) -> None:
    if result.infeasibility is not None:
        console().print(f"Proven infeasible: {result.infeasibility['explanation']}", soft_wrap=True)
        return
    solution = result.solution
    proof = "proven optimal" if result.status == "optimal" else f"not proven: at least {result.bound:.9g} s"
    console().print(
        f"{result.objective.value:.9g} s a batch, {proof}: {len(solution['stages'])} stages × "
        f"{solution['data']} data × {solution['tensor']} tensor ({1e3 * result.seconds:.1f} ms)",
        soft_wrap=True,
    )
    rows = [
        (str(number), str(stage["accelerators"]), str(len(stage["layers"])), _span(stage["layers"]))
        for number, stage in enumerate(solution["stages"], start=1)
    ]
    print_table(("stage", "accelerators", "layers", ""), rows)


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
