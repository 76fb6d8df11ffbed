"""Strategy ``hybrid``: a training step in a pipeline of sharded stages, as ``dse parallel`` answers it."""

import math
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dse.parallel.hybrid.check import StageChecker
from dse.parallel.hybrid.cuts import candidate_cuts
from dse.parallel.hybrid.formats import metrics, solution_document, stage_of, stated_of, stated_sharding
from dse.parallel.hybrid.memory import least_memory_bytes
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.search import solve
from dse.parallel.hybrid.stage_step import Stages
from dse.parallel.hybrid.step_times import faults as plan_faults
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.inputs import device_of, named_step
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.pipeline.length import Length
from dse.parallel.pipeline.question import Source
from dse.parallel.plan import Plan
from dse.parallel.step_time import whole_step
from dse.problem import Posed
from dse.report.units import memory_text, needed_memory_text
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Objective, Result, result_of
from dse.run.run import Run
from dse.sharding.hlo.table import step_factors
from hardware.inputs import fail
from hardware.specs import accelerator

_COMMAND = "dse parallel"

MAX_CUTS = 32
"""Where stages may begin."""


@dataclass(frozen=True, eq=False)
class HybridQuestion:
    """A hybrid plan that is asked for: what is cut, by its own names, and the problem."""

    source: Source
    problem: HybridProblem
    accelerator: str


def posed(options: ParallelOptions) -> Posed[ParallelOptions, Any]:
    """The step that the options name, and the machine.

    Raises:
        InputError: as of a pipeline; a profile, a step after optimisation, or another method than ``exact``.
    """
    if options.method not in ("auto", "exact"):
        raise fail(_COMMAND, "--method", options.method, "must be exact with --strategy hybrid")
    if profiled_graph(options.step) is not None:
        rule = "must be pipeline: the file is a profile, which can be cut and has no tensors to split"
        raise fail(_COMMAND, "--strategy", options.strategy, rule)
    cut = pipeline.posed(replace(options, device_cuts="auto"))
    where, graph = named_step(options)
    if graph.is_optimised:
        rule = "must be a step before optimisation with --strategy hybrid: kernels cannot be divided among stages"
        raise fail(where, "", "", rule)
    question = whole_step(cut.problem)
    device = device_of(accelerator(options.accelerator))
    steps = Stages(graph, step_factors(graph, where), where)
    cuts = candidate_cuts(question.problem.profile, steps, MAX_CUTS)
    problem = HybridProblem(question.problem, steps, device, options.state, cuts)
    document = {
        "pipeline": cut.document,
        "update_s_per_byte": question.problem.update_s_per_byte,
        "state": options.state,
        "device": [device.flops_per_s, device.bytes_per_s],
        "cuts": list(cuts),
    }
    goal = Objective(name="step_s", value=None, unit="s", sense="min")
    asked = HybridQuestion(question.source, problem, question.accelerator)
    return Posed(options, asked, cut.name, document, goal)


def answer(posed: Posed[ParallelOptions, Any], question: HybridQuestion, run: Run) -> Result:
    """The best plan with its bound."""
    started = time.perf_counter()
    problem = question.problem
    found = solve(problem, run.seed, run.stop)
    of = document = None
    if found.plan is not None:
        of = step_time(problem, found.plan)
        document = solution_document(problem, question.source, found.plan)
        plan, again = _checked(question, document, "solution")
        violations = plan_faults(problem, plan, again)
        if violations or not math.isclose(again.length_s, of.length_s, rel_tol=PROOF_TOLERANCE):
            raise FailedCheckError("; ".join(violations) or f"a step does not take {of.length_s} s")
    is_infeasible = found.plan is None and math.isinf(found.bound_s)
    return result_of(
        "parallel",
        posed,
        value=None if of is None else of.length_s,
        bound=None if is_infeasible else found.bound_s,
        solution=document,
        metrics=None if of is None or found.plan is None else metrics(problem, question.source, found.plan, of),
        infeasibility=_infeasibility(question) if is_infeasible else None,
        evaluations=found.solved,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method="exact",
    )


def _checked(question: HybridQuestion, document: Any, path: str) -> tuple[HybridPlan, Length]:
    """A stated plan and its times, by the checker; its shardings hold no choices.

    Raises:
        InputError: a malformed solution.
        FailedCheckError: a sharding that breaks rules.
    """
    problem = question.problem
    parsed, cuts = stated_of(question.source, document, path)
    bare = HybridPlan(cuts, tuple(parsed.device_cuts), (None,) * (len(cuts) + 1))
    without_limit = replace(problem, base=replace(problem.base, memory_bytes=None))
    if violations := plan_faults(without_limit, bare, step_time(problem, bare)) if _rises(problem, bare) else ["cuts"]:
        raise FailedCheckError("; ".join(violations))
    checker, figures_of, shardings = StageChecker(problem), {}, []
    for number, (points, devices, _) in enumerate(bare.stages(problem)):
        stated, replicas = parsed.shardings[number], parsed.replicas[number]
        mesh = len(devices) // replicas if replicas and len(devices) % replicas == 0 else 0
        if mesh not in problem.meshes(len(devices)) or (mesh == 1) != (stated is None):
            raise FailedCheckError(f"stage {number} cannot have {replicas} replicas on {len(devices)} devices")
        sharding = None
        if stated is not None:
            stage = stage_of(problem, points, devices, mesh, number, len(bare.shardings))
            sharding = Sharding(mesh, Plan((number,), ()))
            figures_of[sharding] = checker.figures(stage, stated_sharding(stage, stated, path))
        shardings.append(sharding)
    plan = replace(bare, shardings=tuple(shardings))
    return plan, step_time(problem, plan, lambda _, sharding: figures_of[sharding])


def _rises(problem: HybridProblem, plan: HybridPlan) -> bool:
    """Whether points and devices are cut in order, and there are no more stages than may be."""
    points = (0, *plan.cuts, problem.steps.points)
    devices = (0, *plan.device_cuts, problem.base.devices)
    if len(points) != len(devices) or len(points) - 1 > problem.base.stages:
        return False
    return all(one < other for ends in (points, devices) for one, other in pairwise(ends))


def faults(result: Result, question: HybridQuestion) -> list[str]:
    """The plan's own rules, its times and bytes by the checker; the bound is proven again."""
    problem = question.problem
    if not result.solution:
        return _faults_without_plan(result, question)
    try:
        plan, of = _checked(question, result.solution, "result")
    except FailedCheckError as error:
        return [str(error)]
    found = plan_faults(problem, plan, of)
    claimed = result.objective.value
    if claimed is None or not math.isclose(claimed, of.length_s, rel_tol=PROOF_TOLERANCE):
        found.append(f"objective.value must be {of.length_s}, but got {claimed}")
    found += differences("metrics", result.metrics, metrics(problem, question.source, plan, of))
    if found:
        return found
    proof = solve(problem, result.seed)
    if result.bound is not None and result.bound > proof.bound_s * (1 + 2 * PROOF_TOLERANCE):
        return [f"bound {result.bound} is more than can be proven"]
    return []


def _faults_without_plan(result: Result, question: HybridQuestion) -> list[str]:
    found = differences("metrics", result.metrics, {})
    if result.status != "infeasible":
        return found if result.status in ("unknown", "interrupted") else [*found, "a plan must be given"]
    proof = solve(question.problem, result.seed)
    if proof.plan is not None or not math.isinf(proof.bound_s):
        return [*found, "status infeasible: but a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return found + differences("infeasibility", stated, _infeasibility(question).model_dump())


def _infeasibility(question: HybridQuestion) -> Infeasibility:
    """How many bytes are lacking at least."""
    base = question.problem.base
    limit = base.memory_bytes or 0
    needed = max(limit + 1, least_memory_bytes(question.problem))
    return Infeasibility(
        resource="memory_bytes",
        demand=needed,
        limit=limit,
        unit="bytes",
        levers=[
            f"{needed_memory_text(needed)} on each device",
            "more devices",
            "more stages",
            *([] if base.recompute else ["--recompute"]),
        ],
        explanation=(
            f"A hybrid plan of at most {base.stages} stages needs at least {needed_memory_text(needed)} on some of "
            f"{base.devices} devices, of {memory_text(limit)}: {needed - limit:,} bytes too many."
        ),
        where={},
    )
