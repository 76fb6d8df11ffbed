"""How sure a prediction is: a 90 % interval from runs that nothing was fitted to, and which of two plans is faster.

An interval comes from the errors of published runs (``intervals.yaml``, which ``python -m benchmarks.intervals``
writes). The logarithm of measured over predicted is divided by a scale,

    s = b(quality) + Σ a(f) · x(f),

where x says how far a problem is from the runs that its stack was fitted to: 1 for a stack that is fitted to no run or
that nobody named, for another chip, and for experts where only dense models were fitted; for longer samples the
doublings of their length.
Runs that are away in as many ways are as near. With n of them, the k-th smallest of |error| / s, k = ⌈0.9 (n + 1)⌉,
times s is the half-width (split conformal prediction; Lei et al., Distribution-Free Predictive Inference for
Regression, 2018, section 2). Of fewer than nine, the largest says too little, and there is no interval.

Two plans on one chip with one stack share most of an error: the rest is what tells them apart (:class:`PairErrors`, of
runs that are away in as many ways).
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from dse.plan.headroom import PARTS as HEADROOM
from dse.plan.problem import PlanProblem
from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import validate
from hardware.spec_fields import StrictModel

LEVEL, MIN_ROWS = 0.9, 9
METHOD = "split conformal, log error over scale"
FILE = "intervals.yaml"

Quality = Literal["A", "B", "C"]
Way = Literal["stack", "chip", "experts", "length"]

WAYS: dict[Way, str] = {
    "stack": "a stack that is fitted to no run, or not named",
    "chip": "another chip than its stack was fitted on",
    "experts": "experts, with a stack fitted to dense models",
    "length": "longer samples than its stack was fitted to",
}

OF_RATE = ("tokens_per_s", "tokens_per_s_per_accelerator", "model_flops_per_accelerator", "mfu")
"""Metrics that are so much in the time of a step."""

_LENGTHS = 2.0
"""Times as long as the longest that a stack was fitted to, beyond which samples count as longer."""

_MIN_SCALE = 0.02
"""Of a logarithm: published steps are rounded, and differ from run to run."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class FittedStack(StrictModel):
    """What the runs that a stack was fitted to cover."""

    chips: tuple[str, ...]
    experts: bool
    sequence: Annotated[int, Field(ge=1)]


class ErrorRow(StrictModel):
    """A run that nothing was fitted to.

    Attributes:
        name, source, quality: of the run.
        away: in which ways it is away, and how far.
        log_error: of measured over predicted seconds.
    """

    name: str
    source: str
    quality: Quality
    away: dict[Way, Amount]
    log_error: Finite


class PairErrors(StrictModel):
    """The difference of log errors of two runs on one chip with one stack that are away in the same ways.

    Attributes:
        away: in how many ways.
        rows: runs that have a partner.
        rms: of the differences.
    """

    away: Annotated[int, Field(ge=0)]
    rows: Annotated[int, Field(ge=0)]
    rms: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Intervals(StrictModel):
    """The content of ``intervals.yaml``.

    Attributes:
        base: scale of a run on a calibrated machine, by quality.
        ways: what each way adds, for each unit of its distance.
        pairs: what tells two plans apart, by the number of ways that they are away in.
        memory: sizes of log errors of memory, ascending.
        stacks: those that are fitted.
        rows: all runs.
    """

    base: dict[Quality, Amount]
    ways: dict[Way, Amount]
    pairs: tuple[PairErrors, ...]
    memory: tuple[Amount, ...]
    stacks: dict[str, FittedStack]
    rows: tuple[ErrorRow, ...]

    def scale(self, quality: Quality, away: dict[Way, float]) -> float:
        """s, of a logarithm."""
        return max(_MIN_SCALE, self.base[quality] + sum(self.ways[way] * far for way, far in away.items()))


class Interval(NamedTuple):
    """What lies between prediction / ``factor`` and prediction · ``factor`` with probability 0.9.

    Attributes:
        factor: None where there is no interval.
        of: the class in words: where the prediction is made.
        rows: runs that are as near.
        reason: why there is none; empty where there is one.
    """

    factor: float | None
    of: str
    rows: int
    reason: str = ""

    def around(self, value: float, max_low: float = math.inf, max_high: float = math.inf) -> tuple[float, float] | None:
        """Both ends, no farther from ``value`` than these factors; None where there is no interval."""
        if self.factor is None:
            return None
        return value / min(self.factor, max_low), value * min(self.factor, max_high)

    def document(self, value: float, max_low: float = math.inf, max_high: float = math.inf) -> dict[str, object]:
        """The same in JSON types."""
        low, high = self.around(value, max_low, max_high) or (None, None)
        document: dict[str, object] = {
            "level": LEVEL,
            "low": low,
            "high": high,
            "class": self.of,
            "rows": self.rows,
            "method": METHOD,
        }
        return document | ({"reason": self.reason} if self.reason else {})


@cache
def intervals() -> Intervals:
    """What is known of errors."""
    with noting(), resources.as_file(resources.files("dse.plan").joinpath(FILE)) as path:
        return validate(Intervals, read_document(path), FILE)


def distance(problem: PlanProblem, stacks: dict[str, FittedStack]) -> dict[Way, float]:
    """In which ways a problem is away from the runs that its stack was fitted to, and how far."""
    known, has_experts = stacks.get(problem.stack.name), problem.model.experts is not None
    away: dict[Way, float] = {}
    if known is None or not problem.stack_is_named:
        away["stack"] = 1.0
        if has_experts:
            away["experts"] = 1.0
        return away
    if problem.system.chip.name not in known.chips:
        away["chip"] = 1.0
    if has_experts and not known.experts:
        away["experts"] = 1.0
    if problem.sequence > _LENGTHS * known.sequence:
        away["length"] = math.log2(problem.sequence / known.sequence)
    return away


def interval(problem: PlanProblem, known: Intervals | None = None, quality: Quality = "A") -> Interval:
    """Of a step time, and of what it is inversely proportional to."""
    if (none := _without_runs(problem)) is not None:
        return none
    data = intervals() if known is None else known
    return interval_at(data, distance(problem, data.stacks), quality)


def _without_runs(problem: PlanProblem) -> Interval | None:
    """None for what published runs are of: transformers on real chips."""
    if problem.machine is not None:
        name = problem.system.chip.name
        return Interval(None, "a template", 0, f"{name} is a template, on which nothing was measured")
    if any(kind.recurs for kind in problem.model.kinds):
        name = problem.model.name
        return Interval(None, "a hybrid model", 0, f"{name} has recurrences, as no published run here has")
    if problem.software.offloads_optimizer or problem.software.offloads_activations:
        return Interval(None, "offloading", 0, "no published run here keeps anything in the host's memory")
    if problem.model.indexer is not None:
        name = problem.model.name
        return Interval(None, "indexed attention", 0, f"{name} has indexed attention, as no published run here has")
    return None


def interval_at(data: Intervals, away: dict[Way, float], quality: Quality) -> Interval:
    """The same of a problem that is ``away`` in these ways."""
    near = [row for row in data.rows if len(row.away) == len(away)]
    for way, far in away.items():
        if not any(row.away.get(way, 0.0) >= far for row in data.rows):
            near = []  # farther than any run: what a scale says there is a guess
    words = " and ".join(WAYS[way] for way in away) or "calibrated stack, chip, kind of model and length"
    half_width = quantile([abs(row.log_error) / data.scale(row.quality, row.away) for row in near])
    if half_width is None:
        reason = f"only {len(near)} measured runs are as near, of {MIN_ROWS} that an interval needs: {words}"
        return Interval(None, words, len(near), reason)
    return Interval(math.exp(half_width * data.scale(quality, away)), words, len(near))


def memory_interval(problem: PlanProblem) -> Interval:
    """Of the memory of the fullest rank."""
    if (none := _without_runs(problem)) is not None:
        return none
    sizes = intervals().memory
    half_width, words = quantile(sizes), "memory of published runs"
    if half_width is None:
        reason = f"only {len(sizes)} runs publish their memory, of {MIN_ROWS} that an interval needs"
        return Interval(None, words, len(sizes), reason)
    return Interval(math.exp(half_width), words, len(sizes))


def quantile(scores: Sequence[float]) -> float | None:
    """The k-th smallest of n, k = ⌈0.9 (n + 1)⌉; None for fewer than nine."""
    if len(scores) < MIN_ROWS:
        return None
    return sorted(scores)[math.ceil(LEVEL * (len(scores) + 1)) - 1]


def pair_rms(problem: PlanProblem, known: Intervals | None = None) -> float | None:
    """Of the difference of log errors of two plans; None where fewer than nine runs with a partner are as near."""
    if _without_runs(problem) is not None:
        return None
    data = intervals() if known is None else known
    ways = len(distance(problem, data.stacks))
    return next((each.rms for each in data.pairs if each.away == ways and each.rows >= MIN_ROWS), None)


def faster_probability(problem: PlanProblem, one_s: float, other_s: float) -> float | None:
    """That a plan predicted to take ``one_s`` is faster than one of ``other_s``; None where too little was measured."""
    rms = pair_rms(problem)
    return None if rms is None else chance(math.log(other_s / one_s), rms)


def chance(log_ratio: float, rms: float) -> float:
    """That a plan is faster which is predicted to be so much faster, with errors of this difference."""
    return 0.5 * (1.0 + math.erf(log_ratio / (rms * math.sqrt(2.0))))


def max_speedup(mfu: float) -> float:
    """How many times as fast as a prediction a run can be: up to an MFU of 1.

    MFU counts attention as if it had no mask, so that a prediction may be above 1: then no faster than predicted.
    """
    return max(1.0, 1.0 / mfu)


def told_apart(problem: PlanProblem) -> float | None:
    """Over the step of the faster plan, that of the fastest one that is slower with probability 0.9.

    None where too little was measured.
    """
    rms = pair_rms(problem)
    return None if rms is None else math.exp(_NORMAL_QUANTILE * rms)


_NORMAL_QUANTILE = 1.2815515655446004
"""Φ⁻¹(0.9)."""


def documents(problem: PlanProblem, metrics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The interval of each metric that published runs state, by its key.

    Parts of time and of memory have none: no run states them. That of memory is of tensors and what holds them: runs
    state no headroom either.
    """
    own, memory, limit = interval(problem), memory_interval(problem), max_speedup(metrics["mfu"])
    return {
        "step_s": own.document(metrics["step_s"], max_low=limit),
        **{key: own.document(metrics[key], max_high=limit) for key in OF_RATE},
        "memory_bytes": memory.document(
            sum(size for part, size in metrics["memory_bytes"].items() if part not in HEADROOM)
        ),
    }
