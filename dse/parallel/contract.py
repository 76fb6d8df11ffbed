"""``dse parallel`` by the contract of a problem."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dse.algorithms.pairwise.problem import PairwiseProblem
from dse.graph.step import StepGraph
from dse.parallel import contest
from dse.parallel.check import account
from dse.parallel.comparison import Rows, compared
from dse.parallel.formats import MetricsDocument, plan_document, plan_of, stated_from_document
from dse.parallel.mesh import mesh_of
from dse.parallel.metrics import metrics, metrics_of
from dse.parallel.pins import pins_of
from dse.parallel.prices import Prices
from dse.parallel.problem import Device, Objective, ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.solve import Solution, solve
from dse.parallel.view import view
from dse.problem import Posed, ProblemType
from dse.report.units import memory_text, needed_memory_text
from dse.report.view import View
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Result, result_of
from dse.results.result import Objective as Goal
from dse.run.options import Option, Options
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sharding.hlo.table import step_factors
from dse.sources.steps import resolve_step, step_of, with_variables
from hardware.inputs import choose, fail, validate
from hardware.network_specs import network
from hardware.specs import Accelerator, accelerator
from hardware.units import bytes_from_gib

Method = Literal["auto", "exact", "linkage"]
ParallelPosed = Posed["ParallelOptions", ParallelProblem | PairwiseProblem]


@dataclass(frozen=True)
class ParallelOptions(Options):
    """The options of ``dse parallel``."""

    COMMAND: ClassVar[str] = "parallel"

    step: Annotated[Any, Option("A training step.", metavar="STEP", positional=True, is_source=True)]
    mesh: Annotated[str, Option("Devices, or axes from the outermost in: data=4,model=8.", metavar="MESH")] = "8"
    objective: Annotated[
        Objective, Option("cost: seconds of a step; count: split dimensions of trained tensors, the paper's reward.")
    ] = "cost"
    method: Annotated[
        Method,
        Option("exact: with resharding; linkage: without, as the paper; auto: exact for cost, linkage for count."),
    ] = "auto"
    accelerator: Annotated[str, Option("Each device: an accelerator.", metavar="SPEC")] = "a100-80gb"
    network: Annotated[str | None, Option("Between devices (default: the accelerator's own).", metavar="SPEC")] = None
    memory_gb: Annotated[
        float | None,
        Option("GB a device has for the arguments of the step (default: the accelerator's memory).", min=0.0),
    ] = None
    activations: Annotated[
        bool, Option("The memory must also hold what the step makes, as long as it is read (method exact).")
    ] = False
    overlap: Annotated[
        bool, Option("Let communication run beside work where it can: gradients joined late, weights fetched ahead.")
    ] = False
    pin: Annotated[
        tuple[str, ...],
        Option("A layout that an argument must have: for each dimension an axis or -.", metavar="NAME=AXIS,-"),
    ] = ()
    variables: Annotated[
        str | None,
        Option("The trained arguments, one name a line (default: as names and uses tell).", metavar="FILE"),
    ] = None
    why: Annotated[
        str | None, Option("Also what every other layout of this argument costs, or what forbids it.", metavar="NAME")
    ] = None
    emit_iopddl: Annotated[
        str | None,
        Option(
            "Write the problem of method exact, with its costs, as one of the IOPDDL contest (.json or .json.gz).",
            metavar="FILE",
            is_output=True,
        ),
    ] = None


class ParallelType(ProblemType[ParallelOptions, ParallelProblem | PairwiseProblem]):
    """The tensors of a training step over a mesh of devices."""

    name = "parallel"
    help = """Split the tensors of the training step STEP over a mesh of devices.

    STEP is a file of XLA's HLO (text or JSON) or StableHLO, or FILE.py:FUNCTION that returns a JAX function and the
    shapes of its arguments, or a PyTorch module and its inputs (docs/parallel.md). It can also be a problem of the
    IOPDDL contest (.json, .json.gz), which is solved as it stands: it has no mesh.
    """
    Options = ParallelOptions
    parallel = False

    def pose(self, options: ParallelOptions) -> ParallelPosed:
        """The step in the file that the options name, and the machine; or a problem of the contest."""
        given = contest.contest_problem(options.step)
        return _step_posed(options) if given is None else contest.posed(options, given)

    def answered_by(self, options: ParallelOptions) -> tuple[str, ...]:
        """The method that ``auto`` stands for."""
        return (_method(options),)

    def answer(self, posed: ParallelPosed, run: Run) -> Result:
        """The best plan by the chosen method, with its proof or bound."""
        problem = posed.problem
        if isinstance(problem, PairwiseProblem):
            result = contest.answer(posed, problem, run)
        else:
            result = _step_answer(posed, problem, run)
        is_proven = result.status in ("optimal", "infeasible")
        if is_proven or run.stop() != "interrupted":
            return result
        return result.model_copy(update={"status": "interrupted"})

    def faults(self, result: Result, posed: ParallelPosed) -> list[str]:
        """The plan's own rules, its times and bytes; the bound is proven again."""
        problem = posed.problem
        if isinstance(problem, PairwiseProblem):
            return contest.faults(result, problem)
        return _step_faults(result, posed.options, problem)

    def view(self, result: Result, posed: ParallelPosed, tables: Tables) -> View:
        """Tensors by their splits, collectives by kind and axis."""
        problem = posed.problem
        return contest.view(result, problem) if isinstance(problem, PairwiseProblem) else view(problem, result)

    def compared(self, results: Sequence[Result]) -> Rows | None:
        """Times, memory, bytes by collective, and what is split otherwise; of contest problems the usual rows."""
        return None if any("choices" in each.solution for each in results if each.solution) else compared(results)


def _step_posed(options: ParallelOptions) -> ParallelPosed:
    mesh = mesh_of(options.mesh)
    chosen = accelerator(options.accelerator)
    if options.objective == "count" and options.method == "exact":
        raise fail("dse parallel", "--method", "exact", "plans for cost only; count is an objective of linkage")
    if options.memory_gb is not None and not options.memory_gb <= _MAX_MEMORY_GB:
        raise fail("dse parallel", "--memory-gb", options.memory_gb, f"must be at most {_MAX_MEMORY_GB:,}")
    if options.activations and _method(options) != "exact":
        raise fail("dse parallel", "--activations", "", "needs --method exact: linkage counts arguments only")
    if options.emit_iopddl is not None:
        _require_emittable(options, options.emit_iopddl)
    joined = network(options.network or chosen.network)
    where, graph = _step(options)
    names = [argument.name for argument in graph.arguments]
    dims = {argument.name: graph.values[argument.value].dims for argument in graph.arguments}
    problem = ParallelProblem(
        graph,
        mesh,
        device_of(chosen),
        joined.spanning(mesh.devices),
        options.objective,
        chosen.hbm_bytes if options.memory_gb is None else bytes_from_gib(options.memory_gb),
        options.activations,
        options.overlap,
        pins_of(options.pin, names, dims, mesh),
        where,
        rules=step_factors(graph, where),
    )
    if options.why is not None:
        choose(where, "--why", options.why, names, "argument")
    return Posed(options, problem, graph.name, _document(problem), _goal(options))


def _require_emittable(options: ParallelOptions, path: str) -> None:
    """Raises where the options make no problem of the contest, or the file would not be known as one."""
    if _method(options) != "exact":
        raise fail("dse parallel", "--emit-iopddl", path, "needs --method exact: that problem reshards")
    if not path.endswith((".json", ".json.gz")):
        raise fail("dse parallel", "--emit-iopddl", path, "must end in .json or .json.gz")


def _step_answer(posed: ParallelPosed, problem: ParallelProblem, run: Run) -> Result:
    started = time.perf_counter()
    prices = Prices(problem)
    if posed.options.emit_iopddl is not None:
        _emit(problem, prices, posed.options.emit_iopddl)
    solution = solve(problem, prices, _method(posed.options), run.seed, run.stop)
    document = None if solution.plan is None else plan_document(problem, prices, solution.plan)
    if document is not None:
        faults = account(problem, stated_from_document(problem, document, "solution")).faults
        if faults:
            raise FailedCheckError("; ".join(faults))
    scale = 1.0 if problem.objective == "count" else PICO
    return result_of(
        "parallel",
        posed,
        value=None if solution.value is None else solution.value * scale,
        bound=None if solution.bound is None else solution.bound * scale,
        solution=document,
        metrics=None
        if solution.plan is None
        else metrics(problem, prices, solution.plan) | _why(problem, posed.options, prices, run),
        infeasibility=_infeasibility(problem, solution),
        evaluations=1,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=_method(posed.options),
    )


def _step_faults(result: Result, options: ParallelOptions, problem: ParallelProblem) -> list[str]:
    if result.solution or result.metrics:
        validate(MetricsDocument, result.metrics, "result: metrics")
    prices = Prices(problem)
    again = solve(problem, prices, _method(options), result.seed)
    if not result.solution:
        return _faults_without_plan(result, problem, again)
    stated = stated_from_document(problem, result.solution, "result")
    of = account(problem, stated)
    if of.faults:
        return of.faults
    if result.method == "linkage" and of.resharded:
        return [f"{of.resharded} is resharded, which method linkage never does"]
    value = of.split_dimensions if problem.objective == "count" else of.step_ps * PICO
    claimed = result.objective.value
    faults = []
    if claimed is None or abs(claimed - value) > PROOF_TOLERANCE * abs(value):
        faults.append(f"objective.value must be {value}, but got {claimed}")
    faults += _bound_faults(problem, value, result.bound, again)
    expected = metrics_of(problem, prices, plan_of(prices, stated), of)
    unfinished = result.metrics.get("unfinished") == ["why"]
    expected |= {"unfinished": ["why"]} if unfinished else _why(problem, options, prices, Run(seed=result.seed))
    return faults + differences("metrics", result.metrics, expected)


def _emit(problem: ParallelProblem, prices: Prices, path: str) -> None:
    """Write the problem with resharding, its costs in picoseconds and its memory in bytes, in the contest's form."""
    from dse.algorithms.pairwise.iopddl import write_problem
    from dse.parallel.choice_graph import ChoiceGraph

    write_problem(ChoiceGraph(problem, prices).pairwise(), path)


def _step(options: ParallelOptions) -> tuple[str, StepGraph]:
    """What errors call the step that the options name, and its graph."""
    source = resolve_step(options.step)
    graph = step_of(source)
    if not graph.arguments:
        raise fail(source.where, "", "", "must take arguments: without them there is nothing to split")
    if options.variables is not None:
        graph = with_variables(graph, options.variables)
    return source.where, graph


_MAX_MEMORY_GB = 2**30
"""Sums of bytes stay below the largest integer of 64 bits."""


def _method(options: ParallelOptions) -> str:
    if options.method != "auto":
        return options.method
    return "linkage" if options.objective == "count" else "exact"


def _goal(options: ParallelOptions) -> Goal:
    if options.objective == "count":
        return Goal(name="split_dimensions", value=None, unit="", sense="max")
    return Goal(name="step_s", value=None, unit="s", sense="min")


def device_of(chosen: Accelerator) -> Device:
    """Sustained rates: those of the spec, by the efficiencies of its matrix products and its other kernels."""
    machines = chosen.machines
    products = machines.kernels.get("gemm")
    others = machines.kernels.get("default")
    macs = int(machines.tensor_cores[0]) * int(machines.core_width[0]) * int(machines.core_depth[0])
    return Device(
        chosen.name,
        2.0 * macs * machines.clock_hz * (products.efficiency if products else 1.0),
        machines.hbm_bytes_per_s * (others.memory_efficiency if others else 1.0),
        chosen.hbm_bytes,
    )


def _document(problem: ParallelProblem) -> Any:
    """The problem in JSON types: the step with its arrays, and the machine."""
    graph = problem.graph
    return {
        "values": [[value.dtype, list(value.dims), value.constant] for value in graph.values],
        "operations": [
            [each.opcode, list(each.operands), list(each.results), _plain(each.attributes), each.repeats]
            for each in graph.operations
        ],
        "arguments": [[each.value, each.name, each.role] for each in graph.arguments],
        "results": list(graph.results),
        "mesh": problem.mesh.text,
        "device": [problem.device.flops_per_s, problem.device.bytes_per_s],
        "network": repr(problem.network),
        "objective": problem.objective,
        "state_bytes": problem.state_bytes,
        "activations": problem.activations,
        "overlap": problem.overlap,
        "pins": {str(number): list(layout) for number, layout in problem.pins.items()},
    }


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}


def _why(problem: ParallelProblem, options: ParallelOptions, prices: Prices, run: Run) -> dict[str, Any]:
    """The alternatives to the layout of the argument that the options name, where they name one: all or none."""
    name = options.why
    if name is None:
        return {"unfinished": []}
    from dse.parallel.why import alternatives  # loads OR-Tools

    number = [argument.name for argument in problem.graph.arguments].index(name)
    rank = len(problem.graph.values[problem.graph.arguments[number].value].dims)
    found = alternatives(problem, prices, number, _method(options), run.seed, run.stop)
    if run.stop() is not None:
        return {"unfinished": ["why"]}
    layouts = [
        {
            "split": [list(axes) for axes in problem.mesh.spec(each.layout, rank)],
            "step_s": None if each.picoseconds is None else each.picoseconds * PICO,
            "reason": each.reason,
        }
        for each in found
    ]
    return {"why": layouts, "unfinished": []}


def _infeasibility(problem: ParallelProblem, solution: Solution) -> Infeasibility | None:
    if solution.least_state_bytes is None or problem.state_bytes is None:
        return None
    needed, limit = solution.least_state_bytes, problem.state_bytes
    what = "The step takes" if problem.activations else "The arguments of the step take"
    pinned = ", with these pins" if problem.pins else ""
    return Infeasibility(
        resource="memory_bytes",
        demand=needed,
        limit=limit,
        unit="bytes",
        levers=[
            f"{needed_memory_text(needed)} on each device",
            "more devices",
            *(["fewer pins"] if problem.pins else []),
        ],
        explanation=(
            f"{what} at least {needed_memory_text(needed)} on each of {problem.mesh.devices} devices, of "
            f"{memory_text(limit)}{pinned}: {needed - limit:,} bytes too many."
        ),
        where={},
    )


def _faults_without_plan(result: Result, problem: ParallelProblem, again: Solution) -> list[str]:
    if result.status != "infeasible":
        return [] if result.status in ("unknown", "interrupted") else ["a plan must be given"]
    proof = _infeasibility(problem, again)
    if proof is None:
        return ["status infeasible: but a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return differences("infeasibility", stated, proof.model_dump())


def _bound_faults(problem: ParallelProblem, value: float, bound: float | None, again: Solution) -> list[str]:
    """Whether a bound is proven again, and no value is better than what is proven."""
    sign = -1.0 if problem.objective == "count" else 1.0  # both as of something to be minimised
    scale = 1.0 if problem.objective == "count" else PICO
    slack = 0.0 if problem.objective == "count" else PROOF_TOLERANCE * abs(value)
    faults = []
    if again.bound is None or sign * value < sign * again.bound * scale - slack:
        faults.append(f"value {value} is better than what is proven to be possible")
    if bound is not None and (again.bound is None or sign * bound > sign * again.bound * scale + slack):
        faults.append(f"bound {bound} is more than can be proven")
    return faults


PROBLEM = ParallelType()
