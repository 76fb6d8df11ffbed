"""The cost model of ``policies.fabric`` on placed netlists: its network, and the ridge regression that it corrects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.nextpnr.delay_terms import Basis, detailed, levels_and_distances
from benchmarks.nextpnr.encoding import encoding, hand_features
from benchmarks.nextpnr.methods import Method, Periods
from benchmarks.nextpnr.path_model import PathModel, fit
from benchmarks.nextpnr.samples import Sample
from policies.fabric.model.contention import CONTENTION
from policies.fabric.model.examples import Examples, Learner
from policies.fabric.model.features import FEATURES
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import NetworkLearner

ESTIMATE_COLUMN = len(FEATURES) - 1


@dataclass(frozen=True)
class Learned:
    """A method: the longest path by a model of paths, times what a learner makes of it.

    Attributes
    ----------
    learner : Learner
        From ``policies.fabric``. Its target is the logarithm of longest over routed period.
    basis : Basis
        Of the model of paths.
    extra : function, optional
        One more hand feature, such as the tool's estimate.
    """

    learner: Learner
    basis: Basis
    extra: Callable[[Sample], float] | None = None

    def __call__(self, train: Sequence[Sample], test: Sequence[Sample]) -> Periods:
        """A ``Method``."""
        base = fit(train, self.basis)
        longest = np.array([base.period_ns(sample) for sample in test])
        targets = np.array([np.log(base.period_ns(sample) / sample.period_ns) for sample in train])
        model = self.learner.fit(self._examples(train, base, targets))
        return longest / np.exp(model.predict(self._examples(test, base, np.zeros(len(test)))))

    def _examples(self, samples: Sequence[Sample], base: PathModel, targets: Periods) -> Examples:
        features = np.array([hand_features(sample, base) for sample in samples])
        if self.extra is not None:
            features[:, ESTIMATE_COLUMN] = [
                self.extra(sample) - row[0] for sample, row in zip(samples, features, strict=True)
            ]
        _, designs = np.unique([sample.run.design for sample in samples], return_inverse=True)
        encodings = tuple(encoding(each, base) for each in samples)
        contention = np.zeros((len(samples), len(CONTENTION)))  # wires of a circuit do not take turns
        return Examples(features, targets, designs.astype(np.int64), encodings, contention)


def log_estimate(sample: Sample) -> float:
    """The logarithm of the tool's estimate."""
    return float(np.log(sample.estimated_ns))


def learned_methods(epochs: int) -> dict[str, Method]:
    """Ridge regression and network on both models of paths, without and with the tool's estimate."""
    network = NetworkLearner(CostSettings(epochs=epochs))
    return {
        "ridge on levels": Learned(RidgeLearner(), levels_and_distances()),
        "network on levels": Learned(network, levels_and_distances()),
        "ridge on paths": Learned(RidgeLearner(), detailed()),
        "network on paths": Learned(network, detailed()),
        "network on paths, estimate": Learned(network, detailed(), log_estimate),
    }
