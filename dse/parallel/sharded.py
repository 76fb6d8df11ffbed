"""Strategy ``sharding``: the tensors of a training step over a mesh of devices, as ``dse parallel`` answers it."""

import time
from typing import Any

from dse.parallel.check import account
from dse.parallel.formats import MetricsDocument, plan_document, plan_of, stated_from_document
from dse.parallel.inputs import device_document, device_of, document_of_step, named_step
from dse.parallel.mesh import Mesh, mesh_of
from dse.parallel.metrics import checked_metrics, metrics, own_baselines
from dse.parallel.options import ParallelOptions, memory_bytes_of
from dse.parallel.pins import pins_of
from dse.parallel.prices import Prices, prices_of
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.shortfall import lacking_memory
from dse.parallel.solve import Solution, min_work, solve, solve_learned
from dse.problem import Posed, result_of
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Result
from dse.results.result import Objective as Goal
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from hardware.chips import chip
from hardware.inputs import choose, fail, validate
from hardware.network_specs import network

ShardingPosed = Posed[ParallelOptions, Any]

_PROVEN: Remembered[Solution] = Remembered(4)
_WHY: Remembered[dict[str, Any]] = Remembered(4, is_mutable=True)
"""Of the last problems that were checked, what a check works out without regard to the result."""


def posed(options: ParallelOptions) -> ShardingPosed:
    """The step that the options name, and the machine.

    Raises:
        InputError: options that contradict each other, or files that are malformed.
    """
    mesh = mesh_of(options.mesh)
    chosen = chip(options.accelerator)
    if options.objective == "count" and options.method == "exact":
        raise fail("dse parallel", "--method", "exact", "must be linkage with --objective count")
    if options.method == "inference":
        raise fail("dse parallel", "--method", "inference", "applies only to --strategy pipeline")
    if options.method == "dqn":
        _require_learnable(options, mesh)
    memory_bytes = memory_bytes_of(options, chosen.hbm_bytes)
    if options.activations and method_of(options) != "exact":
        raise fail(
            "dse parallel",
            "--activations",
            "",
            "must be given with --method exact, because linkage counts only the memory of arguments",
        )
    if options.emit_iopddl is not None:
        _require_emittable(options, options.emit_iopddl)
    joined = network(options.network or chosen.network)
    device = device_of(chosen, options.f32_products)
    where, graph, rules = named_step(options, device)
    names = [argument.name for argument in graph.arguments]
    dims = {argument.name: graph.values[argument.value].dims for argument in graph.arguments}
    problem = ParallelProblem(
        graph,
        mesh,
        device,
        joined.spanning(mesh.devices),
        options.objective,
        memory_bytes,
        options.activations,
        options.overlap,
        pins_of(options.pin, names, dims, mesh),
        where,
        rules=rules,
    )
    if options.why is not None:
        choose(where, "--why", options.why, names, "argument")
    return Posed(options, problem, graph.name, document_of_step(graph) | _machine_document(problem), _goal(options))


def _require_learnable(options: ParallelOptions, mesh: Mesh) -> None:
    """Raises where the options ask for what the paper's episodes do not decide."""
    if sum(axis.size > 1 for axis in mesh.axes) != 1:
        rule = "must have exactly one axis of more than one device with --method dqn"
        raise fail("dse parallel", "--mesh", options.mesh, rule)
    if options.pin:
        raise fail("dse parallel", "--pin", options.pin[0], "must not be given with --method dqn, which has no pins")
    if options.decide == "inputs" and options.objective == "count":
        rule = "must not be inputs with --objective count, which counts dimensions of trained tensors"
        raise fail("dse parallel", "--decide", "inputs", rule)


def _require_emittable(options: ParallelOptions, path: str) -> None:
    """Raises where the options make no problem of the contest, or the file would not be known as one."""
    if method_of(options) != "exact":
        raise fail(
            "dse parallel",
            "--emit-iopddl",
            path,
            "must be given with --method exact, because the problem includes resharding",
        )
    if not path.endswith((".json", ".json.gz")):
        raise fail("dse parallel", "--emit-iopddl", path, "must end in .json or .json.gz")


def answer(posed: ShardingPosed, problem: ParallelProblem, run: Run) -> Result:
    """The best plan by the chosen method, with its proof or bound."""
    started = time.perf_counter()
    prices = prices_of(problem)
    if posed.options.emit_iopddl is not None:
        _emit(problem, prices, posed.options.emit_iopddl)
    own_baselines(problem, prices)  # before the search: after its limit there is no time for them
    name = method_of(posed.options)
    if name == "dqn":
        solution = solve_learned(name, run.methods, problem, prices, run.seed, run.stop)
    else:
        solution = solve(problem, prices, name, run.seed, run.stop)
    document = None if solution.plan is None else plan_document(problem, prices, solution.plan)
    if document is not None:
        violations = account(problem, stated_from_document(problem, document, "solution")).faults
        if violations:
            raise FailedCheckError("; ".join(violations))
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
        method=method_of(posed.options),
    )


def faults(result: Result, options: ParallelOptions, problem: ParallelProblem) -> list[str]:
    """The plan's own rules, its times and bytes; the bound is proven again."""
    if result.solution or result.metrics:
        validate(MetricsDocument, result.metrics, "result: metrics")
    prices, method = prices_of(problem), _proving(options)
    if _claims_work_alone(result, problem, prices):
        again = Solution(None, None, min_work(prices))
    else:
        again = _PROVEN.get((Same(problem), method, result.seed), lambda: solve(problem, prices, method, result.seed))
    if not result.solution:
        return _faults_without_plan(result, problem, again)
    stated = stated_from_document(problem, result.solution, "result")
    of = account(problem, stated)
    if of.faults:
        return of.faults
    if result.method in ("linkage", "dqn") and of.resharded:
        return [f"{of.resharded} must not be resharded with method {result.method}"]
    value = of.split_dimensions if problem.objective == "count" else of.step_ps * PICO
    claimed = result.objective.value
    faults = []
    if claimed is None or abs(claimed - value) > PROOF_TOLERANCE * abs(value):
        faults.append(f"objective.value must be {value}, but got {claimed}")
    faults += _bound_faults(problem, value, result.bound, again)
    expected = checked_metrics(problem, prices, plan_of(prices, stated), of)
    unfinished = result.metrics.get("unfinished") == ["why"]
    expected |= {"unfinished": ["why"]} if unfinished else _whole_why(problem, options, prices, result.seed)
    return faults + differences("metrics", result.metrics, expected)


def _whole_why(problem: ParallelProblem, options: ParallelOptions, prices: Prices, seed: int) -> dict[str, Any]:
    key = (Same(problem), options.why, _proving(options), seed)
    return _WHY.get(key, lambda: _why(problem, options, prices, Run(seed=seed)))


def _emit(problem: ParallelProblem, prices: Prices, path: str) -> None:
    """Write the problem with resharding, its costs in picoseconds and its memory in bytes, in the contest's form."""
    from dse.algorithms.pairwise.iopddl import write_problem
    from dse.parallel.choice_graph import ChoiceGraph

    write_problem(ChoiceGraph(problem, prices).pairwise(), path)


def method_of(options: ParallelOptions) -> str:
    """The method that ``auto`` stands for."""
    if options.method != "auto":
        return options.method
    return "linkage" if options.objective == "count" else "exact"


def _proving(options: ParallelOptions) -> str:
    """The method whose bound an answer has."""
    name = method_of(options)
    return "linkage" if name == "dqn" else name


def _goal(options: ParallelOptions) -> Goal:
    if options.objective == "count":
        return Goal(name="split_dimensions", value=None, unit="", sense="max")
    return Goal(name="step_s", value=None, unit="s", sense="min")


def _machine_document(problem: ParallelProblem) -> dict[str, Any]:
    return {
        "mesh": problem.mesh.text,
        "device": device_document(problem.device),
        "network": repr(problem.network),
        "objective": problem.objective,
        "state_bytes": problem.state_bytes,
        "activations": problem.activations,
        "overlap": problem.overlap,
        "pins": {str(number): list(layout) for number, layout in problem.pins.items()},
    }


def _why(problem: ParallelProblem, options: ParallelOptions, prices: Prices, run: Run) -> dict[str, Any]:
    """The alternatives to the layout of the argument that the options name, where they name one: all or none."""
    name = options.why
    if name is None:
        return {"unfinished": []}
    from dse.parallel.why import alternatives  # loads OR-Tools

    number = [argument.name for argument in problem.graph.arguments].index(name)
    rank = len(problem.graph.values[problem.graph.arguments[number].value].dims)
    choices = alternatives(problem, prices, number, _proving(options), run.seed, run.stop)
    if run.stop() is not None:
        return {"unfinished": ["why"]}
    layouts = [
        {
            "split": [list(axes) for axes in problem.mesh.spec(each.layout, rank)],
            "step_s": None if each.picoseconds is None else each.picoseconds * PICO,
            "reason": each.reason,
        }
        for each in choices
    ]
    return {"why": layouts, "unfinished": []}


def _infeasibility(problem: ParallelProblem, solution: Solution) -> Infeasibility | None:
    if solution.min_state_bytes is None or problem.state_bytes is None:
        return None
    needed, limit = solution.min_state_bytes, problem.state_bytes
    what = "The step needs" if problem.activations else "The arguments of the step need"
    pinned = ", with these pins" if problem.pins else ""
    levers = ["more devices", *(["fewer pins"] if problem.pins else [])]
    sentence = (
        f"{what} at least {{needed}} on each of {problem.mesh.devices} devices{pinned}, but a device has {{limit}}"
    )
    return lacking_memory(sentence, needed, limit, levers)


def _claims_work_alone(result: Result, problem: ParallelProblem, prices: Prices) -> bool:
    """Whether an answer claims only that no plan is faster than its work, as one does whose search was stopped early.

    Any other bound is checked by the whole search again, which may take hours.
    """
    if problem.objective == "count" or result.status in ("optimal", "infeasible"):
        return False
    return result.bound is None or result.bound <= min_work(prices) * PICO * (1 + PROOF_TOLERANCE)


def _faults_without_plan(result: Result, problem: ParallelProblem, again: Solution) -> list[str]:
    if result.status != "infeasible":
        if result.status not in ("unknown", "interrupted"):
            return ["a plan must be given"]
        return _bound_faults(problem, None, result.bound, again)
    proof = _infeasibility(problem, again)
    if proof is None:
        return ["status must not be infeasible, because a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return differences("infeasibility", stated, proof.model_dump())


def _bound_faults(problem: ParallelProblem, value: float | None, bound: float | None, again: Solution) -> list[str]:
    """Whether a bound is proven again, and no value is better than what is proven."""
    sign = -1.0 if problem.objective == "count" else 1.0  # both as of something to be minimised
    scale = 1.0 if problem.objective == "count" else PICO
    slack = 0.0 if problem.objective == "count" else PROOF_TOLERANCE * abs(value or bound or 0.0)
    faults = []
    if value is not None and (again.bound is None or sign * value < sign * again.bound * scale - slack):
        faults.append(f"value {value} must not be better than the proven bound")
    if bound is not None and (again.bound is None or sign * bound > sign * again.bound * scale + slack):
        faults.append(f"bound {bound} must not be tighter than the proven bound")
    return faults
