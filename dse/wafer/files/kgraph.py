"""The contest's graph format, ``.kgraph``: a header in a comment, nodes, edges with shapes.

The contest's files differ in spaces, tabs and the end of the last line; a graph keeps its file's :class:`Style`, so
that what is read is written back byte for byte.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dse.graph.named_edges import find_cycle
from dse.wafer.files.paint import PLACEMENT
from dse.wafer.kernels import RESERVED, KernelLibrary
from hardware.documents import text_of
from hardware.inputs import Fault, InputError, nearest, shown

TITLE_KEY = "test"
HEADER_KEYS = (TITLE_KEY, "width", "height", "wdeltat", "wlength", "wadapter", "memlimit")

_MAX_DIGITS = 15

_NUMBER = rf"[0-9]{{1,{_MAX_DIGITS}}}"
_NODE = re.compile(rf"(\w+)\[( *)({_NUMBER})\]\s+(.*)")
_LOOSE_NODE = re.compile(rf"(\w+)\W*({_NUMBER})")
_END = rf"(\w+)\[ *({_NUMBER})\]:(\w+)"
_EDGE = re.compile(rf"{_END}(\s*->\s*){_END}\s*,\s*shape:\s*((?:\[\s*{_NUMBER}\s*\])+)")
_LOOSE_EDGE = re.compile(r"\w+\s*\[.*->")
_DIMENSIONS = re.compile(rf"n=\[( *)({_NUMBER}(?: +{_NUMBER})*) *\]\s*")
_NAME = re.compile(r"name='([^']*)'")
_WORD = re.compile(r"\w+", re.ASCII)
_VALUE = re.compile(r"(\w+)=(-?[0-9]+)")


@dataclass(frozen=True)
class Style:
    """How a file is spaced.

    Attributes:
        index_width: of the numbers in brackets, filled with spaces.
        padded: whether spaces surround the sizes of inputs and outputs.
        arrow: between the two ends of an edge.
        final_newline: whether the last line ends.
    """

    index_width: int = 1
    padded: bool = True
    arrow: str = "\t->\t"
    final_newline: bool = True


@dataclass(frozen=True)
class GraphNode:
    """A kernel, or an input or output with its sizes; ``line`` in the file is not part of what it is.

    ``stated`` is what an input or output says in place of its sizes.
    """

    kind: str
    index: int
    name: str
    values: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, ...] = ()
    stated: str = ""
    line: int = field(default=0, compare=False)

    @property
    def label(self) -> str:
        """As edges call it: ``conv[3]``."""
        return f"{self.kind}[{self.index}]"


@dataclass(frozen=True)
class GraphEdge:
    """From one port to another, with the shape of what is sent."""

    source: tuple[str, int, str]
    target: tuple[str, int, str]
    shape: tuple[int, ...]
    line: int = field(default=0, compare=False)

    @property
    def labels(self) -> tuple[str, str]:
        """Of the nodes that it joins."""
        return f"{self.source[0]}[{self.source[1]}]", f"{self.target[0]}[{self.target[1]}]"


@dataclass(frozen=True)
class KernelGraph:
    """A file: header entries as they stand, nodes, edges, spacing, in which lines header entries stand, and ``notes``
    on what contradicts itself and decides nothing.
    """

    header: Mapping[str, str]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    style: Style = Style()
    header_lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)


def write_kgraph(graph: KernelGraph) -> str:
    """The graph as text; what :func:`parse_kgraph` read comes out as it was."""
    style = graph.style
    nodes, edges = (_node_text(node, style) for node in graph.nodes), (_edge_text(edge, style) for edge in graph.edges)
    header = (f"{key}={value}" for key, value in graph.header.items())
    lines = ["(*", *header, "*)", "", "(* Node Definitions *)", *nodes, "", "(* Connectivity *)", *edges]
    return "\n".join(lines) + ("\n" if style.final_newline else "")


def _index(number: int, style: Style) -> str:
    return f"[{number:>{style.index_width}}]"


def _node_text(node: GraphNode, style: Style) -> str:
    words = [f"{key}={value}" for key, value in node.values]
    if node.kind in RESERVED:
        sizes = " ".join(map(str, node.sizes))
        words = [f"n=[ {sizes} ]" if style.padded else f"n=[{sizes}]"] if node.sizes else node.stated.split()
    return " ".join((node.kind + _index(node.index, style), *words, f"name='{node.name}'"))


def _edge_text(edge: GraphEdge, style: Style) -> str:
    source, target = (f"{kind}{_index(number, style)}:{port}" for kind, number, port in (edge.source, edge.target))
    return f"{source}{style.arrow}{target}, shape:{''.join(f'[{size}]' for size in edge.shape)}"


def read_kgraph(path: str | Path, library: KernelLibrary) -> KernelGraph:
    """The graph in the file ``path``.

    Raises:
        InputError: the file cannot be read, or one fault for each line that is wrong.
    """
    return parse_kgraph(text_of(path), path, library)


def parse_kgraph(text: str, path: str | Path, library: KernelLibrary) -> KernelGraph:
    """The graph in ``text``; ``path`` names it in errors.

    Raises:
        InputError: one fault for each line that is wrong.
    """
    reader = _Reader(str(path), library)
    header = reader.header(text)
    if header is None:
        # Where the first comment ends is not known, so nothing is that follows.
        raise InputError(reader.faults)
    for number, line in _lines(text, reader):
        if "->" in line or _LOOSE_EDGE.match(line):
            reader.edge(number, line)
        else:
            reader.node(number, line)
    reader.judge()
    if reader.faults:
        raise InputError(reader.faults)
    style = Style(max(reader.widths, default=1), reader.padded, reader.arrow, text.endswith("\n"))
    nodes, edges = tuple(reader.nodes), tuple(reader.edges)
    return KernelGraph(header, nodes, edges, style, reader.header_lines, (*reader.notes, *_notes(nodes, edges)))


def _notes(nodes: Iterable[GraphNode], edges: Iterable[GraphEdge]) -> Iterable[str]:
    """Inputs and outputs whose sizes cannot be read, or are not those of what is sent: no placement depends on them."""
    sent = {label: edge for edge in edges for label in edge.labels}
    for node in nodes:
        if node.kind not in RESERVED:
            continue
        where = f"line {node.line}: {node.label}"
        if not node.sizes:
            yield f"{where} has no readable sizes ({node.stated or 'none'}); they are ignored."
        elif node.label in sent and sent[node.label].shape != node.sizes:
            shape = "×".join(map(str, sent[node.label].shape))
            stated = "×".join(map(str, node.sizes))
            yield f"{where} has size {stated}, but its edge has {shape}; the difference is ignored."


def _lines(text: str, reader: "_Reader") -> Iterable[tuple[int, str]]:
    """(number from 1, text) of the lines that hold more than comments."""
    comments = list[tuple[int, str]]()
    for number, line in enumerate(text.split("\n"), 1):
        content = ""
        for part in re.split(r"(\(\*|\*\))", line):
            if part == "(*":
                comments.append((number, line))
            elif part == "*)" and comments:
                comments.pop()
            elif part == "*)":
                reader.fault(number, line, "`*)` must have a matching `(*`")
            elif not comments:
                content += part
        if content.strip():
            yield number, content.strip()
    if comments:
        reader.fault(*comments[0], _OPEN)


_OPEN = "`(*` must have a matching `*)`"


class _Reader:
    """Collects nodes, edges and faults, line by line."""

    def __init__(self, path: str, library: KernelLibrary) -> None:
        self.path, self.library = path, library
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.widths: list[int] = []
        self.header_lines: dict[str, int] = {}
        self.kinds = (*library.names, *RESERVED)
        self.unread: set[str] = set()
        self.excused: set[str] = set()
        self.padded, self.arrow = False, Style().arrow

    def fault(self, line: int, value: object, rule: str, suggestion: str | None = None) -> None:
        """Note a fault in ``line``."""
        self.faults.append(Fault(self.path, f"line {line}" if line else "", shown(value), rule, suggestion))

    def header(self, text: str) -> dict[str, str] | None:
        """The entries of the first comment, as text; None where there is none, or none that ends.

        What they mean is for :mod:`dse.wafer.files.formats` to say.
        """
        begins = re.match(r"\s*\(\*(.*?)(\(\*|\*\)|$)", text, re.DOTALL)
        if begins is None:
            rule = f"the file must begin with a comment (* … *) that sets {', '.join(HEADER_KEYS)}"
            self.fault(1, text.strip().partition("\n")[0], rule)
            return None
        entries: dict[str, str] = {}
        first = text[: begins.start(1)].count("\n") + 1
        if begins[2] != "*)":
            self.fault(first, "", _OPEN)
            return None
        for number, line in enumerate(begins[1].split("\n"), first):
            key, equals, value = (part.strip() for part in line.partition("="))
            if not line.strip():
                continue
            if not equals:
                self.fault(number, line, "a header line must be KEY=VALUE")
            elif key not in HEADER_KEYS:
                self.fault(number, key, f"unknown key; known: {', '.join(HEADER_KEYS)}", nearest(key, HEADER_KEYS))
            elif entries.get(key, value) != value:
                rule = f"{key} must be given once, but an earlier line sets it to {entries[key]}"
                self.fault(number, line.strip(), rule)
            elif key in entries:
                self.notes.append(f"line {number}: {key} repeats an earlier line with the same value.")
            else:
                entries[key], self.header_lines[key] = value, number
        return entries

    def node(self, number: int, line: str) -> None:
        """Read ``conv[1] W=14 … name='k1'`` or ``input[0] n=[ 112 112 128 ] name='k0'``."""
        match = _NODE.fullmatch(line)
        if match is None:
            rule = "must be a node `KIND[NUMBER] KEY=VALUE … name='NAME'` or an edge `A[i]:y -> B[j]:x, shape:[n]…`"
            self.fault(number, line, rule)
            loose = _LOOSE_NODE.match(line)
            if loose is not None:
                self._excuse(loose[1], int(loose[2]))
            return
        kind, padding, index, rest = match.groups()
        name = _NAME.search(rest)
        if name is None or not name[1]:
            self.fault(number, line, "must have name='NAME'")
            self._excuse(kind, int(index))
            return
        self._judge_name(number, kind, name[1])
        values = (rest[: name.start()] + rest[name.end() :]).strip()
        if padding:
            self.widths.append(len(padding) + len(index))
        if kind in RESERVED:
            self._end_node(number, kind, int(index), name[1], values)
        elif kind not in self.library:
            rule = f"unknown kernel type; known: {', '.join(self.kinds)}"
            self.fault(number, kind, rule, nearest(kind, self.kinds))
            self._excuse(kind, int(index))
            self.nodes.append(GraphNode(kind, int(index), name[1], line=number))
        else:
            self._kernel(number, kind, int(index), name[1], values)

    def _excuse(self, kind: str, index: int) -> None:
        """Edges to a node that is at fault itself are not further faults, also where they spell an unknown kind
        right.
        """
        self.unread.add(f"{kind}[{index}]")
        if kind not in self.kinds:
            self.excused.update(f"{each}[{index}]" for each in self.kinds)

    def _judge_name(self, number: int, kind: str, name: str) -> None:
        if not _WORD.fullmatch(name):
            rule = "a name must consist of ASCII letters, digits and underscores, because .paint files use it as a word"
            self.fault(number, name, rule)
        elif name == PLACEMENT and kind not in RESERVED:
            self.fault(
                number, name, "must not be used as a kernel name: the .paint file gives this name to the placement"
            )

    def _end_node(self, number: int, kind: str, index: int, name: str, values: str) -> None:
        sizes = _DIMENSIONS.fullmatch(values)
        if sizes is None:
            self.nodes.append(GraphNode(kind, index, name, stated=" ".join(values.split()), line=number))
            return
        self.padded = self.padded or bool(sizes[1])
        self.nodes.append(GraphNode(kind, index, name, sizes=tuple(map(int, sizes[2].split())), line=number))

    def _kernel(self, number: int, kind: str, index: int, name: str, values: str) -> None:
        wanted, parameters = self.library[kind].parameters, list[tuple[str, int]]()
        for word in values.split():
            match = _VALUE.fullmatch(word)
            if match is None:
                self.fault(number, word, "must be KEY=VALUE, where VALUE is a whole number")
                # That it is missing is not a further fault.
                parameters += [(key, 1) for key in wanted if word.startswith(f"{key}=")]
            elif match[1] not in wanted:
                rule = f"must be a parameter of {kind}: {', '.join(wanted)}"
                self.fault(number, match[1], rule, nearest(match[1], wanted))
            elif int(match[2][:_MAX_DIGITS]) < 1 or len(match[2]) > _MAX_DIGITS:
                self.fault(number, word, "must be a positive whole number")
                parameters += [] if match[1] in dict(parameters) else [(match[1], 1)]
            elif (match[1], int(match[2])) in parameters:
                self.notes.append(f"line {number}: {kind}[{index}] repeats {word}.")
            elif match[1] in dict(parameters):
                self.fault(number, word, f"{match[1]} must be given once, but is given twice with different values")
            else:
                parameters.append((match[1], int(match[2])))
        missing = [key for key in wanted if key not in dict(parameters)]
        if missing:
            self.fault(
                number, f"{kind}[{index}]", f"a {kind} must have {', '.join(wanted)}; missing: {', '.join(missing)}"
            )
        self.nodes.append(GraphNode(kind, index, name, tuple(parameters), line=number))

    def edge(self, number: int, line: str) -> None:
        """Read ``conv[1]:y -> conv[2]:x, shape:[14][14][512]``."""
        match = _EDGE.fullmatch(line)
        if match is None:
            self.fault(number, line, "an edge must be `A[i]:y -> B[j]:x, shape:[n][n][n]`")
            return
        kind, index, port, arrow, other, other_index, other_port, shape = match.groups()
        self.arrow = arrow
        sizes = tuple(int(size) for size in re.findall(r"\d+", shape))
        source, target = (kind, int(index), port), (other, int(other_index), other_port)
        self.edges.append(GraphEdge(source, target, sizes, number))

    def judge(self) -> None:
        """Faults that only show in the whole: names, ends of edges, cycles, nothing to place."""
        names: dict[str, int] = {}
        labels: dict[str, int] = {}
        for position, node in enumerate(self.nodes):
            for what, seen in ((node.name, names), (node.label, labels)):
                if what in seen:
                    self.fault(node.line, what, f"must be unique, but line {self.nodes[seen[what]].line} also has it")
                seen.setdefault(what, position)
        offered = [label for label in (*labels, *self.unread) if label.partition("[")[0] in self.kinds]
        known = labels.keys() | self.unread | self.excused
        joined = []
        for edge in self.edges:
            ends = [labels.get(label) for label in edge.labels]
            for label in edge.labels:
                if label not in known:
                    self.fault(edge.line, label, "an edge must join two nodes of the graph", nearest(label, offered))
            if edge.target[0] == "input" or edge.source[0] == "output":
                self.fault(edge.line, " -> ".join(edge.labels), "an edge must not enter an input or leave an output")
            if ends[0] is not None and ends[1] is not None:
                joined.append((ends[0], ends[1]))
        cycle = find_cycle(len(self.nodes), joined)
        if cycle:
            closed = [self.nodes[position].label for position in (*cycle, cycle[0])]
            last = next(edge.line for edge in self.edges if edge.labels == (closed[-2], closed[-1]))
            self.fault(last, " -> ".join(closed), "edges must not form a cycle")
        if not self.faults and all(node.kind in RESERVED for node in self.nodes):
            self.fault(0, "", "the graph must have at least one kernel")
