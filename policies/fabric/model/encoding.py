"""A placement as a graph for networks: units, nets, routes and links as nodes with features, and who meets whom."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Placement, UnitKind
from hardware.operator_slots import KINDS
from policies.fabric.model.feature_kernels import spread
from policies.fabric.model.features import Featurizer

Float32 = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

UNIT_FEATURES = ("compute", "memory", "input", "output", "slots", "work", "samples", "shares_banks")
NET_FEATURES = ("flits", "late", "transposed", "sinks", "slots", "links")
ROUTE_FEATURES = ("early", "hops", "latency")
LINK_FEATURES = ("slots", "load", "flows", "rate")
"""What each kind of node has; ``slots``: what it would need for a sample by itself, as the logarithm of their share in
slots of the slowest unit in isolation; other numbers are logarithms as well."""

OPERATIONS = ("unknown", "input", "output", *KINDS)
"""Kinds of operators that units work for, in the order of their numbers."""

STAGES = 64
"""Stages with an embedding of their own; units of later ones have that of the last."""

_OPERATION = {kind: number for number, kind in enumerate(OPERATIONS)}


class Encoding(NamedTuple):
    """A placement.

    Attributes:
        unit: [U, 8].
        net: [N, 6].
        route: of every net to every sink, [K, 3].
        link: of links that nets pass, [L, 4].
        net_source: unit of each net, [N].
        route_net, route_sink: net and unit of each route, [K].
        crossing_net, crossing_link: nets on links, [C].
        operation: number in :data:`OPERATIONS` of what each unit works for, [U].
        stage: nets before each unit on the longest path to it, [U].
    """

    unit: Float32
    net: Float32
    route: Float32
    link: Float32
    net_source: Integers
    route_net: Integers
    route_sink: Integers
    crossing_net: Integers
    crossing_link: Integers
    operation: Integers
    stage: Integers


@dataclass(frozen=True, eq=False)
class Encoder:
    """Encodes placements of one pipeline on one fabric.

    Attributes:
        featurizer: of the same.
        operators: kind of the operator that each unit works for, [U]; empty where nobody knows.
    """

    featurizer: Featurizer
    operators: tuple[str, ...] = ()

    def __call__(self, placement: Placement) -> Encoding:
        """The encoding of a legal placement."""
        case, fabric = self.featurizer.case, self.featurizer.fabric
        base, hop_slots = case.slowest, float(fabric.hop_slots)
        lengths = placement.route_first[1:] - placement.route_first[:-1]
        crossing_net = np.repeat(np.arange(len(lengths)), lengths)
        links, hops = spread(case, placement.site, placement.route_first, placement.route_link)
        used = np.flatnonzero(links[1])
        place = np.empty(links.shape[1], dtype=np.int64)
        place[used] = np.arange(len(used))
        crossing_link = place[placement.route_link]
        load, flows, rate, bursts = links[:, used]
        switching = np.where(flows > fabric.tracks, fabric.switch_slots * bursts, 0.0)
        sharing = np.ones(len(lengths))
        np.maximum.at(sharing, crossing_net, flows[crossing_link])
        places = np.clip(
            np.floor(fabric.buffer_flits / np.ceil(sharing / fabric.tracks)),
            fabric.min_flow_flits,
            fabric.max_flow_flits,
        )
        queue = case.flits * (hop_slots + 1) / places
        units, nets, early = self._constant
        net = np.column_stack((nets, _log(queue / base), np.log1p(lengths)))
        route = np.column_stack((early, np.log1p(hops), hops * hop_slots / base))
        link = np.column_stack(
            (_log((load + switching) / fabric.tracks / base), _log(load / base), np.log(flows), _log(rate))
        )
        return Encoding(
            unit=units,
            net=net.astype(np.float32),
            route=route.astype(np.float32),
            link=link.astype(np.float32),
            net_source=case.source,
            route_net=self._route_net,
            route_sink=case.sink,
            crossing_net=crossing_net,
            crossing_link=crossing_link,
            operation=self._operation,
            stage=self._stage,
        )

    @cached_property
    def _route_net(self) -> Integers:
        return np.repeat(np.arange(len(self.featurizer.case.source)), np.diff(self.featurizer.case.sink_first))

    @cached_property
    def _operation(self) -> Integers:
        kinds = self.operators or ("",) * len(self.featurizer.pipeline.units)
        return np.array([_OPERATION.get(kind, 0) for kind in kinds], dtype=np.int64)

    @cached_property
    def _stage(self) -> Integers:
        pipeline = self.featurizer.pipeline
        stage = np.zeros(len(pipeline.units), dtype=np.int64)
        sent: dict[int, list[int]] = defaultdict(list)
        for net in pipeline.nets:
            sent[net.source] += [sink.unit for sink in net.sinks]
        for unit in pipeline.order:
            stage[sent[unit]] = np.maximum(stage[sent[unit]], stage[unit] + 1)
        return np.minimum(stage, STAGES - 1)

    @cached_property
    def _constant(self) -> tuple[Float32, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """What no placement changes of units, nets and routes."""
        pipeline, case = self.featurizer.pipeline, self.featurizer.case
        kinds = np.array([unit.kind for unit in pipeline.units])
        units = np.column_stack(
            (
                *(kinds == kind for kind in UnitKind),
                _log(self.featurizer.isolated / case.slowest),
                _log(np.array([unit.work_slots for unit in pipeline.units]) / case.slowest),
                np.log1p([unit.samples for unit in pipeline.units]),
                [unit.shares_banks for unit in pipeline.units],
            )
        )
        nets = np.column_stack(
            (
                _log(case.flits / case.slowest),
                [net.late for net in pipeline.nets],
                [net.transposed for net in pipeline.nets],
                np.log([len(net.sinks) for net in pipeline.nets]),
            )
        )
        early = np.array([sink.early for net in pipeline.nets for sink in net.sinks], dtype=np.float64)
        return units.astype(np.float32), nets.astype(np.float64), early


def _log(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Logarithms, of nothing as of a hundredth."""
    return np.asarray(np.log(np.maximum(values, 0.01)), dtype=np.float64)
