"""Exhaustive search with a proof: best-first over the whole space, pruned by bounds.

Every architecture gets an upper bound on its throughput (level 1 of :mod:`dse.codesign.evaluator`). The most promising
ones are bounded again from exact schedules (level 2) and, if still promising, evaluated exactly (level 3), until no
bound exceeds the best throughput found: then no architecture of the space does better. In the main job level 1 covers
29,360 architectures in seconds and a few dozen reach level 3. An evaluation whose schedules are not proven keeps an
optimistic bound; where the proof hangs on it, its schedules are searched further.

Rounds have a fixed size and are committed in order, so the candidates and the answer do not depend on the number of
workers.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluator import Bound, Evaluate, Evaluator, Refine
from dse.codesign.problem import HBM_TOLERANCE, CodesignProblem, Evaluation, SearchOutcome
from dse.executor import Executor
from dse.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.result import PROOF_TOLERANCE
from hardware.machines import Machines
from hardware.units import gib_from_bytes

_BOUND_SLICE = 4096
_REFINE_ROUND = 64
_REFINE_SLICE = 16
_EVALUATE_ROUND = 8
_FIRST_ROUND = 2
_PROVE_ROUND = 2

_NODES = (100_000, 400_000, 1_600_000, 6_400_000, 25_600_000)
"""States to which the schedules of an evaluation are searched: at first, and each time the proof hangs on them."""

_BOUNDED, _REFINED, _EVALUATED = range(3)
"""What has been done to an architecture; each deeper evaluation adds one."""

_CLOSED = _EVALUATED + len(_NODES)
"""Nothing more can be done: the evaluation is proven, or its schedules were searched to the last limit."""

_TIE = 1e-12
"""Throughputs closer than this (relative) are ties: the rounding of sums of doubles."""

Task = Bound | Refine | Evaluate

EvaluationStore = MutableMapping[Evaluate, Evaluation]
"""Finished evaluations by what was asked: a dict, or one backed by the journal."""


@dataclass
class _State:
    """Throughput bounds by HBM size and architecture, and what has been evaluated."""

    upper_per_s: npt.NDArray[np.float64]
    level: npt.NDArray[np.int8]
    value_per_s: npt.NDArray[np.float64]
    evaluations: dict[int, Evaluation] = field(default_factory=dict)


def search(
    problem: CodesignProblem,
    machines: Machines,
    executor: Executor,
    store: EvaluationStore,
    progress: ProgressCallback = silent,
    stop: StopSignal = never_stop,
) -> SearchOutcome:
    """The best architecture of ``machines`` for ``problem``, with a bound on all others.

    ``stop`` ends the search between two pieces of work, with the best so far and the bound that holds by then.

    Args:
        problem: the job.
        machines: the architectures, in the order in which ties are broken after area.
        executor: where the work runs.
        store: evaluations that are finished already, and where new ones are put.
        progress: told of each phase.
        stop: asked between pieces of work.
    """
    run = _Search(problem, machines, executor, store, progress, stop)
    stopped = None
    try:
        run.bound_all()
        for row in reversed(range(len(problem.hbm_bytes))):
            run.close(row)
    except _StoppedError as reason:
        stopped = str(reason)
    return run.outcome(stopped)


class _StoppedError(Exception):
    """The search was told to stop; the message says why."""


class _Search:
    def __init__(
        self,
        problem: CodesignProblem,
        machines: Machines,
        executor: Executor,
        store: EvaluationStore,
        progress: ProgressCallback,
        stop: StopSignal,
    ) -> None:
        self._problem = problem
        self._machines = machines
        self._executor = executor
        self._store = store
        self._progress = progress
        self._stop = stop
        self._evaluator = Evaluator(problem, machines)
        shape = (len(problem.hbm_bytes), len(machines))
        self._state = _State(
            upper_per_s=np.full(shape, np.inf),
            level=np.full(len(machines), _BOUNDED, dtype=np.int8),
            value_per_s=np.zeros(shape),
        )

    def bound_all(self) -> None:
        """Level 1 over the whole space."""
        # Architectures that share tensor cores and buffer stand together, so that a slice prices few distinct ones.
        of = self._machines
        order = np.lexsort((of.vector_cores, of.global_buffer_bytes, of.core_depth, of.core_width, of.tensor_cores))
        parts = list(_slices(order, _BOUND_SLICE))
        done = 0
        for part, batch_s in zip(parts, self._map([Bound(part) for part in parts]), strict=True):
            self._state.upper_per_s[:, part] = self._problem.global_batch / batch_s
            done += len(part)
            self._progress("bounding architectures", done, len(self._machines))

    def close(self, row: int) -> None:
        """Levels 2 and 3 until the optimum at HBM size ``row`` is proven."""
        state = self._state
        while True:
            open_ = self._promising(row)
            total = len(self._machines)
            size = gib_from_bytes(self._problem.hbm_bytes[row])
            self._progress(f"architectures settled at {size:g} GB", total - len(open_), total)
            if len(open_) == 0:
                return
            # Unproven evaluations wait until nothing new is promising: the best may have risen above them by then.
            new = open_[state.level[open_] < _EVALUATED]
            rough = new[:_REFINE_ROUND][state.level[new[:_REFINE_ROUND]] == _BOUNDED]
            if self._best(row)[0] is None:
                # An early answer prunes most of the space, and is there when the search is stopped.
                self._evaluate_round(open_[:_FIRST_ROUND])
            elif len(rough):
                self._refine_round(rough)
            elif len(new):
                self._evaluate_round(new[:_EVALUATE_ROUND])
            else:
                self._evaluate_round(open_[:_PROVE_ROUND])

    def _promising(self, row: int) -> npt.NDArray[np.int64]:
        """Architectures that may beat the best at this HBM size, most promising first (ties: smaller area first)."""
        state = self._state
        upper = np.where(state.level == _CLOSED, 0.0, state.upper_per_s[row])
        best, best_per_s = self._best(row)
        area = self._machines.area_mm2
        candidates = upper > best_per_s * (1 + _TIE)
        if best is not None:
            ties = (upper >= best_per_s * (1 - _TIE)) & (area < area[best])
            candidates |= ties & (state.value_per_s[row] < upper * (1 - _TIE))
        candidates &= upper > 0
        found = np.flatnonzero(candidates)
        return found[np.lexsort((found, area[found], -upper[found]))]

    def _best(self, row: int) -> tuple[int | None, float]:
        """The best evaluated architecture at this HBM size and its throughput (None, 0 before any)."""
        values = self._state.value_per_s[row]
        best_per_s = float(values.max(initial=0.0))
        if best_per_s <= 0:
            return None, 0.0
        ties = np.flatnonzero(values >= best_per_s * (1 - _TIE))
        area = self._machines.area_mm2[ties]
        return int(ties[np.lexsort((ties, area))[0]]), best_per_s

    def _refine_round(self, indices: npt.NDArray[np.int64]) -> None:
        parts = list(_slices(indices, _REFINE_SLICE))
        for part, batch_s in zip(parts, self._map([Refine(part) for part in parts]), strict=True):
            refined = self._problem.global_batch / batch_s
            self._state.upper_per_s[:, part] = np.minimum(self._state.upper_per_s[:, part], refined)
            self._state.level[part] = _REFINED

    def _evaluate_round(self, indices: npt.NDArray[np.int64]) -> None:
        """Evaluate architectures, each to the limit after its last one."""
        level = np.maximum(self._state.level[indices], _REFINED) + 1
        nodes = [_NODES[depth - _EVALUATED] for depth in level]
        wanted = [Evaluate(int(index), limit) for index, limit in zip(indices, nodes, strict=True)]
        missing = [task for task in wanted if task not in self._store]
        for task, evaluation in zip(missing, self._map(missing), strict=True):
            self._store[task] = evaluation
        for task, depth in zip(wanted, level, strict=True):
            self._commit(self._store[task], int(depth))

    def _commit(self, evaluation: Evaluation, level: int) -> None:
        state, index, batch = self._state, evaluation.architecture, self._problem.global_batch
        state.evaluations[index] = evaluation
        deepest = level == _CLOSED - 1
        state.level[index] = _CLOSED if evaluation.proven or deepest else level
        for row, (plan, bound_s) in enumerate(zip(evaluation.plans, evaluation.bound_s, strict=True)):
            state.value_per_s[row, index] = plan.throughput_per_s(batch) if plan else 0.0
            state.upper_per_s[row, index] = batch / bound_s

    def _map(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """The evaluator's answers to ``tasks``, in order; asks after each whether to stop."""
        for answer in self._executor.map(self._evaluator, tasks):
            yield answer
            reason = self._stop()
            if reason is not None:
                raise _StoppedError(reason)

    def outcome(self, stopped: str | None) -> SearchOutcome:
        """The answer at the smallest HBM size within one per cent of the best, and the bound there."""
        state, sizes = self._state, self._problem.hbm_bytes
        optima = [self._best(row)[1] for row in range(len(sizes))]
        reached = max(optima, default=0.0)
        row = next((r for r in range(len(sizes)) if optima[r] > 0 and optima[r] >= (1 - HBM_TOLERANCE) * reached), -1)
        best, _ = self._best(row)
        plan = state.evaluations[best].plans[row] if best is not None else None
        upper = state.upper_per_s[row]
        return SearchOutcome(
            best=best,
            plan=plan,
            bound_per_s=float(upper.max(initial=0.0)),
            upper_per_s=tuple(upper.tolist()),
            evaluated={index: float(state.value_per_s[row, index]) for index in sorted(state.evaluations)},
            evaluations=len(state.evaluations),
            proven=bool(np.all(state.upper_per_s.max(axis=1, initial=0.0) <= np.array(optima) * (1 + PROOF_TOLERANCE))),
            optimum_by_hbm_per_s={size: optimum for size, optimum in zip(sizes, optima, strict=True) if optimum > 0},
            stopped=stopped,
        )


def _slices(indices: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    return (indices[start : start + size] for start in range(0, len(indices), size))
