"""Hand features of a placement, from the pipeline, the placement and the fabric alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.fabric.bound import own_bound
from dse.fabric.model import Pipeline, Placement, UnitKind
from dse.fabric.rules import channel_slots, isolated_slots
from hardware.fabrics import Fabric
from policies.fabric.model import feature_kernels as kernels
from policies.fabric.model.event_graph import event_graph

Floats = npt.NDArray[np.float64]

FEATURES = (
    "base",
    "ideal",
    "bound",
    "ports",
    "units",
    "stages",
    "off_chip",
    "max_load",
    "busy",
    "soft_load",
    "mean_load",
    "squared_load",
    "expert",
    "route",
    "queue",
    "hops",
    "wirelength",
    "depth",
    "max_sharing",
    "mean_sharing",
    "period",
)
"""Names of the features, all of them logarithms. *Slots* are counted in slots of the slowest unit in isolation.

- ``base``: these slots; ``ideal``: slots of work of the slowest compute unit; ``bound``: the least that one
  resource allows any placement (:func:`dse.fabric.bound.own_bound`); ``ports``: of the busiest port of a memory unit;
  ``units`` and ``stages`` of the pipeline.
- ``off_chip``: of the busiest channel; ``max_load``, ``mean_load``: of the busiest link, and of all used ones;
  ``squared_load``: the root of their mean square; ``soft_load``: their 8-norm; ``busy``: of the busiest link with a
  dead slot after every burst where flows share it.
- ``expert``, ``route``: the rules of :mod:`dse.fabric.rules`; ``queue``: of a net whose queues hold as few flits as its
  busiest link leaves it.
- ``hops``: links of a net, on average; ``wirelength``: flits on a link, over all links of the fabric; ``depth``: links
  to the farthest sink; ``max_sharing``, ``mean_sharing``: flows on a link, at most and as a flit sees it.
- ``period``: the least period without contention (:mod:`policies.fabric.model.event_graph`).
"""


@dataclass(frozen=True, eq=False)
class Featurizer:
    """Features of placements of one pipeline on one fabric.

    Attributes:
        pipeline, fabric: of all placements.
    """

    pipeline: Pipeline
    fabric: Fabric

    def __call__(self, placement: Placement) -> Floats:
        """The features of a legal placement, [21], in the order of :data:`FEATURES`."""
        measures = kernels.measure(self.case, placement.site, placement.route_first, placement.route_link)
        nets, links = max(1, len(self.pipeline.nets)), max(1, len(self.fabric.grid.link_from))
        units = self.base_slots * np.ones(kernels.MEASURES)
        units[[kernels.DEPTH, kernels.MAX_SHARING, kernels.MEAN_SHARING]] = 1.0
        units[kernels.HOPS] = nets
        units[kernels.WIRELENGTH] *= links
        relative = np.log(np.maximum(measures / units, _LEAST))
        return np.asarray(np.concatenate((self._constant, relative)), dtype=np.float64)

    @property
    def base_slots(self) -> float:
        """Slots of the slowest unit in isolation: what a model's prediction is relative to."""
        return self.case.slowest

    @cached_property
    def isolated(self) -> npt.NDArray[np.int64]:
        """Slots that each unit needs for a sample if the network has no limits, [U]."""
        return isolated_slots(self.pipeline, self.fabric)

    @cached_property
    def _constant(self) -> Floats:
        """The features that are the same for every placement, [6]."""
        pipeline, fabric, base = self.pipeline, self.fabric, self.base_slots
        ports = max(
            (
                int(each)
                for each, unit in zip(self.isolated, pipeline.units, strict=True)
                if unit.kind == UnitKind.MEMORY
            ),
            default=1,
        )
        values = [
            base,
            max(1, pipeline.ideal_slots) / base,
            own_bound(pipeline, fabric).slots / base,
            ports / base,
            len(pipeline.units),
            pipeline.stages,
        ]
        return np.asarray(np.log(values), dtype=np.float64)

    @cached_property
    def case(self) -> kernels.Case:
        """What the kernels read."""
        pipeline, fabric, nets = self.pipeline, self.fabric, self.pipeline.nets
        slots = self.isolated
        flits = np.array([net.flits for net in nets], dtype=np.float64)
        return kernels.Case(
            source=np.array([net.source for net in nets], dtype=np.int64),
            sink_first=np.concatenate(([0], np.cumsum([len(net.sinks) for net in nets], dtype=np.int64))),
            sink=np.array([sink.unit for net in nets for sink in net.sinks], dtype=np.int64),
            flits=flits,
            bursts=np.ceil(flits / fabric.burst_flits),
            isolated=np.array([slots[net.source] for net in nets], dtype=np.float64),
            channel_slots=channel_slots(pipeline, fabric).astype(np.float64),
            site_cell=fabric.grid.site_cell,
            site_channel=fabric.channel_of_site,
            link_from=fabric.grid.link_from,
            link_to=fabric.grid.link_to,
            cells=fabric.grid.cells,
            channels=fabric.channel_count,
            tracks=float(fabric.tracks),
            hop_slots=float(fabric.hop_slots),
            switch_slots=float(fabric.switch_slots),
            buffer_flits=float(fabric.buffer_flits),
            min_flow_flits=float(fabric.min_flow_flits),
            max_flow_flits=float(fabric.max_flow_flits),
            slowest=float(slots.max(initial=1)),
            events=event_graph(pipeline, fabric),
        )


_LEAST = 1e-3
"""A measure of nothing, as of links where there are none, counts as this much."""
