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

NO_LINK = 2**16 - 1
"""Where a way has no last link."""


class Ways(NamedTuple):
    """Shortest ways between all cells.

    Links and cells have 16 bits: these tables are read for every link of every route, and are best small.

    Attributes:
        into: the last link of the way from cell a to cell b in form m (:data:`ROW_FIRST`, :data:`COLUMN_FIRST`),
            :data:`NO_LINK` where there is none, [M, C, C].
        link_from, link_to: of the grid, [L].
    """

    into: npt.NDArray[np.uint16]
    link_from: npt.NDArray[np.uint16]
    link_to: npt.NDArray[np.uint16]


class Tree(NamedTuple):
    """Room for the cells of the tree that is grown, to be reused.

    Attributes:
        entered: the number of the tree that entered each cell last, [C].
        depth: links from the source to each cell of the tree, [C].
        number: of the tree that is grown, [1].
        branch: links of a branch in each form, from its end, [M, C].
    """

    entered: npt.NDArray[np.int64]
    depth: npt.NDArray[np.int32]
    number: npt.NDArray[np.int64]
    branch: npt.NDArray[np.uint16]


@kernel
def _walk_back(ways, form, tree, source, end, load, flits):
    """Find a branch in one form: (its links, what it would add to the sum of squared loads)."""
    cell, links, cost = end, 0, np.int64(0)
    while tree.entered[cell] != tree.number[0]:
        link = ways.into[form, source, cell]
        tree.branch[form, links] = link
        links += 1
        cost += flits * (2 * np.int64(load[link]) + flits)
        cell = ways.link_from[link]
    return links, cost


@kernel
def grow(ways, form, tree, source, cells, load, flits, route):
    """Route a net from ``source`` to ``cells``: (links, links to the farthest sink).

    ``route`` receives the links, each after the one that it continues. ``load`` of every link, in whole flits, is read
    where ``form`` is :data:`CONGESTION`, and not changed.
    """
    tree.number[0] += 1
    tree.entered[source] = tree.number[0]
    tree.depth[source] = 0
    links, farthest = 0, np.int32(0)
    for place in range(len(cells)):
        end = cells[place]
        if tree.entered[end] != tree.number[0]:
            chosen = ROW_FIRST if form == CONGESTION else form
            length, cost = _walk_back(ways, chosen, tree, source, end, load, flits)
            if form == CONGESTION:
                other_length, other_cost = _walk_back(ways, COLUMN_FIRST, tree, source, end, load, flits)
                if other_cost < cost:
                    chosen, length = COLUMN_FIRST, other_length
            depth = tree.depth[ways.link_from[tree.branch[chosen, length - 1]]]
            for step in range(length - 1, -1, -1):
                link = tree.branch[chosen, step]
                depth += np.int32(1)
                entered = ways.link_to[link]
                tree.depth[entered] = depth
                tree.entered[entered] = tree.number[0]
                route[links] = link
                links += 1
        farthest = max(farthest, tree.depth[end])
    return links, farthest


@compiled
def grown(ways, form, tree, source, cells, load, flits, route):
    """:func:`grow` as an entry point."""
    return grow(ways, form, tree, source, cells, load, flits, route)
