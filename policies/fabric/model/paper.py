"""The paper's cost model: Algorithm 1 over units and routes, then a regressor (Guha et al., sections II-C and III).

With m the size of states, [·] concatenation and MAX(x) = max(x, 0), every layer k does for each unit v

    s_v = MAX(W_E [AGGR of e over the routes at v, AGGR of h_u over the units at their other ends]),   W_E: 2m × 2m
    h_v ← W_V [h_v, s_v],                                                                            W_V: 3m × m

These are the sizes with which W_V is 3m × m as the text says, though line 11 concatenates two vectors. A unit begins
with its type, its performance annotations, and learned vectors of its operator's kind and of its stage; a route with
its length and what its net carries. The mean or maximum of h over all units goes through three layers with ReLU.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.encoding import NET_FEATURES, OPERATIONS, ROUTE_FEATURES, STAGES, UNIT_FEATURES
from policies.fabric.model.examples import Examples
from policies.fabric.model.messages import Incidence
from policies.fabric.model.network import Batch, batched
from policies.fabric.model.passes import Places, device, learn, predicted
from policies.fabric.model.threads import one_thread

Floats = npt.NDArray[np.float64]

Aggregation = Literal["mean", "sum", "max"]
Pooling = Literal["mean", "max"]
Target = Literal["logarithm", "throughput"]

BATCH = 256
"""Placements that are predicted together."""


@dataclass(frozen=True)
class PaperSettings:
    """What the paper leaves open.

    Attributes:
        layers: K.
        width: m.
        embedding: sizes of the learned vectors, m_o and m_s.
        aggregation: AGGR.
        pooling: of units at the end; AVG in Algorithm 1, where the text says "like AVG".
        target: whose squared error is learned from: the throughput relative to the slowest unit in isolation, or its
            logarithm.
        node_embeddings, edge_embeddings: whether units and routes are described at all (Table III).
        epochs: passes over the samples.
        graphs_in_batch: whose samples are learned from together.
        learning_rate: of Adam at the start.
        weight_decay: of Adam.

    Raises:
        ValueError: a value outside its range.
    """

    layers: int = 3
    width: int = 32
    embedding: int = 8
    aggregation: Aggregation = "mean"
    pooling: Pooling = "mean"
    target: Target = "logarithm"
    node_embeddings: bool = True
    edge_embeddings: bool = True
    epochs: int = 25
    graphs_in_batch: int = 12
    learning_rate: float = 3e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("aggregation", Aggregation), ("pooling", Pooling), ("target", Target)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"`{name}` must be one of {', '.join(get_args(kind))}, but got {getattr(self, name)}")
        for name in ("layers", "width", "embedding", "epochs", "graphs_in_batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name} >= 1` must hold, but got {getattr(self, name)}")


class PaperNetwork(nn.Module):
    """Algorithm 1 and the regressor.

    Args:
        settings: of the network.
        centre: target that is expected before anything was learned.
    """

    def __init__(self, settings: PaperSettings, centre: float = 0.0) -> None:
        super().__init__()
        width, embedding = settings.width, settings.embedding
        self.settings, self.centre = settings, centre
        self.operation = nn.Embedding(len(OPERATIONS), embedding)
        self.stage = nn.Embedding(STAGES, embedding)
        self.node = nn.Linear(len(UNIT_FEATURES) + 2 * embedding, width)
        self.edge = nn.Linear(len(ROUTE_FEATURES) + len(NET_FEATURES), width)
        self.around = nn.ModuleList([nn.Linear(2 * width, 2 * width) for _ in range(settings.layers)])
        self.update = nn.ModuleList([nn.Linear(3 * width, width) for _ in range(settings.layers)])
        self.regressor = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, batch: Batch) -> Tensor:
        """The log throughput of each placement relative to its slowest unit in isolation, [B]."""
        settings, units = self.settings, len(batch.unit)
        described = torch.cat((batch.unit, self.operation(batch.operation), self.stage(batch.stage)), dim=1)
        unit = self.node(described * float(settings.node_embeddings))
        carried = torch.cat((batch.route, batch.net.index_select(0, batch.route_net)), dim=1)
        edge = self.edge(carried * float(settings.edge_embeddings))
        source, sink = batch.net_source[batch.route_net], batch.route_sink
        ends, others = torch.cat((source, sink)), torch.cat((sink, source))
        routes = torch.arange(len(edge), device=edge.device)
        at_edges = _aggregated(settings.aggregation, edge, Incidence(ends, routes.repeat(2), units, len(edge)))
        neighbours = Incidence(ends, others, units, units)
        for around, update in zip(self.around, self.update, strict=True):
            met = torch.cat((at_edges, _aggregated(settings.aggregation, unit, neighbours)), dim=1)
            unit = update(torch.cat((unit, torch.relu(around(met))), dim=1))
        placements = torch.arange(units, device=unit.device)
        whole = _aggregated(settings.pooling, unit, Incidence(batch.unit_owner, placements, len(batch.features), units))
        answer: Tensor = self.centre + self.regressor(whole).squeeze(1)
        return answer


def _aggregated(how: Aggregation, values: Tensor, met: Incidence) -> Tensor:
    return {"mean": met.mean, "sum": met.sum, "max": met.max}[how](values)


@dataclass(frozen=True, eq=False)
class PaperModel:
    """A network that has learned."""

    network: PaperNetwork

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        return predicted(self.network, self.answers, examples, BATCH)

    def answers(self, examples: Examples) -> Tensor:
        """What the network says, [S]."""
        answers: Tensor = self.network(batched(examples.encodings, torch.zeros(len(examples), 1)).to(device()))
        return answers


@dataclass(frozen=True)
class PaperLearner:
    """Trains the paper's model.

    Attributes:
        settings: of network and training.
        seed: of first weights and the order of graphs.
        stop: called after each pass.
    """

    settings: PaperSettings = PaperSettings()
    seed: int = 0
    stop: StopSignal = field(default=never_stop, compare=False)

    def fit(self, examples: Examples) -> PaperModel:
        """The model that the examples teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = PaperModel(PaperNetwork(self.settings, float(examples.target.mean())).to(device()))
        target = torch.from_numpy(examples.target.astype(np.float32)).to(device())

        def error(places: Places) -> Tensor:
            answers, labels = model.answers(examples.at(places)), target[places]
            if self.settings.target == "throughput":
                answers, labels = answers.exp(), labels.exp()
            return nn.functional.mse_loss(answers, labels)

        with one_thread():
            learn(model.network, self.settings, examples.graph, error, self.seed, self.stop)
        return model
