"""Routing one net as a multicast tree, compiled.

A route grows from the source's cell, sink by sink: from a sink's cell backwards, along links that shorten the way to
the source, until a cell of the tree is met. So every route is a tree without loose ends, and every sink is reached by a
shortest way from where its branch leaves the tree.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled, kernel

ROW_FIRST, COLUMN_FIRST, CONGESTION = 0, 1, 2
"""Along the source's row, then along columns (XY); the other way (YX); or for each branch the less loaded of both."""


class Ways(NamedTuple):
    """Shortest ways between all cells of a fabric.

    Attributes:
        into: the last link of the way from cell a to cell b in form m (:data:`ROW_FIRST`, :data:`COLUMN_FIRST`), −1
            where there is none, [M, C, C].
        link_from, link_to: of the grid, [L].
    """

    into: npt.NDArray[np.int32]
    link_from: npt.NDArray[np.int64]
    link_to: npt.NDArray[np.int64]


class Tree(NamedTuple):
    """Room for the cells of the tree that is grown, to be reused.

    Attributes:
        entered: the number of the tree that entered each cell last, [C].
        depth: links from the source to each cell of the tree, [C].
        number: of the tree that is grown, [1].
    """

    entered: npt.NDArray[np.int64]
    depth: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


@kernel
def _branch_cost(ways, form, tree, source, cell, load, flits):
    """What a branch in one form would add to the sum of squared loads."""
    cost = 0.0
    while tree.entered[cell] != tree.number[0]:
        link = ways.into[form, source, cell]
        cost += flits * (2.0 * load[link] + flits)
        cell = ways.link_from[link]
    return cost


@kernel
def grow(ways, form, tree, source, cells, load, flits, route):
    """Route a net from ``source`` to ``cells``: (links, links to the farthest sink).

    ``route`` receives the links, each after the one that it continues. ``load`` of every link is read where ``form`` is
    :data:`CONGESTION`, and not changed.
    """
    tree.number[0] += 1
    tree.entered[source] = tree.number[0]
    tree.depth[source] = 0
    links, farthest = 0, 0
    for place in range(len(cells)):
        end = cells[place]
        chosen = form
        if form == CONGESTION:
            chosen = ROW_FIRST
            if tree.entered[end] != tree.number[0]:
                row_first = _branch_cost(ways, ROW_FIRST, tree, source, end, load, flits)
                column_first = _branch_cost(ways, COLUMN_FIRST, tree, source, end, load, flits)
                chosen = COLUMN_FIRST if column_first < row_first else ROW_FIRST
        first, cell = links, end
        while tree.entered[cell] != tree.number[0]:
            route[links] = ways.into[chosen, source, cell]
            cell = ways.link_from[route[links]]
            links += 1
        low, high = first, links - 1
        while low < high:
            route[low], route[high] = route[high], route[low]
            low, high = low + 1, high - 1
        for number in range(first, links):
            start, entered = ways.link_from[route[number]], ways.link_to[route[number]]
            tree.depth[entered] = tree.depth[start] + 1
            tree.entered[entered] = tree.number[0]
        farthest = max(farthest, tree.depth[end])
    return links, farthest


@compiled()
def grown(ways, form, tree, source, cells, load, flits, route):
    """:func:`grow` as an entry point."""
    return grow(ways, form, tree, source, cells, load, flits, route)
