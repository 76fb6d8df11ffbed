"""How far a rank correlation is from certain: a bootstrap over graphs, whose placements are alike."""

import numpy as np

from policies.fabric.study.accuracy import Floats, Integers, spearman

LEVEL = 0.9
MIN_GRAPHS, MIN_PLACEMENTS = 5, 20
"""With fewer, no interval is given."""

_RESAMPLES = 1000


def correlation_interval(predicted: Floats, label: Floats, graph: Integers, seed: int) -> list[float] | None:
    """The interval of Spearman's ρ of predictions by the percentile bootstrap, which draws whole graphs.

    Args:
        predicted: ŷ of every placement, [S].
        label: y, [S].
        graph: the number of the graph that is placed, [S].
        seed: of the resamples.

    Returns:
        Its lower and upper limit at :data:`LEVEL`; None with too few graphs or placements to say.
    """
    numbers = np.unique(graph)
    if len(numbers) < MIN_GRAPHS or len(graph) < MIN_PLACEMENTS:
        return None
    own = [np.flatnonzero(graph == number) for number in numbers]
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(own), size=(_RESAMPLES, len(own)))
    resamples = (np.concatenate([own[index] for index in row]) for row in drawn)
    values = [spearman(predicted[chosen], label[chosen]) for chosen in resamples]
    tail = (1 - LEVEL) / 2
    return [float(value) for value in np.quantile(values, (tail, 1 - tail))]
