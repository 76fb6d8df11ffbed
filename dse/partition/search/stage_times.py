"""How long the stages of partitions take that nobody has measured, learned from those that somebody has.

A chip that holds a set of operators that was measured takes what it took then. For any other the time over that of the
reference evaluator is a linear function of :data:`~dse.partition.search.stage_features.FEATURES`, by Bayesian
regression (Bishop, "Pattern recognition and machine learning", 2006, section 3.3): a prior, and the stages measured on
this graph, each with relative noise, since programs of different sets of operators are compiled differently well.
Links take what the reference evaluator says, times the ratio of what was measured to that.
"""

from dataclasses import dataclass

import numpy as np

from dse.partition.problem import Chips, Floats, PartitionProblem
from dse.partition.search.stage_features import FEATURES, StageFeatures

_NOISE = 0.2
"""Relative deviation of a stage from what its features say."""

_MEASURED_NOISE = 1e-3
"""The same of a stage whose operators were measured on one chip before: what it sends may differ."""

_MIN_RATIO = 0.05
"""Of a predicted time to the reference evaluator's, at least."""

_HEAVY = 0.1
"""Share of the busiest chip's time from which on a stage is learned from: shorter ones never decide."""

_LOGISTIC = 1.702
"""The logistic function of this many times z is close to the normal distribution's of z."""

_GAINS = np.linspace(1e-3, 0.5, 24)
"""Logarithms of improvements over which the expected one is summed."""


@dataclass(frozen=True)
class StagePrior:
    """What is believed of the weights before anything was measured, as the sums of a weighted least-squares problem.

    Attributes:
        gram: of features by features, [F, F], positive definite.
        moment: of features by ratios, [F].
    """

    gram: Floats
    moment: Floats


def reference_prior() -> StagePrior:
    """That stages take what the reference evaluator says, give or take a weight of one in every feature."""
    as_reference = np.array([name in ("latency", "sent and received") for name in FEATURES], dtype=np.float64)
    gram = _NOISE**2 * np.eye(len(FEATURES))
    return StagePrior(gram, gram @ as_reference)


class StageTimes:
    """Times of the stages of one graph's partitions.

    Args:
        problem: graph and package.
        prior: of the weights; None: nothing is learned, and a stage takes what the reference evaluator says, times the
            ratio of all measured stages to that.
    """

    def __init__(self, problem: PartitionProblem, prior: StagePrior | None) -> None:
        self._features = StageFeatures(problem)
        self._prior = prior
        if prior is not None:
            self._gram, self._moment = prior.gram.copy(), prior.moment.copy()
            self._weights = np.linalg.solve(self._gram, self._moment)
        self._measured_s: dict[int, float] = {}
        self._sums_s = np.zeros((2, 2))
        self._seen: set[bytes] = set()

    def measure(self, chips: Chips, busy_s: Floats) -> None:
        """Learn from partitions [B, N] and how long their chips and links are busy, [B, 2, C]."""
        reference_s, sets = self._features.reference_s(chips), self._features.sets(chips)
        features = self._features.of(chips, reference_s)
        self._seen.update(chip.tobytes() for chip in chips)
        for row, busy in enumerate(busy_s):
            reference = reference_s[row]
            used = np.flatnonzero(reference[0] > 0)
            new = [place for place in used if int(sets[row, place]) not in self._measured_s]
            self._measured_s |= {int(sets[row, place]): float(busy[0, place]) for place in new}
            runs = [place for place in new if np.isfinite(busy[0, place])]
            self._sums_s[0] += busy[0, runs].sum(), reference[0, runs].sum()
            self._sums_s[1] += busy[1].sum(), reference[1].sum()
            if self._prior is not None and runs:
                heavy = [place for place in runs if busy[0, place] >= _HEAVY * busy[0, runs].max()]
                self._learn(features[row, heavy], busy[0, heavy] / reference[0, heavy])

    def best(self, chips: Chips, cost_s: float) -> int:
        """Which of some partitions [B, N] promises most below a cost.

        That of the largest expected improvement of the logarithm (Jones et al., "Efficient global optimization of
        expensive black-box functions", 1998): the sum over smaller costs of the probability that every chip and link is
        below them. One that was measured promises nothing.
        """
        reference_s = self._features.reference_s(chips)
        expected_s, noise = self._expected(chips, reference_s)
        link_s = reference_s[:, 1] * self._ratio(1)
        below = np.zeros((len(chips), len(_GAINS)))
        for seconds, spread in ((expected_s, noise), (link_s, np.full_like(link_s, _MEASURED_NOISE))):
            used = seconds > 0
            with np.errstate(divide="ignore"):
                # Minus infinity where a stage does not fit memory.
                room = np.log(cost_s / np.where(used, seconds, cost_s))[..., None] - _GAINS
            chances = -np.logaddexp(0.0, -_LOGISTIC * room / spread[..., None])
            below += np.where(used[..., None], chances, 0.0).sum(axis=1)
        promised = np.logaddexp.reduce(below, axis=1)
        known = np.array([chip.tobytes() in self._seen for chip in chips])
        return int(np.argmax(np.where(known, -np.inf, promised)))

    def _expected(self, chips: Chips, reference_s: Floats) -> tuple[Floats, Floats]:
        """(seconds of each chip, relative noise of that), [B, C] each; 0 for unused chips."""
        sets = self._features.sets(chips)
        known_s = np.array([[self._measured_s.get(word, -1.0) for word in row] for row in sets.tolist()])
        if self._prior is None:
            ratio = np.full(known_s.shape, self._ratio(0))
        else:
            ratio = np.maximum(self._features.of(chips, reference_s) @ self._weights, _MIN_RATIO)
        is_known = known_s >= 0
        used = reference_s[:, 0] > 0
        expected_s = np.where(used, np.where(is_known, known_s, ratio * reference_s[:, 0]), 0.0)
        return expected_s, np.where(is_known, _MEASURED_NOISE, _NOISE)

    def _learn(self, features: Floats, ratios: Floats) -> None:
        """Add measured stages [K, F] to the regression, each by its relative deviation."""
        scale = np.maximum(features @ self._weights, _MIN_RATIO)
        scaled = features / scale[:, None]
        self._gram += scaled.T @ scaled
        self._moment += scaled.T @ (ratios / scale)
        self._weights = np.linalg.solve(self._gram, self._moment)

    def _ratio(self, kind: int) -> float:
        """Measured chips (0) or links (1) over the reference evaluator; 1 before there are any."""
        measured_s, reference_s = self._sums_s[kind]
        return float(measured_s / reference_s) if reference_s > 0 else 1.0
