"""The search for a placement and its bound: a problem and options in, what is known of it out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dse.run.executor import Executor, LateExecutor
from dse.run.journal import Journal
from dse.run.progress import StopSignal, never_stop
from dse.run.run import Run
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.check import cost, kernel_time, size_tiles
from dse.wafer.files.kept import keep_paint, kept_placement
from dse.wafer.finished import finish_bound, finish_search, finished_bound, finished_search
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import unpackable
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.portfolio import Found, Search
from dse.wafer.shapes import shape_table
from dse.wafer.shortfall import infeasibility

SEARCH, BOUND = "search", "bound"
"""What of a run can have been stopped before its end."""

_START_S = 10.0
"""What starting and ending workers takes, about."""

_SEARCH_SHARE = 0.9
"""Of a time limit; the bound has what is left."""


@dataclass(frozen=True)
class Outcome:
    """What is known of one problem.

    Attributes:
        found: the best placement with its cost, and how many layouts were priced.
        bound: no placement costs less; None where nothing is known.
        proof: why no placement is legal, if that is proven.
        unfinished: :data:`SEARCH` or :data:`BOUND` where it was stopped before its end; nothing of a proven answer.
    """

    found: Found
    bound: float | None
    proof: dict[str, Any] | None
    unfinished: tuple[str, ...]


def solve(problem: WaferProblem, options: WaferOptions, run: Run) -> Outcome:
    """A placement by the method that the options name, with its bound.

    Every better placement is kept in the run directory as ``NAME.paint``. A legal placement that an earlier part of the
    run has kept there is not looked at by the search, which so goes the same way; only what is better than it counts.

    Raises:
        InputError: the options name what cannot be, or a kept placement that is none.
    """
    proof = infeasibility(problem)
    if proof is not None:
        return Outcome(Found(), None, proof, ())
    before = None if run.directory is None else kept_placement(run.directory, problem)
    known = Found() if before is None else Found(before, cost(problem, before))
    search_stop = run.with_share(_SEARCH_SHARE).stop

    def better(each: Found) -> None:
        if each.total < known.total and each.placement is not None:
            keep_paint(run, problem.name, problem, each.placement)

    def searched(workers: Executor) -> Found:
        return METHODS[options.method](
            Search(problem, workers, run.seed, options.annealing_moves, run.progress, search_stop, better)
        )

    found, search_ended = _search(searched, _late(run), problem, search_stop, run.journal)
    if known.total < found.total:
        found = replace(known, evaluations=found.evaluations)
    if found.placement is None:
        proof = unpackable(problem, run.stop)
    if proof is not None:
        return Outcome(found, None, proof, ())
    bound, bound_ended = _bound(problem, found, run.stop, run.journal)
    ended = {SEARCH: search_ended, BOUND: bound_ended}
    return Outcome(found, bound, None, tuple(part for part, is_ended in ended.items() if not is_ended))


def _late(run: Run) -> Executor:
    """The run's executor, which this process does without for as long as its workers take to start and to end.

    It does without them to its end where a time limit leaves no more than three times as much: then two workers would
    hardly do more. An item's own limit holds for workers alone, so where there is one they are started at once.
    """
    if run.item_timeout_s is not None:
        return run.executor

    def alone() -> bool:
        return run.spent_s < _START_S or run.time_limit_s - run.spent_s < 3 * _START_S

    return LateExecutor(run.executor, alone)


def _search(
    searched: Callable[[Executor], Found],
    executor: Executor,
    problem: WaferProblem,
    stop: StopSignal,
    journal: Journal | None,
) -> tuple[Found, bool]:
    """(what the search finds, whether it has ended); one that the journal has is not made again."""
    kept = finished_search(journal, problem)
    if kept is not None:
        return kept, True
    # Rows need no workers, and are an answer if a time limit passes while those start.
    with LateExecutor(executor) as workers:
        found = searched(workers)
    ended = stop() is None
    if ended:
        finish_search(journal, problem, found)
    return found, ended


def _bound(problem: WaferProblem, found: Found, stop: StopSignal, journal: Journal | None) -> tuple[float | None, bool]:
    """(a lower bound on the cost, whether it was computed to its end); one that the journal has is not made again."""
    bound = finished_bound(journal, found.total)
    if bound is not None:
        return bound, True
    bound, ended = cost_bound(problem, found, stop), stop() is None
    if ended and bound is not None:
        finish_bound(journal, found.total, bound)
    return bound, ended


def cost_bound(problem: WaferProblem, found: Found, stop: StopSignal = never_stop) -> float | None:
    """A lower bound on the cost; None where the area of no time limit fits."""
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    return None if floor is None else CostBound(problem, table).total(floor, found.total, stop)


def metrics(problem: WaferProblem, placement: WaferPlacement) -> dict[str, Any]:
    """Figures of a legal placement: the parts of its cost, and how much of the wafer it uses.

    ``utilisation`` is the share of the wafer's tiles that kernels have, ``busy`` the share that would be at work all
    the time: a kernel faster than the slowest waits for it.
    """
    found = cost(problem, placement)
    tiles, busy = 0, 0.0
    for kernel, placed in zip(problem.kernels, placement.placed, strict=True):
        width, height = size_tiles(placed)
        tiles += width * height
        busy += width * height * float(kernel_time(kernel, placed)) / found.time
    return {
        "time": found.time,
        "distance": found.distance,
        "adapter": found.adapter,
        "kernels": len(problem.kernels),
        "edges": len(problem.edges),
        "utilisation": tiles / problem.wafer.tiles,
        "busy": busy / problem.wafer.tiles,
    }
