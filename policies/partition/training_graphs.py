"""Graphs of the catalogue on packages, to train and to validate on."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dse.partition.constraints.sampler import seeds_of
from dse.partition.options import EvaluatorName, PartitionOptions, question_of
from dse.partition.problem import Chips
from dse.partition.search.context import SearchContext
from dse.partition.search.refining import starts_of
from dse.run.executor import InProcessExecutor
from dse.run.progress import ProgressCallback, StopSignal, ask, never_stop
from dse.run.remembered import Remembered
from hardware.inputs import fail
from hardware.packages import package
from policies.partition.graph_store import StoredGraph
from policies.partition.settings import AnchorName

PREPARED = "graphs prepared"

_TRIED = 50
"""Random partitions of a graph, to see whether it can run at all."""


def graph_name(name: str, package_spec: str) -> str:
    """The name of a graph of the catalogue on a package: elites, best values and scores go by it."""
    return f"{name} on {package_spec}"


def stored_graphs(
    names: Sequence[str], packages: Sequence[str], evaluator: EvaluatorName = "analytical"
) -> list[StoredGraph]:
    """Every graph of the catalogue on every package.

    Raises:
        InputError: an unknown name or package.
    """
    graphs = []
    for spec in packages:
        for name in names:
            problem = question_of(PartitionOptions(name, package=spec)).problem
            named = replace(problem.graph, name=graph_name(name, spec))
            simulated = spec if evaluator == "simulator" else None
            graphs.append(StoredGraph.of(replace(problem, graph=named), simulated))
    return graphs


def _context(graph: StoredGraph) -> SearchContext:
    return SearchContext(graph.problem, graph.evaluator, InProcessExecutor())


def with_start(graph: StoredGraph, stop: StopSignal = never_stop) -> StoredGraph:
    """The graph with the cheapest partition that simple methods find, which a policy that refines begins with.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    chips = starts_of(replace(_context(graph), stop=stop))
    ask(stop)  # they may not be all
    return replace(graph, start=tuple(chips[int(np.argmin(graph.evaluator.costs(chips)))].tolist()))


_GRAPHS: Remembered[StoredGraph | None] = Remembered(1024)
"""What :func:`_prepared` made, by what it was asked and the package as it was: a sweep has many trainers and
validators, in sequence."""


def _prepared(
    name: str, package_spec: str, evaluator: EvaluatorName, anchor: AnchorName, stop: StopSignal
) -> StoredGraph | None:
    """One of :func:`stored_graphs`.

    None where nothing that simple methods try can run: there is nothing to learn from it, and it would hide what every
    other graph says of a checkpoint.
    """
    (graph,) = stored_graphs((name,), (package_spec,), evaluator)
    if anchor == "best":
        graph = with_start(graph, stop)
        return graph if _runs(graph, np.array([graph.start], dtype=np.int8)) else None
    random = graph.sampler.sample(seeds_of(0, 0, _TRIED))
    return graph if _runs(graph, random) or _runs(graph, starts_of(_context(graph))) else None


def _runs(graph: StoredGraph, chips: Chips) -> bool:
    """Whether one of the partitions [B, N] can run."""
    return bool(np.isfinite(graph.evaluator.costs(chips)).any())


def usable_graphs(
    names: Sequence[str],
    packages: Sequence[str],
    evaluator: EvaluatorName,
    anchor: AnchorName,
    stop: StopSignal,
    progress: ProgressCallback,
) -> tuple[StoredGraph, ...]:
    """Those of ``names`` on every package that can run; for the anchor ``best`` with a start partition.

    Raises:
        StoppedError: ``stop`` gave a reason.
        InputError: none can.
    """
    graphs: list[StoredGraph] = []
    for place, package_spec in enumerate(packages):
        for number, name in enumerate(names, start=1):
            ask(stop)
            asked = (name, package_spec, evaluator, anchor)
            graph = _GRAPHS.get((*asked, package(package_spec)), partial(_prepared, *asked, stop))
            graphs += [] if graph is None else [graph]
            progress(PREPARED, place * len(names) + number, len(names) * len(packages))
    if not graphs:
        raise fail(
            "dse pretrain",
            "--package",
            ", ".join(packages),
            f"none of the graphs {', '.join(names)} can run on these packages",
        )
    return tuple(graphs)
