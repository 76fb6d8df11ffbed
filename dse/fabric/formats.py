"""``solution`` and ``metrics`` of a result, typed, and the placements in them."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, Tag

from dse.fabric.bound import Resource
from dse.fabric.model import Placement
from dse.fabric.problem import FabricProblem, Placements
from dse.fabric.search.expansion import Expansion
from hardware.fabrics import Fabric
from hardware.inputs import Document, Fault, InputError, nearest, validate

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_LinkEnds = Annotated[list[Count], Field(min_length=2, max_length=2)]


class PieceDocument(Document):
    """``solution`` of a graph that fits: what is on the fabric at the same time.

    Attributes:
        unit: the sites of every operator's units: parts, weights, sums of gradients, buffers. Sites of compute and
            memory units are numbered row by row, then come those of input and output.
        routes: for every unit that sends, the links of each of its nets as ``[from, to]``, from the unit's own cell
            outwards; row r and column c have the cell r · columns + c. A net without links stays at the switch.
    """

    unit: dict[str, list[Count]]
    routes: dict[str, list[list[_LinkEnds]]]


class TurnDocument(Document):
    """A turn on the fabric.

    Attributes:
        piece: its number, from 1.
        operators: those that it runs, by name.
    """

    piece: Annotated[int, Field(ge=1)]
    operators: list[str]


class PiecesDocument(Document):
    """``solution`` of a graph that is cut.

    Attributes:
        pieces: all different.
        turns: the order in which they are on the fabric.
    """

    pieces: Annotated[list[PieceDocument], Field(min_length=1)]
    turns: Annotated[list[TurnDocument], Field(min_length=1)]


def _kind(part: Any) -> str:
    return "several" if isinstance(part, dict) and "pieces" in part else "one"


class SolutionDocument(RootModel[Any]):
    """``solution``: one piece, or those of a cut graph."""

    root: Annotated[
        Annotated[PieceDocument, Tag("one")] | Annotated[PiecesDocument, Tag("several")], Discriminator(_kind)
    ]


class LinkDocument(Document):
    """The busiest link.

    Attributes:
        cells: its two ends.
        flits: per sample that pass it.
        nets: whose flits these are.
    """

    cells: _LinkEnds
    flits: Count
    nets: Count


class BoundDocument(Document):
    """The bound on every placement.

    Attributes:
        resource: the one that limits.
        unit: by name; null for the channels off chip together.
        slots: minimum between two samples.
    """

    resource: Resource
    unit: str | None
    slots: Amount


class ReliefDocument(Document):
    """The same placement with one resource relieved.

    Attributes:
        change: key of :data:`dse.fabric.relief.CHANGES`.
        interval_slots: between two samples; null in a deadlock.
    """

    change: str
    interval_slots: Amount | None


class PieceMetrics(Document):
    """Figures of a piece.

    Attributes:
        units: by kind of site.
        fill: share of the fabric's sites that have a unit, by kind.
        stages: units on the longest path of nets.
        ideal_slots: of work of the slowest unit.
        interval_slots: between departures; null in a deadlock, and of a cut graph if the run was stopped before
            ``relief``.
        normalized: ideal over measured slots (paper, section IV-A), 0 in a deadlock; null where that was left out.
        deadlock: whether no unit can proceed.
        blocked: in a deadlock, samples that each unit has ended, by name; otherwise empty.
        latency_s: of a sample on an empty fabric.
        batch_latency_s: of a batch.
        bound: what no placement can beat.
        rules: terms of the rules (:class:`dse.fabric.rules.RuleTerms`).
        busiest_link: null where no net leaves its cell.
        waits: slots between two departures in the window of the throughput, by cause
            (:data:`dse.fabric.evaluators.critical_kernels.CAUSES`); null where ``interval_slots`` is. Their sum is
            ``interval_slots``, or less where the bound counts.
        relief: one resource relieved at a time, of those that could gain 1 %; empty where none could or an interrupt
            came first, and of a cut graph for all pieces but the one that takes most of the time.
    """

    units: dict[str, Count]
    fill: dict[str, Amount]
    stages: Count
    ideal_slots: Count
    interval_slots: Amount | None
    normalized: Amount | None
    deadlock: bool
    blocked: dict[str, Count]
    latency_s: Amount | None
    batch_latency_s: Amount | None
    bound: BoundDocument
    rules: dict[str, Amount]
    busiest_link: LinkDocument | None
    waits: dict[str, Amount] | None
    relief: list[ReliefDocument]


class TurnMetrics(Document):
    """Seconds of a turn.

    Attributes:
        piece: its number, from 1.
        configuration_s: of the fabric.
        load_s: of weights.
        run_s: of the batch; null in a deadlock.
        bound_s: the least that ``run_s`` can be, however the piece is placed.
    """

    piece: Annotated[int, Field(ge=1)]
    configuration_s: Amount
    load_s: Amount
    run_s: Amount | None
    bound_s: Amount


class CutMetrics(Document):
    """What is known of a cut graph.

    Attributes:
        turns: in order.
        batch_s: of the whole batch; null where a piece is in a deadlock.
        bound_per_s: samples per second at most with this cut, however its pieces are placed.
    """

    turns: list[TurnMetrics]
    batch_s: Amount | None
    bound_per_s: Amount


class MetricsDocument(Document):
    """``metrics``.

    Attributes:
        pieces: one where the graph fits.
        cut: null where the graph fits.
        unfinished: what an interrupt left out.
        notes: where another cost was used than the one requested.
    """

    pieces: list[PieceMetrics]
    cut: CutMetrics | None
    unfinished: list[Literal["chains", "relief"]]
    notes: list[str]


def solution_document(problem: FabricProblem, placements: Placements) -> dict[str, Any]:
    """The placements of all pieces as the ``solution`` of a result file."""
    pieces = [
        _piece_document(piece, placement, problem.fabric)
        for piece, placement in zip(problem.pieces, placements, strict=True)
    ]
    if not problem.turns:
        return pieces[0]
    return {"pieces": pieces, "turns": turn_documents(problem)}


def turn_documents(problem: FabricProblem) -> list[dict[str, Any]]:
    """``turns`` of the solution of a cut graph."""
    return [
        {"piece": turn.piece + 1, "operators": [each.name for each in turn.graph.operators[: len(turn.operators)]]}
        for turn in problem.turns
    ]


def _piece_document(piece: Expansion, placement: Placement, fabric: Fabric) -> dict[str, Any]:
    names = [operator.name for operator in piece.graph.operators]
    unit: dict[str, list[int]] = {name: [] for name in names}
    for origin, site in zip(piece.origins, placement.site.tolist(), strict=True):
        unit[names[origin.operator]].append(site)
    routes: dict[str, list[list[list[int]]]] = defaultdict(list)
    for number, net in enumerate(piece.pipeline.nets):
        ends = [[int(fabric.grid.link_from[link]), int(fabric.grid.link_to[link])] for link in placement.route(number)]
        routes[piece.pipeline.units[net.source].name].append(ends)
    return {"unit": unit, "routes": dict(routes)}


def placements_from_document(problem: FabricProblem, document: Any, where: str) -> Placements:
    """The placements that :func:`solution_document` wrote; whether they are legal is for the checker to say.

    Raises:
        InputError: the document is malformed, or operators, units, nets or links are not those of the problem.
    """
    validate(SolutionDocument, document, where)
    if ("turns" in document) != bool(problem.turns):
        rule = "must be given for a cut graph" if problem.turns else "must not be given for a graph that fits whole"
        raise InputError([Fault(where, "turns", "", rule)])
    documents = document.get("pieces", [document])
    if len(documents) != len(problem.pieces):
        raise InputError(
            [
                Fault(
                    where,
                    "pieces",
                    str(len(documents)),
                    f"must be {len(problem.pieces)}, the number of pieces of the problem",
                )
            ]
        )
    return tuple(
        _placement(piece, PieceDocument.model_validate(each), problem.fabric, where)
        for piece, each in zip(problem.pieces, documents, strict=True)
    )


def _placement(piece: Expansion, document: PieceDocument, fabric: Fabric, where: str) -> Placement:
    names = [operator.name for operator in piece.graph.operators]
    units: dict[str, list[int]] = {name: [] for name in names}
    for number, origin in enumerate(piece.origins):
        units[names[origin.operator]].append(number)
    nets: dict[str, list[int]] = defaultdict(list)
    for number, net in enumerate(piece.pipeline.nets):
        nets[piece.pipeline.units[net.source].name].append(number)
    counts = {name: len(numbers) for name, numbers in units.items()}
    faults = [
        *_count_faults(where, "unit", counts, {name: len(sites) for name, sites in document.unit.items()}, "operator"),
        *_count_faults(
            where,
            "routes",
            {name: len(numbers) for name, numbers in nets.items()},
            {name: len(routes) for name, routes in document.routes.items()},
            "sending unit",
        ),
    ]
    if faults:
        raise InputError(faults)
    site = [0] * len(piece.pipeline.units)
    for name, numbers in units.items():
        for number, given in zip(numbers, document.unit[name], strict=True):
            site[number] = given
    routes: list[list[int]] = [[] for _ in piece.pipeline.nets]
    link_of = _link_numbers(fabric)
    for name, numbers in nets.items():
        for number, links in zip(numbers, document.routes[name], strict=True):
            routes[number] = [_link(link_of, ends, f"routes.{name}", where) for ends in links]
    return Placement.of(site, routes)


def _count_faults(where: str, key: str, expected: dict[str, int], given: dict[str, int], what: str) -> Iterator[Fault]:
    for name in given:
        if name not in expected:
            yield Fault(where, f"{key}.{name}", "", f"must name a known {what}", nearest(name, expected))
    for name, count in expected.items():
        if given.get(name) != count:
            yield Fault(where, f"{key}.{name}", str(given.get(name, "")), f"must have {count} entries")


def _link_numbers(fabric: Fabric) -> dict[tuple[int, int], int]:
    """The number of every link by its cells."""
    pairs = zip(fabric.grid.link_from.tolist(), fabric.grid.link_to.tolist(), strict=True)
    return {pair: number for number, pair in enumerate(pairs)}


def _link(link_of: dict[tuple[int, int], int], ends: list[int], key: str, where: str) -> int:
    link = link_of.get((ends[0], ends[1]))
    if link is None:
        raise InputError([Fault(where, key, str(ends), "must be two cells that are joined by a link")])
    return link
