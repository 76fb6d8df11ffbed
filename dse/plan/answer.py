"""From a problem to the best plan, what would change it, or why nothing fits."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from dse.plan.bound import min_step_s
from dse.plan.check import metrics_of, violations
from dse.plan.check_costs import plan_costs
from dse.plan.constraints import CONSTRAINTS, relaxed
from dse.plan.intervals import documents as interval_documents
from dse.plan.options import opened
from dse.plan.problem import PlanProblem
from dse.plan.rules import context_widths, pipeline_depths, tensor_widths
from dse.plan.search.enumeration import Enumerated, Priced, enumerate_plans, fastest_plan
from dse.plan.search.nearest_devices import nearest_devices
from dse.plan.stack_range import steps_by_stack
from dse.plan.training_plan import CHOSEN_KEYS, USUAL_ORDER
from dse.report.units import memory_text, needed_memory_text, time_text
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError, digest
from dse.run.progress import StoppedError, StopSignal, ask, never_stop
from dse.run.remembered import Remembered
from hardware.inputs import fail
from hardware.network import Network

PLAIN: Mapping[str, Any] = {
    "tensor": 1,
    "sequence_parallel": False,
    "context": 1,
    "expert": 1,
    "pipeline": 1,
    "interleave": 1,
    "zero": 0,
    "zero_copies": 1,
    "order": USUAL_ORDER,
    "recompute": "none",
}
"""Each part of the vocabulary as it is without it."""


_ROUNDING = 1e-9


@dataclass(frozen=True)
class PlanAnswer:
    """What a search says.

    Attributes:
        matching: of the plans that have what is fixed.
        every: of all plans on the same machine; None where they were not searched.
    """

    matching: Enumerated
    every: Enumerated | None

    @property
    def evaluations(self) -> int:
        """Plans that were priced."""
        others = 0 if self.every is None or self.every is self.matching else self.every.priced
        return self.matching.priced + others

    @property
    def other(self) -> Priced | None:
        """The best of all plans, where they were searched to the end and one fits."""
        return None if self.every is None or self.every.stopped is not None else self.every.best


_ENUMERATED: Remembered[Enumerated] = Remembered(64, lambda outcome: outcome.stopped is None)
"""Of the last problems, by their digests."""

_FASTEST: Remembered[Enumerated] = Remembered(64, lambda outcome: outcome.stopped is None)
"""Of the last problems of which the fastest plan alone was searched for."""

_AMONG: Remembered[Enumerated] = Remembered(16, lambda outcome: outcome.stopped is None)
"""Of the last searches for plans of so many devices that are faster than a known one."""


def enumerated(problem: PlanProblem, stop: StopSignal = never_stop) -> Enumerated:
    """All plans of a problem; the last ones are remembered, as a check asks for them again."""
    return _ENUMERATED.get(digest(problem.document()), lambda: enumerate_plans(problem, stop))


def solve(problem: PlanProblem, stop: StopSignal = never_stop) -> PlanAnswer:
    """The best plan, proven by pricing or ruling out every one; the best so far where ``stop`` gives a reason.

    Where none fits that has what is fixed, also the best of all plans; of these, those until ``stop`` gives a reason.

    Raises:
        InputError: no plan keeps the rules.
    """
    outcome = enumerated(problem, stop)
    if outcome.least is None:
        raise nothing_legal(problem)
    free = opened(problem)
    needs_others = outcome.stopped is None and outcome.best is None and free.fixed != problem.fixed
    return PlanAnswer(outcome, enumerated(free, stop) if needs_others else None)


def compared(problem: PlanProblem, stop: StopSignal = never_stop) -> PlanAnswer:
    """The best plan with the fixed keys, and the best of all plans; both as found until ``stop`` gives a reason.

    Raises:
        InputError: no plan keeps the rules.
    """
    outcome = enumerated(problem, stop)
    if outcome.least is None:
        raise nothing_legal(problem)
    return PlanAnswer(outcome, None if outcome.stopped is not None else enumerated(opened(problem), stop))


def without_parts(problem: PlanProblem, best: Priced, stop: StopSignal = never_stop) -> dict[str, float | None]:
    """The best step without each part of the vocabulary that ``best`` uses; None where nothing fits then.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    fixed = dict(problem.fixed)
    steps: dict[str, float | None] = {}
    for key, value in PLAIN.items():
        if key not in fixed and getattr(best.plan, key) != value:
            ask(stop)
            free = opened(problem, **{**fixed, key: value})
            fastest = _whole(_FASTEST.get(digest(free.document()), partial(fastest_plan, free, stop))).best
            steps[key] = None if fastest is None else fastest.step_s
    return steps


def without_constraints(problem: PlanProblem, best: Priced, stop: StopSignal = never_stop) -> dict[str, Priced]:
    """The best plan without each practical constraint; ``best`` itself where none is faster.

    Raises:
        StoppedError: ``stop`` gave a reason.
        FailedCheckError: a fault of this program.
    """
    after = {}
    for name in CONSTRAINTS:
        ask(stop)
        free = relaxed(problem, name)
        faster = _faster_without(free, _min_devices(problem, best.step_s), best.step_s, stop).best
        after[name] = best if faster is None or faster.step_s >= best.step_s else faster
        faults = violations(free, after[name].plan, after[name].step_s)
        if faults:
            raise FailedCheckError("; ".join(faults))
    return after


def _min_devices(problem: PlanProblem, step_s: float) -> int:
    """The fewest devices whose linear layers alone take less than ``step_s``."""
    return max(1, math.ceil(problem.devices * min_step_s(problem) / step_s * (1 - _ROUNDING)))


def _faster_without(free: PlanProblem, min_devices: int, below_s: float, stop: StopSignal) -> Enumerated:
    key = digest(free.document()), min_devices, below_s
    return _whole(_AMONG.get(key, lambda: enumerate_plans(free, stop, min_devices, below_s)))


def _whole(outcome: Enumerated) -> Enumerated:
    """``outcome``; StoppedError where it was cut short."""
    if outcome.stopped is not None:
        raise StoppedError(outcome.stopped)
    return outcome


def after_changes(problem: PlanProblem, stop: StopSignal = never_stop) -> dict[str, Priced | None]:
    """The best plan after each change of the machine or the batch; None where nothing fits then.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    after = {}
    for label, change in CHANGES.items():
        ask(stop)
        after[label] = _whole(enumerated(change(problem), stop)).best
    return after


def _with_chip(problem: PlanProblem, **rates: Any) -> PlanProblem:
    chip = replace(problem.system.chip, **rates)
    return replace(problem, system=replace(problem.system, chip=chip))


def _faster_products(problem: PlanProblem) -> PlanProblem:
    return _with_chip(problem, peak_flops={key: 2 * rate for key, rate in problem.system.chip.peak_flops.items()})


def _with_network(problem: PlanProblem, network: Network) -> PlanProblem:
    return replace(problem, system=replace(problem.system, network=network))


def _outer_links_faster(problem: PlanProblem) -> PlanProblem:
    network = problem.system.network
    return _with_network(problem, replace(network, bytes_per_s=2 * network.bytes_per_s))


def _inner_links_faster(problem: PlanProblem) -> PlanProblem:
    """All levels inside the outermost; a flat network as it is."""
    network = problem.system.network
    if network.inner is None:
        return problem
    return _with_network(problem, replace(network, inner=_all_links_faster(network.inner)))


def _all_links_faster(network: Network) -> Network:
    inner = None if network.inner is None else _all_links_faster(network.inner)
    return replace(network, bytes_per_s=2 * network.bytes_per_s, inner=inner)


CHANGES: Mapping[str, Callable[[PlanProblem], PlanProblem]] = {
    "matrix products twice as fast": _faster_products,
    "memory twice as fast": lambda problem: _with_chip(
        problem, hbm_bytes_per_s=2 * problem.system.chip.hbm_bytes_per_s
    ),
    "twice the memory": lambda problem: _with_chip(problem, hbm_bytes=2 * problem.system.chip.hbm_bytes),
    "links in a node twice as fast": _inner_links_faster,
    "links between nodes twice as fast": _outer_links_faster,
    "twice the batch": lambda problem: replace(problem, global_batch=2 * problem.global_batch),
}
"""What ``--sensitivity`` changes, one at a time."""


def nothing_legal(problem: PlanProblem) -> Exception:
    """What is wrong with a problem where no plan keeps the rules."""
    devices = nearest_devices(problem)
    hint = None if devices is None else str(devices)
    text = ",".join(f"{key}={value}" for key, value in problem.fixed if key in CHOSEN_KEYS)
    sizes = _undivided(problem)
    listed = " or ".join(f"{size:,}" for size in sizes[:4]) + (" …" if len(sizes) > 4 else "")
    if text and sizes:
        rule = f"must be a multiple of {listed} (data · microbatch of this plan on {problem.devices:,} devices)"
        batches = (max(1, round(problem.global_batch / size)) * size for size in sizes)
        nearest = min(batches, key=lambda batch: abs(math.log(batch / problem.global_batch)))
        return fail("--global-batch", "", problem.global_batch, rule, str(nearest))
    if text:
        rule = f"no valid plan has these values on {problem.devices:,} devices with this batch size and sequence length"
        return fail("--plan", "", text, rule, hint and f"--accelerators {hint}")
    rule = f"no plan uses all accelerators with a batch of {problem.global_batch:,}"
    rule += f", which must be a multiple of {listed}" if sizes else ""
    return fail("--accelerators", "", problem.devices, rule, hint)


def _undivided(problem: PlanProblem) -> list[int]:
    """Replicas, times the microbatch, that the other axes leave; none where the batch is a multiple of one of them."""
    fixed = dict(problem.fixed)
    widths = {
        "tensor": tensor_widths(problem),
        "context": context_widths(problem),
        "pipeline": pipeline_depths(problem),
    }
    others = (math.prod(each) for each in product(*([fixed[key]] if key in fixed else widths[key] for key in widths)))
    replicas = sorted({problem.devices // ranks for ranks in others if problem.devices % ranks == 0})
    sizes = [count * fixed.get("microbatch", 1) for count in replicas if fixed.get("data", count) == count]
    return [] if any(problem.global_batch % size == 0 for size in sizes) else sizes


def checked(problem: PlanProblem, answer: PlanAnswer) -> None:
    """Refuse an answer that the checker refuses.

    Raises:
        FailedCheckError: a fault of this program.
    """
    for best, asked in ((answer.matching.best, problem), (answer.other, opened(problem))):
        faults = [] if best is None else violations(asked, best.plan, best.step_s)
        if faults:
            raise FailedCheckError("; ".join(faults))


def metrics(problem: PlanProblem, best: Priced) -> dict[str, Any]:
    """Of the best plan, by the checker's own costs."""
    own = metrics_of(problem, best.plan, plan_costs(problem, best.plan))
    return own | {"intervals": interval_documents(problem, own), "stacks": steps_by_stack(problem, best.plan)}


def none_of(fixed: Iterable[tuple[str, Any]]) -> str:
    """``no plan`` of those that keep what is ``fixed``, in words; a precision is always fixed."""
    keys = [key for key, _ in fixed if key != "precision"]
    return f"no plan with the given {', '.join(keys)}" if keys else "no plan in the vocabulary"


def infeasibility(problem: PlanProblem, answer: PlanAnswer) -> Infeasibility:
    """The proof that no plan fits: the one that needs the least memory needs too much."""
    least, limit = answer.matching.least, problem.usable_bytes
    assert least is not None
    costs = plan_costs(problem, least.plan)
    is_whole = least.plan.is_given_by(dict(problem.fixed))
    need = needed_memory_text(costs.memory_bytes)
    have = f"{memory_text(limit)} of {problem.system.chip.name}"
    have += " that --headroom leaves" if problem.headroom_bytes else ""
    need += " with headroom" if problem.headroom is not None else ""
    sentence = (
        f"the plan needs {need} on its fullest rank, more than the {have}; "
        f"its step would take {time_text(costs.step_s)}"
        if is_whole
        else f"{none_of(problem.fixed)} fits: the smallest, {least.plan.text()}, needs {need}, more than the {have}"
    )
    whole = needed_memory_text(costs.memory_bytes + (problem.headroom_bytes or 0))
    levers = [f"accelerators with at least {whole} of memory each"]
    if answer.other is not None:
        levers.insert(0, f"--plan {answer.other.plan.text()}")
    else:
        levers.append("more accelerators, over which weights and optimizer state are sharded")
    return Infeasibility(
        resource="hbm_bytes",
        demand=costs.memory_bytes,
        limit=float(limit),
        unit="bytes",
        levers=levers,
        explanation=sentence,
        where={"plan": least.plan.document(), "step_s": costs.step_s, "memory_bytes": costs.memory},
    )
