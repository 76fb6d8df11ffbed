"""``dse wafer --sweep``: the problem solved for many wafers and weights, and the front of cost, tiles and memory.

Every point of the grid is one run with the same method, moves and seed, in one process; runs are spread over the
executor, and what each came to is in the journal. One run stands for two wafers that are the same but for a turn by a
right angle. What a point finds is offered to every other one (:mod:`dse.wafer.sweep.front`). The grid is refined in
rounds, and a point whose cost is proven by those of earlier rounds needs no run.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from dse.problem import Posed, result_of
from dse.results.infeasibility import Infeasibility
from dse.results.result import Result, digest, document_of, proven_status
from dse.run.executor import Executor, Failed, LateExecutor
from dse.run.journal import Journal
from dse.run.options import STRICT
from dse.run.progress import StoppedError, StopSignal, never_stop
from dse.run.run import Run
from dse.wafer.answer import solve
from dse.wafer.documents import PointDocument, PointStatus, placement_document, placement_from_document
from dse.wafer.options import WaferOptions
from dse.wafer.packing import proof_like
from dse.wafer.problem import WaferProblem
from dse.wafer.sweep.axes import Setting, axes_of, name_of, posed, rounds_of, settings_of
from dse.wafer.sweep.front import Point, PointRun, settled

UNFINISHED = "stopped early"


@dataclass(frozen=True)
class Solved:
    """The answer of one run, as it is in the journal.

    Attributes:
        ended: whether it was stopped only by its moves.
        kernels: the placement as in a result's solution; None where none was found.
        bound: no placement costs less; None where nothing is known.
        infeasibility: the proof that no placement is legal, or None.
        evaluations: layouts that were priced.
    """

    __pydantic_config__ = STRICT

    ended: bool
    kernels: dict[str, Any] | None
    bound: float | None
    infeasibility: dict[str, Any] | None
    evaluations: int


@dataclass(frozen=True, eq=False)
class PointSolver:
    """:func:`~dse.wafer.answer.solve` for a point of one problem, for executors.

    ``stop`` is consulted in this process only: workers elsewhere are ended by their executor.
    """

    problem: WaferProblem
    options: WaferOptions
    seed: int
    stop: StopSignal = never_stop

    def __reduce__(self) -> tuple[Any, ...]:
        return PointSolver, (self.problem, self.options, self.seed)

    def describe(self, setting: Setting) -> str:
        """A point for people."""
        return name_of(setting)

    def __call__(self, setting: Setting) -> Solved:
        """The answer for a point."""
        problem = posed(self.problem, setting)
        outcome = solve(problem, self.options, Run(stop=self.stop, seed=self.seed))
        placement = outcome.best.placement
        return Solved(
            ended=self.stop() is None,
            kernels=None if placement is None else placement_document(problem, placement)["kernels"],
            bound=outcome.bound,
            infeasibility=outcome.proof,
            evaluations=outcome.best.evaluations,
        )


def sweep(posed_sweep: Posed[WaferOptions, Any], problem: WaferProblem, run: Run) -> Result:
    """The points of ``options.sweep``, each with the best placement that any of them found for it.

    The objective of the result is the least cost of all points. Points are solved by the executor of ``run``; those
    that are finished are in its journal.

    Raises:
        InputError: the options name what cannot be, or a damaged journal.
    """
    started = time.perf_counter()
    options, journal, stop = posed_sweep.options, run.journal, run.stop
    points = point_problems(options, problem)
    solver = PointSolver(problem, options, run.seed, stop)
    first = dict[str, Setting]()
    runs = {setting: first.setdefault(_key(there), setting) for setting, there in points.items()}
    outcomes: dict[Setting, Solved | Failed] = {} if journal is None else {**_journalled(journal, first)}

    def answers() -> list[Point]:
        return settled(
            [_point_run(each, there, runs[each], outcomes.get(runs[each])) for each, there in points.items()]
        )

    with LateExecutor(run.executor) as workers, suppress(StoppedError):
        for settings in rounds_of(axes_of(options.sweep, problem)):
            open_ = {runs[each.setting] for each in answers() if _is_open(each)} & {runs[each] for each in settings}
            missing = [each for each in first.values() if each in open_ and each not in outcomes]
            _solve(
                solver, missing, outcomes, workers, lambda: run.progress("wafers", len(outcomes), len(first)), journal
            )
    answered = answers()
    result = _result(posed_sweep, answered, run.seed)
    if result.solution:
        run.tables.put("points", points_table(result))
    status = "interrupted" if stop() == "interrupted" and _missing(answered) else result.status
    evaluations = sum(each.evaluations for each in outcomes.values() if isinstance(each, Solved))
    taken = {"seconds": time.perf_counter() - started, "status": status, "evaluations": evaluations}
    return result.model_copy(update=taken)


def point_problems(options: WaferOptions, problem: WaferProblem) -> dict[Setting, WaferProblem]:
    """The problem of every point, in the order of the grid.

    Raises:
        InputError: the sweep asks for what cannot be.
    """
    return {each: posed(problem, each) for each in settings_of(axes_of(options.sweep, problem))}


def _key(problem: WaferProblem) -> str:
    """Of a point in the journal of one run, whose method, moves and seed are the same for all; lying wafers alone."""
    wafer = problem.wafer
    width, height = max(wafer.width_tiles, wafer.height_tiles), min(wafer.width_tiles, wafer.height_tiles)
    lying = replace(problem, wafer=replace(wafer, width_tiles=width, height_tiles=height))
    return digest(document_of(lying))


def _journalled(journal: Journal, settings: dict[str, Setting]) -> dict[Setting, Solved]:
    """The points in the journal.

    Raises:
        InputError: an entry that is not a finished point.
    """
    solved = {}
    for key, setting in settings.items():
        if key in journal:
            try:
                solved[setting] = TypeAdapter(Solved).validate_json(json.dumps(journal[key]))
            except ValidationError as error:
                raise journal.damaged(key, error) from error
    return solved


def _is_open(point: Point) -> bool:
    """Whether a run could still find something."""
    return point_status(point) in ("feasible", "unknown")


def _solve(
    solver: PointSolver,
    missing: Sequence[Setting],
    outcomes: dict[Setting, Solved | Failed],
    executor: Executor,
    progress: Callable[[], None],
    journal: Journal | None,
) -> None:
    """Run the missing points: each is in ``outcomes`` the moment it arrives, and in the journal if it has ended.

    Raises:
        StoppedError: the run was stopped.
    """

    def arrived(pairs: Sequence[tuple[Setting, Solved | Failed]]) -> None:
        outcomes.update(pairs)
        progress()
        ended = {setting: each for setting, each in pairs if isinstance(each, Solved) and each.ended}
        if journal is not None:
            journal.append_all({_key(posed(solver.problem, setting)): asdict(each) for setting, each in ended.items()})

    if missing:
        deque(executor.outcomes(solver, missing, solver.stop, arrived), maxlen=0)


def _point_run(setting: Setting, problem: WaferProblem, run: Setting, outcome: Solved | Failed | None) -> PointRun:
    """The answer of the run of a point, which may be that of the turned wafer: its placement is offered there."""
    if not isinstance(outcome, Solved):
        return PointRun(setting, problem, reason=UNFINISHED if outcome is None else outcome.reason)
    placement, proof = None, outcome.infeasibility
    if run != setting:
        proof = None if proof is None else proof_like(proof, problem)
    elif outcome.kernels is not None:
        placement = placement_from_document(problem, {"kernels": outcome.kernels}, name_of(setting))
    return PointRun(setting, problem, placement, outcome.bound, proof, None if outcome.ended else UNFINISHED)


def point_document(point: Point) -> PointDocument:
    """A point as it is in ``solution.points`` of a result."""
    wafer, weights, cost = point.problem.wafer, point.problem.weights, point.cost
    return PointDocument(
        width=wafer.width_tiles,
        height=wafer.height_tiles,
        memlimit=wafer.memory_words,
        wdeltat=weights.time,
        wlength=weights.distance,
        wadapter=weights.adapter,
        tiles=wafer.tiles,
        status=point_status(point),
        cost=None if cost is None else cost.total,
        bound=point.bound,
        time=None if cost is None else cost.time,
        distance=None if cost is None else cost.distance,
        adapter=None if cost is None else cost.adapter,
        front=point.front,
        certain=point.certain,
        found_at=None if point.found_at is None else name_of(point.found_at),
        infeasibility=point.infeasibility,
        reason=point.reason,
        kernels=None if point.placement is None else placement_document(point.problem, point.placement)["kernels"],
    )


def point_status(point: Point) -> PointStatus:
    """Whether a point is answered, and how surely."""
    if point.infeasibility is not None:
        return "infeasible"
    status = proven_status(None if point.cost is None else point.cost.total, point.bound)
    return "optimal" if status == "optimal" else ("unknown" if point.cost is None else "feasible")


def _missing(points: Sequence[Point]) -> list[str]:
    """The points whose runs did not end, or failed."""
    return [name_of(each.setting) for each in points if each.reason is not None and each.infeasibility is None]


def _result(posed_sweep: Posed[WaferOptions, Any], points: Sequence[Point], seed: int) -> Result:
    costs = [each.cost.total for each in points if each.cost is not None]
    bounds = [each.bound for each in points if each.infeasibility is None]
    known = [each for each in bounds if each is not None]
    return result_of(
        "wafer",
        posed_sweep,
        value=min(costs, default=None),
        bound=min(known) if known and len(known) == len(bounds) else None,
        solution={"points": {name_of(each.setting): point_document(each).model_dump() for each in points}}
        if costs
        else {},
        metrics={
            "points": len(points),
            "infeasible": sum(each.infeasibility is not None for each in points),
            "front": [name_of(each.setting) for each in points if each.front],
            "unfinished": _missing(points),
        },
        infeasibility=None if bounds else Infeasibility.of(infeasibility(points)),
        seed=seed,
        method=posed_sweep.options.method,
    )


def points_table(result: Result) -> pa.Table:
    """One row per point, without the placements."""
    points = result.solution["points"]
    rows = [{key: value for key, value in each.items() if key != "kernels"} for each in points.values()]
    return pa.Table.from_pylist(rows).add_column(0, "point", pa.array(list(points), pa.string()))


def infeasibility(points: Sequence[Point]) -> dict[str, Any]:
    """Why no point has a placement: the proof of the largest of them."""
    largest = max(points, key=lambda each: (each.problem.wafer.tiles, each.problem.wafer.memory_words))
    proof = largest.infeasibility or {}
    where = "" if len(points) == 1 else f"on none of the {len(points)} wafers; with {name_of(largest.setting)}: "
    return {**proof, "explanation": f"{where}{proof['explanation']}"}
