"""One section of a canonical trace as a :class:`~dse.graph.operator_graph.Layer`: forward, backward, saved activations.

The steps are recorded on a tape through the functions that the built models use, so that both follow the same rules.
Views cost nothing. Integer steps (token positions, shifted labels) are left out, as in the built models; every other
step is recorded, those that no cost is known for as a pass over their operands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from dse.graph import differentiable as nn
from dse.graph import tensor_operators as tensors
from dse.graph.operator_graph import Layer
from dse.graph.tape import Tensor
from dse.graph.tensor_operators import CHOICE, PASS_THROUGH, PRODUCT
from dse.graph.trace import Step, Trace
from dse.importer.elementwise import NONLINEARITIES, RULES
from dse.importer.section_tensors import Boundary, SectionTensors
from dse.importer.work import convolution_shape, matmul_shape
from dse.models.layer import finished_layer
from dse.models.recipe import TrainingRecipe


def record_layer(
    trace: Trace, steps: Sequence[Step], kind: str, boundary: Boundary, recipe: TrainingRecipe, sliced: bool
) -> Layer:
    """The layer that computes ``steps``, forward and backward."""
    recorder = recorded(trace, steps, boundary, recipe)
    outputs = {recorder.tensor(value): None for value in boundary.returned}
    layer = finished_layer(kind, recorder.tape, tuple(outputs), recipe, recorder.tied, sliced)
    return replace(
        layer,
        frozen_parameters=recorder.frozen - recorder.frozen_tied,
        frozen_bytes=recorder.frozen * recipe.element_bytes,
    )


def recorded(trace: Trace, steps: Sequence[Step], boundary: Boundary, recipe: TrainingRecipe) -> SectionTensors:
    """``steps`` on a tape."""
    recorder = _LayerRecorder(trace, boundary, recipe, frozenset(output for step in steps for output in step.outputs))
    for step in steps:
        recorder.step(step)
    return recorder


class _LayerRecorder(SectionTensors):
    """Records the steps of a section, each by its kind."""

    def step(self, step: Step) -> None:
        """Record ``step``; its outputs can be read from then on."""
        self.count_frozen(step)
        output = self.value(step.outputs[0])
        if "int" in output.dtype and step.kind != "other":
            for index in step.outputs:
                self.tensors[index] = self.tape.constant(self.name("index"), max(1, self.value(index).elements))
            return
        handler = _HANDLERS.get(step.kind, _LayerRecorder.other)
        for index, tensor in zip(step.outputs, [handler(self, step)] * len(step.outputs), strict=True):
            self.tensors[index] = self.cut(index, tensor)

    # One method a kind of step ----------------------------------------------------------------------------------------

    def view(self, step: Step) -> Tensor:
        return self.tensor(step.inputs[0])

    def expand(self, step: Step) -> Tensor:
        source = self.tensor(step.inputs[0])
        if self.elements(step) == source.elements:
            return source
        return tensors.broadcast(self.tape, self.name("broadcast"), source, self.elements(step))

    def slice(self, step: Step) -> Tensor:
        """A slice; slices that are the whole together need no operator in the backward pass."""
        if step.outputs[0] in self.tensors:  # made with an earlier part
            return self.tensors[step.outputs[0]]
        (index,) = step.inputs
        siblings = [self.trace.steps[reader] for reader in self.trace.consumers[index]]
        sizes = [self.value(sibling.outputs[0]).elements for sibling in siblings]
        same = {(sibling.kind, sibling.attributes.get("axis")) for sibling in siblings}
        source = self.tensor(index)
        whole = (
            sum(sizes) == self.value(index).elements and len(same) == 1 and len(self._starts(siblings)) == len(sizes)
        )
        in_reach = all(s.outputs[0] in self.boundary.differentiable & self.written for s in siblings)
        if not whole or not in_reach or source.elements != sum(sizes):
            return nn.select(self.tape, self.name("slice"), source, self.elements(step))
        parts = nn.partition(self.tape, self.name("part"), source, sizes)
        for sibling, part in zip(siblings, parts, strict=True):
            self.tensors[sibling.outputs[0]] = part
        return self.tensors[step.outputs[0]]

    @staticmethod
    def _starts(siblings: Sequence[Step]) -> set[object]:
        return {sibling.attributes.get("start") for sibling in siblings}

    def concatenate(self, step: Step) -> Tensor:
        return nn.concatenate(self.tape, self.name("concatenate"), self.operands(step))

    def matmul(self, step: Step) -> Tensor:
        left, right, *bias = (self.value(index) for index in step.inputs)
        if right.role == "parameter" and prod(right.shape[:-2]) == 1:
            return self._linear(step, step.inputs[0], step.inputs[1], step.inputs[2:])
        if left.role == "parameter" and prod(left.shape[:-2]) == 1 and not bias:
            return self._linear(step, step.inputs[1], step.inputs[0], ())
        shape = matmul_shape(self.trace, step)
        if "parameter" in (left.role, right.role):
            source, weight = step.inputs[:2] if right.role == "parameter" else step.inputs[1::-1]
            name = self.named(step)
            result = tensors.weighted_products(self.tape, name, self.tensor(source), shape, self.weights(weight))
        else:
            name = self.name("product")
            result = nn.product(self.tape, name, self.tensor(step.inputs[0]), self.tensor(step.inputs[1]), shape)
        for index in step.inputs[2:]:
            operands = [self.cut(step.outputs[0], operand) for operand in (result, self.tensor(index))]
            result = tensors.elementwise(self.tape, self.name("bias"), PASS_THROUGH, operands, result.elements)
        return result

    def _linear(self, step: Step, source: int, weight: int, bias: Sequence[int]) -> Tensor:
        flipped = source != step.inputs[0]
        shape = self.value(weight).shape[-2:]
        inputs, outputs = (shape[1], shape[0]) if flipped else (shape[0], shape[1])
        tokens = self.elements(step) // outputs
        name = self.named(step)
        weights = self.weights(weight, *bias)
        linear = nn.LinearShape(tokens, self._rows(tokens), inputs, outputs, bias=bool(bias), parameters=weights)
        return nn.linear(self.tape, name, self.tensor(source), linear)

    def _rows(self, tokens: int) -> int:
        """Rows of a linear layer's GEMM: of one sample, where the recipe loses the batch of [batch, sequence, …]."""
        batch = self.trace.microbatch
        lost = not self.recipe.linear_keeps_batch and tokens > batch and tokens % batch == 0
        return tokens // batch if lost else tokens

    def convolution(self, step: Step) -> Tensor:
        shape = convolution_shape(self.trace, step)
        trained = self.value(step.inputs[1]).role == "parameter"
        weights = self.weights(*step.inputs[1:])
        return tensors.convolution(self.tape, self.named(step), self.tensor(step.inputs[0]), shape, weights, trained)

    def elementwise(self, step: Step) -> Tensor:
        function = str(step.attributes["function"])
        if len(step.inputs) == 2 and function in ("add", "multiply"):
            joined: Literal["add", "multiply"] = "add" if function == "add" else "multiply"
            for weight, source in (step.inputs, step.inputs[::-1]):
                parameter, whole = self.value(weight), self.value(source)
                plain = parameter.role == "parameter" and whole.role != "parameter"
                if plain and whole.elements == self.elements(step) > parameter.elements == self.left(weight):
                    name, x = self.named(step), self.tensor(source)
                    return tensors.with_weight(self.tape, name, joined, x, self.weights(weight))
        operands, elements = self.operands(step), self.elements(step)
        name = self.name(function)
        if len(operands) == 1:
            return self._unary(step, name, function, operands[0])
        constant = [operand for operand in operands if not operand.differentiable]
        moving = [operand for operand in operands if operand.differentiable]
        if len(operands) == 2 and len(moving) == 1 and moving[0].elements == elements:
            if function in ("add", "subtract"):
                return nn.add_constant(self.tape, name, moving[0], constant[0].elements)
            if function == "multiply" or (function == "divide" and operands[1] is constant[0]):
                return tensors.scale_by(self.tape, name, moving[0], constant[0])
        plain = len(moving) == 2 and all(operand.elements == elements for operand in moving)
        if len(operands) == 2 and plain and function == "add" and operands[0] is not operands[1]:
            return nn.add(self.tape, name, *operands)
        if len(operands) == 2 and plain and function == "multiply":
            return nn.multiply(self.tape, name, *operands)
        return tensors.elementwise(self.tape, name, RULES.get(function, CHOICE), operands, elements)

    def _unary(self, step: Step, name: str, function: str, source: Tensor) -> Tensor:
        if function in NONLINEARITIES:
            return nn.nonlinearity(self.tape, name, NONLINEARITIES[function], source)
        if function in ("scale", "negate", "add_constant", "add", "subtract"):
            return nn.scale(self.tape, name, source)
        if function == "power" and step.attributes.get("operand") == 2:
            return tensors.elementwise(self.tape, name, PRODUCT, [source], source.elements)
        return tensors.elementwise(self.tape, name, RULES.get(function, CHOICE), [source], source.elements)

    def softmax(self, step: Step) -> Tensor:
        return nn.nonlinearity(self.tape, self.name("softmax"), "softmax", self.tensor(step.inputs[0]), self._row(step))

    def _row(self, step: Step) -> int:
        """Length of the dimension at the step's axis."""
        axis = step.attributes["axis"]
        assert isinstance(axis, int)
        return self.value(step.inputs[0]).shape[axis] if self.value(step.inputs[0]).shape else 1

    def normalise(self, step: Step) -> Tensor:
        source = self.value(step.inputs[0])
        kind: nn.Normalisation = "layer_norm"
        if step.kind in ("batch_norm", "group_norm"):
            channels = source.shape[1]
            groups = step.attributes.get("groups", channels)
            assert isinstance(groups, int)
            samples = 1 if step.kind == "batch_norm" else source.shape[0]
            row = source.elements // (samples * groups)
            kind = "batch_norm" if step.kind == "batch_norm" else "layer_norm"
        else:
            axes = step.attributes["axes"]
            assert isinstance(axes, tuple)
            row = prod(source.shape[axis] for axis in axes)
            kind = "rms_norm" if step.kind == "rms_norm" else "layer_norm"
        weights = self.weights(*step.inputs[1:])
        return nn.normalise(self.tape, self.named(step), kind, self.tensor(step.inputs[0]), row, weights)

    def dropout(self, step: Step) -> Tensor:
        return nn.dropout(self.tape, self.name("dropout"), self.tensor(step.inputs[0]))

    def embedding(self, step: Step) -> Tensor:
        if self.value(step.inputs[0]).role != "parameter":
            return tensors.move(self.tape, self.named(step), self.operands(step)[:1], self.elements(step), "embedding")
        name, table = self.named(step), step.inputs[0]
        return nn.lookup(self.tape, name, self.weights(table), self.elements(step), self.value(table).elements)

    def cross_entropy(self, step: Step) -> Tensor:
        participants = step.attributes["participants"]
        assert isinstance(participants, int)
        logits = self.tensor(step.inputs[0])
        return nn.cross_entropy(self.tape, self.name("loss"), logits, self._row(step), participants)

    def reduction(self, step: Step) -> Tensor:
        name = self.name(str(step.attributes["function"]))
        return tensors.reduction(self.tape, name, self.tensor(step.inputs[0]), self.elements(step))

    def pooling(self, step: Step) -> Tensor:
        kernel, largest = step.attributes["kernel"], step.attributes["function"] == "max"
        assert isinstance(kernel, tuple)
        source = self.tensor(step.inputs[0])
        return tensors.pooling(self.tape, self.name("pooling"), source, self.elements(step), prod(kernel), largest)

    def rotary(self, step: Step) -> Tensor:
        table = sum(self.value(index).elements for index in step.inputs[1:])
        return nn.rotary(self.tape, self.name("rotary"), self.tensor(step.inputs[0]), table)

    def gather(self, step: Step) -> Tensor:
        return tensors.move(self.tape, self.name("gather"), self.operands(step)[:1], self.elements(step), "embedding")

    def all_reduce(self, step: Step) -> Tensor:
        return nn.all_reduce(self.tape, self.name("all_reduce"), self.tensor(step.inputs[0]), _participants(step))

    def copy_to_group(self, step: Step) -> Tensor:
        return nn.copy_to_group(self.tape, self.name("copy_to_group"), self.tensor(step.inputs[0]), _participants(step))

    def constant(self, step: Step) -> Tensor:
        return self.tape.constant(self.name("constant"), self.elements(step))

    def other(self, step: Step) -> Tensor:
        return tensors.move(self.tape, self.named(step), self.operands(step), self.elements(step))


_HANDLERS: Mapping[str, Callable[[_LayerRecorder, Step], Tensor]] = {
    "matmul": _LayerRecorder.matmul,
    "convolution": _LayerRecorder.convolution,
    "elementwise": _LayerRecorder.elementwise,
    "softmax": _LayerRecorder.softmax,
    "layer_norm": _LayerRecorder.normalise,
    "rms_norm": _LayerRecorder.normalise,
    "batch_norm": _LayerRecorder.normalise,
    "group_norm": _LayerRecorder.normalise,
    "dropout": _LayerRecorder.dropout,
    "embedding": _LayerRecorder.embedding,
    "cross_entropy": _LayerRecorder.cross_entropy,
    "reduction": _LayerRecorder.reduction,
    "pooling": _LayerRecorder.pooling,
    "rotary": _LayerRecorder.rotary,
    "reshape": _LayerRecorder.view,
    "permute": _LayerRecorder.view,
    "cast": _LayerRecorder.view,
    "expand": _LayerRecorder.expand,
    "slice": _LayerRecorder.slice,
    "concatenate": _LayerRecorder.concatenate,
    "gather": _LayerRecorder.gather,
    "all_reduce": _LayerRecorder.all_reduce,
    "copy_to_group": _LayerRecorder.copy_to_group,
    "constant": _LayerRecorder.constant,
}
"""Kinds that are not listed (``copy``, ``other``) are a pass over their operands."""


def _participants(step: Step) -> int:
    participants = step.attributes["participants"]
    assert isinstance(participants, int)
    return participants
