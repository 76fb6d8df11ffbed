"""The independent check of a cut, without cutter and divider: every operator runs once, on data that is there."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dse.fabric.problem import FabricProblem, Turn
from dse.fabric.search.pieces import signature
from dse.fabric.search.splitting import flits_of
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from hardware.operations import Gemm


def cut_faults(problem: FabricProblem) -> list[str]:
    """What is wrong with the turns of a cut graph."""
    graph, parts = problem.graph, _parts(problem)
    faults = [
        fault for number, turn in enumerate(problem.turns, start=1) for fault in _turn_faults(problem, number, turn)
    ]
    for position, operator in enumerate(graph.operators):
        if operator.kind not in ("input", "output"):
            faults += _work_faults(operator, parts[position])
    for edge in graph.edges:
        if edge.source in parts and edge.target in parts:
            faults += _edge_faults(graph, edge, parts[edge.source], parts[edge.target])
    return faults


@dataclass
class _Parts:
    """The parts of one operator: the turn of each, and what goes in and out."""

    operators: list[tuple[int, DataflowOperator]] = field(default_factory=list)
    read: int = 0
    written_out: int = 0

    @property
    def turns(self) -> list[int]:
        """In which they run, in order."""
        return sorted({turn for turn, _ in self.operators})


def _parts(problem: FabricProblem) -> dict[int, _Parts]:
    parts: dict[int, _Parts] = defaultdict(_Parts)
    for number, turn in enumerate(problem.turns, start=1):
        for position, origin in enumerate(turn.operators):
            own = parts[origin]
            own.operators.append((number, turn.graph.operators[position]))
            own.read += sum(edge.elements for edge in turn.graph.incoming[position])
            out = {
                edge.tensor: edge.elements
                for edge in turn.graph.outgoing[position]
                if turn.graph.operators[edge.target].kind == "output"
            }
            own.written_out += sum(out.values())
    return parts


def _turn_faults(problem: FabricProblem, number: int, turn: Turn) -> Iterator[str]:
    """Whether a turn is what its piece is, and has ends for the rest; and how long its weights take."""
    graph, fabric = turn.graph, problem.fabric
    if signature(graph) != signature(problem.pieces[turn.piece].graph):
        yield f"turn {number}: its graph must match piece {turn.piece + 1}"
    ends = [operator.kind for operator in graph.operators[len(turn.operators) :]]
    if any(kind not in ("input", "output") for kind in ends):
        yield f"turn {number}: must have no operators other than the {len(turn.operators)} that it lists"
    flits = 0
    for position, operator in enumerate(graph.operators[: len(turn.operators)]):
        is_sum = not graph.outgoing[position]
        flits += flits_of(operator.weight_elements, fabric) * (2 if is_sum else 1)
    slots = -(-flits * fabric.channel_slots // fabric.channel_count)
    if slots != turn.load_slots:
        yield f"turn {number}: load_slots must be {slots}, but got {turn.load_slots}"


def _work_faults(operator: DataflowOperator, parts: _Parts) -> Iterator[str]:
    """Whether parts together do the work of an operator once, up to what is rounded up."""
    done = [part for _, part in parts.operators]
    if any(part.kind != operator.kind for part in done):
        yield f"{operator.name}: all parts must be of kind {operator.kind}"
    elif isinstance(operator.work, Gemm):
        volume = sum(work.m * work.n * work.k * work.batch for work in (p.work for p in done) if isinstance(work, Gemm))
        whole = operator.work.m * operator.work.n * operator.work.k * operator.work.batch
        if volume != whole:
            yield f"{operator.name}: products over all turns must add up to {whole:,}, but add up to {volume:,}"
    else:
        elements = sum(part.work.elements for part in done if isinstance(part.work, Pass))
        if not operator.work.elements <= elements < operator.work.elements + max(1, len(done)):
            whole = operator.work.elements
            yield f"{operator.name}: elements over all turns must add up to {whole:,}, but add up to {elements:,}"
    if sum(part.weight_elements for part in done) < operator.weight_elements:
        yield f"{operator.name}: every weight must be in a turn"


def _edge_faults(graph: DataflowGraph, edge: DataflowEdge, source: _Parts, target: _Parts) -> Iterator[str]:
    """Whether what an operator reads has been written: in turns before, with an output, or in the same one."""
    names = f"{graph.operators[edge.source].name} to {graph.operators[edge.target].name}"
    if not source.turns or not target.turns:
        return
    if source.turns[0] > target.turns[0] or source.turns[-1] > target.turns[-1]:
        yield f"{names}: must not be read before it is written"
    is_divided = len(source.operators) > 1 or len(target.operators) > 1
    if not is_divided and source.turns != target.turns and source.written_out < edge.elements:
        yield f"{names}: must be written off chip by a turn"
    if target.read < sum(each.elements for each in graph.incoming[edge.target]):
        yield f"{graph.operators[edge.target].name}: its turns must read all of its inputs"
