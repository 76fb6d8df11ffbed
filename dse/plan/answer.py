"""From a problem to the best plan, what else is worth knowing, or why nothing fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dse.plan.check import metrics_of, violations
from dse.plan.check_costs import plan_costs
from dse.plan.formats import priced_document
from dse.plan.options import opened
from dse.plan.problem import PlanProblem
from dse.plan.search.enumeration import Enumerated, enumerate_plans
from dse.plan.training_plan import KEYS
from dse.report.units import memory_text, needed_memory_text, time_text
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError
from hardware.inputs import fail

PLAIN: Mapping[str, Any] = {
    "tensor": 1,
    "sequence_parallel": False,
    "context": 1,
    "expert": 1,
    "pipeline": 1,
    "interleave": 1,
    "zero": 0,
    "recompute": "none",
}
"""Each part of the vocabulary as it is without it."""


@dataclass(frozen=True)
class PlanAnswer:
    """What a search says.

    Attributes:
        found: of the plans that have what is fixed.
        every: of all plans on the same machine.
        without: the best step without each part of the vocabulary, where that was asked for.
    """

    found: Enumerated
    every: Enumerated
    without: tuple[tuple[str, float | None], ...] = ()

    @property
    def evaluations(self) -> int:
        """Plans that were priced."""
        return self.found.count if self.found is self.every else self.found.count + self.every.count


class _ByDigest:
    """A problem that is looked up by what it holds."""

    def __init__(self, problem: PlanProblem) -> None:
        from dse.results.result import digest

        self.problem, self._digest = problem, digest(problem.document())

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByDigest) and other._digest == self._digest


def solve(problem: PlanProblem, with_prices: bool) -> PlanAnswer:
    """The best plan, proven by pricing every one; ``with_prices`` also without each part of the vocabulary.

    Raises:
        InputError: no plan keeps the rules.
    """
    return _solve(_ByDigest(problem), with_prices)


@lru_cache(maxsize=8)
def _solve(keyed: _ByDigest, with_prices: bool) -> PlanAnswer:
    problem = keyed.problem
    found = enumerate_plans(problem)
    if found.least is None:
        raise _nothing_legal(problem)
    free = opened(problem)
    every = found if free.fixed == problem.fixed else enumerate_plans(free)
    without: list[tuple[str, float | None]] = []
    if with_prices and found.best is not None:
        for key, value in PLAIN.items():
            if key in dict(problem.fixed) or getattr(found.best.plan, key) == value:
                continue
            best = enumerate_plans(opened(problem, **{**dict(problem.fixed), key: value})).best
            without.append((key, None if best is None else best.step_s))
    return PlanAnswer(found, every, tuple(without))


def _nothing_legal(problem: PlanProblem) -> Exception:
    text = ",".join(f"{key}={value}" for key, value in problem.fixed if key != "precision")
    if text:
        rule = "no plan that keeps the rules has these values on so many devices, at this batch and sequence"
        return fail("--plan", "", text, rule)
    rule = f"no plan uses all {problem.devices:,} devices at this batch"
    return fail("--global-batch", "", problem.global_batch, rule)


def checked(problem: PlanProblem, answer: PlanAnswer) -> None:
    """Refuse an answer that the checker refuses.

    Raises:
        FailedCheckError: a fault of this program.
    """
    for best, asked in ((answer.found.best, problem), (answer.every.best, opened(problem))):
        faults = [] if best is None else violations(asked, best.plan, best.step_s)
        if faults:
            raise FailedCheckError("; ".join(faults))


def metrics(problem: PlanProblem, answer: PlanAnswer, with_prices: bool) -> dict[str, Any]:
    """Of the best plan; of what else was found."""
    best, every = answer.found.best, answer.every.best
    assert best is not None
    assert every is not None
    own: dict[str, Any] = metrics_of(problem, best.plan, plan_costs(problem, best.plan))
    if not with_prices:
        return own | {"best": priced_document(every)}
    front = [priced_document(priced) for priced in answer.found.front]
    return own | {"pareto": front, "without": dict(answer.without)}


def infeasibility(problem: PlanProblem, answer: PlanAnswer) -> Infeasibility:
    """The proof that no plan fits: the one that needs the least memory needs too much."""
    least, limit = answer.found.least, problem.system.chip.hbm_bytes
    assert least is not None
    costs = plan_costs(problem, least.plan)
    is_whole = {*KEYS} <= {key for key, _ in problem.fixed}
    need = needed_memory_text(costs.memory_bytes)
    have = f"{memory_text(limit)} of {problem.system.chip.name}"
    sentence = (
        f"the plan needs {need} on its fullest rank, more than the {have}; "
        f"its step would take {time_text(costs.step_s)}"
        if is_whole
        else f"no plan of this vocabulary fits: the least, {least.plan.text()}, needs {need}, more than the {have}"
    )
    levers = [f"accelerators with at least {need} of memory each"]
    if answer.every.best is not None:
        levers.insert(0, f"--plan {answer.every.best.plan.text()}")
    else:
        levers.append("more accelerators, which share the state of weights")
    return Infeasibility(
        resource="hbm_bytes",
        demand=costs.memory_bytes,
        limit=float(limit),
        unit="bytes",
        levers=levers,
        explanation=sentence,
        where={"plan": least.plan.document(), "step_s": costs.step_s, "memory_bytes": costs.memory},
    )
