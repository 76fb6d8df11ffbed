"""Predictions of the clock period of families left out: baselines, the tool's estimate, and models of paths."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.nextpnr.delay_terms import Basis, detailed, levels_and_distances
from benchmarks.nextpnr.netlist import Kind
from benchmarks.nextpnr.path_model import fit, fit_to_steps
from benchmarks.nextpnr.samples import Sample

Periods = NDArray[np.float64]
Method = Callable[[Sequence[Sample], Sequence[Sample]], Periods]
"""From runs to learn from and runs of other families to the latter's predicted periods in ns. Nothing that is measured
after routing may be read of the latter."""


def size_alone(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """A regression on the logarithms of the numbers of cells, registers and carries."""
    return np.exp(_regression(_sizes(train), np.log(periods(train)), _sizes(test)))


def _sizes(samples: Sequence[Sample]) -> NDArray[np.float64]:
    counts = [np.bincount(sample.run.netlist.kinds, minlength=len(Kind)) for sample in samples]
    registers, carries = (Kind.REGISTER, Kind.REGISTER_CARRY), (Kind.TABLE_CARRY, Kind.REGISTER_CARRY)
    return np.log1p([[count.sum(), count[list(registers)].sum(), count[list(carries)].sum()] for count in counts])


def levels(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """The longest path by levels and distances, with five fitted values."""
    return _paths(train, test, levels_and_distances())


def steps(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """The longest path by the delays of arcs, fitted to those of critical paths only."""
    model = fit_to_steps(train, detailed())
    return np.array([model.period_ns(sample) for sample in test])


def paths(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """The longest path by the delays of arcs, fitted to those of critical paths and to the periods."""
    return _paths(train, test, detailed())


def _paths(train: Sequence[Sample], test: Sequence[Sample], basis: Basis) -> Periods:
    model = fit(train, basis)
    return np.array([model.period_ns(sample) for sample in test])


def estimate(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:  # noqa: ARG001 a `Method` takes both
    """The tool's own, before routing."""
    return np.array([sample.estimated_ns for sample in test])


def corrected_estimate(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """The tool's own, with a factor and an exponent fitted."""
    logs = [np.log([[sample.estimated_ns] for sample in samples]) for samples in (train, test)]
    return np.exp(_regression(logs[0], np.log(periods(train)), logs[1]))


def paths_and_estimate(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """A product of powers of both, fitted to predictions of ``paths`` for families that it was not fitted to."""
    inner = held_out(paths, train)
    outer = paths(train, test)
    both = [
        np.log(np.column_stack([own, estimate(samples, samples)])) for own, samples in ((inner, train), (outer, test))
    ]
    return np.exp(_regression(both[0], np.log(periods(train)), both[1]))


def mean_of_paths_and_estimate(train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
    """The geometric mean of both."""
    return np.sqrt(paths(train, test) * estimate(train, test))


METHODS: dict[str, Method] = {
    "size alone": size_alone,
    "levels and distances": levels,
    "paths, fitted to arcs": steps,
    "paths": paths,
    "tool's estimate": estimate,
    "tool's estimate, corrected": corrected_estimate,
    "paths and estimate, fitted": paths_and_estimate,
    "paths and estimate, mean": mean_of_paths_and_estimate,
}


def held_out(method: Method, samples: Sequence[Sample]) -> Periods:
    """What a method predicts for each family when it has learned from all others; shape (samples,)."""
    families = np.array([sample.run.family for sample in samples])
    predicted = np.empty(len(samples))
    for family in np.unique(families):
        train = [sample for sample in samples if sample.run.family != family]
        predicted[families == family] = method(train, [sample for sample in samples if sample.run.family == family])
    return predicted


def periods(samples: Sequence[Sample]) -> Periods:
    """After routing, in ns."""
    return np.array([sample.period_ns for sample in samples])


def _regression(inputs: NDArray[np.float64], targets: Periods, others: NDArray[np.float64]) -> Periods:
    """Least squares with a constant."""
    matrices = [np.column_stack([np.ones(len(rows)), rows]) for rows in (inputs, others)]
    weights, *_ = np.linalg.lstsq(matrices[0], targets, rcond=None)
    return matrices[1] @ weights
