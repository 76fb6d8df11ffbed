"""Strategy ``hybrid``: a training step in a pipeline of sharded stages, as ``dse parallel`` answers it."""

import math
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from dse.parallel.hybrid.check import StageChecker
from dse.parallel.hybrid.cuts import candidate_cuts
from dse.parallel.hybrid.formats import metrics, solution_document, stage_of, stated_of, stated_sharding
from dse.parallel.hybrid.memory import min_memory_bytes
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.search import solve_several
from dse.parallel.hybrid.stage_step import Stages
from dse.parallel.hybrid.step_times import faults as plan_faults
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.inputs import device_document, device_of, named_step
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.pipeline.length import Length
from dse.parallel.pipeline.question import Source
from dse.parallel.plan import Plan
from dse.parallel.shortfall import lacking_memory
from dse.parallel.step_time import whole_step
from dse.problem import Posed, result_of
from dse.report.units import counted
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Objective, Result
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from hardware.chips import chip
from hardware.inputs import fail

_COMMAND = "dse parallel"

_PROVEN: Remembered["_Proof"] = Remembered(4)
_LACKING: Remembered[Infeasibility] = Remembered(4, is_mutable=True)
"""Of the last questions that were checked."""

MAX_CUTS = 32
"""Where stages may begin."""


@dataclass(frozen=True, eq=False)
class HybridQuestion:
    """A hybrid plan that is requested.

    Attributes:
        source: what is cut, by its own names.
        problems: whose plans are requested; they differ in microbatches and in how many stages there may be.
        accelerator: each device, by name.
    """

    source: Source
    problems: tuple[HybridProblem, ...]
    accelerator: str

    def problem(self, microbatches: int) -> HybridProblem | None:
        """The problem of plans of so many microbatches."""
        return next((each for each in self.problems if each.base.microbatches == microbatches), None)


def posed(options: ParallelOptions, *, at_most: bool = False) -> Posed[ParallelOptions, Any]:
    """The step that the options name, and the machine.

    Args:
        options: of the command.
        at_most: whether fewer stages are requested where there cannot be as many.

    Raises:
        InputError: as of a pipeline; a profile, a step after optimisation, or another method than ``exact``.
    """
    if options.method not in ("auto", "exact"):
        raise fail(_COMMAND, "--method", options.method, "must be exact with --strategy hybrid")
    if profiled_graph(options.step) is not None:
        rule = "must be pipeline, because a profile has no tensors to split"
        raise fail(_COMMAND, "--strategy", options.strategy, rule)
    cut = pipeline.posed(options, at_most=at_most)
    device = device_of(chip(options.accelerator), options.f32_products)
    where, graph, rules = named_step(options, device)
    if graph.is_optimised:
        rule = (
            "must be an unoptimized step with --strategy hybrid, because fused kernels cannot be divided among stages"
        )
        raise fail(where, "", "", rule)
    question = whole_step(cut.problem)
    steps = Stages(graph, rules, where)
    cuts = candidate_cuts(question.problem.profile, steps, MAX_CUTS)
    problems = [HybridProblem(question.problem, steps, device, options.state, cuts, question.device_cutting)]
    if options.microbatches is None:
        one = replace(question.problem, stages=1, microbatches=1)
        problems.append(replace(problems[0], base=one, device_cutting=None))
    document = {
        "pipeline": cut.document,
        "update_s_per_byte": question.problem.update_s_per_byte,
        "state": options.state,
        "device": device_document(device),
        "cuts": list(cuts),
        "plans": [[each.base.stages, each.base.microbatches] for each in problems],
    }
    goal = Objective(name="step_s", value=None, unit="s", sense="min")
    asked = HybridQuestion(question.source, tuple(problems), question.accelerator)
    return Posed(options, asked, cut.name, document, goal)


def answer(posed: Posed[ParallelOptions, Any], question: HybridQuestion, run: Run) -> Result:
    """The best plan with its bound."""
    started = time.perf_counter()
    best = solve_several(question.problems, run.seed, run.stop)
    problem = best.problem
    of = document = None
    if best.plan is not None:
        of = step_time(problem, best.plan)
        document = solution_document(problem, question.source, best.plan)
        _, plan, again = _checked(question, document, "solution")
        violations = plan_faults(problem, plan, again)
        if violations or not math.isclose(again.length_s, of.length_s, rel_tol=PROOF_TOLERANCE):
            rule = f"step time must be {again.length_s} s, but is {of.length_s} s"
            raise FailedCheckError("; ".join(violations) or rule)
    is_infeasible = best.plan is None and math.isinf(best.bound_s)
    return result_of(
        "parallel",
        posed,
        value=None if of is None else of.length_s,
        bound=None if is_infeasible else best.bound_s,
        solution=document,
        metrics=None if of is None or best.plan is None else metrics(problem, question.source, best.plan, of),
        infeasibility=_infeasibility(question) if is_infeasible else None,
        evaluations=best.solved,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method="exact",
    )


def _checked(question: HybridQuestion, document: Any, path: str) -> tuple[HybridProblem, HybridPlan, Length]:
    """A stated plan, the problem that it is of, and its times, by the checker; its shardings hold no choices.

    Raises:
        InputError: a malformed solution.
        FailedCheckError: a sharding that breaks rules.
    """
    parsed, cuts = stated_of(question.source, document, path)
    problem = question.problem(parsed.microbatches)
    if problem is None:
        asked = " or ".join(str(each.base.microbatches) for each in question.problems)
        raise FailedCheckError(f"solution.microbatches must be {asked}, but got {parsed.microbatches}")
    bare = HybridPlan(cuts, tuple(parsed.device_cuts), (None,) * (len(cuts) + 1))
    without_limit = replace(problem, base=replace(problem.base, memory_bytes=None))
    if violations := plan_faults(without_limit, bare, step_time(problem, bare)) if _rises(problem, bare) else ["cuts"]:
        raise FailedCheckError("; ".join(violations))
    checker, figures_of, shardings = StageChecker(problem), {}, []
    for number, (points, devices, _) in enumerate(bare.stages(problem)):
        stated, replicas = parsed.shardings[number], parsed.replicas[number]
        mesh = len(devices) // replicas if replicas and len(devices) % replicas == 0 else 0
        if mesh not in problem.meshes(len(devices)) or (mesh == 1) != (stated is None):
            rule = f"solution.replicas: stage {number} on {len(devices)} devices cannot have {replicas} replicas"
            raise FailedCheckError(f"{rule} {'with' if stated else 'without'} sharding")
        sharding = None
        if stated is not None:
            stage = stage_of(problem, points, devices, mesh, number, len(bare.shardings))
            if stated.mesh != stage.mesh.text:
                rule = f"solution.replicas: each of {replicas} replicas in stage {number} has {mesh} devices"
                raise FailedCheckError(f"{rule}, but its sharding has mesh {stated.mesh}")
            sharding = Sharding(mesh, Plan((number,), ()))
            figures_of[sharding] = checker.figures(stage, stated_sharding(stage, stated, path))
        shardings.append(sharding)
    plan = replace(bare, shardings=tuple(shardings))
    return problem, plan, step_time(problem, plan, lambda _, sharding: figures_of[sharding])


def _rises(problem: HybridProblem, plan: HybridPlan) -> bool:
    """Whether points and devices are cut in order, and there are no more stages than may be."""
    points = (0, *plan.cuts, problem.steps.points)
    devices = (0, *plan.device_cuts, problem.base.devices)
    if len(points) != len(devices) or len(points) - 1 > problem.base.stages:
        return False
    return all(one < other for ends in (points, devices) for one, other in pairwise(ends))


def faults(result: Result, question: HybridQuestion) -> list[str]:
    """The plan's own rules, its times and bytes by the checker; the bound is proven again."""
    if not result.solution:
        return _faults_without_plan(result, question)
    try:
        problem, plan, of = _checked(question, result.solution, "result")
    except FailedCheckError as error:
        return [str(error)]
    violations = plan_faults(problem, plan, of)
    claimed = result.objective.value
    if claimed is None or not math.isclose(claimed, of.length_s, rel_tol=PROOF_TOLERANCE):
        violations.append(f"objective.value must be {of.length_s}, but got {claimed}")
    violations += differences("metrics", result.metrics, metrics(problem, question.source, plan, of))
    if violations:
        return violations
    return _bound_faults(result, question)


def _bound_faults(result: Result, question: HybridQuestion) -> list[str]:
    """Whether the bound is proven again, by the same search, which ends where it is."""
    if result.bound is None:
        return []
    enough_s = math.inf if result.status == "optimal" else result.bound / (1 + 2 * PROOF_TOLERANCE)
    proof = _proven(question, result.seed, enough_s)
    if result.bound <= proof.bound_s * (1 + 2 * PROOF_TOLERANCE):
        return []
    return [f"bound must be at most the proven {proof.bound_s}, but got {result.bound}"]


def _faults_without_plan(result: Result, question: HybridQuestion) -> list[str]:
    violations = differences("metrics", result.metrics, {})
    if result.status in ("unknown", "interrupted"):
        return violations + _bound_faults(result, question)
    if result.status != "infeasible":
        return [*violations, "a plan must be given"]
    proof = _proven(question, result.seed)
    if proof.has_plan or not math.isinf(proof.bound_s):
        return [*violations, "status must not be infeasible, because a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    lacking = _LACKING.get(Same(question), lambda: _infeasibility(question))
    return violations + differences("infeasibility", stated, lacking.model_dump())


class _Proof(NamedTuple):
    """What a check needs of an answer: without its problem, which would be kept in memory with it."""

    bound_s: float
    has_plan: bool


def _proven(question: HybridQuestion, seed: int, enough_s: float = math.inf) -> _Proof:
    def proof() -> _Proof:
        answer = solve_several(question.problems, seed, enough_s=enough_s)
        return _Proof(answer.bound_s, answer.plan is not None)

    return _PROVEN.get((Same(question), seed, enough_s), proof)


def _infeasibility(question: HybridQuestion) -> Infeasibility:
    """How many bytes are lacking at least."""
    base = question.problems[0].base
    limit = base.memory_bytes or 0
    needed = max(limit + 1, min(map(min_memory_bytes, question.problems)))
    levers = ["more devices", "more stages", *([] if base.recompute else ["--recompute"])]
    of = f"A hybrid plan of at most {counted(base.stages, 'stage')}"
    sentence = (
        f"{of} needs at least {{needed}} per device on some of {base.devices} devices, but a device has {{limit}}"
    )
    return lacking_memory(sentence, needed, limit, levers)
