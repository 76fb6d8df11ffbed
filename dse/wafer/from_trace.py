"""From the trace of a network over one image to its kernel graph.

Every convolution and every product with a weight becomes a ``conv``; everything else that the network does (batch
norms, nonlinearities, sums, pooling, views) belongs to the kernel that made its operand, as in the contest, where such
work has no kernel:

- A convolution counts H and W as T times the sides of the image that it makes. With the usual padding that is the image
  that it reads, as in the contest's files, and without it the products are still counted exactly. Of different strides
  and of dilation :mod:`dse.wafer.convolution_sizes` says what can be counted.
- A grouped convolution has C = inputs of a group: so many each output feature reads. A transposed one counts the image
  that it reads and has T = 1, as in the contest's U-Net. One in one dimension is a row.
- A linear layer is a convolution of 1 × 1 over the image of its rows, 1 × 1 for a vector.
- Values that are joined (a residual sum, a gate) are joined in the kernel that comes last on the way from the input;
  the others send theirs to it. What is put side by side (concatenated) reaches its reader from every kernel that made a
  part of what it reads.
- Each pair of kernels has one edge, though a value be read twice.

What cannot be said exactly is refused: see :func:`kernel_graph`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from types import MappingProxyType

from dse.graph.named_edges import topological_order
from dse.graph.trace import Step, Trace
from dse.wafer.convolution_sizes import InexactError, convolution_sizes
from dse.wafer.files.kgraph import TITLE_KEY, GraphEdge, GraphNode, KernelGraph
from dse.wafer.files.paint import PLACEMENT
from dse.wafer.networks import HEADER
from hardware.inputs import InputError, fail

Parts = Mapping[int, Fraction]
"""Which kernels made a value, and which share of it each; inputs are -1, -2, …; empty for what is made of weights."""

_REFUSED = MappingProxyType(
    {
        "embedding": "is a table lookup, which no kernel type computes",
        "cross_entropy": "is a loss; return the network's output instead",
        "rotary": "is part of attention, which no kernel type computes",
        "all_reduce": "is a sum over devices, but a wafer holds the whole network",
        "copy_to_group": "copies to other devices, but a wafer holds the whole network",
        "other": "is not a supported operator: neither a convolution nor known to cost nothing",
    }
)
_IN_PLACE = ("elementwise", "batch_norm", "dropout")
"""Leave every element of their only operand where it is."""


def kernel_graph(trace: Trace, source: str) -> KernelGraph:
    """The kernel graph of a canonical ``trace`` of one image, with the contest's wafer and weights.

    Args:
        trace: an inference forward pass.
        source: what errors name.

    Raises:
        InputError: no convolution and no linear layer, or an operator that no kernel computes exactly: a product of two
            activations (attention), recurrence, tables, convolutions of three dimensions, of several images, or of
            which :func:`~dse.wafer.convolution_sizes.convolution_sizes` says that no kernel counts them.
    """
    mapper = _Mapper(trace, source)
    for step in trace.steps:
        mapper.step(step)
    if not mapper.kernels:
        raise fail(source, "", "", "must have at least one convolution or linear layer to place")
    return mapper.finished()


@dataclass(frozen=True)
class _Image:
    """An image with its features, as edges have them."""

    height: int
    width: int
    features: int


@dataclass(frozen=True)
class _Row:
    """The parts along an axis: (where it begins, where it ends, which step computed it)."""

    axis: int
    pieces: tuple[tuple[int, int, Parts], ...]

    def between(self, begin: int, end: int) -> "_Row":
        """A part of it, counted from its own beginning."""
        cut = ((max(one, begin), min(two, end), parts) for one, two, parts in self.pieces)
        return _Row(self.axis, tuple((one - begin, two - begin, parts) for one, two, parts in cut if one < two))

    @property
    def parts(self) -> Parts:
        """Of the whole."""
        return _mixed([(two - one, parts) for one, two, parts in self.pieces])


@dataclass
class _Mapper:
    trace: Trace
    source: str
    kernels: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    edges: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    _parts: dict[int, Parts] = field(default_factory=dict)
    _rows: dict[int, _Row] = field(default_factory=dict)
    _users: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = [index for index, value in enumerate(self.trace.values) if value.role == "input"]
        for number, index in enumerate(self.inputs):
            self._parts[index] = {-1 - number: Fraction(1)}

    def parts(self, index: int) -> Parts:
        """Of a value."""
        return self._parts.get(index, {})

    def step(self, step: Step) -> None:
        """Map one operator."""
        moving = [index for index in step.inputs if self.parts(index)]
        if not moving:
            return
        if step.kind in _REFUSED:
            raise self._refusal(step, _REFUSED[step.kind])
        if step.kind == "convolution":
            made = self._convolution(step)
        elif step.kind == "matmul":
            made = self._linear(step)
        elif step.kind == "concatenate":
            made = self._set(step, self._concatenated(step))
        elif step.kind == "copy":
            made = _mixed([(self.trace.values[index].elements, self.parts(index)) for index in moving])
        elif step.kind == "slice" and step.inputs[0] in self._rows:
            made = self._sliced(step, self._rows[step.inputs[0]])
        else:
            made = self._joined(moving)
            if len(moving) == 1 and self._in_place(step, moving[0]):
                self._set(step, self._rows[moving[0]])
        self._parts.update(dict.fromkeys(step.outputs, made))

    def _refusal(self, step: Step, rule: str) -> InputError:
        called = str(step.attributes.get("name", step.kind.replace("_", " ")))
        weights = [self._weight(index) for index in step.inputs if not self.parts(index)]
        return fail(self.source, step.where, f"{called} ({weights[0]})" if weights and weights[0] else called, rule)

    def _weight(self, index: int) -> str:
        """The name of a weight, or of the first of those that a value is made of; empty where there is none."""
        value = self.trace.values[index]
        if value.base is not None:
            return self._weight(value.base)
        producer = self.trace.producer.get(index)
        if producer is None:
            return value.name
        return next(filter(None, map(self._weight, self.trace.steps[producer].inputs)), "")

    # Kernels ----------------------------------------------------------------------------------------------------------

    def _convolution(self, step: Step) -> Parts:
        source, window, made = (self.trace.values[index].shape for index in (*step.inputs[:2], step.outputs[0]))
        if self.parts(step.inputs[1]):
            raise self._refusal(step, "the filter must be a weight, but depends on the input")
        if len(source) > 4:
            raise self._refusal(step, "must have one or two spatial dimensions, but has three")
        if source[0] != 1:
            raise self._refusal(step, f"the batch size must be 1, but is {source[0]}")
        groups = step.attributes["groups"]
        assert isinstance(groups, int)
        values = {**self._sides(step, source, window, made), "C": source[1] // groups, "K": made[1]}
        # In one dimension the image is a row.
        read = _Image(1 if len(source) == 3 else source[2], source[-1], source[1])
        return self._kernel(step, step.inputs[0], step.inputs[1], values, read)

    def _sides(
        self, step: Step, source: tuple[int, ...], window: tuple[int, ...], made: tuple[int, ...]
    ) -> dict[str, int]:
        """H, W, R, S and T; in one dimension the image is a row."""
        strides, dilation, taps = (
            _pair(step.attributes["stride"]),
            _pair(step.attributes["dilation"]),
            _pair(window[2:]),
        )
        if not step.attributes["transposed"]:
            try:
                return convolution_sizes(_pair(made[2:]), taps, strides, dilation)
            except InexactError as error:
                raise self._refusal(step, str(error)) from error
        if any(apart > 1 and size > 1 for apart, size in zip(dilation, taps, strict=True)):
            rule = f"must not be dilated, but the dilation is {_sizes(dilation)}: kernel types have no dilation"
            raise self._refusal(step, rule)
        read = _pair(source[2:])
        return {"H": read[0], "W": read[1], "R": taps[0], "S": taps[1], "T": 1}

    def _linear(self, step: Step) -> Parts:
        """A weight [k, n] after rows [..., m, k], or a weight [m, k] before columns [..., k, n]."""
        left, right = step.inputs[:2]
        if self.parts(left) and self.parts(right):
            raise self._refusal(step, "multiplies two activations (attention), which no kernel type computes")
        rows_read = bool(self.parts(left))
        read, weight = (left, right) if rows_read else (right, left)
        shape, table = self.trace.values[read].shape, self.trace.values[weight].shape
        if prod(table[:-2]) != 1:
            raise self._refusal(step, f"must use one weight matrix for all rows, but uses {prod(table[:-2])}")
        inputs, outputs = table[-2:] if rows_read else (table[-1], table[-2])
        width = shape[-2] if rows_read else shape[-1]
        image = _Image(prod(shape[:-2]), width, inputs)
        values = {"H": image.height, "W": image.width, "R": 1, "S": 1, "C": inputs, "K": outputs, "T": 1}
        return self._kernel(step, read, weight, values, image)

    def _kernel(self, step: Step, read: int, weight: int, values: dict[str, int], image: _Image) -> Parts:
        number, parts = len(self.kernels), self.parts(read)
        base = self.trace.values[weight].base
        users = self._users.setdefault(weight if base is None else base, [])
        name = self._unique(_plain(self._weight(weight), step.kind))
        if users and not self._ancestors(parts).isdisjoint(users):
            raise self._refusal(step, "applies a weight to its own result (recurrence), which no kernel type computes")
        users.append(number)
        self.kernels.append((name, {**values, "U": values["T"]}))
        for part, share in parts.items():
            self._join(part, number, image, share)
        return {number: Fraction(1)}

    def _ancestors(self, parts: Iterable[int]) -> set[int]:
        ancestors, left = set[int](), [part for part in parts if part >= 0]
        while left:
            number = left.pop()
            if number not in ancestors:
                ancestors.add(number)
                left += [source for source, target in self.edges if target == number and source >= 0]
        return ancestors

    def _unique(self, name: str) -> str:
        taken = {PLACEMENT, *(known for known, _ in self.kernels)}
        number, unique = 2, name
        while unique in taken:
            number, unique = number + 1, f"{name}_{number}"
        return unique

    # What kernels send each other -------------------------------------------------------------------------------------

    def _join(self, source: int, target: int, image: _Image, share: Fraction) -> None:
        shape = (image.height, image.width, max(1, round(image.features * share)))
        self.edges.setdefault((source, target), shape)

    def _set(self, step: Step, row: _Row) -> Parts:
        """Keep what the step makes as a row."""
        self._rows[step.outputs[0]] = row
        return row.parts

    def _in_place(self, step: Step, index: int) -> bool:
        """Whether a step keeps the parts of its operand along an axis in place: pooling does so only for features."""
        row = self._rows.get(index)
        if row is None or not (step.kind in _IN_PLACE or (step.kind == "pooling" and row.axis == 1)):
            return False
        before, after = (self.trace.values[each].shape for each in (index, step.outputs[0]))
        return len(before) == len(after) and before[row.axis] == after[row.axis]

    def _concatenated(self, step: Step) -> _Row:
        """All operands in sequence; those made of weights alone are made by nobody."""
        axis, begin = step.attributes["axis"], 0
        assert isinstance(axis, int)
        pieces: list[tuple[int, int, Parts]] = []
        for index in step.inputs:
            end = begin + self.trace.values[index].shape[axis]
            inner = self._rows.get(index)
            if inner is not None and inner.axis == axis:
                pieces += [(begin + one, begin + two, parts) for one, two, parts in inner.pieces]
            else:
                pieces.append((begin, end, self.parts(index)))
            begin = end
        return _Row(axis, tuple(pieces))

    def _sliced(self, step: Step, row: _Row) -> Parts:
        """Who made what a slice reads."""
        axis, start, stride = (step.attributes[name] for name in ("axis", "start", "step"))
        assert isinstance(start, int)
        assert isinstance(stride, int)
        if axis != row.axis:
            return self._set(step, row)
        length = self.trace.values[step.outputs[0]].shape[row.axis]
        cut = row.between(start, start + (length - 1) * stride + 1)
        return self._set(step, cut) if stride == 1 else cut.parts

    def _joined(self, moving: list[int]) -> Parts:
        """An operator of several values: in the last kernel of those that made them."""
        distinct = list({tuple(self.parts(index).items()): index for index in reversed(moving)}.values())
        if len(distinct) == 1:
            return self.parts(distinct[0])
        made = {part: index for index in distinct for part in self.parts(index)}
        depth = self._depths()
        host = max(made, key=lambda part: (depth.get(part, -1), part))
        if host < 0:
            return {part: Fraction(1, len(made)) for part in made}
        for part, index in made.items():
            if part != host:
                self._join(part, host, self._image(index), self.parts(index)[part])
        return {host: Fraction(1)}

    def _depths(self) -> dict[int, int]:
        """Of every kernel, the kernels before it on the longest way from an input.

        No way leads from the deepest of several kernels to another of them, so edges to it close no cycle.
        """
        inside = [edge for edge in self.edges if edge[0] >= 0]
        depth = dict.fromkeys(range(len(self.kernels)), 0)
        followers: dict[int, list[int]] = {}
        for source, target in inside:
            followers.setdefault(source, []).append(target)
        for number in topological_order(len(self.kernels), inside):
            for target in followers.get(number, ()):
                depth[target] = max(depth[target], depth[number] + 1)
        return depth

    def _image(self, index: int) -> _Image:
        shape = self.trace.values[index].shape
        if len(shape) == 4:
            return _Image(shape[2], shape[3], shape[1])
        return _Image(1, prod(shape[1:-1]), shape[-1] if len(shape) > 1 else 1)

    # The graph --------------------------------------------------------------------------------------------------------

    def finished(self) -> KernelGraph:
        """Inputs, kernels and outputs, numbered in this order."""
        first = len(self.inputs)
        outputs = [index for index in self.trace.outputs if self.parts(index)]
        end = first + len(self.kernels)
        inputs = [
            GraphNode("input", number, self._unique(f"input{number}"), sizes=self._sizes(index))
            for number, index in enumerate(self.inputs)
        ]
        kernels = [
            GraphNode("conv", number, name, tuple((key, values[key]) for key in "WHRSCKTU"))
            for number, (name, values) in enumerate(self.kernels, first)
        ]
        made = [
            GraphNode("output", number, self._unique(f"output{number - end}"), sizes=self._sizes(index))
            for number, index in enumerate(outputs, end)
        ]
        edges = [
            GraphEdge(self._end(source), ("conv", first + target, "x"), shape)
            for (source, target), shape in self.edges.items()
        ]
        for number, index in enumerate(outputs, end):
            for part in self.parts(index):
                edges.append(GraphEdge(self._end(part), ("output", number, "_"), self._sizes(index)))
        return KernelGraph({TITLE_KEY: self.trace.name, **HEADER}, (*inputs, *kernels, *made), tuple(edges))

    def _sizes(self, index: int) -> tuple[int, ...]:
        image = self._image(index)
        return image.height, image.width, image.features

    def _end(self, part: int) -> tuple[str, int, str]:
        return ("input", -1 - part, "_") if part < 0 else ("conv", len(self.inputs) + part, "y")


def _mixed(weighted: Iterable[tuple[int, Parts]]) -> Parts:
    """The shares of a value of which each kernel, or group of them, made so much."""
    rows = [(amount, parts) for amount, parts in weighted if parts]
    whole = sum(amount for amount, _ in rows)
    shares: dict[int, Fraction] = {}
    for amount, parts in rows:
        for part, share in parts.items():
            shares[part] = shares.get(part, Fraction(0)) + share * Fraction(amount, whole)
    return shares


def _sizes(numbers: tuple[int, ...]) -> str:
    return " × ".join(map(str, numbers))


def _pair(numbers: object) -> tuple[int, int]:
    """Up and across, of one or two numbers: one dimension is across."""
    assert isinstance(numbers, tuple)
    return numbers if len(numbers) == 2 else (1, *numbers)


def _plain(name: str, kind: str) -> str:
    """The name of a weight's module in letters, digits and underscores: ``layer1_0_conv1``."""
    module, _, last = name.rpartition(".")
    called = re.sub(r"\W+", "_", module or last, flags=re.ASCII).strip("_")
    if not called or called[0].isdigit():
        return f"{'linear' if kind == 'matmul' else 'conv'}_{called}".rstrip("_")
    return called
