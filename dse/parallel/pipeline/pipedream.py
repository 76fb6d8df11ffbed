"""Profiles in the text form of PipeDream (Narayanan et al., SOSP 2019), which DAPPLE's planner reads as well.

A line for each node, ``node3 -- Linear(…) -- forward_compute_time=0.1, backward_compute_time=0.2, activation_size=4096,
parameter_size=1024``, in milliseconds and bytes, with ``-- stage_id=1`` behind it in a plan; then a line for each edge,
a tab and ``node3 -- node4``. An activation size may be a list, ``[4096; 128]``.
"""

import re

from dse.parallel.pipeline.profiled_graph import MAX_FIGURE, ProfiledGraph, ProfiledNode
from hardware.inputs import fail, nearest

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NODE = re.compile(
    rf"(?P<name>\S+) -- (?P<label>.*?) -- forward_compute_time=(?P<forward>{_NUMBER}), "
    rf"backward_compute_time=(?P<backward>{_NUMBER}), activation_size=(?P<sent>{_NUMBER}|\[[^\]]*\]), "
    rf"parameter_size=(?P<weights>{_NUMBER})(?: -- stage_id=(?P<stage>\d+))?\s*"
)
_EDGE = re.compile(r"\s+(\S+) -- (\S+)\s*")

MARK = re.compile(r"\S+ -- .* -- forward_compute_time=")
"""What such a file begins with."""

_MS = 1e-3


def read_pipedream(text: str, path: str) -> ProfiledGraph:
    """The profile in ``text``; what a node sends is what it keeps for its backward pass, too.

    Raises:
        InputError: a line that is neither node nor edge, a negative figure, or an edge of a node that is not there.
    """
    nodes: dict[str, ProfiledNode] = {}
    sent: dict[str, list[int]] = {}
    edges: list[tuple[str, str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}"
        if not line.strip():
            continue
        if match := _EDGE.fullmatch(line):
            edges.append((match.group(1), match.group(2), where))
            continue
        match = _NODE.fullmatch(line)
        if match is None:
            rule = "must be `NAME -- TEXT -- forward_compute_time=…, backward_compute_time=…, activation_size=…, "
            raise fail(path, where, line[:60], rule + "parameter_size=…`, or a tab and `NAME -- NAME`")
        name = match["name"]
        if name in nodes:
            raise fail(path, where, name, "each node must be defined once")
        sizes = [float(each) for each in re.findall(_NUMBER, match["sent"])]
        figures = [float(match[key]) for key in ("forward", "backward", "weights")]
        if not all(0 <= each <= MAX_FIGURE for each in (*figures, *sizes)):
            raise fail(path, where, name, f"values must be from 0 to {MAX_FIGURE:g}")
        sent[name] = [round(each) for each in sizes]
        stage = None if match["stage"] is None else int(match["stage"])
        forward_s, backward_s = figures[0] * _MS, figures[1] * _MS
        nodes[name] = ProfiledNode(
            name, match["label"], forward_s, backward_s, round(figures[2]), sum(sent[name]), stage
        )
    place = {name: number for number, name in enumerate(nodes)}
    for *ends, where in edges:
        for name in ends:
            if name not in place:
                raise fail(path, where, name, "must name a node", nearest(name, place))
    return ProfiledGraph(
        tuple(nodes.values()), tuple((place[one], place[other], sum(sent[one])) for one, other, _ in edges)
    )


def pipedream_text(graph: ProfiledGraph) -> str:
    """``graph`` in this form; an array that several nodes take is sent once."""
    sent: dict[int, dict[int, None]] = {}
    for maker, _, size in graph.edges:
        sent.setdefault(maker, {})[size] = None
    lines = []
    for number, node in enumerate(graph.nodes):
        label = (f"{node.name} {node.label}".strip()).replace(" -- ", " - ")
        figures = f"forward_compute_time={node.forward_s / _MS:.9f}, backward_compute_time={node.backward_s / _MS:.9f}"
        sizes = f"activation_size={sum(sent.get(number, ()))}.0, parameter_size={node.weight_bytes:.3f}"
        lines.append(f"node{number + 1} -- {label} -- {figures}, {sizes}")
    pairs = dict.fromkeys((maker, taker) for maker, taker, _ in graph.edges)
    lines += [f"\tnode{maker + 1} -- node{taker + 1}" for maker, taker in pairs]
    return "\n".join(lines) + "\n"
