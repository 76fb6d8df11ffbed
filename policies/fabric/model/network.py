"""The graph network over encoded placements: units, nets, routes and links tell each other what they meet.

States of a width w begin as linear functions of features. In every layer, with φ a perceptron of one hidden layer and
lse log (1 + Σ exp) over who is met (:mod:`policies.fabric.model.messages`),

    link l:  h_l += φ(h_l, lse over its nets of A h_n)
    net n:   h_n += φ(h_n, lse over its links of B h_l, mean over its routes r of silu(C h_sink + D x_r), h_source)
    unit u:  h_u += φ(h_u, lse over its nets of E h_n, lse over routes to it of F h_n + G x_r)

Every resource i (unit, net or link) needs s_i slots by itself, which are known, and its state corrects them by c_i. The
soft maximum T(c) = 1/β ln Σ exp β (ln s_i + c_i) is what a sample takes by them, and its gradient says which of them
matter: by these shares states are averaged. A perceptron of the averages and of hand features says what is to be added:

    log throughput = T(0) − T(c) − max ln s_i + φ(averages, T(c), hand features)

Before it has learned, the network says that a sample takes as long as the slowest resource needs by itself.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from policies.fabric.model.contention import CONTENTION
from policies.fabric.model.encoding import LINK_FEATURES, NET_FEATURES, ROUTE_FEATURES, UNIT_FEATURES, Encoding
from policies.fabric.model.features import FEATURES
from policies.fabric.model.messages import Incidence, largest, soft_maximum
from policies.fabric.model.settings import CostSettings

_SLOTS = {
    "unit": UNIT_FEATURES.index("slots"),
    "net": NET_FEATURES.index("slots"),
    "link": LINK_FEATURES.index("slots"),
}
"""Where each kind of resource has the logarithm of the slots that it needs by itself."""

DESCRIBED = len(FEATURES) + len(CONTENTION)
"""Features of a placement that the readout sees."""

_LIMIT = 4.0
"""Deviations from the mean at which these are cut: what was never seen leads anywhere."""

_READOUT = (48, 24)
"""Hidden layers of the readout."""


class Batch(NamedTuple):
    """Placements side by side; shapes as of :class:`~policies.fabric.model.encoding.Encoding`, over all placements.

    Attributes:
        features: of hand and of contention, [B, F].
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
    operation: Tensor
    stage: Tensor
    features: Tensor
    unit_owner: Tensor
    net_owner: Tensor
    link_owner: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        return Batch(*(each.to(device) for each in self))


def batched(encodings: Sequence[Encoding], features: Tensor) -> Batch:
    """Placements side by side, with their features, [B, F]."""

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
        operation=joined("operation"),
        stage=joined("stage"),
        features=features,
        unit_owner=owner("unit"),
        net_owner=owner("net"),
        link_owner=owner("link"),
    )


class Meetings(NamedTuple):
    """Who meets whom in a batch: nets and links, nets and routes, units and the nets they send, units and routes."""

    net_links: Incidence
    net_routes: Incidence
    unit_nets: Incidence
    unit_routes: Incidence

    @classmethod
    def of(cls, batch: Batch) -> "Meetings":
        """Those of a batch."""
        units, nets, links, routes = (len(each) for each in (batch.unit, batch.net, batch.link, batch.route))
        every_net, every_route = (torch.arange(many, device=batch.unit.device) for many in (nets, routes))
        return cls(
            Incidence(batch.crossing_net, batch.crossing_link, nets, links),
            Incidence(batch.route_net, every_route, nets, routes),
            Incidence(batch.net_source, every_net, units, nets),
            Incidence(batch.route_sink, every_route, units, routes),
        )


class _Layer(nn.Module):
    """A round of messages: to links, nets and units, each from those that it meets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        names = ("net_to_link", "link_to_net", "sink_to_net", "net_to_source", "net_to_sink")
        self.send = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in names})
        self.route = nn.ModuleDict({name: nn.Linear(len(ROUTE_FEATURES), width) for name in ("back", "forth")})
        self.update = nn.ModuleDict(
            {kind: _perceptron(many * width, width, width) for kind, many in (("link", 2), ("net", 4), ("unit", 3))}
        )

    def forward(
        self, unit: Tensor, net: Tensor, link: Tensor, route: Tensor, batch: Batch, met: Meetings
    ) -> tuple[Tensor, Tensor, Tensor]:
        send, update = self.send, self.update
        passing = met.net_links.turned.log_sum(send["net_to_link"](net))
        link = link + update["link"](torch.cat((link, passing), dim=1))
        passed = met.net_links.log_sum(send["link_to_net"](link))
        sinks = send["sink_to_net"](unit).index_select(0, batch.route_sink) + self.route["back"](route)
        read_by = met.net_routes.mean(nn.functional.silu(sinks))
        source = unit.index_select(0, batch.net_source)
        net = net + update["net"](torch.cat((net, passed, read_by, source), dim=1))
        sent = met.unit_nets.log_sum(send["net_to_source"](net))
        arriving = send["net_to_sink"](net).index_select(0, batch.route_net) + self.route["forth"](route)
        read = met.unit_routes.log_sum(arriving)
        unit = unit + update["unit"](torch.cat((unit, sent, read), dim=1))
        return unit, net, link


class GraphNetwork(nn.Module):
    """The network of this module.

    Args:
        settings: of it.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, settings: CostSettings) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        kinds = {"unit": UNIT_FEATURES, "net": NET_FEATURES, "link": LINK_FEATURES}
        self.enter = nn.ModuleDict({kind: nn.Linear(len(names), width) for kind, names in kinds.items()})
        self.layers = nn.ModuleList([_Layer(width) for _ in range(settings.layers)])
        self.correct = nn.ModuleDict({kind: _at_zero(_perceptron(width, width, 1)) for kind in _SLOTS})
        self.sharpness = nn.Parameter(torch.tensor([2.0]))
        self.readout = _at_zero(_perceptron(len(_SLOTS) * width + 1 + DESCRIBED, *_READOUT, 1))
        self.register_buffer("mean", torch.zeros(DESCRIBED))
        self.register_buffer("scale", torch.ones(DESCRIBED))

    def forward(self, batch: Batch) -> Tensor:
        """The log throughput of each placement, [B]."""
        shown = {"unit": self.settings.unit_features}
        shown |= dict.fromkeys(("net", "route", "link"), self.settings.edge_features)
        given = {kind: getattr(batch, kind) * float(is_shown) for kind, is_shown in shown.items()}
        unit, net, link = (self.enter[kind](given[kind]) for kind in _SLOTS)
        met = Meetings.of(batch)
        for layer in self.layers:
            unit, net, link = layer(unit, net, link, given["route"], batch, met)
        states = (unit, net, link)
        slots = torch.cat([given[kind][:, column] for kind, column in _SLOTS.items()])
        corrections = torch.cat([self.correct[kind](state) for kind, state in zip(_SLOTS, states, strict=True)])
        owners = (batch.unit_owner, batch.net_owner, batch.link_owner)
        owner, count = torch.cat(owners), len(batch.features)
        beta = nn.functional.softplus(self.sharpness)
        values = beta * (slots + corrections.squeeze(1))
        taken, known = (soft_maximum(each, owner, count) for each in (values, beta * slots))
        shares = torch.split(torch.exp(values - taken.index_select(0, owner)), [len(each) for each in states])
        averages = [
            state.new_zeros(count, state.shape[1]).index_add(0, own, state * share.unsqueeze(1))
            for state, own, share in zip(states, owners, shares, strict=True)
        ]
        hand = ((batch.features - self.mean) / self.scale).clamp(-_LIMIT, _LIMIT)
        seen = torch.cat((*averages, taken.unsqueeze(1) / beta, hand * float(self.settings.hand_features)), dim=1)
        slowest = largest(slots, owner, count)
        answer: Tensor = (known - taken) / beta - slowest + self.readout(seen).squeeze(1)
        return answer


def _perceptron(*sizes: int) -> nn.Sequential:
    """Linear layers of these sizes, with x · sigmoid(x) between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


def _at_zero(perceptron: nn.Sequential) -> nn.Sequential:
    """The perceptron, which says nothing before it has learned."""
    for parameter in perceptron[-1].parameters():
        nn.init.zeros_(parameter)
    return perceptron
