"""Networks over encoded placements, in PyTorch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from policies.fabric.model.encoding import LINK_FEATURES, NET_FEATURES, ROUTE_FEATURES, UNIT_FEATURES, Encoding
from policies.fabric.model.features import FEATURES
from policies.fabric.model.settings import CostSettings

_UNIT_SLOTS = UNIT_FEATURES.index("slots")
_NET_SLOTS = NET_FEATURES.index("slots")
_LINK_SLOTS = LINK_FEATURES.index("slots")


class Batch(NamedTuple):
    """Placements side by side; shapes as of :class:`~policies.fabric.model.encoding.Encoding`, over all placements.

    Attributes:
        features: hand features, standardised, [B, F].
        offset: what the network's answer is added to, [B].
        unit_owner, net_owner, link_owner: the placement of each unit, net and link.
    """

    unit: Tensor
    net: Tensor
    route: Tensor
    link: Tensor
    net_source: Tensor
    route_net: Tensor
    route_sink: Tensor
    crossing_net: Tensor
    crossing_link: Tensor
    features: Tensor
    offset: Tensor
    unit_owner: Tensor
    net_owner: Tensor
    link_owner: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        return Batch(*(each.to(device) for each in self))


def batched(encodings: Sequence[Encoding], features: Tensor, offset: Tensor) -> Batch:
    """Placements side by side, with their standardised hand features, [B, F], and offsets, [B]."""

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(each, name) for each in encodings]))

    counts = {kind: np.array([len(getattr(each, kind)) for each in encodings]) for kind in ("unit", "net", "link")}
    first = {kind: np.cumsum(many) - many for kind, many in counts.items()}

    def shifted(name: str, kind: str) -> Tensor:
        parts = [getattr(each, name) + start for each, start in zip(encodings, first[kind], strict=True)]
        return torch.from_numpy(np.concatenate(parts))

    def owner(kind: str) -> Tensor:
        return torch.from_numpy(np.repeat(np.arange(len(encodings)), counts[kind]))

    return Batch(
        unit=joined("unit"),
        net=joined("net"),
        route=joined("route"),
        link=joined("link"),
        net_source=shifted("net_source", "unit"),
        route_net=shifted("route_net", "net"),
        route_sink=shifted("route_sink", "unit"),
        crossing_net=shifted("crossing_net", "net"),
        crossing_link=shifted("crossing_link", "link"),
        features=features,
        offset=offset,
        unit_owner=owner("unit"),
        net_owner=owner("net"),
        link_owner=owner("link"),
    )


def mean_over(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The mean of the values with each index, 0 where there are none, [count, ·]."""
    total = values.new_zeros(count, values.shape[1]).index_add(0, index, values)
    many = values.new_zeros(count).index_add(0, index, values.new_ones(len(index)))
    return total / many.clamp(min=1).unsqueeze(1)


def max_over(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The maximum of the values with each index, 0 where there are none, [count, ·]."""
    start = values.new_zeros(count, values.shape[1])
    where = index.unsqueeze(1).expand_as(values)
    return start.scatter_reduce(0, where, values, "amax", include_self=False)


def soft_maximum(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Log Σ exp of the values of each owner, [count]."""
    largest = values.new_full((count,), -1e4).scatter_reduce(0, owner, values.detach(), "amax", include_self=True)
    total = values.new_zeros(count).index_add(0, owner, torch.exp(values - largest[owner]))
    return largest + torch.log(total)


def _perceptron(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width))


class _Layer(nn.Module):
    """A round of messages: routes, links, nets and units, each from those that it meets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.route = _perceptron(3 * width, width)
        self.link = _perceptron(3 * width, width)
        self.net = _perceptron(5 * width, width)
        self.unit = _perceptron(3 * width, width)

    def forward(
        self, unit: Tensor, net: Tensor, route: Tensor, link: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        route = route + self.route(
            torch.cat((route, net.index_select(0, batch.route_net), unit.index_select(0, batch.route_sink)), dim=1)
        )
        on_link = net.index_select(0, batch.crossing_net)
        passing = (
            mean_over(on_link, batch.crossing_link, len(link)),
            max_over(on_link, batch.crossing_link, len(link)),
        )
        link = link + self.link(torch.cat((link, *passing), dim=1))
        passed = link.index_select(0, batch.crossing_link)
        met = (
            mean_over(passed, batch.crossing_net, len(net)),
            max_over(passed, batch.crossing_net, len(net)),
            mean_over(route, batch.route_net, len(net)),
        )
        net = net + self.net(torch.cat((net, unit.index_select(0, batch.net_source), *met), dim=1))
        sent = mean_over(net, batch.net_source, len(unit))
        read = mean_over(route, batch.route_sink, len(unit))
        unit = unit + self.unit(torch.cat((unit, sent, read), dim=1))
        return unit, net, route, link


class ResourceNetwork(nn.Module):
    """Slots that every unit, net and link needs, and their soft maximum.

    What a resource needs by itself is known. Messages tell of its surroundings, by which that is corrected. Without an
    offset the answer is the logarithm of the throughput relative to the slowest unit in isolation: minus the soft
    maximum of the corrected logarithms of slots. An offset is corrected by as much as the soft maximum is.
    """

    def __init__(self, settings: CostSettings) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        kinds = {"unit": UNIT_FEATURES, "net": NET_FEATURES, "route": ROUTE_FEATURES, "link": LINK_FEATURES}
        self.enter = nn.ModuleDict({kind: nn.Linear(len(names), width) for kind, names in kinds.items()})
        self.layers = nn.ModuleList([_Layer(width) for _ in range(settings.layers)])
        self.whole = nn.Linear(len(FEATURES), width)
        self.correct = nn.ModuleDict({kind: _corrector(width) for kind in ("unit", "net", "link")})
        self.sharpness = nn.Parameter(torch.tensor([2.0]))

    def forward(self, batch: Batch) -> Tensor:
        """The log throughput of each placement, [B]."""
        shown = {"unit": self.settings.unit_features}
        shown |= dict.fromkeys(("net", "route", "link"), self.settings.edge_features)
        given = {kind: getattr(batch, kind) * float(is_shown) for kind, is_shown in shown.items()}
        unit, net, route, link = (self.enter[kind](given[kind]) for kind in ("unit", "net", "route", "link"))
        for layer in self.layers:
            unit, net, route, link = layer(unit, net, route, link, batch)
        whole = self.whole(batch.features * float(self.settings.on_stack))
        owners = {"unit": batch.unit_owner, "net": batch.net_owner, "link": batch.link_owner}
        own = {"unit": _UNIT_SLOTS, "net": _NET_SLOTS, "link": _LINK_SLOTS}
        slots = torch.cat([given[kind][:, column] for kind, column in own.items()])
        states = {"unit": unit, "net": net, "link": link}
        corrections = torch.cat(
            [
                self.correct[kind](torch.cat((states[kind], whole.index_select(0, owners[kind])), dim=1)).squeeze(1)
                for kind in own
            ]
        )
        owner, count = torch.cat(list(owners.values())), len(batch.features)
        beta = nn.functional.softplus(self.sharpness)
        answer: Tensor = batch.offset - soft_maximum(beta * (slots + corrections), owner, count) / beta
        if self.settings.on_stack:
            answer = answer + soft_maximum(beta * slots, owner, count) / beta
        return answer


def _corrector(width: int) -> nn.Sequential:
    """A perceptron that corrects nothing before it has learned."""
    last = nn.Linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), last)


class PaperNetwork(nn.Module):
    """The paper's form: units as nodes, routes as edges with their length (section III, Algorithm 1).

    h_v ← ReLU(W_V [h_v, max over edges (u, v) of ReLU(W_E [h_u, e_uv])]), in every layer; the mean over units, then a
    perceptron. The printed algorithm is garbled; this is what its text describes.
    """

    def __init__(self, settings: CostSettings) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        self.node = nn.Linear(len(UNIT_FEATURES), width)
        self.edge = nn.Linear(len(ROUTE_FEATURES), width)
        self.message = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(settings.layers)])
        self.update = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(settings.layers)])
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> Tensor:
        """The log throughput of each placement, [B]."""
        unit = self.node(batch.unit * float(self.settings.unit_features))
        edge = self.edge(batch.route * float(self.settings.edge_features))
        source = batch.net_source[batch.route_net]
        for message, update in zip(self.message, self.update, strict=True):
            sent = torch.relu(message(torch.cat((unit[source], edge), dim=1)))
            unit = torch.relu(update(torch.cat((unit, max_over(sent, batch.route_sink, len(unit))), dim=1)))
        pooled = mean_over(unit, batch.unit_owner, len(batch.features))
        answer: Tensor = self.readout(pooled).squeeze(1) + batch.offset
        return answer


def network_of(settings: CostSettings) -> nn.Module:
    """The network that settings describe, with random weights."""
    return PaperNetwork(settings) if settings.form == "paper" else ResourceNetwork(settings)
