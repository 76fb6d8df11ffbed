"""``dse schedule``: one layer's operators on one accelerator's cores."""

from pathlib import Path
from typing import Any

import click

from dse.cli.run import ending_at_once, in_process_options, run, settings_from
from dse.cli.terminal import console, print_table
from dse.results.result import Result, digest, document_of
from dse.schedule.answer import answer
from dse.schedule.formats import read_problem


@click.command("schedule")
@click.argument("layer", type=click.Path(path_type=Path))
@click.option(
    "--method",
    type=click.Choice(["auto", "cp-sat", "scip"]),
    default="auto",
    show_default=True,
    help="auto: exact search; cp-sat: intervals; scip: the paper's ILP.",
)
@in_process_options
def command(layer: Path, method: str, **options: Any) -> None:
    """Schedule the operators of LAYER (JSON, dse.schedule/1; docs/formats.md) with the least makespan."""
    settings = settings_from(options)
    problem = read_problem(layer)
    arguments = {"layer": str(layer), "method": method}
    digested = digest(document_of(problem))
    with ending_at_once():
        run(settings, "schedule", arguments, digested, lambda _directory: answer(problem, method, settings.seed), _show)


def _show(result: Result) -> None:
    value, bound = result.objective.value, result.bound
    if value is None:
        console().print("Stopped before any schedule was found.", soft_wrap=True)
        return
    proof = "proven optimal" if result.status == "optimal" else f"not proven: at least {1e3 * (bound or 0):.6g} ms"
    console().print(
        f"makespan {1e3 * value:.9g} ms, {proof} ({result.method}, {1e3 * result.seconds:.1f} ms)", soft_wrap=True
    )
    operators = sorted(result.solution["operators"].items(), key=lambda entry: entry[1]["start_s"])
    rows = [
        (
            name,
            f"{1e6 * entry['start_s']:.3f}",
            f"{1e6 * entry['finish_s']:.3f}",
            "all" if entry["cores"] == "all" else ", ".join(map(str, entry["cores"])),
        )
        for name, entry in operators
    ]
    print_table(("operator", "start [µs]", "finish [µs]", "cores"), rows)
