"""How far figures are from certain: 90 % intervals from a bootstrap over graphs, whose placements are alike."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from policies.fabric.study.accuracy import Floats, Integers, relative_errors, spearman

MIN_GRAPHS, MIN_PLACEMENTS = 5, 20
"""With fewer, no interval is given."""

_TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Interval:
    """A value with an interval of confidence."""

    value: float
    low: float
    high: float


def mean_interval(values: Floats, seed: int, resamples: int = 2000) -> Interval:
    """The mean of what was measured once for each graph, [G]."""
    return _interval(float(values.mean()), lambda drawn: values[drawn].mean(axis=1), len(values), seed, resamples)


def error_ratio(
    predicted: Floats, rival: Floats, label: Floats, graph: Integers, seed: int = 0, resamples: int = 2000
) -> Interval:
    """RE of ``predicted`` over that of ``rival``; the first four arguments [S]."""
    numbers, place = np.unique(graph, return_inverse=True)
    own, others = (np.bincount(place, relative_errors(each, label)) for each in (predicted, rival))

    def ratios(drawn: Integers) -> Floats:
        return np.asarray(own[drawn].sum(axis=1) / others[drawn].sum(axis=1), dtype=np.float64)

    return _interval(float(own.sum() / others.sum()), ratios, len(numbers), seed, resamples)


def correlation_interval(
    predicted: Floats, label: Floats, graph: Integers, seed: int, resamples: int = 1000
) -> Interval | None:
    """Spearman's ρ of predictions ŷ with y; None with too few graphs or placements to say.

    Args:
        predicted: ŷ of every placement, [S].
        label: y, [S].
        graph: the number of the graph that is placed, [S]; graphs are drawn whole.
        seed: of the resamples.
        resamples: how many.
    """
    numbers = np.unique(graph)
    if len(numbers) < MIN_GRAPHS or len(graph) < MIN_PLACEMENTS:
        return None
    own = [np.flatnonzero(graph == number) for number in numbers]

    def correlations(drawn: Integers) -> Floats:
        samples = (np.concatenate([own[index] for index in row]) for row in drawn)
        return np.array([spearman(predicted[chosen], label[chosen]) for chosen in samples])

    return _interval(spearman(predicted, label), correlations, len(numbers), seed, resamples)


def _interval(
    value: float, statistic: Callable[[Integers], Floats], graphs: int, seed: int, resamples: int
) -> Interval:
    """A value with its percentile interval.

    Args:
        value: of all graphs.
        statistic: the same of graphs that were drawn, from their places in [R, G] to [R].
        graphs: how many there are.
        seed: of the resamples.
        resamples: how many.
    """
    drawn = np.random.default_rng(seed).integers(graphs, size=(resamples, graphs))
    low, high = np.quantile(statistic(drawn), _TAILS)
    return Interval(value, float(low), float(high))
