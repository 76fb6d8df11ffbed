"""``dse wafer``: kernels of a neural network on the tiles of a wafer."""

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from dse.cli.run import executor_for, progress, run, run_options, settings_from, stop_signal
from dse.cli.terminal import console, print_table
from dse.result import Result, digest, document_of
from dse.run_directory import REPORT_FILE, RESULT_FILE, RunDirectory
from dse.wafer.answer import answer
from dse.wafer.drawing import drawing
from dse.wafer.formats import placement_from_document
from dse.wafer.methods import METHODS
from dse.wafer.options import MOVES, WaferOptions
from dse.wafer.paint import paint_of, write_paint
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.report import COST_HEADERS, about, cost_rows, nothing_found, report, verdict
from dse.wafer.search.portfolio import Found

_MOVE_S, _MOVE_OF_A_KERNEL_S = 3e-7, 4e-8
"""What a move of annealing takes, about: of itself, and for each kernel."""


@click.command("wafer")
@click.argument("case", metavar="CASE.kgraph")
@click.option("--kernels", metavar="FILE", help="More kernel types (YAML, dse.kernels/1).")
@click.option("--method", type=click.Choice(list(METHODS)), default="portfolio", show_default=True)
@click.option(
    "--moves", type=click.IntRange(0, 10**12), default=MOVES, show_default=True, help="Of annealing; more find better."
)
@run_options
def command(**options: Any) -> None:
    """Size, shape and place the kernels of CASE on its wafer, with the least weighted time, distance and adapters.

    CASE is a graph in the format of the ISPD 2020 contest; --out DIR keeps the placement as CASE.paint and a picture.
    """
    settings, chosen = settings_from(options), WaferOptions(**options)
    problem = chosen.problem()

    def solve(directory: RunDirectory | None) -> Result:
        def improved(found: Found) -> None:
            if directory is not None and found.placement is not None:
                _write_paint(directory, problem, found.placement)

        with progress(settings) as report, stop_signal(settings) as stop:
            predicted_s = chosen.moves * (_MOVE_S + _MOVE_OF_A_KERNEL_S * len(problem.kernels))
            executor = executor_for(settings, predicted_s)
            return answer(chosen, executor, report, stop, settings.seed, problem, improved)

    run(
        settings,
        "wafer",
        chosen.document(),
        digest(document_of(problem)),
        solve,
        lambda result: _show(problem, result, settings.out),
        lambda directory, result: _keep(directory, problem, result),
    )


def _write_paint(directory: RunDirectory, problem: WaferProblem, placement: WaferPlacement) -> None:
    directory.write_text(f"{problem.name}.paint", write_paint(paint_of(problem, placement)))


def _keep(directory: RunDirectory, problem: WaferProblem, result: Result) -> None:
    """The placement in the contest's format, its picture and the report."""
    placement = placement_from_document(problem, result.solution, RESULT_FILE)
    _write_paint(directory, problem, placement)
    directory.write_text(f"{problem.name}.svg", drawing(problem, placement))
    directory.write_text(REPORT_FILE, report(problem, result, placement))


def _show(problem: WaferProblem, result: Result, out: Path | None) -> None:
    screen = console()
    if result.objective.value is None:
        screen.print(nothing_found(result), soft_wrap=True, markup=False)
        return
    screen.print(f"[bold]{escape(result.problem.name)}[/bold]: {verdict(result)}", soft_wrap=True)
    screen.print(about(result), soft_wrap=True, markup=False)
    print_table(COST_HEADERS, cost_rows(problem, result))
    if out is not None:
        screen.print(f"placement: {out / f'{problem.name}.paint'}; report: {out / REPORT_FILE}", soft_wrap=True)
