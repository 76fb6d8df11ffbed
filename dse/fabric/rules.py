"""Rules that judge a placement without simulating it, and their weighted sum.

A rule sees the pipeline (with the slots of its operators), the placement and the fabric. This is their definition, in
plain form; :mod:`dse.fabric.search.move_kernels` keeps the same values up to date from move to move.

The *load* of a link is the flits of a sample that pass it. The *isolated slots* of a unit are the slots that it would
need for a sample if the network had no limits: steps of a compute unit, the busiest port of a memory unit, the flits of
an input or output unit on its channel.
"""

from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Pipeline, Placement, UnitKind
from hardware.fabrics import Fabric

Floats = npt.NDArray[np.float64]


class RuleTerms(NamedTuple):
    """The value of each rule; all are better when lower.

    Attributes:
        hops: links of all routes.
        wirelength: flits of a sample times links that they pass, over all nets.
        max_load: of the busiest link, divided by its tracks; slots.
        squared_load: sum of squared loads of links.
        expert: slots of the slowest unit in isolation, or of a net on a congested link: every net is sent at the speed
            of its source in isolation, and where the speeds on a link sum to more than its tracks carry, each net there
            slows down in proportion (paper, section IV-A, "heuristic baselines").
        route: a net needs its flits times the nets that share the busiest link of its route, and then a hop's slots for
            each link to its farthest sink; the worst net counts. It treats time-sharing as if it were never possible
            ("conservative", paper, section II-B).
        off_chip: slots that the busiest channel to the memory off chip needs.
    """

    hops: float
    wirelength: float
    max_load: float
    squared_load: float
    expert: float
    route: float
    off_chip: float


@dataclass(frozen=True, slots=True)
class RuleWeights:
    """What a unit of each relative term (:func:`rule_scales`) adds to the cost.

    Raises:
        ValueError: a weight that is negative or not finite, or none above 0.
    """

    hops: float = 0.0
    wirelength: float = 0.0
    max_load: float = 0.0
    squared_load: float = 0.0
    expert: float = 0.0
    route: float = 0.0
    off_chip: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in asdict(self).items():
            if not (np.isfinite(weight) and weight >= 0):
                raise ValueError(f"`{name}` must be finite and not negative, but got {weight}")
        if not any(asdict(self).values()):
            raise ValueError("at least one rule must have a weight above 0, but all weights are 0")

    @property
    def array(self) -> Floats:
        """The weights in the order of :class:`RuleTerms`, [7]."""
        return np.array([getattr(self, name) for name in RuleTerms._fields])


RULES = tuple(field.name for field in fields(RuleWeights))
"""Names of the rules."""

MIXTURE = RuleWeights(wirelength=1.0, max_load=1.0, squared_load=1.0, route=1.0, off_chip=1.0)
"""Equal weights of the rules that grow with every detour or with the worst of some resource; not tuned."""


def single_rule(name: str) -> RuleWeights:
    """The weights under which one rule alone is the cost."""
    return RuleWeights(**{name: 1.0})


def read_port_slots(pipeline: Pipeline, fabric: Fabric) -> dict[int, list[int]]:
    """Slots a sample that each read port of every memory unit is busy, by unit.

    The k-th net that reads a unit has the port k modulo their number (:mod:`dse.fabric.evaluators`).
    """
    slots = {
        number: [0] * fabric.read_ports for number, unit in enumerate(pipeline.units) if unit.kind == UnitKind.MEMORY
    }
    readers = [0] * len(pipeline.units)
    for net in pipeline.nets:
        if net.source in slots:
            port = readers[net.source] % fabric.read_ports
            slots[net.source][port] += net.flits * (fabric.transposed_read_slots if net.transposed else 1)
            readers[net.source] += 1
    return slots


def write_port_slots(pipeline: Pipeline, fabric: Fabric) -> dict[int, list[int]]:
    """Slots a sample that each write port of every memory unit is busy, by unit; dealt out as reads are."""
    slots = {
        number: [0] * fabric.write_ports for number, unit in enumerate(pipeline.units) if unit.kind == UnitKind.MEMORY
    }
    writers = [0] * len(pipeline.units)
    for net in pipeline.nets:
        for sink in net.sinks:
            if sink.unit in slots:
                slots[sink.unit][writers[sink.unit] % fabric.write_ports] += net.flits
                writers[sink.unit] += 1
    return slots


def isolated_slots(pipeline: Pipeline, fabric: Fabric) -> npt.NDArray[np.int64]:
    """Slots that each unit needs for a sample if the network has no limits, [U], at least 1."""
    slots = pipeline.steps.copy()
    reads, writes = read_port_slots(pipeline, fabric), write_port_slots(pipeline, fabric)
    for number in reads:
        if pipeline.units[number].shares_banks:
            slots[number] = sum(reads[number]) + sum(writes[number])
        else:
            slots[number] = max(reads[number] + writes[number])
    slots += channel_slots(pipeline, fabric)
    return slots.clip(min=1)


def channel_slots(pipeline: Pipeline, fabric: Fabric) -> npt.NDArray[np.int64]:
    """Slots a sample that each input or output unit needs of its channel, [U]; 0 for other units."""
    slots = np.zeros(len(pipeline.units), dtype=np.int64)
    for net in pipeline.nets:
        for number in (net.source, *(sink.unit for sink in net.sinks)):
            if pipeline.units[number].kind in (UnitKind.INPUT, UnitKind.OUTPUT):
                slots[number] += net.flits * fabric.channel_slots
    return slots


def rule_scales(pipeline: Pipeline, fabric: Fabric) -> Floats:
    """What each term is divided by before it is weighted, [7], so that weights mean the same for every graph.

    Slots are counted in slots of the slowest unit in isolation, loads in flits that a link carries in these; sums over
    links become means over the fabric's links.
    """
    links, slots = max(1, len(fabric.grid.link_from)), float(isolated_slots(pipeline, fabric).max(initial=1))
    capacity = fabric.tracks * slots
    return np.array(RuleTerms(links, links * capacity, slots, links * capacity**2, slots, slots, slots))


def rule_terms(pipeline: Pipeline, placement: Placement, fabric: Fabric) -> RuleTerms:
    """The value of each rule for a legal placement; O(links of all routes)."""
    slots = isolated_slots(pipeline, fabric)
    links = len(fabric.grid.link_from)
    load, rate, sharing = np.zeros(links), np.zeros(links), np.zeros(links, dtype=np.int64)
    routes = [placement.route(number) for number in range(len(pipeline.nets))]
    for net, route in zip(pipeline.nets, routes, strict=True):
        load[route] += net.flits
        rate[route] += net.flits / slots[net.source]
        sharing[route] += 1
    expert, worst = float(slots.max(initial=1)), 0.0
    for number, (net, route) in enumerate(zip(pipeline.nets, routes, strict=True)):
        congestion = max(1.0, rate[route].max(initial=0.0) / fabric.tracks)
        expert = max(expert, slots[net.source] * congestion)
        hops = route_depth(pipeline, placement, fabric, number)
        worst = max(worst, net.flits * max(1, sharing[route].max(initial=0)) + fabric.hop_slots * hops)
    busy = np.zeros(fabric.channel_count)
    np.add.at(busy, fabric.channel_of_site[placement.site], channel_slots(pipeline, fabric))
    return RuleTerms(
        hops=sum(len(route) for route in routes),
        wirelength=sum(net.flits * len(route) for net, route in zip(pipeline.nets, routes, strict=True)),
        max_load=float(load.max(initial=0.0)) / fabric.tracks,
        squared_load=float((load**2).sum()),
        expert=expert,
        route=float(worst),
        off_chip=float(busy.max()),
    )


def route_depth(pipeline: Pipeline, placement: Placement, fabric: Fabric, net: int) -> int:
    """Links from a net's source to its farthest sink."""
    grid = fabric.grid
    depth = {int(grid.site_cell[placement.site[pipeline.nets[net].source]]): 0}
    for link in placement.route(net):
        depth[int(grid.link_to[link])] = depth[int(grid.link_from[link])] + 1
    return max(depth[int(grid.site_cell[placement.site[sink.unit]])] for sink in pipeline.nets[net].sinks)


def rule_cost(pipeline: Pipeline, placement: Placement, fabric: Fabric, weights: RuleWeights) -> float:
    """The weighted sum of the relative terms."""
    terms = np.array(rule_terms(pipeline, placement, fabric))
    return float(weights.array @ (terms / rule_scales(pipeline, fabric)))
