"""Named architectures evaluated again, as deep as their schedules were searched, or as deep as a check can afford.

Every architecture is evaluated to the smallest depth, and to the depth that is stated within an :class:`Allowance` of
states: schedules that resist a proof take minutes for one architecture, and a check should not last as long as a
search. What the allowance does not cover is only confined: by the score at the smallest depth from below, by the bound
there from above.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.codesign.check_energy import checked_energy
from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.pareto.front import NODES
from dse.codesign.problem import CodesignProblem, Evaluation, TrainingPlan
from dse.results.result import PROOF_TOLERANCE
from hardware.machines import Machines

Floats = npt.NDArray[np.float64]
Depths = tuple[int, ...]

MIN_DEPTH = NODES[0]
"""States to which everything is evaluated: milliseconds an architecture."""

AFFORDED_STATES = 5_000_000
"""States of an :class:`Allowance`: half a minute for the 297 points of BERT-large; at most one for those of GPT2-XL."""

MAX_DEPTH = 100_000
"""No evaluation goes deeper."""

_OPEN = 3
"""How much more a state costs where nothing is proven in the end, so that all of them are searched."""

_EXACT = 4
"""How much less it costs where all is proven at the smallest depth, so that hardly any of them are."""


class Allowance:
    """How many states deeper evaluations may still search; each counts with the limits that it will need."""

    def __init__(self, states: int = AFFORDED_STATES) -> None:
        self._left = states

    def grants(self, states: int) -> bool:
        """Whether so many states are left; if so, they are spent."""
        if states > self._left:
            return False
        self._left -= states
        return True


@dataclass(frozen=True)
class Request:
    """An architecture at one HBM size, and the states to which the schedules of each job were searched.

    ``proven``: whether its plans are said to be proven then.
    """

    place: int
    row: int
    depths: Depths
    proven: bool = True


@dataclass(frozen=True)
class Reevaluation:
    """What an architecture scores.

    Attributes:
        evaluations: one for each job.
        scores: for each HBM size, [H]; 0 where nothing fits.
        upper: upper bounds on what it scores, [H].
        exact: whether the plans at the HBM size of the request are proven to be the fastest.
        complete: whether the evaluation is as deep as the request.
        rises: whether a deeper evaluation never scores less; a faster plan may need more energy a sample.
    """

    evaluations: tuple[Evaluation, ...]
    scores: Floats
    upper: Floats
    exact: bool
    complete: bool
    rises: bool

    def plans(self, row: int) -> tuple[TrainingPlan, ...]:
        """The plan of each job at an HBM size; fewer where some do not fit."""
        return tuple(plan for evaluation in self.evaluations if (plan := evaluation.plans[row]) is not None)

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """Lower and upper limits on what the architecture scores at the depth of the request, each [H]."""
        if self.complete:
            return self.scores, self.scores
        return self.scores if self.rises else np.zeros_like(self.scores), self.upper

    def faults(self, where: str, score: float, row: int) -> list[str]:
        """What is wrong with ``score`` at an HBM size; if not complete, whether it may be right."""
        lower, upper = (float(limit[row]) for limit in self.limits)
        if lower * (1 - PROOF_TOLERANCE) <= score <= upper * (1 + PROOF_TOLERANCE):
            return []
        expected = f"{lower}" if self.complete else f"in [{lower}, {upper}]"
        return [f"{where} must be {expected}, but got {score}"]


class CheckedEvaluators(JobEvaluators):
    """Evaluators that count the energy of a plan as the checker does."""

    def samples_per_j(self, job: int, index: int, plan: TrainingPlan | None) -> float:
        """Samples a joule by :func:`dse.codesign.check_energy.checked_energy`."""
        if plan is None:
            return 0.0
        choices = plan.microbatch, plan.hbm_bytes, plan.recompute
        machine = self.machines.one(index)
        return (
            1 / checked_energy(self.problem.jobs[job], machine, plan.placement, choices, self.energy).joules_per_sample
        )


class Reevaluator:
    """Evaluates architectures of one problem, each once.

    Args:
        problem: the jobs and the objective.
        machines: the architectures, in the order in which :class:`Request` names them.
        allowance: for deeper evaluations of what is not proven at the smallest depth.
    """

    def __init__(self, problem: CodesignProblem, machines: Machines, allowance: Allowance) -> None:
        self.problem = problem
        self.evaluators = CheckedEvaluators(problem, machines)
        self._jobs = range(len(problem.jobs))
        self._allowance = allowance
        self._known: dict[tuple[int, int, int], Evaluation] = {}

    def evaluate(self, requests: Sequence[Request]) -> list[Reevaluation]:
        """What each of ``requests`` scores."""
        rough = self.shallow(requests)
        deeper = [each for each, shallow in zip(requests, rough, strict=True) if self._affords(each, shallow.exact)]
        self._evaluate([(each.place, each.depths) for each in deeper])
        chosen = set(deeper)
        return [
            self._reevaluation(each, each.depths) if each in chosen else shallow
            for each, shallow in zip(requests, rough, strict=True)
        ]

    def _affords(self, request: Request, exact: bool) -> bool:
        """Whether there is a deeper evaluation to make, and the allowance has it."""
        if not MIN_DEPTH < max(request.depths) <= MAX_DEPTH:
            return False
        depths = zip(self._jobs, request.depths, strict=True)
        if all((job, request.place, nodes) in self._known for job, nodes in depths):
            return True
        states = sum(request.depths)
        return self._allowance.grants(states // _EXACT if exact else states if request.proven else _OPEN * states)

    def shallow(self, requests: Sequence[Request]) -> list[Reevaluation]:
        """What each of ``requests`` scores at the smallest depth."""
        depths = [tuple(min(MIN_DEPTH, nodes) for nodes in each.depths) for each in requests]
        self._evaluate([(each.place, limited) for each, limited in zip(requests, depths, strict=True)])
        return [self._reevaluation(each, limited) for each, limited in zip(requests, depths, strict=True)]

    def is_too_deep(self, request: Request, depths: Sequence[int]) -> bool:
        """Whether some job was proven, at every HBM size, before it was searched as deep as it is said to be.

        ``depths`` are those to which the search goes, in sequence, while an evaluation is not proven.
        """
        before = [depths[depths.index(nodes) - 1] if nodes in depths[1:] else nodes for nodes in request.depths]
        (reevaluation,) = self.evaluate([Request(request.place, request.row, tuple(before), proven=False)])
        return any(
            shallower < nodes and evaluation.proven
            for shallower, nodes, evaluation in zip(before, request.depths, reevaluation.evaluations, strict=True)
        )

    def _evaluate(self, wanted: Iterable[tuple[int, Depths]]) -> None:
        """Evaluates architectures for every job to its depth; those of one depth together."""
        missing: dict[tuple[int, int], dict[int, None]] = {}
        for place, depths in wanted:
            for job, nodes in zip(self._jobs, depths, strict=True):
                if (job, place, nodes) not in self._known:
                    missing.setdefault((job, nodes), {})[place] = None
        for (job, nodes), places in missing.items():
            for evaluation in self.evaluators.evaluators[job].evaluate_many(list(places), nodes):
                self._known[job, evaluation.architecture, nodes] = evaluation

    def _reevaluation(self, request: Request, depths: Depths) -> Reevaluation:
        pairs = zip(self._jobs, depths, strict=True)
        evaluations = tuple(self._known[job, request.place, nodes] for job, nodes in pairs)
        values = [self.evaluators.values(job, evaluation) for job, evaluation in enumerate(evaluations)]
        score = self.problem.objective.score
        return Reevaluation(
            evaluations=evaluations,
            scores=score(np.array([value for value, _ in values])),
            upper=score(np.array([upper for _, upper in values])),
            exact=all(_exact(evaluation, request.row) for evaluation in evaluations),
            complete=depths == request.depths,
            rises=self.problem.objective.per != "per-watt",
        )


def _exact(evaluation: Evaluation, row: int) -> bool:
    plan = evaluation.plans[row]
    return plan is None or evaluation.bound_s[row] >= plan.placement.batch_s * (1 - PROOF_TOLERANCE)
