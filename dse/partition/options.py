"""The options of ``dse partition``, and the problem that they pose."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dse.graph.trace import Granularity
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.evaluators.simulator_operators import rates_of
from dse.partition.graphs.source import prepared_graph_of
from dse.partition.methods import ALL, LEARNED, METHODS, names_of
from dse.partition.problem import ObjectiveName, PartitionGraph, PartitionProblem
from dse.partition.samples import PriceRecorder, RecordedEvaluator
from dse.partition.search.context import Evaluator
from dse.run.options import Option, Options
from hardware.chips import system
from hardware.inputs import fail
from hardware.packages import ELEMENT_BYTES, MAX_CHIPS, Package, package, package_of_chips
from hardware.product_rates import MissingRateError

EvaluatorName = Literal["analytical", "simulator"]

DEFAULT_PACKAGE = "mcm-36"

LINK_BYTES_PER_S = 20e9
"""Links of a package that is only named by its number of chips: tens of GB/s (paper, section 3)."""


@dataclass(frozen=True)
class PartitionOptions(Options):
    """The options of ``dse partition``; :func:`question_of` reads what they name."""

    COMMAND: ClassVar[str] = "partition"

    source: Annotated[Any, Option(metavar="GRAPH", positional=True, is_source=True)]
    package: Annotated[
        str | None,
        Option(f"Package spec: a name from `dse specs`, or a file (default: {DEFAULT_PACKAGE}).", metavar="SPEC"),
    ] = None
    chips: Annotated[
        int | None,
        Option(
            "Number of chips without a package spec, for graphs that state latencies, or with --chip.",
            metavar="N",
            group="Packages without a spec",
        ),
    ] = None
    chip: Annotated[
        str | None,
        Option(
            "With --chips: what they are, a chip or system by name or file; its rates, memory and links.",
            metavar="CHIP",
            group="Packages without a spec",
        ),
    ] = None
    link_bytes_per_s: Annotated[
        float | None,
        Option(
            "Link bandwidth without a package spec (default: that of --chip, else 20e9).",
            metavar="X",
            group="Packages without a spec",
        ),
    ] = None
    method: Annotated[
        str,
        Option(
            f"{', '.join(METHODS)}, rl; `{ALL}` or a list compares methods.",
            metavar="NAME[,NAME…]",
        ),
    ] = "portfolio"
    checkpoint: Annotated[
        str | None,
        Option("Initial weights of `rl`: a checkpoint from `dse pretrain`.", metavar="DIR", group="Search"),
    ] = None
    samples: Annotated[
        int, Option("Partitions that each sampling method evaluates.", min=1, max=10**8, group="Search")
    ] = 600
    emit_samples: Annotated[
        str | None,
        Option(
            "Write every distinct valid partition that is evaluated, as JSON lines.",
            metavar="FILE",
            is_output=True,
            group="Search",
        ),
    ] = None
    evaluator: Annotated[EvaluatorName, Option("Cost model of partitions.")] = "analytical"
    objective: Annotated[ObjectiveName, Option("Objective to optimise.")] = "throughput"
    microbatch: Annotated[
        int | None, Option("Samples per input of an imported model (default: 1).", min=1, max=10**6)
    ] = None
    sequence: Annotated[
        int | None, Option("Tokens per sample, for models with variable sequence length.", min=1, max=10**7)
    ] = None
    granularity: Annotated[Granularity | None, Option("Nodes of the graph (default: operator).")] = None

    @property
    def methods(self) -> list[str]:
        """The methods by name, in order, each once.

        Raises:
            InputError: an unknown name.
        """
        return names_of(self.method, (*METHODS, LEARNED))


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
            raise fail("dse partition", "--evaluator", name, "must be analytical without --package")
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
        raise fail(options.source, "nodes", "", "at least one latency_s must be above 0, but all are 0")
    if chosen is not None and chosen.weights == "streamed":
        graph = graph.with_weights_as_read()
    if chosen is None:
        assert options.chips is not None
        link = options.link_bytes_per_s or LINK_BYTES_PER_S
        return Question(PartitionProblem(graph, options.chips, link, objective=options.objective), None)
    # Streamed weights take no room for good, and what else a chip holds only the simulator knows.
    resident = chosen.sram_bytes if chosen.weights == "resident" else None
    problem = PartitionProblem(graph, chosen.chips, chosen.link_bytes_per_s, resident, options.objective)
    # Of chips that no spec joins, what compiler and run-time system add is not known to the simulator.
    return Question(problem, chosen if options.chip is None else None)


def _package(options: PartitionOptions) -> Package | None:
    if options.chips is None:
        if options.link_bytes_per_s is not None:
            raise fail("dse partition", "--link-bytes-per-s", options.link_bytes_per_s, "applies only to --chips")
        if options.chip is not None:
            raise fail("dse partition", "--chip", options.chip, "requires --chips N, how many there are")
        return package(options.package or DEFAULT_PACKAGE)
    if options.package is not None:
        raise fail("dse partition", "--chips", options.chips, "must not be given together with --package")
    if not 1 <= options.chips <= MAX_CHIPS:
        raise fail("dse partition", "--chips", options.chips, f"must be from 1 to {MAX_CHIPS}")
    if options.link_bytes_per_s is not None and not 1e-30 <= options.link_bytes_per_s <= 1e30:
        raise fail("dse partition", "--link-bytes-per-s", options.link_bytes_per_s, "must be from 1e-30 to 1e30")
    if options.chip is None:
        return None
    machine = system(options.chip, option="--chip")
    link = options.link_bytes_per_s or machine.network.spanning(options.chips).accelerator_bytes_per_s
    return package_of_chips(f"{options.chips} {machine.chip.name}", machine.chip, options.chips, link)


def _priced(graph: PartitionGraph, chosen: Package | None, source: str) -> PartitionGraph:
    if not np.isnan(graph.latency_s).any():
        return graph
    if chosen is None:
        name = graph.names[int(np.argmax(np.isnan(graph.latency_s)))]
        raise fail(source, f"nodes.{name}.latency_s", "", "must be given, or --package SPEC or --chip to compute it")
    for name, product_format in zip(graph.names, graph.formats, strict=False):
        try:
            chosen.rates([product_format])
        except MissingRateError as error:
            raise fail(source, name, product_format, str(error)) from error
    return graph.priced(chosen.latency_s(graph.flops, graph.moved_bytes, rates_of(graph, chosen)))
