"""Figure 7 of the multi-chip partitioning paper: the reference evaluator next to the simulator, in place of silicon.

Random partitions (SAMPLE with uniform weights) are priced by both. The paper compares its analytical model with real
hardware: of 2,000 partitions of BERT 13.5 % could not run, and the run times of the others, each divided by their
minimum, correlate with R = 0.91. Two constants of the simulator (memory, size of the compile effect) and the tokens of
our BERT (:mod:`dse.reproduce.mcm.bert`) are calibrated on just these two numbers. That they agree there says nothing,
and on other graphs the share that cannot run is another.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.graphs.prepare import prepare
from dse.partition.graphs.source import graph_of
from dse.partition.problem import Chips, Floats, PartitionGraph, PartitionProblem
from dse.reproduce.mcm.bert import ELEMENT_BYTES, NAME, TOKENS, paper_bert, problem_on
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table, shown
from hardware.packages import Package, package
from hardware.units import MEGA

PAPER_CORRELATION = 0.91
PAPER_INVALID_PERCENT = 13.5
PAPER_SAMPLES = 2000
"""Xie et al., section 5.4."""

PAPER_OPERATORS = 2138
"""Of the paper's graph of BERT (section 5.1)."""

TITLE = "Figure 7: predicted and simulated run time"

HEADERS = ("", "paper", "ours", "other samples", "no compile effect")

_BEST_SHARE = 0.1
"""The partitions that an evaluator calls good: this share of all."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Random partitions under both evaluators.

    Attributes:
        predicted_s: of the reference evaluator, [B].
        simulated_s: of the simulator; infinite where the partition cannot run, [B].
    """

    predicted_s: Floats
    simulated_s: Floats

    @cached_property
    def normalised(self) -> tuple[Floats, Floats]:
        """(predicted, simulated) of those that run, over their minima: the axes of Figure 7."""
        runs = np.isfinite(self.simulated_s)
        predicted_s, simulated_s = self.predicted_s[runs], self.simulated_s[runs]
        return predicted_s / predicted_s.min(initial=np.inf), simulated_s / simulated_s.min(initial=np.inf)

    @property
    def invalid_percent(self) -> float:
        """Partitions that cannot run."""
        return float(100 * np.mean(np.isinf(self.simulated_s)))

    @property
    def correlation(self) -> float | None:
        """Pearson's R of those that run; None where there are too few, or all are alike."""
        predicted, simulated = self.normalised
        if len(predicted) < 2 or np.ptp(predicted) == 0 or np.ptp(simulated) == 0:
            return None
        return float(np.corrcoef(predicted, simulated)[0, 1])

    @property
    def best_overlap_percent(self) -> float | None:
        """Of the tenth that the reference evaluator calls best, the share that is in the simulator's best tenth too."""
        predicted, simulated = self.normalised
        count = round(_BEST_SHARE * len(predicted))
        if count == 0:
            return None
        best = [set(np.argsort(values, kind="stable")[:count].tolist()) for values in (predicted, simulated)]
        return 100 * len(best[0] & best[1]) / count

    @property
    def best_predicted_over_best(self) -> float | None:
        """What the partition of the best prediction takes, over the best that was simulated."""
        predicted, simulated = self.normalised
        return float(simulated[np.argmin(predicted)]) if len(predicted) else None


@dataclass(frozen=True)
class Context:
    """What is reproduced.

    Attributes:
        graph: the paper's is BERT with 2,138 operators.
        package: the paper's has 36 chips.
        samples: random partitions.
        seed: of the first sampling.
        samplings: how many there are in all; those after the first show how much the numbers depend on the draw.
    """

    graph: PartitionGraph
    package: Package
    samples: int = PAPER_SAMPLES
    seed: int = 0
    samplings: int = 4


def problem_of(context: Context) -> PartitionProblem:
    """The problem of the reference evaluator: the package prices operators that have no latency."""
    return problem_on(context.graph, context.package)


def random_partitions(context: Context, sampling: int = 0) -> Chips:
    """Valid partitions by SAMPLE with uniform weights, [B, N]; every ``sampling`` has draws of its own."""
    sampler = Sampler(context.graph, context.package.chips)
    weights = np.ones((len(context.graph), context.package.chips))
    return sampler.sample(seeds_of(context.seed, sampling * context.samples, context.samples), weights)


def calibrate(problem: PartitionProblem, package: Package, chips: Chips) -> Calibration:
    """Both evaluators on ``chips`` [B, N]."""
    return Calibration(AnalyticalEvaluator(problem).costs(chips), SimulatorEvaluator(problem, package).costs(chips))


def figure7(context: Context) -> Section:
    """Correlation and invalid share next to the paper's, and the scatter plot."""
    problem, package = problem_of(context), context.package
    chips = random_partitions(context)
    ours = calibrate(problem, package, chips)
    plain = calibrate(problem, replace(package, effect_sigma=0.0), chips)
    others = [
        calibrate(problem, package, random_partitions(context, sampling)) for sampling in range(1, context.samplings)
    ]
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for quantity, unit, paper, read in _QUANTITIES:
        name = f"{quantity}, {unit}" if unit else quantity
        rows.append((name, shown(paper), _shown(read(ours)), _spread(read, others), _shown(read(plain))))
        reason = "" if paper is None else _unlike(context.graph)
        comparisons.append(Comparison(context.graph.name, package.name, quantity, unit, read(ours), paper, reason))
    return Section(
        "fig7",
        TITLE,
        (Table(HEADERS, tuple(rows)),),
        _notes(context),
        tuple(comparisons),
        (_chart(context, ours),),
    )


DEFAULT_PACKAGE = "mcm-36"


def context_of(source: str | None, seed: int) -> Context:
    """The paper's BERT, or a graph in its place (:func:`dse.partition.graphs.source.graph_of`).

    Raises:
        InputError: ``source`` is not a graph.
    """
    if source is None:
        return Context(paper_bert(), package(DEFAULT_PACKAGE), seed=seed)
    graph = graph_of(source)
    if np.isnan(graph.latency_s).all():
        graph = prepare(graph).graph
    return Context(graph.with_weights_as_read(), package(DEFAULT_PACKAGE), seed=seed)


_Read = Callable[[Calibration], float | None]

_QUANTITIES: tuple[tuple[str, str, float | None, _Read], ...] = (
    ("Pearson's R", "", PAPER_CORRELATION, lambda calibration: calibration.correlation),
    ("partitions that cannot run", "%", PAPER_INVALID_PERCENT, lambda calibration: calibration.invalid_percent),
    ("overlap of the best tenths", "%", None, lambda calibration: calibration.best_overlap_percent),
    ("best prediction relative to the true best", "×", None, lambda calibration: calibration.best_predicted_over_best),
)


def _unlike(graph: PartitionGraph) -> str:
    """Why the paper's numbers are not of this graph; empty where they are."""
    if graph.name == NAME:
        return ""
    return f"the paper's number is for BERT with {PAPER_OPERATORS:,} operators, ours for {graph.name}"


def _spread(read: _Read, others: list[Calibration]) -> str:
    """The smallest and the largest over other samples."""
    values = [value for value in map(read, others) if value is not None]
    return f"{_shown(min(values))} to {_shown(max(values))}" if values else _shown(None)


def _shown(value: float | None) -> str:
    """With digits enough to tell an R below 1 from 1."""
    return shown(value, 5 if value is not None and 0.999 < value < 1 else 3)


def _notes(context: Context) -> tuple[str, ...]:
    package = context.package
    return (
        f"{context.samples:,} random partitions of {context.graph.name} ({len(context.graph):,} operators) on "
        f"{package.name} ({package.chips} chips), SAMPLE with uniform weights. The simulator replaces the paper's "
        "hardware.",
        "Memory and compile effect of mcm-36 were calibrated on the paper's two numbers before any search, on a "
        "reference graph of BERT with 2,138 operators (benchmarks/partition_calibration.py). The paper does not state "
        f"the tokens and the precision of its BERT; ours has {TOKENS} tokens, which are calibrated too, and "
        f"{8 * ELEMENT_BYTES}-bit numbers.",
        f"No other graph is used for calibration. {package.name} has {package.sram_bytes / MEGA:g} MB of memory per "
        f"chip and σ = {package.effect_sigma:g}. The share of partitions that cannot run depends on tensor sizes, so "
        "it does not carry over to other graphs.",
        "Without the compile effect the two evaluators agree nearly everywhere: scheduling, fusion, overlap and "
        "contention do not explain the paper's scatter.",
        "The share that cannot run changes in steps with the memory, because there are few tensor sizes.",
    )


def _chart(context: Context, calibration: Calibration) -> Chart:
    predicted, simulated = calibration.normalised
    series = Series("partitions that run", tuple(predicted.tolist()), tuple(simulated.tolist()))
    title = f"{context.graph.name} on {context.package.name}: run time relative to the minimum"
    return Chart("dots", title, "predicted by the analytical evaluator", "simulated", (series,))
