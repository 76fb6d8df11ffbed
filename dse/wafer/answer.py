"""The search for a placement and its bound: a problem and options in, what is known of it out."""

from dataclasses import dataclass, replace
from typing import Any

from dse.results.result import proven_status
from dse.run.executor import LateExecutor
from dse.run.journal import Journal
from dse.run.progress import StopSignal, never_stop
from dse.run.run import Run
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.check import cost, kernel_time, size_tiles
from dse.wafer.few_kernels import cheapest
from dse.wafer.files.saved import save_placement, saved_placement
from dse.wafer.journal_entries import journal_bound, journal_search, journalled_bound, journalled_search
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import unpackable
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.context import SearchContext, SearchResult
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
        best: the best placement with its cost, and how many layouts were priced.
        bound: no placement costs less; None where nothing is known.
        proof: why no placement is legal, if that is proven.
        unfinished: :data:`SEARCH` or :data:`BOUND` where it was stopped before its end; nothing of a proven answer.
    """

    best: SearchResult
    bound: float | None
    proof: dict[str, Any] | None
    unfinished: tuple[str, ...]


def solve(problem: WaferProblem, options: WaferOptions, run: Run) -> Outcome:
    """A placement by the method that the options name, with its bound.

    Every better placement is saved in the run directory as ``NAME.paint``. The search does not see what an earlier part
    of the run saved there, so it goes the same way; only a better placement replaces that.

    Raises:
        InputError: the options name what cannot be, or the saved placement cannot be read or is not legal.
    """
    proof = infeasibility(problem)
    if proof is not None:
        return Outcome(SearchResult(), None, proof, ())
    placement = None if run.directory is None else saved_placement(run.directory, problem)
    saved = SearchResult() if placement is None else SearchResult(placement, cost(problem, placement))
    best, search_ended = _search(problem, options, run, saved)
    if saved.total < best.total:
        best = replace(saved, evaluations=best.evaluations)
    if best.placement is None:
        proof = unpackable(problem, run.stop)
    if proof is not None:
        return Outcome(best, None, proof, ())
    bound, bound_ended = _bound(problem, best, run.stop, run.journal)
    ended = {SEARCH: search_ended, BOUND: bound_ended}
    return Outcome(best, bound, None, tuple(part for part, is_ended in ended.items() if not is_ended))


def _workers(run: Run) -> LateExecutor:
    """The run's executor, which this process does without for as long as its workers take to start and to end.

    It does without them to its end where a time limit leaves no more than three times as much: then two workers would
    hardly do more. An item's own limit holds for workers alone, so where there is one they are started for the first
    item. Rows need no workers, and are an answer if a time limit passes while those start.
    """

    def alone() -> bool:
        short = run.spent_s < _START_S or run.time_limit_s - run.spent_s < 3 * _START_S
        return run.item_timeout_s is None and short

    return LateExecutor(run.executor, alone)


def _search(problem: WaferProblem, options: WaferOptions, run: Run, saved: SearchResult) -> tuple[SearchResult, bool]:
    """(the result of the search, whether it has ended); one that is in the journal is not repeated."""
    journalled = journalled_search(run.journal, problem)
    if journalled is not None:
        return journalled, True
    stop = run.with_share(_SEARCH_SHARE).stop

    def improved(better: SearchResult) -> None:
        if better.total < saved.total and better.placement is not None:
            save_placement(run, problem.name, problem, better.placement)

    with _workers(run) as workers:
        result = METHODS[options.method](
            SearchContext(problem, workers, run.seed, options.annealing_moves, run.progress, stop, improved)
        )
    ended = stop() is None
    if ended:
        journal_search(run.journal, problem, result)
    return result, ended


def _bound(
    problem: WaferProblem, best: SearchResult, stop: StopSignal, journal: Journal | None
) -> tuple[float | None, bool]:
    """(a lower bound on the cost, whether it was computed to its end); one that is in the journal is not repeated."""
    bound = journalled_bound(journal, best.total)
    if bound is not None:
        return bound, True
    bound, ended = cost_bound(problem, best, stop), stop() is None
    if ended and bound is not None:
        journal_bound(journal, best.total, bound)
    return bound, ended


def cost_bound(problem: WaferProblem, best: SearchResult, stop: StopSignal = never_stop) -> float | None:
    """A lower bound on the cost; None where the area of no time limit fits. Of a few kernels the least cost."""
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    if floor is None:
        return None
    bound = CostBound(problem, table).total(floor, best.total, stop)
    if proven_status(best.total, bound) == "optimal":
        return bound
    few = cheapest(problem, best.total, stop)
    if not few.proven:
        return bound
    least = best.total if few.placement is None else cost(problem, few.placement).total
    return max(bound, least)


def metrics(problem: WaferProblem, placement: WaferPlacement) -> dict[str, Any]:
    """Figures of a legal placement: the parts of its cost, and how much of the wafer it uses.

    ``utilisation`` is the share of the wafer's tiles that kernels have, ``busy`` the share that would be at work all
    the time: a kernel faster than the slowest waits for it.
    """
    priced = cost(problem, placement)
    tiles, busy = 0, 0.0
    for kernel, placed in zip(problem.kernels, placement.placed, strict=True):
        width, height = size_tiles(placed)
        tiles += width * height
        busy += width * height * float(kernel_time(kernel, placed)) / priced.time
    return {
        "time": priced.time,
        "distance": priced.distance,
        "adapter": priced.adapter,
        "kernels": len(problem.kernels),
        "edges": len(problem.edges),
        "utilisation": tiles / problem.wafer.tiles,
        "busy": busy / problem.wafer.tiles,
    }
