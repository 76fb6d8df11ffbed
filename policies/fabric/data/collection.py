"""Collecting samples: graphs are placed, simulated and journalled, piece by piece, on an executor."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Placement
from dse.results.result import digest
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.run.versions import versions
from hardware.fabrics import Fabric
from hardware.inputs import fail
from hardware.operator_slots import OperatorSlots
from policies.fabric.data.distribution import BLOCKS, Distribution
from policies.fabric.data.placers import Placer
from policies.fabric.data.records import GraphRecord, Sample, Samples

_PROVENANCE = "provenance"
"""Key of the journal's first entry."""

_KINDS = "kinds"
"""Of graphs, in that entry."""

_PIECES = "round-"
"""With what the keys of pieces begin."""


@dataclass(frozen=True)
class Piece:
    """What is collected at a time: placements of one graph in one round.

    Attributes:
        round: 0 for annealers with random rules, later ones for annealers that follow a model.
        graph: number of the graph.
        placements: how many.
        seed: of the whole collection.
    """

    round: int
    graph: int
    placements: int
    seed: int

    @property
    def key(self) -> str:
        """Of its entry in the journal."""
        return f"{_PIECES}{self.round}/graph-{self.graph:06}"

    def seeds(self) -> list[int]:
        """A seed for each placement."""
        source = f"{self.seed}/{self.key}/".encode()
        return [
            int.from_bytes(hashlib.sha256(source + str(number).encode()).digest()[:6], "big")
            for number in range(self.placements)
        ]


@dataclass(frozen=True)
class Collector:
    """Places and labels a piece, as a function of it alone, for executors.

    Attributes:
        fabric: of all placements.
        slots: of operators.
        placer: of all placements.
        graphs: by number.
    """

    fabric: Fabric
    slots: OperatorSlots
    placer: Placer
    graphs: Distribution = BLOCKS

    def __call__(self, piece: Piece) -> dict[str, Any]:
        """The graph, and its labelled placements, as JSON types."""
        record = self.graphs(piece.graph, self.fabric, self.slots)
        samples = labelled(record, self.fabric, self.placer, piece.round, piece.seeds())
        return {"graph": record.document(), "samples": [sample.document() for sample in samples]}


def kinds_of(provenance: Mapping[str, Any]) -> list[str]:
    """Of the graphs of samples, or of those that a model has learned from."""
    stated = provenance.get(_KINDS, list(BLOCKS.kinds))  # from before there were others
    return [str(each) for each in stated] if isinstance(stated, list) else [str(stated)]


def labelled(record: GraphRecord, fabric: Fabric, placer: Placer, number: int, seeds: Sequence[int]) -> list[Sample]:
    """A placement of a graph for every seed, simulated; ``number`` is that of the round."""
    pipeline, samples = record.pipeline, []
    simulator = Simulator(pipeline, fabric)
    for seed in seeds:
        placed = placer(pipeline, fabric, seed)
        measured = throughput(simulator, placed.placement)
        sample = Sample(
            graph=record.number,
            round=number,
            seed=seed,
            placement=placed.placement,
            interval_slots=measured.interval_slots,
            ideal_slots=pipeline.ideal_slots,
            wirelength=_wirelength(record, placed.placement),
            placer=placed.placer,
        )
        samples.append(sample)
    return samples


def _wirelength(record: GraphRecord, placement: Placement) -> float:
    links = (placement.route_first[1:] - placement.route_first[:-1]).tolist()
    return float(sum(net.flits * many for net, many in zip(record.pipeline.nets, links, strict=True)))


def collect(
    journal: Journal,
    collector: Collector,
    pieces: Sequence[Piece],
    executor: Executor,
    stop: StopSignal = never_stop,
    progress: ProgressCallback = silent,
) -> None:
    """Collect the pieces that the journal has not yet.

    Raises:
        InputError: the journal has samples of another fabric, table of operator slots, simulator or version.
        StoppedError: ``stop`` gave a reason; what is finished is in the journal.
    """
    begin(journal, collector.fabric, collector.slots, collector.graphs)
    missing = [piece for piece in pieces if piece.key not in journal]
    done = len(pieces) - len(missing)
    for piece, value in zip(missing, executor.map(collector, missing, stop), strict=True):
        journal.append(piece.key, value)
        done += 1
        progress("graphs placed and simulated", done, len(pieces))


def begin(journal: Journal, fabric: Fabric, slots: OperatorSlots, graphs: Distribution) -> None:
    """Note in an empty journal what labels depend on; refuse one whose graphs or labels depend on something else.

    Raises:
        InputError: the journal has samples of another fabric, table of operator slots or simulator, or graphs of other
            kinds.
    """
    provenance = {**provenance_of(fabric, slots), _KINDS: list(graphs.kinds)}
    journal.append(_PROVENANCE, provenance)
    before = journal[_PROVENANCE]
    kinds = kinds_of(before)
    if kinds != provenance[_KINDS]:
        rule = f"must be {', '.join(graphs.kinds)}; collect graphs of these kinds in a new directory"
        raise fail(journal.path, _KINDS, ", ".join(kinds), rule)
    for name in _LABELLED_BY:
        if before.get(name) != provenance[name]:
            rule = (
                f"must be {provenance[name]} for {fabric.name}, but the samples here are from "
                f"{before.get('fabric')} with another simulator, fabric or table of slots; use a new directory"
            )
            raise fail(journal.path, name, before.get(name), rule)


def provenance_of(fabric: Fabric, slots: OperatorSlots) -> dict[str, Any]:
    """What labels depend on, in JSON types."""
    return {
        "fabric": fabric.name,
        "simulator": simulator_fingerprint(fabric),
        "operator_slots": digest(slots.slots),
        "versions": versions(),
    }


_LABELLED_BY = ("simulator", "operator_slots")
"""What must be the same of all samples of one journal, and of a model and the fabric that it is used on."""


def samples_in(journal: Journal) -> Samples:
    """What was collected; placements in a deadlock are left out.

    Raises:
        InputError: an entry that :func:`collect` did not write.
    """
    graphs: dict[int, GraphRecord] = {}
    samples: list[Sample] = []
    for key in sorted(key for key in journal if key.startswith(_PIECES)):
        try:
            value = journal[key]
            record = GraphRecord.from_document(value["graph"])
            if graphs.setdefault(record.number, record).pipeline != record.pipeline:
                raise ValueError(f"graph {record.number} differs from that of an earlier round")
            samples += [Sample.from_document(each) for each in value["samples"]]
        except (KeyError, TypeError, ValueError) as error:
            raise journal.damaged(key, error) from error
    running = tuple(sample for sample in samples if sample.interval_slots is not None)
    return Samples(graphs, running, journal.get(_PROVENANCE, {}))
