"""Networks learn from examples, and predict."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from dse.run.progress import StopSignal, ask, never_stop
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import Batch, batched, network_of
from policies.fabric.model.ridge import standardised
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import Stack, StackLearner
from policies.fabric.model.threads import one_thread

Floats = npt.NDArray[np.float64]

BATCH = 64
"""Placements that are predicted together."""

_TIE = 0.01
"""Placements of a graph whose log throughput differs by less are not ranked: that is the error of a label."""

_RANK_SCALE = 0.1
"""Log throughput by which the loss on ranks is stretched."""


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network with the stack that it corrects, or by whose means it only standardises hand features."""

    network: nn.Module
    stack: Stack
    is_on_stack: bool

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        offset = self.offset(examples)
        answers = []
        self.network.eval()
        with torch.inference_mode(), one_thread():
            for first in range(0, len(examples), BATCH):
                places = np.arange(first, min(first + BATCH, len(examples)))
                batch = self.batch(examples.at(places), offset[places])
                answers.append(self.network(batch).double().cpu().numpy())
        return np.concatenate(answers) if answers else np.zeros(0)

    def offset(self, examples: Examples) -> Floats:
        """What the network corrects, [S]."""
        return self.stack.predict(examples) if self.is_on_stack else np.zeros(len(examples))

    def batch(self, examples: Examples, offset: Floats) -> Batch:
        """Examples for the network, on its device."""
        hand = examples.features.shape[1]
        mean, scale = (each[:hand] for each in (self.stack.perceptrons.mean, self.stack.perceptrons.scale))
        features, added = (
            torch.from_numpy(each.astype(np.float32)) for each in (standardised(examples.features, mean, scale), offset)
        )
        return batched(examples.encodings, features, added).to(next(self.network.parameters()).device)


def device() -> torch.device:
    """Where networks learn and predict: a CUDA device, where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


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
    stop: StopSignal = never_stop

    def fit(self, examples: Examples) -> NetworkModel:
        """The network that the examples teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        return self.fit_on(*StackLearner().fit_for(examples, self.settings.on_stack), examples)

    def fit_on(self, stack: Stack, offset: Floats, examples: Examples) -> NetworkModel:
        """As :meth:`fit`, on a stack of the same examples and what the network is to correct, [S]."""
        with one_thread():
            return self._fitted(stack, offset, examples)

    def _fitted(self, stack: Stack, offset: Floats, examples: Examples) -> NetworkModel:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = network_of(self.settings).to(device())
        model = NetworkModel(network, stack, self.settings.on_stack)
        optimiser = AdamW(network.parameters(), lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay)
        batches = -(-len(np.unique(examples.graph)) // self.settings.graphs_in_batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.settings.epochs * batches)
        generator = np.random.default_rng(self.seed)
        for _ in range(self.settings.epochs):
            network.train()
            for places in self._batches(examples, generator):
                part = examples.at(places)
                target = torch.from_numpy(part.target.astype(np.float32)).to(device())
                graph = torch.from_numpy(part.graph).to(device())
                error = loss(network(model.batch(part, offset[places])), target, graph, self.settings.ranking_weight)
                optimiser.zero_grad()
                torch.autograd.backward(error)
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                schedule.step()
            ask(self.stop)
        return model

    def _batches(self, examples: Examples, generator: np.random.Generator) -> Iterator[npt.NDArray[np.bool_]]:
        graphs = generator.permutation(np.unique(examples.graph))
        for first in range(0, len(graphs), self.settings.graphs_in_batch):
            yield np.isin(examples.graph, graphs[first : first + self.settings.graphs_in_batch])


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
