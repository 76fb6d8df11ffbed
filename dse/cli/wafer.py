"""``dse wafer``: kernels of a neural network on the tiles of a wafer."""

import math
import time
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from dse.cli.run import RunSettings, executor_for, progress, run, run_options, settings_from, stop_signal
from dse.cli.terminal import console, print_table
from dse.results.result import Result, digest, document_of
from dse.run.directory import REPORT_FILE, RunDirectory, journal_of
from dse.run.executor import Executor, LateExecutor
from dse.run.progress import StopSignal
from dse.wafer.answer import UNFINISHED, answer
from dse.wafer.files.formats import MOST_TILES
from dse.wafer.files.kept import POINTS_FOLDER, keep, keep_paint, kept_placement
from dse.wafer.files.kgraph import write_kgraph
from dse.wafer.methods import METHODS
from dse.wafer.networks import NETWORKS
from dse.wafer.options import MOVES, SWEEP_MOVES, WaferOptions
from dse.wafer.problem import WaferProblem
from dse.wafer.report import COST_HEADERS, about, cost_rows, nothing_found, verdict
from dse.wafer.search.context import Found
from dse.wafer.sweep import report as sweep_report
from dse.wafer.sweep.axes import KEYS
from dse.wafer.sweep.sweep import point_problems, sweep

_MOVE_S, _MOVE_OF_A_KERNEL_S, _ROWS_S = 3e-7, 4e-8, 1.5
"""What a move of annealing takes, about: of itself, and for each kernel; and what a run takes before the first."""

_START_S = 10.0
"""What starting and ending Ray's workers takes, about."""

_WIDE_COLUMNS = 120
"""Of a terminal that has room for all figures of a sweep's points."""

_SEARCH_SHARE = 0.9
"""Of a time limit; the bound has what is left."""


@click.command("wafer", epilog=f"Networks of the contest:  {'  '.join(NETWORKS)}")
@click.argument("case", metavar="CASE")
@click.option("--kernels", metavar="FILE", help="More kernel types (YAML, dse.kernels/1).")
@click.option("--method", type=click.Choice(list(METHODS)), default="portfolio", show_default=True)
@click.option(
    "--moves",
    type=click.IntRange(0, 10**12),
    help=f"Of annealing; more find better [{MOVES:,}; at each point of a sweep {SWEEP_MOVES:,}].",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="KEY[=V,V|=LOW:HIGH:STEP],…",
    help=f"Answer for many wafers or weights, and mark the front of cost, tiles and memory. KEY: {', '.join(KEYS)}; "
    "alone, from half to twice what CASE has.",
)
@click.option("--width", type=click.IntRange(1, MOST_TILES), help="Tiles across the wafer [as CASE says; 633].")
@click.option("--height", type=click.IntRange(1, MOST_TILES), help="Tiles up the wafer [as CASE says; 633].")
@click.option("--memlimit", type=click.IntRange(1), help="Words of 2 bytes of a tile [as CASE says; 24576].")
@click.option("--wdeltat", type=click.FloatRange(0), help="Weight of the time [as CASE says; 1].")
@click.option("--wlength", type=click.FloatRange(0), help="Weight of the distance [as CASE says; 1].")
@click.option("--wadapter", type=click.FloatRange(0), help="Weight of adapters [as CASE says; 0].")
@run_options
def command(**options: Any) -> None:
    """Size, shape and place the kernels of CASE on its wafer, with the least weighted time, distance and adapters.

    CASE is a graph in the format of the ISPD 2020 contest, one of the contest's networks by name (below),
    FILE.py:FUNCTION that returns a PyTorch module and example inputs, an ONNX file, or a network of the catalogue
    (docs/partition.md). --out DIR keeps it as CASE.kgraph, with the placement as CASE.paint and a picture.
    """
    settings = settings_from(options)
    chosen = WaferOptions(**options)
    graph = chosen.graph()
    problem = chosen.problem_of(graph)

    points = len(point_problems(chosen, problem))
    predicted_s = points * (_ROWS_S + chosen.annealing_moves * (_MOVE_S + _MOVE_OF_A_KERNEL_S * len(problem.kernels)))

    def solve(directory: RunDirectory | None) -> Result:
        if directory is not None:
            directory.write_text(f"{problem.name}.kgraph", write_kgraph(graph))

        def improved(found: Found) -> None:
            if directory is not None and found.placement is not None:
                keep_paint(directory, problem.name, problem, found.placement)

        with progress(settings) as report, stop_signal(settings) as stop, journal_of(directory) as journal:
            executor = _late(settings, executor_for(settings, predicted_s, journal))
            if chosen.sweep:
                return sweep(chosen, executor, report, stop, settings.seed, problem, journal)
            before = None if directory is None else kept_placement(directory, problem)
            sooner = _sooner(stop, settings.time_limit)
            return answer(chosen, executor, report, stop, settings.seed, problem, improved, before, sooner, journal)

    run(
        settings,
        "wafer",
        chosen.document(),
        digest(document_of(problem)),
        solve,
        lambda result: _show(problem, result, settings.out),
        lambda directory, result: keep(directory, chosen, problem, result),
        # Moves are what was asked: a search that has made them is finished, proven or not.
        lambda result: result.metrics.get(UNFINISHED) == [],
    )


def _late(settings: RunSettings, executor: Executor) -> Executor:
    """``executor``, which this process does without for as long as its workers take to start and to end.

    It does without them to its end where a time limit leaves no more than three times as much: then two workers would
    hardly do more. An item's own limit holds for workers alone, so where there is one they are started at once.
    """
    if settings.item_timeout is not None:
        return executor
    began_s, limit_s = time.monotonic(), math.inf if settings.time_limit is None else settings.time_limit

    def alone() -> bool:
        spent_s = time.monotonic() - began_s
        return spent_s < _START_S or limit_s - spent_s < 3 * _START_S

    return LateExecutor(executor, alone)


def _sooner(stop: StopSignal, limit_s: float | None) -> StopSignal:
    """``stop``, and the end of the search's share of a time limit from now."""
    deadline_s = math.inf if limit_s is None else time.monotonic() + _SEARCH_SHARE * limit_s
    return lambda: stop() or ("time limit" if time.monotonic() > deadline_s else None)


def _show(problem: WaferProblem, result: Result, out: Path | None) -> None:
    screen = console()
    if result.objective.value is None:
        screen.print(nothing_found(result), soft_wrap=True, markup=False)
        return
    if "points" in result.solution:
        _show_points(problem, result)
    else:
        screen.print(f"[bold]{escape(result.problem.name)}[/bold]: {verdict(result)}", soft_wrap=True)
        screen.print(about(result), soft_wrap=True, markup=False)
        print_table(COST_HEADERS, cost_rows(problem, result))
    if out is not None:
        where = POINTS_FOLDER if "points" in result.solution else f"{problem.name}.paint"
        screen.print(f"placement: {out / where}; report: {out / REPORT_FILE}", soft_wrap=True)


def _show_points(problem: WaferProblem, result: Result) -> None:
    """The points of a sweep; of many the front alone."""
    screen = console()
    words = f"[bold]{escape(result.problem.name)}[/bold]: {sweep_report.verdict(result)}"
    screen.print(words, soft_wrap=True)
    screen.print(sweep_report.about(result), soft_wrap=True, markup=False)
    many = result.metrics["points"] > sweep_report.MOST_ROWS
    headers, rows = sweep_report.headers(problem, result), sweep_report.rows(problem, result, only_front=many)
    if screen.width < _WIDE_COLUMNS:
        headers, rows = sweep_report.narrowed(headers, rows)
    print_table(headers, rows)
