"""Exhaustive search with a proof: best-first over the whole space, pruned by bounds.

Every architecture gets an upper bound on its score (:meth:`dse.codesign.evaluation.evaluator.Evaluator.bound`, for
every job). The most promising ones are evaluated exactly, until no bound exceeds the best score found: then no
architecture of the space does better. In the main job 59,748 architectures are bounded in seconds and a few dozen are
evaluated. An evaluation whose schedules are not proven keeps an optimistic bound; where the proof hangs on it, its
schedules are searched further, four times as far each time, until that brings almost nothing.

With several jobs an architecture is taken further one job at a time, those with the fewest graphs first: often it is
out before its most expensive job is looked at.

Rounds have a fixed size and are committed in order, so the candidates and the answer do not depend on the number of
workers.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate
from dse.codesign.evaluation.job_evaluators import BoundTask, JobEvaluators, JobTask, bound_tasks
from dse.codesign.problem import CodesignProblem, Evaluation, SearchOutcome
from dse.codesign.search.choice import TIE, best_architecture, chosen_size, optima_of
from dse.results.result import PROOF_TOLERANCE
from dse.run.progress import StoppedError
from hardware.machines import Machines
from hardware.units import gib_from_bytes

_EVALUATE_ROUND = 8
_FIRST_ROUND = 2
_PROVE_ROUND = 2

NODES = (100_000, 400_000, 1_600_000, 6_400_000, 25_600_000)
"""States to which the schedules of an evaluation are searched: at first, and each time the proof hangs on them."""

_BOUNDED, _EVALUATED = range(2)
"""What has been done to an architecture for a job; each deeper evaluation adds one."""

_CLOSED = _EVALUATED + len(NODES)
"""Nothing more can be done: the evaluation is proven, or its schedules were searched to the last limit."""

_HOPELESS = 0.7
"""An evaluation is searched no further once a deeper search leaves more than this share of the gap it found."""

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class _State:
    """What is known, by job [M], HBM size [H] and architecture [A].

    ``upper`` [M, H, A] and ``value`` [M, H, A] are bounds on and values of each job's part in the objective, ``level``
    [M, A] what was done, ``score_upper`` and ``score`` [H, A] the objective's means of them.
    """

    upper: Floats
    value: Floats
    level: npt.NDArray[np.int8]
    score_upper: Floats
    score: Floats
    evaluations: dict[tuple[int, int], Evaluation] = field(default_factory=dict)
    order: dict[int, None] = field(default_factory=dict)


def search(context: SearchContext) -> SearchOutcome:
    """The best architecture of the space for the problem, with a bound on all others.

    Where ``context`` is told to stop, the best so far and the bound that holds by then.
    """
    run = _Search(context)
    stopped = None
    try:
        run.bound_all()
        for row in reversed(range(len(context.problem.hbm_bytes))):
            run.close(row)
    except StoppedError as reason:
        stopped = str(reason)
    return run.outcome(stopped)


def upper_bounds(context: SearchContext) -> Floats:
    """Upper bounds on the score of every architecture for each HBM size, [H, A]: no evaluation.

    Where ``context`` is told to stop, some bounds are infinite.
    """
    run = _Search(context)
    with suppress(StoppedError):
        run.bound_all()
    return run.score_upper


class _Search:
    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._problem, self._machines = problem, machines = context.problem, context.machines
        self._evaluators = JobEvaluators(problem, machines, stop=context.stop)
        jobs, sizes, count = len(problem.jobs), len(problem.hbm_bytes), len(machines)
        self._state = _State(
            upper=np.full((jobs, sizes, count), np.inf),
            value=np.zeros((jobs, sizes, count)),
            level=np.full((jobs, count), _BOUNDED, dtype=np.int8),
            score_upper=np.full((sizes, count), np.inf),
            score=np.zeros((sizes, count)),
        )
        effort = [len(job.microbatch_sizes) * len(job.tensor_parallel) for job in problem.jobs]
        self._cheapest_first = sorted(range(jobs), key=lambda job: (effort[job], job))

    def bound_all(self) -> None:
        """Bounds over the whole space, for every job."""
        asked = bound_tasks(self._machines, self._cheapest_first)
        total = len(self._problem.jobs) * len(self._machines)
        done = 0
        for task, bounds in zip(asked, self._map(asked), strict=True):
            done += self._lower(task, bounds)
            self._context.progress("bounding architectures", done, total)
        self._rescore(np.arange(len(self._machines)))

    @property
    def score_upper(self) -> Floats:
        """Upper bounds on the score by now, [H, A]."""
        return self._state.score_upper

    def close(self, row: int) -> None:
        """Evaluations until the optimum at HBM size ``row`` is proven."""
        state = self._state
        while True:
            open_ = self._promising(row)
            total = len(self._machines)
            size = gib_from_bytes(self._problem.hbm_bytes[row])
            self._context.progress(f"architectures settled at {size:g} GB", total - len(open_), total)
            if len(open_) == 0:
                return
            # Unproven evaluations wait until nothing new is promising: the best may have risen above them by then.
            new = open_[(state.level[:, open_] < _EVALUATED).any(axis=0)]
            if self._best(row)[0] is None:
                # An early answer prunes most of the space, and is there when the search is stopped.
                first = open_[:_FIRST_ROUND]
                self._evaluate([(job, int(index)) for job in self._cheapest_first for index in first])
            elif len(new):
                self._evaluate([(self._next_job(index), int(index)) for index in new[:_EVALUATE_ROUND]])
            else:
                self._evaluate([(self._loosest_job(row, index), int(index)) for index in open_[:_PROVE_ROUND]])

    def _next_job(self, index: int) -> int:
        """The cheapest job for which the architecture has not been evaluated."""
        return next(job for job in self._cheapest_first if self._state.level[job, index] < _EVALUATED)

    def _loosest_job(self, row: int, index: int) -> int:
        """The job, not closed yet, whose bound is furthest from its value on the architecture."""
        state = self._state
        return max(
            (job for job in self._cheapest_first if state.level[job, index] < _CLOSED),
            key=lambda job: state.upper[job, row, index] / max(state.value[job, row, index], np.finfo(float).tiny),
        )

    def _promising(self, row: int) -> Indices:
        """Architectures that may beat the best at this HBM size, most promising first (ties: smaller area first)."""
        state = self._state
        upper = np.where((state.level == _CLOSED).all(axis=0), 0.0, state.score_upper[row])
        best, best_score = self._best(row)
        area = self._machines.area_mm2
        candidates = upper > best_score * (1 + TIE)
        if best is not None:
            ties = (upper >= best_score * (1 - TIE)) & (area < area[best])
            candidates |= ties & (state.score[row] < upper * (1 - TIE))
        candidates &= upper > 0
        chosen = np.flatnonzero(candidates)
        return chosen[np.lexsort((chosen, area[chosen], -upper[chosen]))]

    def _best(self, row: int) -> tuple[int | None, float]:
        """The best evaluated architecture at this HBM size and its score (None, 0 before any)."""
        return best_architecture(self._state.score[row], self._machines.area_mm2)

    def _lower(self, asked: BoundTask, bounds: Floats) -> int:
        """Set the upper bounds of a job to what the evaluator's answer gives; how many architectures."""
        indices = asked.task.indices
        self._state.upper[asked.job][:, indices] = self._evaluators.upper_values(asked.job, indices, bounds)
        return len(indices)

    def _evaluate(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Evaluate architectures for jobs, each to the limit after its last one."""
        level = [int(self._state.level[job, index]) + 1 for job, index in pairs]
        wanted = [
            JobTask(job, Evaluate(index, NODES[depth - _EVALUATED]))
            for (job, index), depth in zip(pairs, level, strict=True)
        ]
        context = self._context
        missing = [task for task in wanted if task not in context.store]
        context.evaluate(self._evaluators, missing)
        for (job, index), task, depth in zip(pairs, wanted, level, strict=True):
            if task in context.failures:
                # Its bound stands, and so may keep the answer from being proven.
                self._state.level[job, index] = _CLOSED
            else:
                self._commit(job, context.store[task], depth)
        self._rescore(np.array([index for _, index in pairs]))

    def _commit(self, job: int, evaluation: Evaluation, level: int) -> None:
        state, index = self._state, evaluation.architecture
        state.evaluations[job, index] = evaluation
        state.order.setdefault(index)
        value, upper = self._evaluators.values(job, evaluation)
        # Where four times the states brought almost nothing, more of them would not close the gap either.
        before = _widest_gap(state.value[job, :, index], state.upper[job, :, index])
        hopeless = level > _EVALUATED and _widest_gap(value, upper) > _HOPELESS * before
        done = evaluation.proven or hopeless or level == _CLOSED - 1
        state.level[job, index] = _CLOSED if done else level
        state.value[job, :, index], state.upper[job, :, index] = value, upper

    def _rescore(self, indices: Indices) -> None:
        state, objective = self._state, self._problem.objective
        state.score_upper[:, indices] = objective.score(state.upper[:, :, indices])
        state.score[:, indices] = objective.score(state.value[:, :, indices])

    def _map(self, tasks: Sequence[JobTask]) -> Iterator[Any]:
        """The evaluators' answers to ``tasks``, in order; asks after each whether to stop."""
        return self._context.executor.map(self._evaluators, tasks, self._context.stop)

    def outcome(self, stopped: str | None) -> SearchOutcome:
        """The answer at the smallest HBM size within one per cent of the best, and the bound there."""
        state, sizes = self._state, self._problem.hbm_bytes
        optima = optima_of(self._problem, [self._best(row) for row in range(len(sizes))], state.evaluations)
        scores = [optima[size].score if size in optima else 0.0 for size in sizes]
        row = chosen_size(scores)
        answer = optima.get(sizes[row])
        upper = state.score_upper[row]
        return SearchOutcome(
            best=None if answer is None else answer.architecture,
            plans=() if answer is None else answer.plans,
            bound=float(upper.max(initial=0.0)),
            upper=tuple(upper.tolist()),
            evaluated={
                index: float(state.score[row, index])
                for index in state.order
                if all((job, index) in state.evaluations for job in range(len(self._problem.jobs)))
            },
            evaluations=len(state.evaluations),
            proven=bool(np.all(state.score_upper.max(axis=1, initial=0.0) <= np.array(scores) * (1 + PROOF_TOLERANCE))),
            optima=optima,
            stopped=stopped,
        )


def _widest_gap(value: Floats, upper: Floats) -> float:
    """The largest relative gap between a value and the bound on it, over the HBM sizes at which something fits; [H]."""
    fits = value > 0
    return float(np.max(upper[fits] / value[fits] - 1, initial=0.0))


def predicted_seconds(problem: CodesignProblem, machines: Machines) -> float:
    """A rough prediction of the search's work on one core, to decide whether starting Ray pays.

    Bounding took 0.03 ms an architecture and graph where this was measured. With tensor parallelism, collectives that
    overlap weight gradients make schedules that take minutes to prove.
    """
    graphs = sum(len(job.microbatch_sizes) * len(job.tensor_parallel) for job in problem.jobs)
    deep = any(max(job.tensor_parallel) > 1 for job in problem.jobs) and len(machines) > 1
    return 3e-5 * len(machines) * graphs + (60.0 if deep else 0.0)
