"""``dse wafer`` as a function: options in, checked result out."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dse.results.result import (
    FailedCheckError,
    Objective,
    ProblemReference,
    Result,
    digest,
    document_of,
    proven_status,
    relative_gap,
)
from dse.run.executor import Executor, InProcessExecutor, LateExecutor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.check import cost, kernel_time, size_tiles, violations
from dse.wafer.files.formats import placement_document
from dse.wafer.finished import finish_bound, finish_search, finished_bound, finished_search
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import unpackable
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.context import Found, Improved, SearchContext
from dse.wafer.shapes import shape_table
from dse.wafer.shortfall import infeasibility
from hardware.inputs import choose

OBJECTIVE = "total_cost"

UNFINISHED, SEARCH, BOUND = "unfinished", "search", "bound"
"""The entry of a result's metrics that names what was stopped, and what that can be."""


def ignore(_found: Found) -> None:
    """Keep no placement before the last."""


def answer(
    options: WaferOptions,
    executor: Executor | None = None,
    progress: ProgressCallback = silent,
    stop: StopSignal = never_stop,
    seed: int = 0,
    problem: WaferProblem | None = None,
    improved: Improved = ignore,
    before: WaferPlacement | None = None,
    search_stop: StopSignal | None = None,
    journal: Journal | None = None,
) -> Result:
    """A placement, passed by the checker, with its bound.

    ``metrics.unfinished`` of the result names what was stopped: the search, the bound; nothing of a proven answer.

    Args:
        options: what is asked.
        executor: where independent parts run.
        progress: told of each phase.
        stop: asked between two pieces of work.
        seed: of everything that is drawn.
        problem: what the options pose, where it has been read before.
        improved: told of every better placement, which the checker has passed.
        before: a legal placement that an earlier run of the same options has found. The search does not look at it,
            and so goes the same way; only what is better than it counts.
        search_stop: asked by the search instead of ``stop``: it may end earlier, to leave time for the bound.
        journal: of the run: has the search and the bound where they have ended, and gets them.

    Raises:
        InputError: the options name what cannot be.
        FailedCheckError: the checker refuses the answer.
    """
    started = time.perf_counter()
    choose("dse wafer", "--method", options.method, METHODS, "method")
    problem = problem or options.problem()
    proof = infeasibility(problem)
    found, bound, unfinished = Found(), None, list[str]()
    known = Found() if before is None else Found(before, cost(problem, before))

    def better(each: Found) -> None:
        if each.total < known.total:
            improved(each)

    def searched(workers: Executor) -> Found:
        return METHODS[options.method](
            SearchContext(problem, workers, seed, options.annealing_moves, progress, search_stop or stop, better)
        )

    if proof is None:
        found, ended = _search(searched, executor, problem, search_stop or stop, journal)
        unfinished += [] if ended else [SEARCH]
        if known.total < found.total:
            found = replace(known, evaluations=found.evaluations)
        if found.placement is None:
            proof = unpackable(problem, stop)
    if proof is None:
        bound, ended = _bound(problem, found, stop, journal)
        unfinished += [] if ended else [BOUND]
    result = _result(options, problem, found, bound, proof, seed)
    return _ended(result, unfinished, stop(), time.perf_counter() - started)


def _ended(result: Result, unfinished: list[str], stopped: str | None, seconds: float) -> Result:
    """The result with how it ended; nothing of a proven one is unfinished."""
    unfinished = [] if result.status in ("optimal", "infeasible") else unfinished
    status = "interrupted" if stopped == "interrupted" and unfinished else result.status
    told = {"metrics": result.metrics | {UNFINISHED: unfinished}, "seconds": seconds}
    return result.model_copy(update=told | {"status": status})


def _search(
    searched: Callable[[Executor], Found],
    executor: Executor | None,
    problem: WaferProblem,
    stop: StopSignal,
    journal: Journal | None,
) -> tuple[Found, bool]:
    """(what the search finds, whether it has ended); one that the journal has is not made again."""
    kept = finished_search(journal, problem)
    if kept is not None:
        return kept, True
    # Rows need no workers, and are an answer if a time limit passes while those start.
    with LateExecutor(executor or InProcessExecutor()) as workers:
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


def _result(
    options: WaferOptions,
    problem: WaferProblem,
    found: Found,
    bound: float | None,
    proof: dict[str, Any] | None,
    seed: int,
) -> Result:
    told: dict[str, Any] = {"settings": options.document()}
    value = None
    if found.placement is not None:
        broken = violations(problem, found.placement)
        if broken:
            raise FailedCheckError("; ".join(broken))
        value = cost(problem, found.placement).total
        told |= metrics(problem, found.placement)
    return Result(
        command="wafer",
        problem=ProblemReference(name=problem.name, digest=digest(document_of(problem))),
        status="infeasible" if proof is not None else proven_status(value, bound),
        objective=Objective(name=OBJECTIVE, value=value, unit="1", sense="min"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution={} if found.placement is None else placement_document(problem, found.placement),
        metrics=told,
        infeasibility=proof,
        evaluations=found.evaluations,
        seed=seed,
        method=options.method,
    )


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
