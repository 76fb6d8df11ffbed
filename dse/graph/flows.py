"""What flows between the operators of a layer: which elements of which operator's results."""

from typing import NamedTuple


class Flow(NamedTuple):
    """``elements`` of one tensor that one operator writes.

    Attributes:
        operator: the position of the operator in its pass, or the name of what comes from outside the layer.
        elements: how many are read.
        tensor: which tensor of the operator, or which part of one: empty for the whole of its one result, ``mask`` for
            the mask of a dropout, ``[0:64]`` for a part. Flows that are equal are the same data.
    """

    operator: int | str
    elements: int
    tensor: str = ""


Flows = tuple[Flow, ...]
"""The flows that together are a tensor or a gradient, in the order of its elements."""


def part_of(flows: Flows, start: int, elements: int) -> Flows:
    """``elements`` of what ``flows`` are together, from element ``start`` on.

    Elements are counted along the dimension that is cut: parts of one tensor that is cut in one way are distinguished
    by their numbers, regardless of their place in memory.
    """
    parts = []
    for flow in flows:
        first, stop = max(0, start), min(flow.elements, start + elements)
        if (first, stop) == (0, flow.elements):
            parts.append(flow)
        elif first < stop:
            parts.append(Flow(flow.operator, stop - first, f"{flow.tensor}[{first}:{stop}]"))
        start -= flow.elements
    return tuple(parts)


def share_of(flows: Flows, elements: int, name: str) -> Flows:
    """``elements`` of what ``flows`` are together, the part called ``name`` (``[first_token]``), wherever they are.

    Of each flow its share, rounded up: which elements they are is not known.
    """
    total = sum(flow.elements for flow in flows)
    if elements >= total:
        return flows
    return tuple(Flow(flow.operator, -(-flow.elements * elements // total), f"{flow.tensor}{name}") for flow in flows)
