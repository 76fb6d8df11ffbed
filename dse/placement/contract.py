"""``dse place`` by the contract of a problem."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from dse.placement.breakdown import memory_breakdown, plan, span, time_breakdown
from dse.placement.check import violations
from dse.placement.formats import (
    MetricsDocument,
    SolutionDocument,
    placement_document,
    placement_from_document,
    problem_from_document,
    read_problem,
)
from dse.placement.levers import levers
from dse.placement.pipeline_trace import pipeline_trace
from dse.placement.problem import MemoryShortfall, Placement, PlacementProblem, PlacementSolution
from dse.placement.search.chain_structure import is_totally_ordered
from dse.placement.solve import solve
from dse.placement.stage_chart import stage_loads
from dse.placement.timeline import has_timeline, timeline
from dse.problem import Posed, ProblemType, posed_of, result_of
from dse.report.units import lower_bound_text, memory_text, needed_memory_text, time_scale, time_text
from dse.report.view import Card, Heading, Row, Table, View
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Result
from dse.run.options import Option, Options
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.describe import ModelPart, ModelSummary, merged
from dse.sources.kinds import ProblemFormat, ProblemInput
from hardware.chips import chip_notes, system

PIPELINE_TRACE_FILE = "pipeline.trace.json"

METHOD = "dynamic program"

PlacePosed = Posed["PlaceOptions", PlacementProblem]


LAYERS = ProblemFormat("a .json of schema dse.placement/1", schema="dse.placement/1")


@dataclass(frozen=True)
class PlaceOptions(Options):
    """The options of ``dse place``."""

    COMMAND: ClassVar[str] = "place"

    layers: Annotated[
        str, Option("A layer graph (JSON, dse.placement/1).", metavar="LAYERS", positional=True, is_source=True)
    ]
    chip: Annotated[
        str | None,
        Option("Chip or system whose memory and links replace those of LAYERS; times stay.", metavar="CHIP"),
    ] = None


def _on_chip(problem: PlacementProblem, name: str) -> PlacementProblem:
    """The same layers on a chip with its memory, in the network of its system.

    Raises:
        InputError: as :func:`hardware.chips.system`.
    """
    machine = system(name, option="--chip")
    joined = machine.network
    return replace(
        problem,
        hbm_bytes=float(machine.chip.hbm_bytes),
        network_bytes_per_s=joined.accelerator_bytes_per_s,
        node_accelerators=joined.node_accelerators,
        node_bytes_per_s=joined.node_bytes_per_s,
    )


class PlaceType(ProblemType[PlaceOptions, PlacementProblem]):
    """A layer graph over the accelerators of a cluster, with a proven optimum."""

    name = "place"
    help = """Find the optimal pipeline, data and tensor parallelism of a layer graph, with a proof.

    LAYERS is a file (JSON, dse.placement/1; docs/reference/formats.md).
    """
    examples = (
        "dse place tests/data/placement/01_bertlarge_24L_mb8_hbm32.json",
        "dse place tests/data/placement/09_llama2_32L_mb1_hbm80.json --out runs/a",
        "dse place tests/data/placement/11_jitter_24L_mb4_hbm64_W8.json --chip h100-sxm",
    )
    Options = PlaceOptions
    models = (LAYERS,)
    Solution = SolutionDocument
    Metrics = MetricsDocument
    parallel = False

    def pose(self, options: PlaceOptions) -> PlacePosed:
        """The layer graph in the file that the options name."""
        problem = read_problem(options.layers)
        if options.chip is not None:
            problem = _on_chip(problem, options.chip)
        return posed_of(options, problem, problem.name, "batch_s", "s")

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its layers at the smallest width."""
        del sequence
        problem = problem_from_document(source.content, source.where)
        layers = problem.tensor_parallel[min(problem.tensor_parallel)].layers
        parts = merged(ModelPart(each.name, size_bytes=each.weight_bytes) for each in layers)
        facts = {"tensor-parallel widths": sorted(problem.tensor_parallel)}
        return ModelSummary(problem.name, f"a graph of {len(layers):,} layers", parts, None, None, facts=facts)

    def answered_by(self, options: PlaceOptions) -> tuple[str, ...]:
        """The dynamic program alone."""
        return (METHOD,)

    def answer(self, posed: PlacePosed, run: Run) -> Result:
        """The optimal placement, or why there is none."""
        started = time.perf_counter()
        solution = solve(posed.problem, stop=run.stop)
        seconds = time.perf_counter() - started
        placement, shortfall = solution.placement, solution.shortfall
        if placement is not None:
            faults = violations(posed.problem, placement)
            if faults:
                raise FailedCheckError("; ".join(faults))
        value = placement.batch_s if placement else None
        is_cut_short = solution.bound_s is not None and run.stop() == "interrupted"
        return result_of(
            self.name,
            posed,
            value=value,
            bound=value if solution.bound_s is None else solution.bound_s,
            solution=None if placement is None else placement_document(posed.problem, placement),
            metrics=None if placement is None else metrics(posed.problem, placement),
            infeasibility=None if shortfall is None else infeasibility(shortfall, levers(posed.problem)),
            evaluations=1,
            seconds=seconds,
            seed=run.seed,
            method=METHOD,
            status="interrupted" if is_cut_short else None,
        )

    def faults(self, result: Result, posed: PlacePosed) -> list[str]:
        """The placement's own rules, its time and metrics; what is said to be optimal or infeasible is solved again."""
        is_ended = bool(result.solution) or result.status == "infeasible"
        if not is_ended and all(map(is_totally_ordered, posed.problem.tensor_parallel.values())):
            return [f"status must not be {result.status} without a placement, because the search always finishes"]
        again = solve(posed.problem)
        if not is_ended:
            return [*_bound_faults(result, again), *(f"metrics.{key} must not be given" for key in result.metrics)]
        if not result.solution:
            if again.shortfall is None:
                return ["status must not be infeasible, because a placement fits"]
            stated = None if result.infeasibility is None else result.infeasibility.model_dump()
            proof = infeasibility(again.shortfall, levers(posed.problem))
            return differences("infeasibility", stated, proof.model_dump()) + [
                f"metrics.{key} must not be given without a placement" for key in result.metrics
            ]
        value = result.objective.value
        placement = placement_from_document(
            posed.problem, result.solution, "result", math.nan if value is None else value
        )
        faults = violations(posed.problem, placement)
        if faults:
            return faults
        return _bound_faults(result, again) + differences("metrics", result.metrics, metrics(posed.problem, placement))

    def view(self, result: Result, posed: PlacePosed, tables: Tables) -> View:
        """The stages of one pipeline, and the pipeline in time as a trace."""
        title = f"{posed.name}: placement"
        if result.infeasibility is not None:
            return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
        if not result.solution:
            scale = time_scale(result.bound or 0.0)
            least = f"{lower_bound_text(scale.of(result.bound or 0.0))} {scale.unit}"
            return View(title, f"The run was stopped before a placement was found; a batch takes at least {least}.")
        stages = Table(("stage", "accelerators", "layers", ""), _rows(result))
        return View(
            title=title,
            verdict=_verdict(result),
            notes=[*_notes(result), *chip_notes(posed.options.chip, posed.inputs)],
            tables=[stages],
            page=lambda: [
                Heading("Pipeline stages"),
                stages,
                stage_loads(posed.problem, _placement(posed.problem, result)),
            ],
            files=lambda: _traces(posed.problem, result),
            cards=lambda: [_card(posed.problem, result)],
        )


def _bound_faults(result: Result, again: PlacementSolution) -> list[str]:
    """Whether the bound is one, given the same search to its end."""
    proven_s = again.bound_s if again.bound_s is not None else again.placement.batch_s if again.placement else math.inf
    if result.bound is None or result.bound > proven_s * (1 + PROOF_TOLERANCE):
        return [f"bound must be given and at most {proven_s}, but got {result.bound}"]
    return []


def metrics(problem: PlacementProblem, placement: Placement) -> dict[str, Any]:
    """The pipeline as it runs in time: to its last pass, and to the last optimizer step.

    Left out where the passes are too many.
    """
    if not has_timeline(problem, placement):
        return {}
    times = timeline(problem, placement)
    return {"simulated_pipeline_s": times.pipeline_s, "simulated_batch_s": times.batch_s}


def infeasibility(shortfall: MemoryShortfall, changes: Sequence[str] = ()) -> Infeasibility:
    """A memory shortfall, in one sentence for people, and what would make it fit (:mod:`dse.placement.levers`)."""
    remedy = f" It would fit with {', or with '.join(changes)}." if changes else ""
    layers = list(shortfall.stage_layers)
    span = layers[0] if len(layers) == 1 else f"{layers[0]} … {layers[-1]} ({len(layers)} layers)"
    return Infeasibility(
        resource="hbm_bytes",
        demand=shortfall.needed_bytes,
        limit=shortfall.hbm_bytes,
        unit="bytes",
        levers=list(changes),
        explanation=(
            f"At tensor width {shortfall.tensor}, stage {span} needs "
            f"{needed_memory_text(shortfall.needed_bytes)}, but {memory_text(shortfall.hbm_bytes)} are available "
            f"({shortfall.excess_bytes:,.0f} bytes too few).{remedy}"
        ),
        where={"tensor": shortfall.tensor, "stage": layers},
    )


def _placement(problem: PlacementProblem, result: Result) -> Placement:
    assert result.objective.value is not None, "only called for feasible results"
    return placement_from_document(problem, result.solution, "result", result.objective.value)


def _card(problem: PlacementProblem, result: Result) -> Card:
    """The placement, its time and its memory at a glance."""
    placement = _placement(problem, result)
    used = placement.data * sum(stage.accelerators for stage in placement.stages)
    return Card(
        figures=[
            (time_text(placement.batch_s), "batch time"),
            (f"{used:,} of {problem.accelerators:,}", "accelerators used"),
            (f"{len(placement.stages)} × {placement.data:,} × {placement.tensor}", "pipeline × data × tensor"),
        ],
        plan=plan(problem, placement),
        breakdowns=[time_breakdown(problem, placement), memory_breakdown(problem, placement)],
    )


def _traces(problem: PlacementProblem, result: Result) -> Mapping[str, str | bytes]:
    """The pipeline in time (Perfetto, chrome://tracing), where it is not too long."""
    placement = _placement(problem, result)
    if not has_timeline(problem, placement):
        return {}
    return {PIPELINE_TRACE_FILE: json.dumps(pipeline_trace(problem, placement, timeline(problem, placement)))}


def _verdict(result: Result) -> str:
    solution, value, bound = result.solution, result.objective.value or 0.0, result.bound or 0.0
    scale = time_scale(value)
    least = f"lower bound {lower_bound_text(scale.of(bound))} {scale.unit}"
    proof = "proven optimal" if result.status == "optimal" else least
    return (
        f"{scale.text(value, 6)} per batch, {proof}: {len(solution['stages'])} stages × "
        f"{solution['data']} data × {solution['tensor']} tensor ({time_text(result.seconds)})"
    )


def _notes(result: Result) -> list[str]:
    if not result.metrics:
        return []
    return [
        f"simulated: {time_text(result.metrics['simulated_pipeline_s'], 6)} to the last pipeline pass, "
        f"{time_text(result.metrics['simulated_batch_s'], 6)} to the last optimizer step"
    ]


def _rows(result: Result) -> list[Row]:
    return [
        (str(number), str(stage["accelerators"]), str(len(stage["layers"])), span(stage["layers"]))
        for number, stage in enumerate(result.solution["stages"], start=1)
    ]


PROBLEM = PlaceType()
