"""The training step of a forward graph: its operators are recorded on a tape, which derives the backward pass.

What a document does not say is read from sizes: a GEMM with ``weight_elements`` of k·n (and n more for a bias) is a
linear layer, one without has two operands in the order of its edges; an ``add`` of one operand adds a mask, or its
weights. Every input takes a gradient, and every weight is trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import get_args

from dse.graph import differentiable as nn
from dse.graph import tensor_operators as tensors
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from dse.graph.dataflow.recorded import training_dataflow
from dse.graph.tape import Tape, Tensor
from hardware.inputs import fail
from hardware.operations import Gemm

ELEMENT_BYTES = 2
"""Width of the elements that a graph counts, by which masks of a byte an element are counted too."""


def differentiated(graph: DataflowGraph, where: str = "") -> DataflowGraph:
    """``graph``, a forward pass, with its backward pass.

    Args:
        graph: the forward pass; operators keep their names.
        where: what errors name; the graph's name when empty.

    Raises:
        InputError: an operator of the backward pass, one without a rule of differentiation, or one whose operands have
            not the sizes that its rule needs.
    """
    tape = Tape(ELEMENT_BYTES, weight_gradients=True)
    recorder = _Recorder(graph, where or graph.name, tape)
    outputs: dict[str, Tensor] = {}
    for position in graph.topological_order:
        operator = graph.operators[position]
        if operator.kind == "output":
            outputs[operator.name] = recorder.joined(position)
        else:
            recorder.record(position)
    return training_dataflow(graph.name, tape, outputs)


class _Recorder:
    """Records operators on a tape, each after those that it reads."""

    def __init__(self, graph: DataflowGraph, where: str, tape: Tape) -> None:
        self.graph = graph
        self.where = where
        self.tape = tape
        self._tensors: dict[tuple[int, str], Tensor] = {}

    def record(self, position: int) -> None:
        """Record the operator at ``position``; what it writes can be read from then on."""
        operator = self.graph.operators[position]
        if operator.is_backward:
            raise self.refused(position, "pass", "backward", "must be in the forward pass, but is in the backward pass")
        if isinstance(operator.work, Gemm):
            result = self._gemm(position, operator, operator.work)
        else:
            result = self._pass(position, operator, operator.work)
        written = self._written(position)
        for edge in written:
            if not edge.tensor and edge.elements != result.elements:
                rule = f"an edge that carries fewer than all {result.elements:,} elements must name the part"
                raise self.refused(position, "name", edge.elements, rule)
        for edge, tensor in self._parts(operator.name, result, written):
            self._tensors[position, edge.tensor] = tensor

    def operands(self, position: int) -> list[Tensor]:
        """What the operator reads, one tensor an edge."""
        return [self._tensors[edge.source, edge.tensor] for edge in self.graph.incoming[position]]

    def joined(self, position: int) -> Tensor:
        """What the operator reads as one tensor."""
        return self._concatenated(position, self.operands(position))

    def _concatenated(self, position: int, parts: Sequence[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else nn.concatenate(self.tape, f"{self._name(position)}_operand", parts)

    def refused(self, position: int, key: str, value: object, rule: str) -> Exception:
        """The error that names ``key`` of the operator at ``position``."""
        return fail(self.where, f"operators.{position}.{key}", value, f"{self._name(position)}: {rule}")

    def _name(self, position: int) -> str:
        return self.graph.operators[position].name

    def _written(self, position: int) -> list[DataflowEdge]:
        """One edge for each tensor that the operator writes."""
        return list({edge.tensor: edge for edge in self.graph.outgoing[position]}.values())

    def _parts(self, name: str, result: Tensor, written: Sequence[DataflowEdge]) -> list[tuple[DataflowEdge, Tensor]]:
        """The tensors that readers name, as ``result`` or parts of it; parts that are the whole need no operator."""
        sizes = [edge.elements for edge in written]
        if len(written) > 1 and all(edge.tensor for edge in written) and sum(sizes) == result.elements:
            return list(zip(written, nn.partition(self.tape, f"{name}_part", result, sizes), strict=True))
        return [
            (edge, result)
            if edge.elements == result.elements
            else (edge, nn.select(self.tape, f"{name}_{edge.tensor}", result, edge.elements))
            for edge in written
        ]

    def _gemm(self, position: int, operator: DataflowOperator, shape: Gemm) -> Tensor:
        sizes = shape.batch * shape.m * shape.k, shape.batch * shape.k * shape.n
        if not operator.weight_elements:
            left, right = self._factors(position, sizes)
            return nn.product(self.tape, operator.name, left, right, shape)
        source, biases = self.joined(position), operator.weight_elements - sizes[1]
        if source.elements != sizes[0]:
            rule = f"must read batch·m·k elements, {sizes[0]:,}; the backward pass of a convolution cannot be derived"
            raise self.refused(position, "m", source.elements, rule)
        if biases == 0 and shape.batch > 1:
            return tensors.weighted_products(self.tape, operator.name, source, shape, operator.weight_elements)
        if shape.batch > 1 or biases not in (0, shape.n):
            rule = f"must be batch·k·n ({sizes[1]:,}), or k·n + n with a bias and one batch"
            raise self.refused(position, "weight_elements", operator.weight_elements, rule)
        linear = nn.LinearShape(shape.m, shape.m, shape.k, shape.n, bias=biases > 0)
        return nn.linear(self.tape, operator.name, source, linear)

    def _grouped(self, position: int, elements: int) -> tuple[Tensor, ...]:
        """What a pass over ``elements`` reads; parts that together are as large are one operand."""
        operands = self.operands(position)
        parts = [operand for operand in operands if operand.elements < elements]
        if len(parts) < 2 or sum(part.elements for part in parts) != elements:
            return tuple(operands)
        whole = [operand for operand in operands if operand not in parts]
        return (*whole, self._concatenated(position, parts))

    def _factors(self, position: int, sizes: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Both operands of a product; one whose elements divide what is needed is broadcast."""
        read = self.operands(position)
        operands = read * 2 if len(read) == 1 else read  # one edge stands for a tensor that is both
        totals = list(accumulate(operand.elements for operand in operands))
        first = totals.index(sizes[0]) + 1 if sizes[0] in totals else 1
        factors = []
        for part, size in zip((operands[:first], operands[first:]), sizes, strict=True):
            factor = self._concatenated(position, part) if part else None
            if factor is None or size % factor.elements:
                needed = f"batch·m·k ({sizes[0]:,}) and then batch·k·n ({sizes[1]:,}) elements"
                rule = f"a gemm without weights must read {needed}"
                raise self.refused(position, "kind", [operand.elements for operand in read], rule)
            name = f"{self._name(position)}_operand"
            factors.append(factor if factor.elements == size else tensors.broadcast(self.tape, name, factor, size))
        return factors[0], factors[1]

    def _pass(self, position: int, operator: DataflowOperator, work: Pass) -> Tensor:
        if work.kind == "input":
            return self.tape.source(operator.name, work.elements)
        operands = self._grouped(position, work.elements)
        rule = _RULES.get((work.kind, min(len(operands), 2)))
        if rule is None or ((work.kind, len(operands)) == ("multiply", 1) and not operator.weight_elements):
            known = ", ".join(sorted({kind for kind, _ in _RULES}))
            text = f"must be differentiable with {len(operands)} operands; differentiable kinds: gemm, {known}"
            raise self.refused(position, "kind", work.kind, text)
        if work.kind not in _RESIZING:
            largest = max(operand.elements for operand in operands)
            if work.elements < largest or (len(operands) == 1 and work.elements != largest):
                rule_of_size = f"must be {largest:,}, as for its largest operand"
                raise self.refused(position, "elements", work.elements, rule_of_size)
        written = sum(edge.elements for edge in self._written(position))
        return rule(_RecordedPass(self.tape, operator.name, work, operator.weight_elements, operands, written))


@dataclass(frozen=True, slots=True)
class _RecordedPass:
    """A pass with its operands; ``written`` are the elements that its readers read."""

    tape: Tape
    name: str
    work: Pass
    weights: int
    operands: tuple[Tensor, ...]
    written: int

    @property
    def source(self) -> Tensor:
        """The only operand."""
        return self.operands[0]


_Rule = Callable[[_RecordedPass], Tensor]


def _nonlinearity(kind: nn.Nonlinearity) -> _Rule:
    return lambda step: nn.nonlinearity(step.tape, step.name, kind, step.source, step.work.row)


def _normalise(kind: nn.Normalisation) -> _Rule:
    return lambda step: nn.normalise(step.tape, step.name, kind, step.source, step.work.row, step.weights)


def _elementwise(rule: tensors.Elementwise) -> _Rule:
    return lambda step: tensors.elementwise(step.tape, step.name, rule, step.operands, step.work.elements)


def _add(step: _RecordedPass) -> Tensor:
    if len(step.operands) > 1:
        return _elementwise(tensors.PASS_THROUGH)(step)
    if step.weights:
        return tensors.with_weight(step.tape, step.name, "add", step.source, step.weights)
    return nn.add_constant(step.tape, step.name, step.source, step.work.elements)


def _multiply(step: _RecordedPass) -> Tensor:
    if len(step.operands) > 1:
        return _elementwise(tensors.PRODUCT)(step)
    return tensors.with_weight(step.tape, step.name, "multiply", step.source, step.weights)


_RESIZING = frozenset({"reduction", "copy", "embedding"})
"""Kinds that write another number of elements than they read."""

_RULES: Mapping[tuple[str, int], _Rule] = {
    **{(kind, 1): _nonlinearity(kind) for kind in get_args(nn.Nonlinearity)},
    **{(kind, 1): _normalise(kind) for kind in get_args(nn.Normalisation)},
    ("scale", 1): lambda step: nn.scale(step.tape, step.name, step.source),
    ("rotary", 1): lambda step: nn.rotary(step.tape, step.name, step.source, 0),
    ("dropout", 1): lambda step: nn.dropout(step.tape, step.name, step.source),
    ("add", 1): _add,
    ("add", 2): _add,
    ("multiply", 1): _multiply,
    ("multiply", 2): _multiply,
    ("divide", 2): _elementwise(tensors.QUOTIENT),
    ("select", 1): _elementwise(tensors.CHOICE),
    ("select", 2): _elementwise(tensors.CHOICE),
    ("reduction", 1): lambda step: tensors.reduction(step.tape, step.name, step.source, step.written),
    ("copy", 0): lambda step: tensors.weight(step.tape, step.name, step.work.elements, step.weights),
    ("copy", 1): lambda step: tensors.move(step.tape, step.name, step.operands, step.work.elements),
    ("copy", 2): lambda step: tensors.move(step.tape, step.name, step.operands, step.work.elements),
    ("embedding", 0): lambda step: nn.lookup(step.tape, step.name, step.weights, step.work.elements),
    ("cross_entropy", 1): lambda step: nn.cross_entropy(step.tape, step.name, step.source, step.work.row),
}
"""By kind and number of operands; 2 stands for more as well."""
