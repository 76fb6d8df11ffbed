"""PyTorch execution traces (JSON): operators with sizes and types, collectives, and no times at all."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dse.importer.profile.kineto import ELEMENT_BYTES
from dse.importer.profile.profile import (
    COLLECTIVE,
    EVENT_COLUMNS,
    KERNEL,
    NONE,
    Collectives,
    Columns,
    Operators,
    Profile,
    Texts,
    events_of,
)
from hardware.inputs import fail

_COLLECTIVE = "nccl:"
_TENSOR = "Tensor("


class ExecutionTrace:
    """What is kept of the nodes of one file.

    Args:
        where: the file, for errors.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._texts = Texts()
        self._events = Columns(*EVENT_COLUMNS, "operator", "collective")
        self._operators = Columns("name", "shapes", "types")
        self._collectives = Columns("name", "group", "group_size", "types", "in_bytes", "out_bytes")

    def read(self, nodes: Iterator[Any]) -> None:
        """Keep every node.

        Raises:
            InputError: a node without a name, or with inputs of another form.
        """
        for count, node in enumerate(nodes):
            try:
                self._add(node)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
                rule = "must be a node with a name, and with shapes and types of its inputs in lists"
                raise fail(self.where, f"nodes.{count}", node, rule) from error

    def _add(self, node: Mapping[str, Any]) -> None:
        name, inputs = str(node["name"]), node.get("inputs", {})
        # Before schema 1.0.3 sizes and types stand beside the inputs.
        shapes, types = (
            (inputs.get("shapes", []), inputs.get("types", []))
            if isinstance(inputs, Mapping)
            else (node.get("input_shapes", []), node.get("input_types", []))
        )
        elements = [_element(kind) for kind in types]
        kind, collective = KERNEL, NONE
        if name.startswith(_COLLECTIVE):
            kind, collective = COLLECTIVE, len(self._collectives)
            size = _bytes(shapes, elements)
            known = self._texts.number(name.removeprefix(_COLLECTIVE))
            self._collectives.append((known, self._texts.number(""), 0, NONE, size, NONE))
        number = self._texts.number(name)
        self._events.append((0, 0, 0, 0, kind, number, NONE, len(self._operators), collective))
        self._operators.append(
            (number, self._texts.number(json.dumps(shapes)), self._texts.number(json.dumps(elements)))
        )

    def profile(self) -> Profile:
        """All that was kept.

        Raises:
            InputError: there are no nodes.
        """
        if not len(self._events):
            raise fail(self.where, "nodes", "", "must not be empty")
        columns = self._events.arrays()
        operator, collective = columns.pop("operator"), columns.pop("collective")
        return Profile(
            path=self.where,
            format="PyTorch execution trace",
            texts=self._texts.all(),
            events=events_of(columns, operator=operator, collective=collective),
            operators=Operators(**self._operators.arrays()),
            collectives=Collectives(**self._collectives.arrays()),
            timing="none",
            remarks=("no times are recorded: give the profile of the same run for these",),
        )


def _element(kind: Any) -> str:
    """``float`` of ``Tensor(float)`` or ``GenericList[Tensor(float)]``; empty for anything but a tensor."""
    return str(kind).rpartition(_TENSOR)[2].partition(")")[0] if _TENSOR in str(kind) else ""


def _bytes(shapes: Any, elements: list[str]) -> int:
    """Of all tensors among the inputs; :data:`NONE` where a type has no known size."""
    total = 0
    for shape, element in zip(shapes, elements, strict=False):
        if not element:
            continue
        size = ELEMENT_BYTES.get(element.lower())
        if size is None:
            return NONE
        total += size * sum(_elements(each) for each in _tensors(shape))
    return total


def _tensors(shape: Any) -> Iterator[list[int]]:
    """Shapes in lists of any depth."""
    if not isinstance(shape, list):
        raise TypeError(f"a shape must be a list, but is {shape!r}")
    if all(isinstance(width, int) for width in shape):
        yield shape
    else:
        for each in shape:
            yield from _tensors(each)


def _elements(shape: list[int]) -> int:
    count = 1
    for width in shape:
        count *= width
    return count
