"""Graph networks learn from examples, and predict."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import GraphNetwork, batched
from policies.fabric.model.passes import Places, device, learn, predicted
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.threads import one_thread

Floats = npt.NDArray[np.float64]

BATCH = 64
"""Placements that are predicted together."""

_TIE = 0.01
"""Placements of a graph whose log throughput differs by less are not ranked: that is the error of a label."""

_LEAST_SCALE = 1e-3
"""Deviation of a feature at least."""

_RANK_SCALE = 0.1
"""Log throughput by which the loss on ranks is stretched."""


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network that has learned."""

    network: GraphNetwork

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        return predicted(self.network, self.answers, examples, BATCH)

    def answers(self, examples: Examples) -> Tensor:
        """What the network says, [S]."""
        described = torch.from_numpy(examples.described.astype(np.float32))
        answers: Tensor = self.network(batched(examples.encodings, described).to(device()))
        return answers


@dataclass(frozen=True)
class NetworkLearner:
    """Trains one network.

    Attributes:
        settings: of network and training.
        seed: of first weights and the order of graphs.
        stop: called after each pass.
    """

    settings: CostSettings
    seed: int = 0
    stop: StopSignal = field(default=never_stop, compare=False)

    def fit(self, examples: Examples) -> NetworkModel:
        """The network that the examples, which have encodings, teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = GraphNetwork(self.settings)
        described = examples.described
        network.mean.copy_(torch.from_numpy(described.mean(axis=0)))
        network.scale.copy_(torch.from_numpy(np.maximum(described.std(axis=0), _LEAST_SCALE)))
        model = NetworkModel(network.to(device()))
        target, graph = (
            torch.from_numpy(each).to(device()) for each in (examples.target.astype(np.float32), examples.graph)
        )

        def error(places: Places) -> Tensor:
            answers = model.answers(examples.at(places))
            return loss(answers, target[places], graph[places], self.settings.ranking_weight)

        with one_thread():
            learn(model.network, self.settings, examples.graph, error, self.seed, self.stop)
        return model


def loss(predicted: Tensor, target: Tensor, graph: Tensor, ranking_weight: float) -> Tensor:
    """Huber loss of the log throughput, plus log(1 + exp(−d / 0.1)) of pairs within a graph.

    d is the difference of the predictions of a pair, the one with the larger label first. All tensors [S].
    """
    error = nn.functional.huber_loss(predicted, target, delta=0.3)
    if ranking_weight == 0:
        return error
    first, second = torch.nonzero((graph[:, None] == graph) & (target[:, None] - target > _TIE), as_tuple=True)
    if len(first) == 0:
        return error
    difference = (predicted[first] - predicted[second]) / _RANK_SCALE
    return error + ranking_weight * _RANK_SCALE * nn.functional.softplus(-difference).mean()
