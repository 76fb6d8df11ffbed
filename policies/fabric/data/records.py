"""Pipelines and labelled placements as JSON types, so that what was collected outlives changes of how it is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit, UnitKind


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """A graph whose placements are labelled.

    Attributes:
        number: of the graph in its distribution.
        kind: of block.
        graph_pass: forward or training.
        fill: share of the units that it may take.
        name: of the graph.
        pipeline: what is placed.
        operators: kind of the operator that each unit works for, [U].
        plain_work: slots of work of each unit if all operators took one slot a tile, [U].
    """

    number: int
    kind: str
    graph_pass: str
    fill: float
    name: str
    pipeline: Pipeline
    operators: tuple[str, ...]
    plain_work: tuple[int, ...]

    @property
    def plain_pipeline(self) -> Pipeline:
        """The pipeline as a model sees it that is denied the table of operator slots."""
        units = tuple(
            Unit(unit.name, unit.kind, work, unit.samples, unit.shares_banks)
            for unit, work in zip(self.pipeline.units, self.plain_work, strict=True)
        )
        return Pipeline(units, self.pipeline.nets)

    def document(self) -> dict[str, Any]:
        """The record as JSON types; columns of units, nets and sinks."""
        units, nets = self.pipeline.units, self.pipeline.nets
        sinks = [sink for net in nets for sink in net.sinks]
        return {
            "number": self.number,
            "kind": self.kind,
            "graph_pass": self.graph_pass,
            "fill": self.fill,
            "name": self.name,
            "operators": list(self.operators),
            "plain_work": list(self.plain_work),
            "unit_name": [unit.name for unit in units],
            "unit_kind": [int(unit.kind) for unit in units],
            "work_slots": [unit.work_slots for unit in units],
            "samples": [unit.samples for unit in units],
            "shares_banks": [unit.shares_banks for unit in units],
            "net_source": [net.source for net in nets],
            "flits": [net.flits for net in nets],
            "late": [net.late for net in nets],
            "transposed": [net.transposed for net in nets],
            "sinks": [len(net.sinks) for net in nets],
            "sink_unit": [sink.unit for sink in sinks],
            "sink_early": [sink.early for sink in sinks],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "GraphRecord":
        """The record that :meth:`document` wrote."""
        unit_columns = ("unit_name", "unit_kind", "work_slots", "samples", "shares_banks")
        units = tuple(
            Unit(name, UnitKind(kind), work, samples, shares)
            for name, kind, work, samples, shares in _rows(document, unit_columns)
        )
        sinks = [Sink(unit, early) for unit, early in _rows(document, ("sink_unit", "sink_early"))]
        nets, first = [], 0
        for source, flits, late, transposed, many in _rows(
            document, ("net_source", "flits", "late", "transposed", "sinks")
        ):
            nets.append(Net(source, tuple(sinks[first : first + many]), flits, late, transposed))
            first += many
        number, kind, graph_pass, fill, name = (
            document[key] for key in ("number", "kind", "graph_pass", "fill", "name")
        )
        operators, plain_work = tuple(document["operators"]), tuple(document["plain_work"])
        return cls(number, kind, graph_pass, fill, name, Pipeline(units, tuple(nets)), operators, plain_work)


def _rows(document: Mapping[str, Any], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(document[column] for column in columns), strict=True))


@dataclass(frozen=True, eq=False)
class Sample:
    """A labelled placement.

    Attributes:
        graph: number of its graph.
        round: in which it was collected; 0: by annealers with random rules, later: by annealers that follow a model.
        seed: of its annealer.
        placement: legal.
        interval_slots: mean slots between two departures; None in a deadlock.
        ideal_slots: slots of work of the slowest unit of its pipeline.
        wirelength: flits of a sample times links that they pass.
        placer: what placed it, in JSON types.
    """

    graph: int
    round: int
    seed: int
    placement: Placement
    interval_slots: float | None
    ideal_slots: int
    wirelength: float
    placer: Mapping[str, Any]

    @property
    def throughput(self) -> float:
        """The label y: ideal over measured slots, 0 in a deadlock."""
        return 0.0 if self.interval_slots is None else self.ideal_slots / self.interval_slots

    def document(self) -> dict[str, Any]:
        """The sample as JSON types."""
        return {
            "graph": self.graph,
            "round": self.round,
            "seed": self.seed,
            "site": self.placement.site.tolist(),
            "route_first": self.placement.route_first.tolist(),
            "route_link": self.placement.route_link.tolist(),
            "interval_slots": self.interval_slots,
            "ideal_slots": self.ideal_slots,
            "wirelength": self.wirelength,
            "placer": dict(self.placer),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Sample":
        """The sample that :meth:`document` wrote."""
        columns = (np.array(document[name], dtype=np.int64) for name in ("site", "route_first", "route_link"))
        names = ("interval_slots", "ideal_slots", "wirelength", "placer")
        head = (document["graph"], document["round"], document["seed"])
        return cls(*head, Placement(*columns), **{name: document[name] for name in names})


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled placements with their graphs.

    Attributes:
        graphs: by number.
        samples: in order of round, graph and seed; none in a deadlock.
        provenance: how they came about, in JSON types.
    """

    graphs: Mapping[int, GraphRecord]
    samples: tuple[Sample, ...]
    provenance: Mapping[str, Any]
