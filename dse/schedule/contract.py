"""``dse schedule`` by the contract of a problem."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from dse.problem import Posed, ProblemType, posed_of, result_of
from dse.report.charts import OperatorBar, cores_text, operators_in_time
from dse.report.units import lower_bound_text, time_scale, time_text
from dse.report.view import Breakdown, Card, Heading, Paragraph, Part, Row, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, proven_status
from dse.run.options import Option, Options
from dse.run.run import Run
from dse.run.tables import Tables
from dse.schedule.busy_classes import Interval, busy_s, shares
from dse.schedule.check import violations
from dse.schedule.formats import (
    MetricsDocument,
    SolutionDocument,
    problem_from_document,
    read_problem,
    schedule_document,
    schedule_from_document,
)
from dse.schedule.problem import ScheduleProblem
from dse.schedule.solve import ANSWERED_BY, solve
from dse.sources.describe import ModelPart, ModelSummary, merged
from dse.sources.kinds import ProblemFormat, ProblemInput
from hardware.chips import chip_notes, system
from hardware.specs import accelerator

Method = Literal["auto", "cp-sat", "scip"]
SchedulePosed = Posed["ScheduleOptions", ScheduleProblem]


LAYER = ProblemFormat("a .json of schema dse.schedule/1", schema="dse.schedule/1")


@dataclass(frozen=True)
class ScheduleOptions(Options):
    """The options of ``dse schedule``."""

    COMMAND: ClassVar[str] = "schedule"

    layer: Annotated[str, Option("A layer (JSON, dse.schedule/1).", metavar="LAYER", positional=True, is_source=True)]
    method: Annotated[
        Method, Option("auto: exact search; cp-sat: CP-SAT with interval variables; scip: the paper's ILP.")
    ] = "auto"
    chip: Annotated[
        str | None, Option("Chip whose numbers of cores replace those of LAYER; latencies stay.", metavar="CHIP")
    ] = None


class ScheduleType(ProblemType[ScheduleOptions, ScheduleProblem]):
    """Operators of one layer on the cores of one accelerator, for the shortest makespan."""

    name = "schedule"
    help = """Schedule the operators of a layer on the cores of an accelerator for the shortest makespan.

    LAYER is a file (JSON, dse.schedule/1; docs/reference/formats.md).
    """
    examples = (
        "dse schedule tests/data/schedule/bert17.json --method cp-sat",
        "dse schedule tests/data/schedule/bert17.json --chip tpuv4-phaze",
        "dse schedule tests/data/schedule/heads4.json --out runs/heads",
    )
    Options = ScheduleOptions
    models = (LAYER,)
    steering = ("method",)
    Solution = SolutionDocument
    Metrics = MetricsDocument
    parallel = False

    def pose(self, options: ScheduleOptions) -> SchedulePosed:
        """The layer in the file that the options name."""
        problem = read_problem(options.layer)
        if options.chip is not None:
            system(options.chip, option="--chip")  # refuses unknown names as other commands do
            cores = accelerator(options.chip).machines
            tensor_cores, vector_cores = int(cores.tensor_cores[0]), int(cores.vector_cores[0])
            problem = replace(problem, tensor_cores=tensor_cores, vector_cores=vector_cores)
        return posed_of(options, problem, problem.name, "makespan_s", "s")

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its operators by the cores that they run on."""
        del sequence
        problem = problem_from_document(source.content, source.where)
        parts = merged(ModelPart(each.kind) for each in problem.operators)
        kind = f"a layer of {len(problem.operators):,} operators"
        return ModelSummary(problem.name, kind, parts, None, None)

    def answered_by(self, options: ScheduleOptions) -> tuple[str, ...]:
        """What can have produced the schedule."""
        return ANSWERED_BY[options.method]

    def answer(self, posed: SchedulePosed, run: Run) -> Result:
        """The schedule by the chosen method, with its proof or its gap. It has limits of its own, counted in steps."""
        started = time.perf_counter()
        solution = solve(posed.problem, posed.options.method, run.stop)
        value = solution.schedule.makespan_s
        is_proven = proven_status(value, min(solution.bound_s, value)) == "optimal"
        return result_of(
            self.name,
            posed,
            status="interrupted" if run.stop() == "interrupted" and not is_proven else None,
            value=value,
            bound=min(solution.bound_s, value),
            solution=schedule_document(solution.schedule, [each.name for each in posed.problem.operators]),
            evaluations=1,
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=solution.method,
        )

    def faults(self, result: Result, posed: SchedulePosed) -> list[str]:
        """The schedule's own rules, its makespan, and a bound that a proof supports."""
        if not result.solution:
            return ["solution must be given, because a schedule always exists"]
        schedule = schedule_from_document(posed.problem, result.solution, "result")
        faults = violations(posed.problem, schedule)
        makespan_s = max(schedule.finish_s, default=0.0)
        stated = result.objective.value
        if stated is None or abs(stated - makespan_s) > PROOF_TOLERANCE * max(abs(makespan_s), abs(stated)):
            faults.append(f"objective.value must be makespan_s = {makespan_s}, but got {stated}")
        if result.bound is not None and not _is_proven(posed, result.bound):
            faults.append(f"bound {result.bound} must not exceed the proven bound")
        return faults

    def view(self, result: Result, posed: SchedulePosed, tables: Tables) -> View:
        """The makespan, and the operators by their start."""
        makespan_s = result.objective.value
        assert makespan_s is not None, "a schedule always exists"
        scale = time_scale(makespan_s)
        least = f"lower bound {lower_bound_text(scale.of(result.bound or 0.0))} {scale.unit}"
        proof = "proven optimal" if result.status == "optimal" else least
        took = f"({result.method}, {time_text(result.seconds)})"
        operators = Table(("operator", "start [µs]", "finish [µs]", "cores"), _rows(result))
        kinds = {each.name: each.kind for each in posed.problem.operators}
        return View(
            title=f"{posed.name}: operator schedule",
            verdict=f"makespan {scale.text(makespan_s, 6)}, {proof} {took}",
            notes=chip_notes(posed.options.chip, posed.inputs),
            tables=[operators],
            page=lambda: [*_in_time(result, kinds), Heading("Operators"), operators],
            cards=lambda: [_card(result, posed.problem, kinds)],
        )


def _is_proven(posed: SchedulePosed, bound_s: float) -> bool:
    """Whether the search, or the chosen method, proves as much again."""
    methods = dict.fromkeys(("auto", posed.options.method))
    return any(bound_s <= solve(posed.problem, method).bound_s * (1 + PROOF_TOLERANCE) for method in methods)


def _card(result: Result, problem: ScheduleProblem, kinds: Mapping[str, str]) -> Card:
    """Makespan, bound, and which class of operators the time goes to."""
    makespan_s, bound_s = result.objective.value or 0.0, result.bound or 0.0
    entries = result.solution["operators"]
    intervals = [Interval(kinds[name], entry["start_s"], entry["finish_s"]) for name, entry in entries.items()]
    return Card(
        figures=[
            (time_text(makespan_s), "makespan, proven optimal" if result.status == "optimal" else "makespan"),
            (time_text(bound_s), "lower bound"),
            (f"{len(entries)}", "operators"),
            (f"{problem.tensor_cores} + {problem.vector_cores}", "tensor + vector cores"),
        ],
        breakdowns=[Breakdown("Layer time", "s", shares(busy_s(intervals)))],
    )


def _in_time(result: Result, kinds: Mapping[str, str]) -> list[Part]:
    bars = [
        OperatorBar(name, kinds[name], entry["start_s"], entry["finish_s"], cores_text(entry["cores"]))
        for name, entry in result.solution["operators"].items()
    ]
    about = "One row per operator, ordered by start. An operator on all cores runs alone."
    return [Heading("Timeline of operators"), Paragraph(about, small=True), operators_in_time(bars)] if bars else []


def _rows(result: Result) -> list[Row]:
    operators = sorted(result.solution["operators"].items(), key=lambda entry: entry[1]["start_s"])
    return [
        (
            name,
            f"{1e6 * entry['start_s']:.3f}",
            f"{1e6 * entry['finish_s']:.3f}",
            "all" if entry["cores"] == "all" else ", ".join(map(str, entry["cores"])),
        )
        for name, entry in operators
    ]


PROBLEM = ScheduleType()
