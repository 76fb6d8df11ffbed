"""How long the stages of partitions take that nobody has measured, by those that somebody has.

A chip that holds a set of operators that was measured takes what it took then. For any other, and for links, it is what
the reference evaluator says, times the ratio of what was measured to that. A package's own parameters, which an
evaluator may keep to itself, are not read.
"""

import numpy as np

from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import Chips, Floats, PartitionProblem, Words
from dse.partition.search.context import throughput_of

_NOISE = 0.2
"""Relative deviation of a stage from the reference evaluator's time and the ratio: programs of different sets of
operators are compiled differently well.
"""

_MEASURED_NOISE = 1e-3
"""The same of a link, and of a stage whose operators were measured on one chip before: what it sends may differ."""

_LOGISTIC = 1.702
"""The logistic function of this many times z is close to the normal distribution's of z."""

_GAINS = np.linspace(1e-3, 0.5, 24)
"""Logarithms of improvements over which the expected one is summed."""

_SEED = 0x57A6E
"""Of the words that name sets of operators."""


class StageTimes:
    """Times of the stages of one graph's partitions.

    Args:
        problem: graph and package.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        self._chips = problem.chips
        self._reference = AnalyticalEvaluator(throughput_of(problem))
        self._word = np.random.default_rng(_SEED).integers(1 << 63, size=len(problem.graph), dtype=np.uint64)
        self._measured_s: dict[int, float] = {}
        # Of chips and of links: measured seconds, and the reference evaluator's of the same.
        self._sums_s = np.zeros((2, 2))
        self._seen: set[bytes] = set()

    def sets(self, chips: Chips) -> Words:
        """A word for the operators of each chip of each partition [B, N], the same for the same ones, [B, C]."""
        words = np.zeros((len(chips), self._chips), dtype=np.uint64)
        np.add.at(words, (np.arange(len(chips))[:, None], chips), self._word)
        return words

    def measure(self, chips: Chips, busy_s: Floats) -> None:
        """Remember of partitions [B, N] how long their chips and links are busy, [B, 2, C]."""
        self._seen.update(chip.tobytes() for chip in chips)
        for words, busy, reference in zip(self.sets(chips), busy_s, self._reference.busy_s(chips), strict=True):
            used = np.flatnonzero(reference[0] > 0)
            new = [place for place in used if int(words[place]) not in self._measured_s]
            self._measured_s |= {int(words[place]): float(busy[0, place]) for place in new}
            runs = [place for place in new if np.isfinite(busy[0, place]) and np.isfinite(reference[0, place])]
            self._sums_s[0] += busy[0, runs].sum(), reference[0, runs].sum()
            self._sums_s[1] += busy[1].sum(), reference[1].sum()

    def best(self, chips: Chips, cost_s: float) -> int:
        """Which of some partitions [B, N] promises most below a cost.

        That of the largest expected improvement of the logarithm (Jones et al., "Efficient global optimization of
        expensive black-box functions", 1998): the sum over smaller costs of the probability that every chip and link is
        below them. One that was measured promises nothing.
        """
        reference_s = self._reference.busy_s(chips)
        expected_s, noise = reference_s * self._ratios()[:, None], np.full_like(reference_s, _MEASURED_NOISE)
        measured_s = np.array([[self._measured_s.get(word, -1.0) for word in row] for row in self.sets(chips).tolist()])
        known, used = measured_s >= 0, reference_s > 0
        expected_s[:, 0] = np.where(known, measured_s, expected_s[:, 0])
        noise[:, 0] = np.where(known, _MEASURED_NOISE, _NOISE)
        with np.errstate(divide="ignore"):
            # Minus infinity where a stage does not fit memory.
            room = np.log(cost_s / np.where(used, expected_s, cost_s))[..., None] - _GAINS
        below = -np.logaddexp(0.0, -_LOGISTIC * room / noise[..., None])
        promised = np.logaddexp.reduce(np.where(used[..., None], below, 0.0).sum(axis=(1, 2)), axis=1)
        seen = np.array([chip.tobytes() in self._seen for chip in chips])
        return int(np.argmax(np.where(seen, -np.inf, promised)))

    def _ratios(self) -> Floats:
        """Measured chips and links over the reference evaluator's, [2]; 1 before there are any."""
        measured_s, reference_s = self._sums_s.T
        return np.asarray(np.divide(measured_s, reference_s, out=np.ones(2), where=reference_s > 0), dtype=np.float64)
