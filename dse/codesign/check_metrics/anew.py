"""Named architectures evaluated anew, as deep as their schedules were searched, or as deep as a check can afford.

Every architecture is evaluated to the least depth, and to the depth that is stated within an :class:`Allowance` of
states: schedules that resist a proof take minutes for one architecture, and a check should not last as long as a
search. What the allowance does not cover is only confined: by the score at the least depth from below, by the bound
there from above.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

LEAST_DEPTH = NODES[0]
"""States to which everything is evaluated: milliseconds an architecture."""

AFFORDED_STATES = 5_000_000
"""States of an :class:`Allowance`: half a minute for the 297 points of BERT-large; at most one for those of GPT2-XL."""

DEEPEST = 100_000
"""No evaluation goes deeper."""

_OPEN = 3
"""How much more a state costs where nothing is proven in the end, so that all of them are searched."""

_EXACT = 4
"""How much less it costs where all is proven at the least depth, so that hardly any of them are."""


class Allowance:
    """How many states deeper evaluations may still search; each counts with its limits, as far as it will need them."""

    def __init__(self, states: int = AFFORDED_STATES) -> None:
        self._left = states

    def grants(self, states: int) -> bool:
        """Whether so many states are left; if so, they are spent."""
        if states > self._left:
            return False
        self._left -= states
        return True


@dataclass(frozen=True)
class Asked:
    """An architecture at one HBM size, and the states to which the schedules of each job were searched.

    ``proven``: whether its plans are said to be proven then.
    """

    place: int
    row: int
    depths: Depths
    proven: bool = True


@dataclass(frozen=True)
class Found:
    """What an architecture scores.

    Attributes:
        evaluations: one for each job.
        scores: for each HBM size, [H]; 0 where nothing fits.
        most: upper bounds on what it scores, [H].
        exact: whether the plans at the HBM size that was asked for are proven to be the fastest.
        complete: whether the evaluation is as deep as was asked for.
        rises: whether a deeper evaluation never scores less; a faster plan may need more energy a sample.
    """

    evaluations: tuple[Evaluation, ...]
    scores: Floats
    most: Floats
    exact: bool
    complete: bool
    rises: bool

    def plans(self, row: int) -> tuple[TrainingPlan, ...]:
        """The plan of each job at an HBM size; fewer where some do not fit."""
        return tuple(plan for evaluation in self.evaluations if (plan := evaluation.plans[row]) is not None)

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """The least and the most that the architecture may score at the depth that was asked for, each [H]."""
        if self.complete:
            return self.scores, self.scores
        return self.scores if self.rises else np.zeros_like(self.scores), self.most

    def faults(self, where: str, score: float, row: int) -> list[str]:
        """What is wrong with ``score`` at an HBM size; if not complete, whether it may be right."""
        least, most = (float(limit[row]) for limit in self.limits)
        if least * (1 - PROOF_TOLERANCE) <= score <= most * (1 + PROOF_TOLERANCE):
            return []
        expected = f"{least}" if self.complete else f"in [{least}, {most}]"
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


class Anew:
    """Evaluates architectures of one problem, each once.

    Args:
        problem: the jobs and the objective.
        machines: the architectures, in the order in which :class:`Asked` names them.
        allowance: for deeper evaluations of what is not proven at the least depth.
    """

    def __init__(self, problem: CodesignProblem, machines: Machines, allowance: Allowance) -> None:
        self.problem = problem
        self.evaluators = CheckedEvaluators(problem, machines)
        self._jobs = range(len(problem.jobs))
        self._allowance = allowance
        self._known: dict[tuple[int, int, int], Evaluation] = {}

    def find(self, asked: Sequence[Asked]) -> list[Found]:
        """What each of ``asked`` scores."""
        rough = self.shallow(asked)
        deeper = [each for each, found in zip(asked, rough, strict=True) if self._affords(each, found.exact)]
        self._evaluate([(each.place, each.depths) for each in deeper])
        chosen = set(deeper)
        return [
            self._found(each, each.depths) if each in chosen else found
            for each, found in zip(asked, rough, strict=True)
        ]

    def _affords(self, asked: Asked, exact: bool) -> bool:
        """Whether there is a deeper evaluation to make, and the allowance has it."""
        if not LEAST_DEPTH < max(asked.depths) <= DEEPEST:
            return False
        if all((job, asked.place, nodes) in self._known for job, nodes in zip(self._jobs, asked.depths, strict=True)):
            return True
        states = sum(asked.depths)
        return self._allowance.grants(states // _EXACT if exact else states if asked.proven else _OPEN * states)

    def shallow(self, asked: Sequence[Asked]) -> list[Found]:
        """What each of ``asked`` scores at the least depth."""
        depths = [tuple(min(LEAST_DEPTH, nodes) for nodes in each.depths) for each in asked]
        self._evaluate([(each.place, limited) for each, limited in zip(asked, depths, strict=True)])
        return [self._found(each, limited) for each, limited in zip(asked, depths, strict=True)]

    def needless(self, asked: Asked, depths: Sequence[int]) -> bool:
        """Whether some job was proven, at every HBM size, before it was searched as deep as it is said to be.

        ``depths`` are those to which the search goes, one after the other, while an evaluation is not proven.
        """
        before = [depths[depths.index(nodes) - 1] if nodes in depths[1:] else nodes for nodes in asked.depths]
        (found,) = self.find([Asked(asked.place, asked.row, tuple(before), proven=False)])
        return any(
            less < nodes and evaluation.proven
            for less, nodes, evaluation in zip(before, asked.depths, found.evaluations, strict=True)
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

    def _found(self, asked: Asked, depths: Depths) -> Found:
        pairs = zip(self._jobs, depths, strict=True)
        evaluations = tuple(self._known[job, asked.place, nodes] for job, nodes in pairs)
        values = [self.evaluators.values(job, evaluation) for job, evaluation in enumerate(evaluations)]
        score = self.problem.objective.score
        return Found(
            evaluations=evaluations,
            scores=score(np.array([value for value, _ in values])),
            most=score(np.array([most for _, most in values])),
            exact=all(_exact(evaluation, asked.row) for evaluation in evaluations),
            complete=depths == asked.depths,
            rises=self.problem.objective.per != "per-watt",
        )


def position(machines: Machines, sizes: Mapping[str, Any]) -> int | None:
    """Where the one architecture of these sizes, by name, stands in ``machines``; None where it does not."""
    names = ("tensor_cores", "vector_cores", "core_width", "core_depth", "vector_lanes", "global_buffer_bytes")
    same = np.flatnonzero(np.logical_and.reduce([getattr(machines, name) == sizes[name] for name in names]))
    return int(same[0]) if len(same) == 1 else None


def _exact(evaluation: Evaluation, row: int) -> bool:
    plan = evaluation.plans[row]
    return plan is None or evaluation.bound_s[row] >= plan.placement.batch_s * (1 - PROOF_TOLERANCE)
