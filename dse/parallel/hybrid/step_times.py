"""What the stages of a hybrid plan take, by the definition of a step's time (:mod:`dse.parallel.step_time`).

Transfers between stages, and all of stages whose devices do equal shares, are those of the pipeline with the same cuts.
A sharded stage has the passes of a microbatch, the closing and the memory of :mod:`dse.parallel.hybrid.stage_problem`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.stage_problem import StageFigures, StageProblem, figures
from dse.parallel.pipeline.length import Length, length, length_of_stages
from dse.parallel.pipeline.length import faults as pipeline_faults
from dse.parallel.prices import Prices
from dse.parallel.resharding import PICO

FiguresOf = Callable[[StageProblem, Sharding], StageFigures]
"""What a sharded stage takes."""


def own_figures(problem: StageProblem, sharding: Sharding) -> StageFigures:
    """By the search's own account."""
    return figures(problem, Prices(problem), sharding.plan)


def step_time(problem: HybridProblem, plan: HybridPlan, figures_of: FiguresOf = own_figures) -> Length:
    """The time of a step and of each stage; its ``all_reduce_s`` is the closing."""
    stages = list(length(problem.pipeline(len(plan.shardings)), plan.pipeline).stages)
    count = problem.base.microbatches
    for number, (points, devices, sharding) in enumerate(plan.stages(problem)):
        if sharding is not None:
            in_flight = min(count, len(stages) - number)
            of = figures_of(
                problem.stage_problem(problem.steps.stage(points), len(devices), sharding.mesh, in_flight), sharding
            )
            stages[number] = replace(
                stages[number],
                forward_s=of.forward_ps * PICO / count,
                backward_s=of.backward_ps * PICO / count,
                all_reduce_s=of.closing_ps * PICO,
                device_bytes=float(of.device_bytes),
            )
    return length_of_stages(stages, count)


def faults(problem: HybridProblem, plan: HybridPlan, of: Length) -> list[str]:
    """What is wrong with a plan of these times, one sentence each, but for the rules of shardings themselves."""
    without_limit = replace(problem.pipeline(len(plan.shardings)), memory_bytes=None)
    violations = pipeline_faults(without_limit, plan.pipeline)
    if violations:
        return violations
    if len(plan.shardings) > problem.base.stages:
        violations.append(f"there must be at most {problem.base.stages} stages, but there are {len(plan.shardings)}")
    of_stages = list(_stage_faults(problem, plan))
    violations += of_stages if of_stages and not _is_pipeline(problem, plan) else []
    for number in range(len(plan.shardings)):
        limit, needed = problem.base.memory_bytes, of.stages[number].device_bytes
        if limit is not None and needed > limit:
            violations.append(f"stage {number} must fit in {limit:,} bytes per device, but needs {needed:,.0f}")
    return violations


def _stage_faults(problem: HybridProblem, plan: HybridPlan) -> Iterator[str]:
    """What is wrong with the places of stages, and with their replicas."""
    for number, (points, devices, sharding) in enumerate(plan.stages(problem)):
        width = len(devices)
        if points.start not in (0, *problem.cuts):
            yield f"stage {number} must begin at a candidate cut"
        if width not in problem.widths or devices.start % min(width, problem.server):
            rule = f"stage {number} must have whole servers or an allowed part of one"
            yield f"{rule}, but has devices {devices.start} to {devices.stop - 1}"
        if sharding is not None and sharding.mesh not in problem.meshes(width)[1:]:
            yield f"stage {number} must consist of whole replicas, but they have {sharding.mesh} devices"


def _is_pipeline(problem: HybridProblem, plan: HybridPlan) -> bool:
    """Whether a plan is one of the pipelines that may be cut anywhere."""
    pipelines = problem.pipelines()
    if pipelines is None or any(plan.shardings) or len(plan.shardings) != problem.base.stages:
        return False
    return plan.device_cuts in pipelines.device_cuts()
