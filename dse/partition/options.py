"""What a user can ask of ``dse partition``, and the problem that it poses."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dse.partition.constraints.sampler import SolverMode
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.graphs.from_trace import Granularity
from dse.partition.graphs.source import prepared_graph_of
from dse.partition.problem import ObjectiveName, PartitionGraph, PartitionProblem
from dse.partition.samples import PriceRecorder, RecordedEvaluator
from dse.partition.search.context import Evaluator
from dse.results.settings import STRICT, options_of
from hardware.inputs import fail
from hardware.packages import ELEMENT_BYTES, MOST_CHIPS, Package, package

EvaluatorName = Literal["analytical", "simulator"]

DEFAULT_PACKAGE = "mcm-36"

LINK_BYTES_PER_S = 20e9
"""Links of a package that is only named by its number of chips: tens of GB/s (paper, section 3)."""


@dataclass(frozen=True)
class PartitionOptions:
    """The options of ``dse partition``; :func:`question_of` reads what they name.

    Attributes:
        source: the graph: a model's name or file, or ``dse.graph/1``.
        package: a package spec's name or file; None with ``chips``.
        chips: chips of a package of which nothing else is known; None with ``package``.
        link_bytes_per_s: its links; None for :data:`LINK_BYTES_PER_S`.
        evaluator: what partitions are priced by; the simulator needs a package.
        objective: what is sought.
        method: which of :data:`dse.partition.methods.METHODS`; several with commas between them, or ``all``.
        samples: partitions that a sampling method evaluates.
        solver_mode: which form of the constraint solver sampling methods use; None for each method's own.
        checkpoint: the folder of weights that a learned method begins with; None for what it comes with.
        microbatch, sequence, granularity: of an imported model (:func:`dse.partition.graphs.source.prepared_graph_of`).
    """

    __pydantic_config__ = STRICT

    source: str
    package: str | None = None
    chips: int | None = None
    link_bytes_per_s: float | None = None
    evaluator: EvaluatorName = "analytical"
    objective: ObjectiveName = "throughput"
    method: str = "portfolio"
    samples: int = 600
    solver_mode: SolverMode | None = None
    checkpoint: str | None = None
    microbatch: int | None = None
    sequence: int | None = None
    granularity: Granularity | None = None

    def document(self) -> dict[str, Any]:
        """The options as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Any, path: str | Path, key: str) -> "PartitionOptions":
        """The options that :meth:`document` wrote.

        Raises:
            InputError: something else stands there.
        """
        return options_of(cls, document, path, key, "dse partition")


@dataclass(frozen=True)
class Question:
    """A problem with the package that it is about, where one is known."""

    problem: PartitionProblem
    package: Package | None

    def evaluator(self, name: EvaluatorName, recorder: PriceRecorder | None = None) -> Evaluator:
        """What partitions are priced by; ``recorder`` receives each with its cost.

        Raises:
            InputError: the simulator without a package.
        """
        evaluator: Evaluator
        if name == "analytical":
            evaluator = AnalyticalEvaluator(self.problem)
        elif self.package is None:
            raise fail("dse partition", "--evaluator", name, "needs --package, which says how fast its parts are")
        else:
            evaluator = SimulatorEvaluator(self.problem, self.package)
        return evaluator if recorder is None else RecordedEvaluator(evaluator, recorder)


def question_of(options: PartitionOptions) -> Question:
    """The problem that the options pose, with imported graphs prepared.

    Raises:
        InputError: a source, package or combination that cannot be.
    """
    chosen = _package(options)
    graph = prepared_graph_of(
        options.source,
        microbatch=options.microbatch,
        sequence=options.sequence,
        granularity=options.granularity,
        element_bytes=ELEMENT_BYTES if chosen is None else chosen.element_bytes,
    )
    graph = _priced(graph, chosen, options.source)
    if not graph.latency_s.any():
        raise fail(options.source, "nodes", "", "at least one operator must take time, but every latency_s is 0")
    if chosen is not None and chosen.weights == "streamed":
        graph = graph.with_weights_as_read()
    if chosen is None:
        assert options.chips is not None
        link = options.link_bytes_per_s or LINK_BYTES_PER_S
        return Question(PartitionProblem(graph, options.chips, link, objective=options.objective), None)
    # Streamed weights take no room for good, and what else a chip holds only the simulator knows.
    resident = chosen.sram_bytes if chosen.weights == "resident" else None
    problem = PartitionProblem(graph, chosen.chips, chosen.link_bytes_per_s, resident, options.objective)
    return Question(problem, chosen)


def _package(options: PartitionOptions) -> Package | None:
    if options.chips is None:
        if options.link_bytes_per_s is not None:
            raise fail("dse partition", "--link-bytes-per-s", options.link_bytes_per_s, "belongs to --chips")
        return package(options.package or DEFAULT_PACKAGE)
    if options.package is not None:
        raise fail("dse partition", "--chips", options.chips, "a package has its own chips: give one of the two")
    if not 1 <= options.chips <= MOST_CHIPS:
        raise fail("dse partition", "--chips", options.chips, f"must be from 1 to {MOST_CHIPS}")
    if options.link_bytes_per_s is not None and not 0 < options.link_bytes_per_s < np.inf:
        raise fail("dse partition", "--link-bytes-per-s", options.link_bytes_per_s, "must be positive and finite")
    return None


def _priced(graph: PartitionGraph, chosen: Package | None, source: str) -> PartitionGraph:
    if not np.isnan(graph.latency_s).any():
        return graph
    if chosen is None:
        name = graph.names[int(np.argmax(np.isnan(graph.latency_s)))]
        raise fail(source, f"nodes.{name}.latency_s", "", "is not given, so a package must price it: --package SPEC")
    return graph.priced(chosen.latency_s(graph.flops, graph.moved_bytes))
