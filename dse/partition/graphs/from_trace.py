"""From the trace of a forward pass to the operators that are partitioned."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dse.graph.trace import FIXED, WEIGHTS, Granularity, Step, Trace, Value
from dse.importer.program import Program
from dse.partition.graphs.pieces import Piece, pieces_of, unwritten
from dse.partition.problem import PartitionGraph
from hardware.packages import ELEMENT_BYTES

_BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4}


def load_time_folded(trace: Trace) -> Trace:
    """``trace`` without what is computed of weights and constants alone and no larger than these weights.

    Such a value (weights that are normalised, the rows of a table of positions) becomes a buffer.
    """
    program = Program(trace)
    fixed = {index for index, value in enumerate(trace.values) if value.role in FIXED}
    for step in program.steps:
        read = program.inputs(step)
        if step.inputs and fixed.issuperset(read):
            size = sum(program.values[index].elements for index in step.outputs)
            stored = [index for index in dict.fromkeys(read) if program.values[index].role in WEIGHTS]
            if size <= sum(program.values[index].elements for index in stored):
                for index in step.outputs:
                    program.fold(index, "buffer")
                fixed.update(step.outputs)
    return program.finished()


def graph_from_trace(trace: Trace, granularity: Granularity, element_bytes: int = ELEMENT_BYTES) -> PartitionGraph:
    """The operators of a canonical ``trace``, without prices (all latencies are NaN).

    What the model is given is an operator, too: it writes its bytes, and where it is placed they enter the package.
    Weights belong to the operators that read them; each operator counts those that it reads, so weights that two
    operators share count with both. Constants (a causal mask) are read like weights, but take no room. Moved bytes are
    those of the operands and the output, of a table only the rows that are looked up, and none of a reshape. FLOPs do
    not depend on ``granularity``.

    Args:
        trace: the forward pass.
        granularity: what one operator is.
        element_bytes: of a floating-point number; whole numbers have their own width.
    """
    trace = load_time_folded(trace)
    writer = _GraphWriter(trace, element_bytes)
    for step in trace.steps:
        writer.step(step, granularity)
    return writer.finished()


def weight_bytes(trace: Trace, element_bytes: int = ELEMENT_BYTES) -> int:
    """Bytes of all weights that the forward pass reads, each counted once."""
    trace = load_time_folded(trace)
    read = {index for step in trace.steps for index in step.inputs if trace.values[index].role in WEIGHTS}
    bases = dict.fromkeys(_base(trace, index) for index in read)
    return sum(trace.values[index].elements * element_width(trace.values[index], element_bytes) for index in bases)


def element_width(value: Value, element_bytes: int) -> int:
    """Bytes of one element of ``value``."""
    return element_bytes if "float" in value.dtype else _BYTES.get(value.dtype, 8)


def _base(trace: Trace, index: int) -> int:
    """The weight that a view is of, or the value itself."""
    base = trace.values[index].base
    return index if base is None else base


def _input_name(value: Value) -> str:
    """The argument's name; ``input0`` … for arguments without one."""
    name = value.name.rpartition(".")[2]
    return f"input{name}" if name.isdigit() else name or "input"


@dataclass
class _GraphWriter:
    trace: Trace
    element_bytes: int
    names: list[str] = field(default_factory=list)
    columns: list[tuple[float, float, float, float]] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    _writer_of: dict[int, int] = field(default_factory=dict)
    _count: dict[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def finished(self) -> PartitionGraph:
        return PartitionGraph.unpriced(self.trace.name, self.names, self.columns, self.edges)

    def step(self, step: Step, granularity: Granularity) -> None:
        """The operator of ``step``, or one for each of its pieces."""
        pieces = pieces_of(self.trace, step)
        if not pieces:
            return
        label = self._unique(self._label(step))
        if granularity == "operator" or len(pieces) == 1:
            number = self._whole(step, label, pieces)
        else:
            number = self._in_pieces(step, label, pieces)
        self._writer_of.update(dict.fromkeys(step.outputs, number))

    def _whole(self, step: Step, label: str, pieces: tuple[Piece, ...]) -> int:
        read = list(unwritten(pieces))
        parameter_bytes = sum(piece.parameter_elements for piece in pieces) * self.element_bytes
        held, output = self._held(read) + parameter_bytes, self._output(step)
        moved: float = sum(self._read_bytes(index) for index in read) + parameter_bytes + output
        if len(pieces) == 1:
            moved = self._moved(step, pieces[0], [self._read_bytes(index) for index in read], output)
        flops = sum(piece.flops for piece in pieces)
        return self._add(label, self._producers(read), output, held, flops, moved)

    def _in_pieces(self, step: Step, label: str, pieces: tuple[Piece, ...]) -> int:
        numbers: list[int] = []
        sizes: list[float] = []
        for piece in pieces:
            outside = [source for source in piece.reads if source >= 0]
            inside = [-1 - source for source in piece.reads if source < 0]
            parameter_bytes = piece.parameter_elements * self.element_bytes
            output = self._output(step) if piece is pieces[-1] else piece.elements * self.element_bytes
            read = [*map(self._read_bytes, dict.fromkeys(outside)), *(sizes[part] for part in dict.fromkeys(inside))]
            moved = self._moved(step, piece, [*read, parameter_bytes], output)
            producers = [*self._producers(outside), *(numbers[part] for part in inside)]
            name = self._unique(f"{label}/{piece.label}")
            numbers.append(
                self._add(name, producers, output, self._held(outside) + parameter_bytes, piece.flops, moved)
            )
            sizes.append(output)
        return numbers[-1]

    def _moved(self, step: Step, piece: Piece, read: list[float], output: float) -> float:
        if not piece.moves:
            return 0.0
        if piece.looks:
            return 2 * output + sum(self._read_bytes(index) for index in step.inputs[1:])
        return sum(read) + output

    def _add(self, name: str, producers: list[int], output: float, held: float, flops: float, moved: float) -> int:
        number = len(self.names)
        self.names.append(name)
        self.columns.append((output, held, flops, moved))
        self.edges.update(((producer, number), None) for producer in producers)
        return number

    def _producers(self, read: list[int]) -> list[int]:
        """The operators that write values, those that bring the model's inputs included."""
        writers = []
        for index in dict.fromkeys(read):
            value = self.trace.values[index]
            if value.role == "input" and index not in self._writer_of:
                size = self._bytes(index)
                self._writer_of[index] = self._add(self._unique(_input_name(value)), [], size, 0.0, 0.0, size)
            if index in self._writer_of:
                writers.append(self._writer_of[index])
        return writers

    def _held(self, read: list[int]) -> float:
        """Bytes of the weights among values; of several views of one, no more than there are of it."""
        sizes: dict[int, float] = {}
        for index in dict.fromkeys(read):
            if self.trace.values[index].role in WEIGHTS:
                base = _base(self.trace, index)
                sizes[base] = min(sizes.get(base, 0.0) + self._bytes(index), self._bytes(base))
        return sum(sizes.values())

    def _read_bytes(self, index: int) -> float:
        """Bytes that reading a value moves: a broadcast view of a weight is read as the weight."""
        return min(self._bytes(index), self._bytes(_base(self.trace, index)))

    def _output(self, step: Step) -> float:
        return sum(self._bytes(index) for index in step.outputs)

    def _bytes(self, index: int) -> float:
        value = self.trace.values[index]
        return float(value.elements * element_width(value, self.element_bytes))

    # Names ------------------------------------------------------------------------------------------------------------

    def _label(self, step: Step) -> str:
        """The module that holds the step's weight, else what the step does."""
        for value in self._weights(step):
            owner = value.name.rpartition(".")[0]
            if owner:
                return owner
        if step.kind == "pooling":
            return f"{step.attributes['function']}_pooling"
        return str(step.attributes.get("function", step.attributes.get("name", step.kind)))

    def _weights(self, step: Step) -> Iterator[Value]:
        values = (self.trace.values[index] for index in step.inputs)
        return (value for value in values if value.role in ("parameter", "frozen"))

    def _unique(self, label: str) -> str:
        """``label``, or with a number where an operator has that name."""
        name = label
        while name in self._taken:
            self._count[label] = self._count.get(label, 1) + 1
            name = f"{label}_{self._count[label]}"
        self._taken.add(name)
        return name
