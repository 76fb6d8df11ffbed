"""The clock period as a soft maximum over paths, whose arcs have delays that are learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.nextpnr.delay_terms import TERMS, Basis
from benchmarks.nextpnr.paths import SoftMaximum, soft_maximum
from benchmarks.nextpnr.samples import Sample

ROUNDS = 5
TEMPERATURE_NS = 0.03
"""About half a percent of a period: paths that differ by less count as equally long."""

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class PathModel:
    """Unknown values of ``DelayTerms``, in ns, and the temperature of the soft maximum."""

    unknowns: NDArray[np.float64]
    temperature_ns: float = TEMPERATURE_NS

    def paths(self, sample: Sample) -> SoftMaximum:
        """The soft maximum over the paths of a sample, in ns."""
        begins = sample.launches >= 0
        launches = np.where(begins, self.unknowns[sample.launches], -np.inf)
        graph, delays = sample.graph, sample.terms.delays(self.unknowns)
        return soft_maximum(graph.sources, graph.sinks, delays, launches, self.temperature_ns)

    def period_ns(self, sample: Sample) -> float:
        """The predicted clock period."""
        return self.paths(sample).value

    def gradient(self, sample: Sample, paths: SoftMaximum) -> NDArray[np.float64]:
        """The derivatives of the period by the unknown values."""
        begins = sample.launches >= 0
        launched = np.bincount(sample.launches[begins], paths.of_launches[begins], minlength=len(self.unknowns))
        return sample.terms.weighted(paths.of_arcs) + launched


def step_rows(samples: Sequence[Sample]) -> Rows:
    """Coefficients and delays, in ns, of the critical paths' arcs and launches after routing."""
    matrices, delays = [], []
    for sample in samples:
        clock = sample.run.clock
        launch = np.zeros((1, TERMS))
        launch[0, sample.launches[sample.graph.sources[sample.path[0]]]] = 1
        matrices += [launch, sample.terms.rows(sample.path)]
        delays += [clock.launch_ps, *(step.routing_ps + step.logic_ps for step in clock.steps)]
    return np.concatenate(matrices), np.array(delays) / 1e3


def fit_to_steps(samples: Sequence[Sample], basis: Basis) -> PathModel:
    """Least squares on the delays of the critical paths' arcs after routing."""
    matrix, delays = step_rows(samples)
    return PathModel(_solve(basis, [(matrix, delays, 1.0)]))


def fit(samples: Sequence[Sample], basis: Basis) -> PathModel:
    """Least squares on the arcs' delays and on the periods together.

    Arcs of critical paths are slower than others of the same length, since routing has made them critical. Periods
    correct that: the soft maximum is linearised around the current values (Gauss-Newton), relative to the period, and
    weighs as much against the arcs as the ratio of both residual variances of the round before says.
    """
    matrix, delays = step_rows(samples)
    model = PathModel(_solve(basis, [(matrix, delays, 1.0)]))
    for _ in range(ROUNDS):
        rows, targets = _period_rows(model, samples)
        of_steps, of_periods = matrix @ model.unknowns - delays, rows @ model.unknowns - targets
        weight = _variance(of_steps) / _variance(of_periods)
        model = PathModel(_solve(basis, [(matrix, delays, 1.0), (rows, targets, weight)]))
    return model


def _variance(residuals: NDArray[np.float64]) -> float:
    """The mean square, above 0 where everything fits."""
    return float(np.mean(residuals**2)) + 1e-12


def _period_rows(model: PathModel, samples: Sequence[Sample]) -> Rows:
    """The linearised periods and their targets, both over the period after routing."""
    rows, targets = [], []
    for sample in samples:
        paths = model.paths(sample)
        row = model.gradient(sample, paths)
        rows.append(row / sample.period_ns)
        targets.append((sample.period_ns - paths.value + row @ model.unknowns) / sample.period_ns)
    return np.array(rows), np.array(targets)


def _solve(
    basis: Basis, parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64], float]]
) -> NDArray[np.float64]:
    """Ridge regression on weighted rows, for unknowns that the basis spans."""
    normal, right = np.diag(basis.penalties), np.zeros(len(basis.penalties))
    for matrix, targets, weight in parts:
        within = matrix @ basis.matrix
        normal = normal + weight * within.T @ within
        right = right + weight * within.T @ targets
    return basis.matrix @ np.linalg.solve(normal, right)
