"""Graphs held by number: what runner, network and learner share, so that no graph is in an observation or a checkpoint.

A store on disk is one JSON file. A store that was opened from a file pickles as that path, so that configurations,
which RLlib copies, pickles and saves, stay small; any other pickles as its content, which another machine can read. A
copy of a store is itself.
"""

import json
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dse.partition.bound import simple_bound_s
from dse.partition.constraints.sampler import Sampler
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.formats import graph_from_document
from dse.partition.problem import Floats, PartitionProblem
from dse.partition.search.context import Evaluator
from dse.partition.search.proposals import Float32s, field_basis
from hardware.documents import read_document
from hardware.inputs import fail
from hardware.packages import package
from policies.partition.features import Sequence, node_features, sequence_of

_SCHEMA = "dse.partition-graphs/1"

_KEYS = {"graph", "chips", "link_bytes_per_s", "memory_bytes", "objective", "package", "start"}


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """One graph to learn on.

    Attributes:
        problem: the graph on its package.
        evaluator: what its partitions are priced by.
        package_name: of the package that a simulator prices it for; None: the analytical evaluator.
        start: a valid partition that the prior ``dp`` begins with.
    """

    problem: PartitionProblem
    evaluator: Evaluator
    package_name: str | None = None
    start: tuple[int, ...] | None = None
    _bases: dict[float, Float32s] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, problem: PartitionProblem, package_name: str | None = None, start: tuple[int, ...] | None = None
    ) -> "StoredGraph":
        """The graph priced by the analytical evaluator, or for a package by the simulator."""
        if package_name is None:
            return cls(problem, AnalyticalEvaluator(problem), None, start)
        return cls(problem, SimulatorEvaluator(problem, package(package_name)), package_name, start)

    @property
    def name(self) -> str:
        """What the graph is called."""
        return self.problem.graph.name

    @cached_property
    def sampler(self) -> Sampler:
        """The constraint solver."""
        return Sampler(self.problem.graph, self.problem.chips)

    @cached_property
    def sequence(self) -> Sequence:
        """The operators along the work."""
        return sequence_of(self.problem.graph)

    @cached_property
    def features(self) -> Float32s:
        """What the network sees, [N, F]."""
        return node_features(self.problem, self.sampler.structure, self.sequence)

    @cached_property
    def bound_s(self) -> float:
        """The simple bound: rewards are relative to it."""
        return simple_bound_s(self.problem)

    def reward(self, costs: Floats) -> Floats:
        """Throughput over that of the simple bound, [B]; 0 for what cannot run."""
        return np.where(np.isfinite(costs), self.bound_s / costs, 0.0)

    def basis(self, width: float) -> Float32s:
        """:func:`~dse.partition.search.proposals.field_basis` of the work, computed once, [N, K]."""
        if width not in self._bases:
            self._bases[width] = field_basis(self.sequence.work, width)
        return self._bases[width]

    def document(self) -> dict[str, Any]:
        """The graph as JSON types."""
        return self.problem.document() | {"package": self.package_name, "start": self.start and list(self.start)}


class GraphStore:
    """Graphs by number.

    Args:
        graphs: the graphs; a number is a place in this list.
        path: the file that holds the same.
    """

    def __init__(self, graphs: Items[StoredGraph], path: Path | None = None) -> None:
        self.graphs = tuple(graphs)
        self.path = path

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, number: int) -> StoredGraph:
        return self.graphs[number]

    def __deepcopy__(self, _memory: dict[int, Any]) -> "GraphStore":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            return _of_parts, (tuple((graph.problem, graph.package_name, graph.start) for graph in self.graphs),)
        return GraphStore.open, (self.path,)

    def save(self, path: Path) -> "GraphStore":
        """The same store, written to ``path``."""
        text = json.dumps({"schema": _SCHEMA, "graphs": [graph.document() for graph in self.graphs]})
        path.write_text(text, encoding="utf-8")
        return GraphStore(self.graphs, path.absolute())

    @classmethod
    def open(cls, path: Path) -> "GraphStore":
        """The store that :meth:`save` wrote.

        Raises:
            InputError: it contains something else.
        """
        document = read_document(path)
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            raise fail(path, "schema", "", f"must be {_SCHEMA}")
        graphs = document.get("graphs")
        if not isinstance(graphs, list) or not all(isinstance(part, dict) and set(part) == _KEYS for part in graphs):
            raise fail(path, "graphs", "", f"must be objects of {', '.join(sorted(_KEYS))}")
        return cls([_stored(part, path) for part in graphs], Path(path).absolute())


def _of_parts(parts: Items[tuple[PartitionProblem, str | None, tuple[int, ...] | None]]) -> GraphStore:
    """The store that was pickled."""
    return GraphStore([StoredGraph.of(*each) for each in parts])


def _stored(part: dict[str, Any], path: Path) -> StoredGraph:
    problem = PartitionProblem(
        graph_from_document(part["graph"], path),
        int(part["chips"]),
        float(part["link_bytes_per_s"]),
        part["memory_bytes"],
        part["objective"],
    )
    return StoredGraph.of(problem, part["package"], part["start"] and tuple(part["start"]))
