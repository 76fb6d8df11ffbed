"""Routes for placed units: multicast trees XY, YX and by congestion. Links have no capacity; any load is legal."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import rustworkx

from dse.fabric.model import Pipeline, Placement
from dse.fabric.search.route_kernels import NO_LINK, Tree, Ways, grown
from hardware.fabrics import Fabric

Routing = Literal["xy", "yx", "congestion"]
"""Along rows first, along columns first, or branch by branch whichever of both adds less to the squared loads."""

Integers = npt.NDArray[np.int64]


def form_of(routing: Routing) -> int:
    """The number by which kernels know a form of routes."""
    return get_args(Routing).index(routing)


@lru_cache(maxsize=4)
def ways_of(fabric: Fabric) -> Ways:
    """Shortest ways between all cells.

    On a whole grid these are the ways along the row of the source first (XY) and along its column first (YX). Around
    absent cells, a shortest way that keeps to this order as far as it can.
    """
    grid = fabric.grid
    graph: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from([None] * grid.cells)
    graph.add_edges_from_no_data(list(zip(grid.link_from.tolist(), grid.link_to.tolist(), strict=True)))
    distance = rustworkx.digraph_distance_matrix(graph, null_value=-1.0).astype(np.int32)
    is_along_row = np.abs(grid.link_from - grid.link_to) < grid.columns
    into = np.full((2, grid.cells, grid.cells), NO_LINK, dtype=np.uint16)
    for form, preferred in enumerate((~is_along_row, is_along_row)):
        for link in np.argsort(preferred, kind="stable").tolist():
            start, end = grid.link_from[link], grid.link_to[link]
            is_shorter = (distance[:, start] >= 0) & (distance[:, start] + 1 == distance[:, end])
            into[form, is_shorter, end] = link
    return Ways(into, grid.link_from.astype(np.uint16), grid.link_to.astype(np.uint16))


def tree_room(fabric: Fabric) -> Tree:
    """Room for :func:`dse.fabric.search.route_kernels.grow`."""
    cells = fabric.grid.cells
    return Tree(
        entered=np.zeros(cells, dtype=np.int64),
        depth=np.zeros(cells, dtype=np.int32),
        number=np.zeros(1, dtype=np.int64),
        branch=np.zeros((2, cells), dtype=np.uint16),
    )


def routed(pipeline: Pipeline, site: Sequence[int] | Integers, fabric: Fabric, routing: Routing) -> Placement:
    """The placement with these sites, [U], whose nets are routed in sequence."""
    cell = fabric.grid.site_cell[np.asarray(site, dtype=np.int64)]
    ways, tree, load = ways_of(fabric), tree_room(fabric), np.zeros(len(fabric.grid.link_from), dtype=np.int32)
    room = np.empty(fabric.grid.cells, dtype=np.uint16)
    routes = []
    for net in pipeline.nets:
        cells = np.array([cell[sink.unit] for sink in net.sinks], dtype=np.uint16)
        links, _ = grown(ways, form_of(routing), tree, cell[net.source], cells, load, net.flits, room)
        routes.append(room[:links].tolist())
        load[room[:links]] += net.flits
    return Placement.of(np.asarray(site).tolist(), routes)
