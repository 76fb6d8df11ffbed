"""The policy network (paper section 4.1): GraphSAGE over the operators, then two layers for each operator.

The graph is encoded once; every pass (equation 7) then goes through the two layers only, which see how the
previous assignment looks from each operator. Nothing depends on how the operators are numbered.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from hardware.packages import MAX_CHIPS
from policies.partition.features import FEATURES
from policies.partition.graph_store import StoredGraph
from policies.partition.neighbours import Means
from policies.partition.settings import LearningSettings

STATE = 13
"""Columns of :func:`assignment_state`."""

_WIDE = 0.25
"""Spread of positions at first, without a prior."""

_NARROW = 0.3
"""The same around a prior, in chips: so that most operators stay where it puts them. Wider ones undo what it knows:
of 2,138 operators on 36 chips some always stray so far that repair loads one chip with what they leave."""

_FINEST = 0.3
"""The least spread, in chips: below, all but one chip have no probability, and nothing more is learned."""


_FARTHEST = 1.5
"""How far, in chips, the best partition known is corrected at a time: it takes many small steps, and a policy that has
lost its way must still find better ones to learn from."""

_BOLDNESS = (-1.0, 1.5)
"""Logarithms of the least and the greatest spread around it, over :data:`_NARROW`."""


_ANYWHERE = 1e-3
"""Probability of any chip, however far: without, one operator of an elite that is far from where the network expects it
weighs more in the likelihood than all others, and tears the weights away."""


@dataclass(frozen=True)
class GraphTensors:
    """One graph as the network reads it.

    Attributes:
        features: [N, F].
        edges: (producer, consumer), [2, E].
        work: share of the work before each operator's middle, [N].
        latency: share of all latency, [N].
        transfer: time of each operator's output on a link, in the same unit, [N].
        prior: position that the network corrects, in (0, 1), [N]; None without a prior.
        chips: C.
    """

    features: Tensor
    edges: Tensor
    work: Tensor
    latency: Tensor
    transfer: Tensor
    prior: Tensor | None
    chips: int

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def of_producers(self) -> Means:
        """The mean over each operator's producers."""
        source, target = self.edges
        return Means.of(target, source, len(self), self.features)

    @cached_property
    def of_consumers(self) -> Means:
        """The mean over each operator's consumers."""
        source, target = self.edges
        return Means.of(source, target, len(self), self.features)


def graph_tensors(graph: StoredGraph, settings: LearningSettings, device: torch.device) -> GraphTensors:
    """``graph`` as tensors on ``device``, with the prior of the settings."""
    problem = graph.problem
    latency_s = problem.graph.latency_s
    total_s = latency_s.sum() or 1.0
    transfer_s = problem.graph.output_bytes / problem.link_bytes_per_s
    work = torch.tensor(graph.sequence.work, dtype=torch.float32, device=device)
    return GraphTensors(
        torch.from_numpy(graph.features).to(device),
        torch.tensor(problem.graph.edges.reshape(-1, 2).T.copy(), dtype=torch.int64, device=device),
        work,
        torch.tensor(latency_s / total_s, dtype=torch.float32, device=device),
        torch.tensor(transfer_s / total_s, dtype=torch.float32, device=device),
        work if settings.prior == "diagonal" else None,
        problem.chips,
    )


def assignment_state(graph: GraphTensors, previous: Tensor | None, busy: Tensor | None = None) -> Tensor:
    """How previous assignments look from each operator, [D, N, :data:`STATE`].

    Columns: 1 if nothing is assigned yet; the chip's position; the shares of producers and of consumers on other
    chips; log of the chip's load over its share; how far the work up to this chip runs ahead of the ring; and, over the
    busiest chip or link: how busy the chip, the one before and the one behind, the links into and out of the chip, the
    operator itself, and its output on the link out of the chip are.

    Args:
        graph: the graph.
        previous: chips, [D, N]; None: nothing is assigned yet (D = 1).
        busy: chips and links behind them, over the busiest, as measured, [D, 2, ≥ C]; where it is 0 throughout, or
            None, the latencies of operators and the sizes of outputs stand for it.
    """
    if previous is None:
        state = graph.features.new_zeros(1, len(graph), STATE)
        state[..., 0] = 1.0
        return state
    chips = previous.long()
    count = graph.chips
    load = graph.latency.new_zeros(len(chips), count).scatter_add_(1, chips, graph.latency.expand(len(chips), -1))
    link, leaves = _link_loads(graph, chips)
    most = torch.maximum(load.amax(1), link.amax(1)).clamp(min=1e-9).unsqueeze(1)
    shares = torch.stack([load, link], dim=1) / most.unsqueeze(1)
    if busy is not None:
        measured = busy[:, :, :count]
        shares = torch.where(measured.amax((1, 2), keepdim=True) > 0, measured, shares)
    source, target = graph.edges
    cut = (chips[:, source] != chips[:, target]).to(graph.features)
    ahead = load.cumsum(1) - (torch.arange(count, device=load.device) + 1) / count
    # One chip more at both ends, and a link before the first, that do nothing.
    around, into = nn.functional.pad(shares[:, 0], (1, 1)), nn.functional.pad(shares[:, 1], (1, 0))
    return torch.stack(
        [
            graph.features.new_zeros(chips.shape),
            (chips + 0.5) / count,
            _mean_over(cut, target, len(graph)),
            _mean_over(cut, source, len(graph)),
            torch.log1p(load * count).gather(1, chips),
            ahead.gather(1, chips),
            around.gather(1, chips + 1),
            around.gather(1, chips),
            around.gather(1, chips + 2),
            into.gather(1, chips),
            into.gather(1, chips + 1),
            graph.latency / most,
            torch.where(leaves, graph.transfer / most, 0.0),
        ],
        dim=-1,
    )


def _link_loads(graph: GraphTensors, chips: Tensor) -> tuple[Tensor, Tensor]:
    """(load of the link behind each chip [D, C], whether an operator's output leaves its chip [D, N])."""
    source, target = graph.edges
    farthest = chips.scatter_reduce(1, source.expand(len(chips), -1), chips[:, target], "amax")
    amount = graph.transfer.expand(len(chips), -1)
    steps = graph.transfer.new_zeros(len(chips), graph.chips)
    # What an output adds from its chip on, and no longer adds from its farthest reader's.
    steps = steps.scatter_add(1, chips, amount).scatter_add(1, farthest, -amount)
    return steps.cumsum(1).clamp(min=0.0), farthest > chips


def _mean_over(values: Tensor, node: Tensor, count: int) -> Tensor:
    """Mean of edges' values [D, E] at each operator, [D, N]; 0 where it has none."""
    total = values.new_zeros(len(values), count).index_add_(1, node, values)
    number = values.new_zeros(count).index_add_(0, node, values.new_ones(len(node)))
    return total / number.clamp(min=1.0)


class SageWeights(nn.Module):
    """Weights of a GraphSAGE convolution, with the names and first values of ``SAGEConv`` in PyTorch Geometric.

    :mod:`policies.partition.neighbours` says why that does not do the work; without it, a process that samples
    partitions starts in half the time.

    Args:
        width: of embeddings.
        own: with a weight for the operator itself, and a bias.
    """

    def __init__(self, width: int, own: bool) -> None:
        super().__init__()
        self.lin_l = nn.Linear(width, width, bias=own)
        linears = [self.lin_l]
        if own:
            self.lin_r = nn.Linear(width, width, bias=False)
            linears.append(self.lin_r)
        # SAGEConv draws all weights twice: so does this, for a seed to begin where it always has.
        for linear in linears:
            linear.reset_parameters()


class _Layer(nn.Module):
    """h + ReLU(LayerNorm(W h + W₁ mean over producers + W₂ mean over consumers)): both ways along the edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.producers = SageWeights(width, own=True)
        self.consumers = SageWeights(width, own=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, hidden: Tensor, of_producers: Means, of_consumers: Means) -> Tensor:
        own, producers, consumers = self.producers.lin_r, self.producers.lin_l, self.consumers.lin_l
        mixed = nn.functional.linear(of_producers(hidden), producers.weight, producers.bias)
        mixed = torch.addmm(mixed, hidden, own.weight.t())
        mixed = torch.addmm(mixed, of_consumers(hidden), consumers.weight.t())
        return hidden + torch.relu(self.norm(mixed))


class _FullAttention(nn.Module):
    """Softmax attention over a graph's operators, with a residual; O(N²) time, and O(N) memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, hidden: Tensor) -> Tensor:
        normed = self.norm(hidden).unsqueeze(0)
        mixed, _ = self.attention(normed, normed, normed, need_weights=False)
        added: Tensor = hidden + mixed.squeeze(0)
        return added


class PartitionNetwork(nn.Module):
    """Logits of every operator's chip.

    Args:
        settings: depth, width, attention, head, prior and anchor.
    """

    def __init__(self, settings: LearningSettings) -> None:
        super().__init__()
        width = settings.width
        self.ordinal = settings.head == "ordinal"
        self.anchored = settings.anchor == "best"
        self.corrects = self.anchored or settings.prior != "none"
        self.inward = nn.Linear(len(FEATURES), width)
        self.layers = nn.ModuleList([_Layer(width) for _ in range(settings.layers)])
        self.attention = _FullAttention(width, settings.heads) if settings.attention == "full" else None
        self.hidden = nn.Linear(width + STATE, width)
        self.outward = nn.Linear(width, 2 if self.ordinal else MAX_CHIPS)
        if self.corrects:
            # An untrained network returns its prior.
            nn.init.zeros_(self.outward.weight)
            nn.init.zeros_(self.outward.bias)

    def encode(self, graphs: list[GraphTensors]) -> list[Tensor]:
        """Embeddings h_G of several graphs in one pass, [N, width] each."""
        sizes = [len(graph) for graph in graphs]
        hidden = torch.relu(self.inward(torch.cat([graph.features for graph in graphs])))
        of_producers = Means.joined([graph.of_producers for graph in graphs])
        of_consumers = Means.joined([graph.of_consumers for graph in graphs])
        for layer in self.layers:
            hidden = layer(hidden, of_producers, of_consumers)
        parts = list(torch.split(hidden, sizes))
        return parts if self.attention is None else [self.attention(part) for part in parts]

    def logits(
        self, embedding: Tensor, graph: GraphTensors, previous: Tensor | None, busy: Tensor | None = None
    ) -> Tensor:
        """Logits after previous assignments, [D, N, C].

        Args:
            embedding: of the graph, [N, width].
            graph: its tensors.
            previous: the assignments of the pass before, or the anchors, [D, N]; None at first (D = 1).
            busy: what was measured of those (:func:`assignment_state`).
        """
        state = assignment_state(graph, previous, busy)
        # The embedding is the same for all D, so that its part of the first layer is, too.
        of_embedding, of_state = torch.split(self.hidden.weight, [embedding.shape[-1], STATE], dim=1)
        shared = nn.functional.linear(embedding, of_embedding, self.hidden.bias)
        hidden = torch.relu(shared + state @ of_state.t())
        if self.ordinal:
            return self._ordinal(self.outward(hidden), graph, previous)
        logits = nn.functional.linear(hidden, self.outward.weight[: graph.chips], self.outward.bias[: graph.chips])
        if not self.corrects:
            return logits
        nothing = hidden.new_zeros(*hidden.shape[:-1], 2)
        return logits + torch.log_softmax(self._ordinal(nothing, graph, previous), dim=-1)

    def _ordinal(self, raw: Tensor, graph: GraphTensors, previous: Tensor | None) -> Tensor:
        """Log of (1 − ε) exp(−((x_c − position) / spread)² / 2) / Σ … + ε / C at each chip's middle x_c, [D, N, C].

        x_c = (c + ½) / C, ε = :data:`_ANYWHERE`.
        """
        count = graph.chips
        if self.anchored and previous is not None:
            given = (previous + 0.5) / count
        else:
            given = raw.new_full((len(graph),), 0.5) if graph.prior is None else graph.prior
        position = given + self._correction(raw[..., 0], count)
        wide = _NARROW / count if self.corrects else _WIDE
        least, most = _BOLDNESS if self.anchored else (-4.0, 4.0)
        spread = wide * raw[..., 1].clamp(least, most).exp() + _FINEST / count
        middle = (torch.arange(count, device=raw.device) + 0.5) / count
        apart = (middle - position.unsqueeze(-1)) / spread.unsqueeze(-1)
        near = torch.log_softmax(-0.5 * apart.square(), dim=-1) + math.log1p(-_ANYWHERE)
        return torch.logaddexp(near, near.new_full((), math.log(_ANYWHERE / count)))

    def _correction(self, raw: Tensor, count: int) -> Tensor:
        """How far an operator's position is moved, in shares of the ring."""
        if self.anchored:
            return _FARTHEST * torch.tanh(raw) / count
        # In chips where there is a prior: in shares of the ring, one step of learning would be whole chips.
        return raw / count if self.corrects else raw


def parameters(network: nn.Module) -> int:
    """How many weights a network has."""
    return sum(math.prod(weight.shape) for weight in network.parameters())
