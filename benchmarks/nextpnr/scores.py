"""How well predicted clock rates agree with those after routing, with intervals over designs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.fabric.study.accuracy import spearman

Floats = NDArray[np.float64]
RESAMPLES = 2_000


@dataclass(frozen=True)
class Interval:
    """A value and its 90 % interval over designs."""

    value: float
    low: float
    high: float

    def shown(self, factor: float = 1.0, digits: int = 3) -> str:
        """``value [low, high]``."""
        return "{0:.{3}f} [{1:.{3}f}, {2:.{3}f}]".format(*(factor * each for each in self._all), digits)

    @property
    def _all(self) -> tuple[float, float, float]:
        return self.value, self.low, self.high


@dataclass(frozen=True)
class Scores:
    """Of predicted clock rates.

    Attributes
    ----------
    correlation : Interval
        Spearman's rank correlation over all runs.
    error : Interval
        The mean of |predicted / routed − 1|.
    bias : float
        The mean of predicted / routed − 1.
    within_families : float
        The mean over families of the rank correlation in each.
    """

    correlation: Interval
    error: Interval
    bias: float
    within_families: float


def resampled(designs: Sequence[str], seed: int = 0) -> list[NDArray[np.int64]]:
    """Runs of designs that are drawn with replacement, as many as there are; one array for each resample."""
    of_designs = [np.flatnonzero(np.array(designs) == name) for name in sorted(set(designs))]
    random = np.random.default_rng(seed)
    draws = random.integers(len(of_designs), size=(RESAMPLES, len(of_designs)))
    return [np.concatenate([of_designs[place] for place in draw]) for draw in draws]


def scores(
    predicted: Floats, routed: Floats, families: NDArray[np.str_], samples: Sequence[NDArray[np.int64]]
) -> Scores:
    """Scores of predicted clock rates, all of shape (runs,); ``samples`` comes from :func:`resampled`."""
    deviation = predicted / routed - 1
    correlation = spearman(predicted, routed)
    correlations = [spearman(predicted[sample], routed[sample]) for sample in samples]
    errors = [float(np.abs(deviation[sample]).mean()) for sample in samples]
    within = [spearman(predicted[families == each], routed[families == each]) for each in np.unique(families)]
    return Scores(
        _interval(correlation, correlations),
        _interval(float(np.abs(deviation).mean()), errors),
        float(deviation.mean()),
        float(np.mean(within)),
    )


def error_ratio(predicted: Floats, rival: Floats, routed: Floats, samples: Sequence[NDArray[np.int64]]) -> Interval:
    """The error of a prediction over that of another one."""
    own, other = (np.abs(each / routed - 1) for each in (predicted, rival))
    ratios = [float(own[sample].sum() / other[sample].sum()) for sample in samples]
    return _interval(float(own.sum() / other.sum()), ratios)


def _interval(value: float, resamples: Sequence[float]) -> Interval:
    low, high = np.quantile(resamples, (0.05, 0.95))
    return Interval(value, float(low), float(high))
