"""Graphs as users write them, names and pairs of names: their faults, and an order of their nodes."""

from collections.abc import Iterator, Sequence

import rustworkx

from hardware.inputs import nearest, shown

FaultFields = tuple[str, str, str, str | None]
"""Key, value, rule and suggestion of a fault, for :class:`hardware.inputs.Fault`."""


def graph_faults(node: str, names: Sequence[str], edges: Sequence[tuple[str, str]]) -> Iterator[FaultFields]:
    """Duplicate names, edges that join nothing or occur twice, and a cycle.

    ``node``: what a node is called; nodes are under the key of its plural.
    """
    position: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in position:
            rule = f"{node} names must be unique, but {node} {position[name]} also has this name"
            yield f"{node}s.{index}.name", shown(name), rule, None
        position.setdefault(name, index)
    sound = len(position) == len(names)
    seen: dict[tuple[str, str], int] = {}
    for index, edge in enumerate(edges):
        for end in edge:
            if end not in position:
                sound = False
                yield f"edges.{index}", shown(end), f"an edge must join two {node}s", nearest(end, position)
        if edge in seen:
            rule = f"every edge must be listed once, but edge {seen[edge]} is the same"
            yield f"edges.{index}", " → ".join(edge), rule, None
        seen.setdefault(edge, index)
    if not sound:
        return
    cycle = find_cycle(len(names), [(position[source], position[target]) for source, target in edges])
    if cycle:
        closed = [*(names[index] for index in cycle), names[cycle[0]]]
        yield "edges", shown(" → ".join(closed)), "edges must not form a cycle", None


def find_cycle(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The positions along one cycle of ``edges``, or an empty list."""
    return [before for before, _ in rustworkx.digraph_find_cycle(_digraph(nodes, edges))]


def topological_order(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The positions, sources of edges before their targets; of those that may come next the first."""
    width = len(str(nodes))
    return list(
        rustworkx.lexicographical_topological_sort(_digraph(nodes, edges), key=lambda node: f"{node:0{width}d}")
    )


def _digraph(nodes: int, edges: Sequence[tuple[int, int]]) -> "rustworkx.PyDiGraph[int, None]":
    graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from_no_data(list(edges))
    return graph
