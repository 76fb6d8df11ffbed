"""One accelerator's part of a trace whose layers a tensor-parallel group shares.

The groups of products come from :mod:`dse.sharding.inference`; here the trace is written again for one accelerator,
with local shapes and Megatron's collectives (Shoeybi et al. 2019, section 3): ``all_reduce`` behind each row-split
product and vocabulary-split table (one for partial sums that are added up), ``copy_to_group`` once before
everything whole that split steps read and that has a gradient, and ``participants`` on a loss over split classes.
Biases of row-split products are added behind the all-reduce, whole on each accelerator.

What is not counted: whole parameters inside a split branch (the gain of a norm over each head) get a part of their
gradient on each accelerator; their few numbers are taken to travel with the data-parallel gradients.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dse.graph.trace import Attribute, Step, StepKind, Trace
from dse.sharding.inference import find_groups, product_flops
from dse.sharding.rules import Divides, Split
from hardware.inputs import fail

SMALLEST_SHARE = 0.5
"""A width is offered when more than this part of the FLOPs of all matrix products is split."""


@dataclass(frozen=True)
class Slicing:
    """A trace sliced over ``width`` accelerators.

    Attributes:
        trace: one accelerator's part. Values of the whole trace keep their position; new ones follow.
        width: accelerators that share it.
        splits: how the values of the whole trace are cut; those left out are whole. That of a parameter says which part
            of it an accelerator holds. The split of a base that only views are read of is inferred from its shape.
    """

    trace: Trace
    width: int
    splits: Mapping[int, Split]


def slice_group(trace: Trace, width: int) -> Trace:
    """One accelerator's part of ``trace``, shared by ``width``; the trace itself where nothing can be shared.

    Raises:
        InputError: a width below 1.
    """
    return slicing(trace, width).trace


def slicing(trace: Trace, width: int) -> Slicing:
    """As :func:`slice_group`, with the cut of each value.

    Raises:
        InputError: a width below 1.
    """
    if width < 1:
        raise fail(trace.name, "tensor_parallel", width, "must be at least 1")
    splits: dict[int, Split] = {}
    steps: set[int] = set()
    if width > 1:
        for group in find_groups(trace, _divisible_by(width)):
            splits |= group.splits
            steps |= group.steps
    if not splits:
        return Slicing(trace, width, MappingProxyType({}))
    return Slicing(_Rewriting(trace, width, splits, frozenset(steps)).run(), width, MappingProxyType(splits))


def widths(trace: Trace, candidates: Sequence[int]) -> tuple[int, ...]:
    """The tensor-parallel widths of ``candidates`` that slice ``trace``, ascending, and 1.

    A width is offered when every group of products that any width could share is split (vocabularies aside, which often
    have no useful divisor), and with them more than :data:`SMALLEST_SHARE` of the FLOPs of all matrix products.
    """
    groups = {width: find_groups(trace, _divisible_by(width)) for width in sorted(set(candidates)) if width > 1}
    every = (*groups.values(), find_groups(trace, lambda size: size > 1))
    flops = {position: product_flops(trace, step) for position, step in enumerate(trace.steps) if step.kind == "matmul"}
    shared = {step for some in every for group in some if not group.vocabulary for step in group.steps & flops.keys()}
    offered = [1]
    for width, some in groups.items():
        split = {step for group in some for step in group.steps & flops.keys()}
        if shared <= split and sum(flops[step] for step in split) > SMALLEST_SHARE * sum(flops.values()):
            offered.append(width)
    return tuple(offered)


def _divisible_by(width: int) -> Divides:
    return lambda size: size % width == 0


@dataclass(frozen=True, slots=True)
class _PartialSum:
    """An accelerator's summand of a value, and the biases to be added behind the all-reduce."""

    value: int
    biases: tuple[int, ...]


class _Rewriting:
    """Writes the steps of one accelerator, in order."""

    def __init__(self, trace: Trace, width: int, splits: Mapping[int, Split], split_steps: frozenset[int]) -> None:
        self.trace = trace
        self.width = width
        self.splits = splits
        self.split_steps = split_steps
        self.values = [
            replace(value, shape=_local(value.shape, splits[index], width)) if index in splits else value
            for index, value in enumerate(trace.values)
        ]
        self.steps: list[Step] = []
        self.copies: dict[int, int] = {}
        self.joined = self._joined()
        self.pending: dict[int, _PartialSum] = {}

    def run(self) -> Trace:
        """The trace of one accelerator."""
        copied, readers = self._copied()
        for position, step in enumerate(self.trace.steps):
            local = step
            if position in readers:
                local = replace(step, inputs=tuple(self._copy(v) if v in copied else v for v in step.inputs))
            if position in self.joined:
                self._write_joined(step)
            elif position in self.split_steps:
                self._write_split(step, local)
            else:
                self.steps.append(local)
        return replace(self.trace, values=tuple(self.values), steps=tuple(self.steps))

    def _copied(self) -> tuple[frozenset[int], frozenset[int]]:
        """The whole values that are copied to the group, and the steps that read the copies.

        A view that only split steps read is taken on the copy, so that all views of one value share it.
        """
        trace = self.trace
        readers = set(self.split_steps)
        copied = {value for position in readers for value in trace.steps[position].inputs if self._needs_copy(value)}
        for position in range(len(trace.steps) - 1, -1, -1):
            step = trace.steps[position]
            if step.kind not in ("reshape", "permute") or step.outputs[0] not in copied:
                continue
            if readers.issuperset(trace.consumers[step.outputs[0]]):
                copied.remove(step.outputs[0])
                copied.update(value for value in step.inputs if self._needs_copy(value))
                readers.add(position)
        return frozenset(copied), frozenset(readers)

    def _needs_copy(self, value: int) -> bool:
        """Whether ``value`` is whole, computed, and has a gradient, of which each accelerator finds a part."""
        activation = self.trace.values[value].role == "activation"
        return activation and value not in self.splits and value in self.trace.needs_gradient

    def _copy(self, value: int) -> int:
        """``value`` as split steps read it."""
        if value not in self.copies:
            self.copies[value] = self._new_value(value, "group")
            self._write("copy_to_group", (value,), self.copies[value], participants=self.width)
        return self.copies[value]

    def _write_split(self, step: Step, local: Step) -> None:
        """One accelerator's part of a step that splits pass through, or end in."""
        (result,) = step.outputs
        ends = result not in self.splits
        if step.kind == "slice":
            self.steps.append(self._local_slice(local))
        elif step.kind == "cross_entropy":
            self.steps.append(replace(local, attributes={**step.attributes, "participants": self.width}))
        elif ends and step.kind in ("matmul", "embedding"):
            self._write_partial_sum(local)
        else:
            self.steps.append(local)

    def _write_partial_sum(self, step: Step) -> None:
        """A product or lookup of which each accelerator has a summand."""
        (result,) = step.outputs
        partial = self._new_value(result, "partial")
        self.steps.append(replace(step, inputs=step.inputs[:2], outputs=(partial,)))
        self._sum(step, _PartialSum(partial, step.inputs[2:]))

    def _write_joined(self, step: Step) -> None:
        """The sum of two partial sums."""
        left, right = (self.pending.pop(value) for value in step.inputs)
        partial = self._new_value(step.outputs[0], "partial")
        self.steps.append(replace(step, inputs=(left.value, right.value), outputs=(partial,)))
        self._sum(step, _PartialSum(partial, left.biases + right.biases))

    def _sum(self, step: Step, summand: _PartialSum) -> None:
        """The output of ``step``, summed over the group, and then the biases; later where it is joined with another."""
        (result,) = step.outputs
        if self.joined.issuperset(self.trace.consumers.get(result, (-1,))):
            self.pending[result] = summand
            return
        total = self._new_value(result, "sum") if summand.biases else result
        self._write("all_reduce", (summand.value,), total, step.where, participants=self.width)
        for number, bias in enumerate(summand.biases, start=1):
            made = result if number == len(summand.biases) else self._new_value(result, f"bias{number}")
            self._write("elementwise", (total, bias), made, step.where, function="add")
            total = made

    def _joined(self) -> frozenset[int]:
        """Additions of two partial sums that nothing else reads, as of attention and feed-forward side by side.

        Adding comes first, so that one all-reduce serves both (GPT-J, PaLM).
        """
        trace = self.trace
        sums: set[int] = set()
        joined: set[int] = set()
        for position, step in enumerate(trace.steps):
            (result, *_), shape = step.outputs, trace.values[step.outputs[0]].shape
            if position in self.split_steps:
                if step.kind in ("matmul", "embedding") and result not in self.splits:
                    sums.add(result)
            elif step.attributes.get("function") == "add" and len(set(step.inputs)) == 2:
                alone = all(len(trace.consumers[value]) == 1 and value not in trace.outputs for value in step.inputs)
                if alone and sums.issuperset(step.inputs) and all(trace.values[v].shape == shape for v in step.inputs):
                    joined.add(position)
                    sums.add(result)
        return frozenset(joined)

    def _local_slice(self, step: Step) -> Step:
        """A slice along the split axis starts at the accelerator's part of the segments before it."""
        source, axis, start = step.inputs[0], step.attributes["axis"], step.attributes["start"]
        split = self.splits[source]
        if not isinstance(axis, int) or not isinstance(start, int):
            raise TypeError(f"axis and start of a slice must be whole numbers, but are {axis!r} and {start!r}")
        if axis % len(self.values[source].shape) != split.axis:
            return step
        return replace(step, attributes={**step.attributes, "start": start // self.width})

    def _new_value(self, like: int, suffix: str) -> int:
        """A new activation of the shape of ``like``; its position."""
        value = self.values[like]
        self.values.append(replace(value, name=f"{value.name}_{suffix}", role="activation", base=None))
        return len(self.values) - 1

    def _write(
        self, kind: StepKind, inputs: Iterable[int], output: int, where: str = "", **attributes: Attribute
    ) -> None:
        self.steps.append(Step(kind, tuple(inputs), (output,), attributes, where))


def _local(shape: tuple[int, ...], split: Split, width: int) -> tuple[int, ...]:
    """The shape of an accelerator's part."""
    return tuple(size // width if axis == split.axis else size for axis, size in enumerate(shape))
