"""A profile as a graph of nodes: the form in which PipeDream, DAPPLE and Piper read and write profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dse.parallel.pipeline.problem import Profile
from dse.parallel.pipeline.question import Edge, Source
from hardware.inputs import fail

MAX_BYTES = 2**60
"""Of all nodes and edges together: sums stay below the largest integer of 64 bits."""

MAX_FIGURE = 1e15
"""Of a figure in a file: milliseconds, seconds or bytes."""


@dataclass(frozen=True)
class ProfiledNode:
    """A layer or an operation, of a whole batch.

    Attributes:
        name, label: as the file calls it, and what it is.
        forward_s, backward_s: on one device.
        weight_bytes: of its trained tensors.
        stash_bytes: what it leaves for its backward pass.
        stage: the number that the file gives it in a plan; None without one, which counts as 0.
    """

    name: str
    label: str
    forward_s: float
    backward_s: float
    weight_bytes: int
    stash_bytes: int
    stage: int | None = None


@dataclass(frozen=True)
class ProfiledGraph:
    """Nodes, and the arrays that edges carry: (from, to, bytes), by the places of nodes."""

    nodes: tuple[ProfiledNode, ...]
    edges: tuple[Edge, ...]


def source_of_graph(graph: ProfiledGraph, name: str, notes: Sequence[str], path: str) -> tuple[Source, Profile]:
    """The profile that can be cut, its nodes in the order of their longest path to the end.

    Edges of one node that carry equally many bytes carry the same array. Where nodes have stages, these come first in
    the order, and where they change, the file cuts.

    Raises:
        InputError: edges in a circle, or from a stage to an earlier one.
    """
    total = sum(each.weight_bytes + each.stash_bytes for each in graph.nodes) + sum(size for *_, size in graph.edges)
    if total > MAX_BYTES:
        raise fail(path, "", f"{total:,}", f"must have at most {MAX_BYTES:,} bytes of weights and activations together")
    order = _ordered(graph, path)
    place = {number: position for position, number in enumerate(order)}
    nodes = [graph.nodes[number] for number in order]
    edges = tuple(sorted((place[u], place[v], size) for u, v, size in graph.edges))
    profile = Profile(
        forward_s=np.array([each.forward_s for each in nodes]),
        backward_s=np.array([each.backward_s for each in nodes]),
        cut_bytes=_cut_bytes(edges, len(nodes)),
        weight_bytes=np.array([each.weight_bytes for each in nodes], dtype=np.int64),
        variables=np.array([int(each.weight_bytes > 0) for each in nodes], dtype=np.int64),
        stash_bytes=np.array([each.stash_bytes for each in nodes], dtype=np.int64),
    )
    stages = [each.stage or 0 for each in nodes]
    cuts = tuple(at for at in range(1, len(nodes)) if stages[at] != stages[at - 1])
    document = [[each.name, each.label, each.stage] for each in nodes]
    names, labels = tuple(each.name for each in nodes), tuple(each.label for each in nodes)
    return Source(name, names, labels, 0.0, tuple(notes), document, edges, cuts or None), profile


def graph_of_source(source: Source, profile: Profile) -> ProfiledGraph:
    """The points of what is cut as nodes."""
    nodes = tuple(
        ProfiledNode(name, label, float(forward_s), float(backward_s), int(weight_bytes), int(stash_bytes))
        for name, label, forward_s, backward_s, weight_bytes, stash_bytes in zip(
            source.instructions,
            source.labels,
            profile.forward_s,
            profile.backward_s,
            profile.weight_bytes,
            profile.stash_bytes,
            strict=True,
        )
    )
    return ProfiledGraph(nodes, source.edges)


def _cut_bytes(edges: Sequence[Edge], points: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    last: dict[tuple[int, int], int] = {}
    for maker, taker, size in edges:
        last[maker, size] = max(last.get((maker, size), 0), taker)
    changes = np.zeros(points + 2, dtype=np.int64)
    for (maker, size), taker in last.items():
        changes[maker + 1] += size
        changes[taker + 1] -= size
    return np.cumsum(changes)[:-1]


def _ordered(graph: ProfiledGraph, path: str) -> list[int]:
    """The nodes by stage, then by the nodes on their longest path to an end, the longest first."""
    takers: dict[int, list[int]] = {}
    waiting: Mapping[int, list[int]] = {number: [] for number in range(len(graph.nodes))}
    for maker, taker, _ in graph.edges:
        takers.setdefault(maker, []).append(taker)
        waiting[taker].append(maker)
    missing = {number: len(takers.get(number, ())) for number in range(len(graph.nodes))}
    left = dict.fromkeys(range(len(graph.nodes)), 0)
    ready = [number for number, count in missing.items() if not count]
    for number in ready:
        for maker in waiting[number]:
            left[maker] = max(left[maker], left[number] + 1)
            missing[maker] -= 1
            if not missing[maker]:
                ready.append(maker)
    if len(ready) < len(graph.nodes):
        name = graph.nodes[next(number for number, count in missing.items() if count)].name
        raise fail(path, "edges", name, "edges must not form a cycle")
    stage_of = [each.stage or 0 for each in graph.nodes]
    for maker, taker, _ in graph.edges:
        if stage_of[maker] > stage_of[taker]:
            name = graph.nodes[taker].name
            raise fail(path, "stage_id", name, "must not be in an earlier stage than its inputs")
    return sorted(left, key=lambda number: (stage_of[number], -left[number], number))
