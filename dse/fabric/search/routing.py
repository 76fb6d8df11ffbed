"""Routes for placed units: multicast trees XY, YX and by congestion. Links have no capacity; any load is legal."""

import heapq
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
    """The placement with these sites, [U], whose nets are routed one after the other."""
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


def rerouted(pipeline: Pipeline, placement: Placement, fabric: Fabric, rounds: int = 1) -> Placement:
    """The same sites with other routes: each net in turn is taken out and routed again with the least squared loads.

    Detours are allowed, so a branch takes the way that adds least to the sum of squared loads, whatever its length; the
    sum never grows. The sinks of a net are reached in the order in which they are cheapest.

    Args:
        pipeline: of the placement.
        placement: a legal one.
        fabric: of the placement.
        rounds: over all nets; ends early when a round improves nothing.
    """
    load = np.zeros(len(fabric.grid.link_from))
    routes = [placement.route(number) for number in range(len(pipeline.nets))]
    cell = fabric.grid.site_cell[placement.site]
    for net, route in zip(pipeline.nets, routes, strict=True):
        load[route] += net.flits
    outgoing = _outgoing(fabric)
    for _ in range(rounds):
        is_better = False
        for number, net in enumerate(pipeline.nets):
            load[routes[number]] -= net.flits
            added = net.flits * (2.0 * load + net.flits)
            ends = {int(cell[sink.unit]) for sink in net.sinks}
            route = _cheapest_tree(fabric, outgoing, int(cell[net.source]), ends, added.tolist())
            if added[route].sum() < added[routes[number]].sum():
                routes[number], is_better = route, True
            load[routes[number]] += net.flits
        if not is_better:
            break
    return Placement.of(placement.site.tolist(), routes)


def _outgoing(fabric: Fabric) -> list[list[tuple[int, int]]]:
    """(link, cell that it leads to) of every cell."""
    outgoing: list[list[tuple[int, int]]] = [[] for _ in range(fabric.grid.cells)]
    for link, (start, end) in enumerate(zip(fabric.grid.link_from, fabric.grid.link_to, strict=True)):
        outgoing[start].append((link, int(end)))
    return outgoing


def _cheapest_tree(
    fabric: Fabric, outgoing: Sequence[Sequence[tuple[int, int]]], source: int, ends: set[int], cost: Sequence[float]
) -> list[int]:
    """Links of a tree that reaches ``ends``: the cheapest way from the tree to any of them (Dijkstra), and again."""
    link_from = fabric.grid.link_from
    entered, waiting = {source}, ends - {source}
    route: list[int] = []
    while waiting:
        into: dict[int, int] = {}
        least = dict.fromkeys(entered, 0.0)
        queue = [(0.0, cell) for cell in sorted(entered)]
        while queue:
            length, cell = heapq.heappop(queue)
            if cell in waiting:
                break
            if length > least[cell]:
                continue
            for link, end in outgoing[cell]:
                if end not in least or length + cost[link] < least[end]:
                    least[end], into[end] = length + cost[link], link
                    heapq.heappush(queue, (least[end], end))
        branch = []
        waiting.discard(cell)
        while cell not in entered:
            branch.append(into[cell])
            cell = int(link_from[into[cell]])
        route += reversed(branch)
        entered.update(int(fabric.grid.link_to[link]) for link in branch)
        waiting -= entered
    return route
