"""The growing step graph, in the terms of HLO: values, operations, and what ATen leaves unsaid (broadcasts, views)."""

from collections.abc import Sequence
from math import inf, prod

from dse.graph.step import Attribute, StepOperation, StepValue
from dse.importer.hlo.module import ArrayShape
from dse.importer.torch.aten.views import Dims, Group, View, permutation, permuted, plain, reshaped, shape_of

Number = int | float | bool

_NEUTRAL = {"add": 0, "multiply": 1, "maximum": -inf, "minimum": inf, "and": True, "or": False}
"""What a reduction starts from."""


class StepBuilder:
    """Values and operations so far, and the name and label that the next operations get."""

    def __init__(self) -> None:
        self.values: list[StepValue] = []
        self.operations: list[StepOperation] = []
        self._names: dict[str, int] = {}
        self._written: dict[tuple[View, Dims], int] = {}
        self._reshaped: dict[tuple[View, Dims], View] = {}
        self._numbers: dict[int, int] = {}
        self._constants: dict[tuple[str, str], View] = {}
        self._name, self._label = "value", ""

    def named(self, name: str, label: str) -> None:
        """What follows belongs to the node of this name."""
        self._name, self._label = name, label

    def argument(self, name: str, dims: Dims, dtype: str) -> View:
        """An array that the step takes."""
        return plain(self._value(name, dims, dtype, constant=False), dims)

    def shape(self, view: View) -> Dims:
        """The dimensions of a view."""
        return shape_of(view, self.values[view.value].dims)

    def dtype(self, view: View) -> str:
        """XLA's name of its element type."""
        return self.values[view.value].dtype

    def emit(
        self, opcode: str, operands: Sequence[int], results: Sequence[tuple[Dims, str]], **attributes: Attribute
    ) -> tuple[View, ...]:
        """An operation with its results."""
        random = opcode.startswith("rng")
        constant = not random and all(self.values[each].constant for each in operands)
        made = [self._value(self._name, dims, dtype, constant=constant) for dims, dtype in results]
        self.operations.append(StepOperation(opcode, tuple(operands), tuple(made), attributes, self._label))
        return tuple(plain(value, self.values[value].dims) for value in made)

    def one(self, opcode: str, operands: Sequence[int], dims: Dims, dtype: str, **attributes: Attribute) -> View:
        """An operation with one result."""
        return self.emit(opcode, operands, [(dims, dtype)], **attributes)[0]

    # Constants --------------------------------------------------------------------------------------------------------

    def number(self, number: Number, dtype: str) -> View:
        """A constant without dimensions, the same one wherever it is needed: any device can make it."""
        key = repr(number), dtype
        if key not in self._constants:
            name, self._name = self._name, "constant"
            self._constants[key] = self.one("constant", (), (), dtype, literal=str(number))
            self._name = name
        return self._constants[key]

    def full(self, shape: Dims, number: Number, dtype: str) -> View:
        """An array of one number."""
        scalar = self.number(number, dtype)
        if not shape:
            return scalar
        filled = self.one("broadcast", (scalar.value,), shape, dtype, dimensions=())
        self._numbers[filled.value] = scalar.value
        return filled

    # Views ------------------------------------------------------------------------------------------------------------

    def written(self, view: View) -> int:
        """The value of the view itself: transposed and reshaped where that is needed."""
        key = view, self.shape(view)
        if key not in self._written:
            result = self._ordered(view)
            if self.values[result].dims != key[1]:
                result = self.one("reshape", (result,), key[1], self.dtype(view)).value
            self._written[key] = result
        return self._written[key]

    def _ordered(self, view: View) -> int:
        """The dimensions of the value in the view's order, none of them merged."""
        dims = self.values[view.value].dims
        order = permutation(view, dims)
        if view.order == tuple(sorted(view.order)):
            return view.value
        moved = tuple(dims[dim] for dim in order)
        return self.one("transpose", (view.value,), moved, self.dtype(view), dimensions=order).value

    def reshape(self, view: View, shape: Dims) -> View:
        """The view in another shape: a note where that is enough, otherwise an operation."""
        noted = reshaped(view, self.values[view.value].dims, shape)
        if noted is not None:
            return noted
        key = view, shape
        if key not in self._reshaped:
            self._reshaped[key] = self.one("reshape", (self._ordered(view),), shape, self.dtype(view))
        return self._reshaped[key]

    def broadcast(self, view: View, dims: Dims, groups: Sequence[Group]) -> int:
        """The value spread over an array of ``dims``, whose dimensions make up those of the operator as ``groups``.

        Numbers stay numbers: they stand for arrays of any shape.
        """
        if view.value in self._numbers:
            return self._numbers[view.value]
        shape = self.shape(view)
        targets = groups[len(groups) - len(shape) :]
        sizes = [prod(dims[dim] for dim in group) for group in targets]
        matched = [place for place, size in enumerate(shape) if size != 1 and size == sizes[place]]
        mapped = [dim for place in matched for dim in targets[place]]
        without_ones = self.reshape(view, tuple(size for size in shape if size != 1))
        flat = self.reshape(without_ones, tuple(dims[dim] for dim in mapped))
        ordered = sorted(range(len(mapped)), key=mapped.__getitem__)
        source = self.written(permuted(flat, ordered))
        if not mapped:
            return source
        if self.values[source].dims == dims:
            return source
        if len(mapped) == sum(size != 1 for size in dims):
            return self.one("reshape", (source,), dims, self.dtype(view)).value
        return self.one("broadcast", (source,), dims, self.dtype(view), dimensions=tuple(sorted(mapped))).value

    # Operations -------------------------------------------------------------------------------------------------------

    def elementwise(
        self, opcode: str, operands: Sequence[View], shape: Dims, dtype: str, **attributes: Attribute
    ) -> View:
        """An operation on every element; smaller operands are broadcast.

        Where the operands of the whole shape are one and the same view of their arrays, so is the result.
        """
        frames = {
            (self.values[each.value].dims, each.groups)
            for each in operands
            if self.shape(each) == shape and not self.values[each.value].constant
        }
        dims, groups = frames.pop() if len(frames) == 1 else (shape, plain(0, shape).groups)
        values = [self.broadcast(each, dims, groups) if shape else self.written(each) for each in operands]
        made = self.one(opcode, values, dims, dtype, **attributes)
        return View(made.value, groups)

    def reduce(self, view: View, along: Sequence[int], combiner: str, dtype: str, *, keep: bool = False) -> View:
        """A reduction along some dimensions of the view; ``keep`` leaves them with one element."""
        value = self.values[view.value]
        reduced = tuple(sorted(dim for place in along for dim in view.groups[place]))
        groups = [() if place in along else group for place, group in enumerate(view.groups)]
        result = view.value
        if reduced:
            start = self.number(_NEUTRAL[combiner], dtype)
            left = tuple(size for dim, size in enumerate(value.dims) if dim not in reduced)
            operands = view.value, start.value
            result = self.one("reduce", operands, left, dtype, dimensions=reduced, combiner=combiner).value
        moved = {dim: place for place, dim in enumerate(dim for dim in range(len(value.dims)) if dim not in reduced)}
        renumbered = [tuple(moved[dim] for dim in group) for group in groups]
        return View(result, tuple(group for place, group in enumerate(renumbered) if keep or place not in along))

    def dot(self, left: View, right: View, inner: tuple[int, int], batch: int, dtype: str) -> View:
        """A product of views: the first ``batch`` dimensions of both are paired, the ``inner`` ones contracted.

        The result has the batch dimensions, the rest of the left operand, and the rest of the right one.
        """
        pairs = [(place, place) for place in range(batch)] + [inner]
        uneven = [(place, to) for place, to in pairs if self._sizes(left, place) != self._sizes(right, to)]
        if uneven:
            left = self._merged(left, [place for place, _ in uneven])
            right = self._merged(right, [to for _, to in uneven])
        dims = self.values[left.value].dims, self.values[right.value].dims
        paired = [sum((view.groups[place] for place in range(batch)), ()) for view in (left, right)]
        contracted = [view.groups[place] for view, place in zip((left, right), inner, strict=True)]
        free = [
            [dim for dim in range(len(dims[side])) if dim not in paired[side] and dim not in contracted[side]]
            for side in (0, 1)
        ]
        sizes = [dims[0][dim] for dim in (*paired[0], *free[0])] + [dims[1][dim] for dim in free[1]]
        made = self.one(
            "dot", (left.value, right.value), tuple(sizes), dtype,
            lhs_batch_dims=paired[0], rhs_batch_dims=paired[1],
            lhs_contracting_dims=contracted[0], rhs_contracting_dims=contracted[1],
        )  # fmt: skip
        place = [{dim: at for at, dim in enumerate((*paired[0], *free[0]))}, {}]
        place[1] = {dim: at for at, dim in enumerate(free[1], len(place[0]))}
        result_dims = [(0, each) for each in range(batch)]
        result_dims += [(0, each) for each in range(batch, len(left.groups)) if each != inner[0]]
        result_dims += [(1, each) for each in range(batch, len(right.groups)) if each != inner[1]]
        groups = [tuple(place[side][dim] for dim in (left, right)[side].groups[each]) for side, each in result_dims]
        return View(made.value, tuple(groups))

    def _sizes(self, view: View, place: int) -> list[int]:
        """The dimensions of the value that one of the view runs over."""
        return [self.values[view.value].dims[dim] for dim in view.groups[place]]

    def _merged(self, view: View, places: Sequence[int]) -> View:
        """The view of a value in which each dimension of ``places`` is one of the value; others stay as they are."""
        if all(len(view.groups[place]) <= 1 for place in places):
            return view
        parts = [
            [group] if place in places else [(dim,) for dim in group] for place, group in enumerate(view.groups)
        ]  # fmt: skip
        value = self.written(View(view.value, tuple(group for split in parts for group in split)))
        numbers = iter(range(len(self.values[value].dims)))
        groups = tuple(tuple(next(numbers) for group in split if group) for split in parts)
        return View(value, groups)

    def _value(self, name: str, dims: Dims, dtype: str, *, constant: bool) -> int:
        count = self._names[name] = self._names.get(name, 0) + 1
        unique = name if count == 1 else f"{name}~{count}"
        self.values.append(StepValue(unique, dims, dtype, ArrayShape(dtype, dims).size_bytes, constant))
        return len(self.values) - 1
