"""Step time and memory of arrays of plans, exact or from below, on one machine or on several."""

from dataclasses import dataclass

import numpy as np

from dse.plan.kernels import ChipKernels, Kernels
from dse.plan.plan_arrays import Floats, PlanArrays, recompute_period
from dse.plan.problem import PlanProblem
from dse.plan.step import Step
from dse.plan.step_memory import LeastStep, StepWithMemory
from dse.plan.template_kernels import TemplateKernels


@dataclass(frozen=True)
class Evaluation:
    """Of P plans.

    Attributes:
        step_s: [P].
        memory_bytes: [P], of the fullest rank.
        time_s: by part, [P]; the busiest stage's, so that they sum up to the step.
        memory: by part, [P]; the fullest rank's.
    """

    step_s: Floats
    memory_bytes: Floats
    time_s: dict[str, Floats]
    memory: dict[str, Floats]


def kernels_of(problem: PlanProblem, precision: str) -> Kernels:
    """What prices the kernels of the problem's one machine."""
    if problem.machine is None:
        return ChipKernels(problem, precision)
    return TemplateKernels(problem, problem.machine)


def evaluate(problem: PlanProblem, plans: PlanArrays) -> Evaluation:
    """Step time and memory of plans that keep the rules of :mod:`dse.plan.rules`."""
    step = StepWithMemory(problem, plans, kernels_of(problem, plans.precision))
    step_s, time_s = step.times()
    memory_bytes, memory = step.memory()
    return Evaluation(step_s, memory_bytes, time_s, memory)


def memory_needed(problem: PlanProblem, plans: PlanArrays) -> Floats:
    """Bytes of the fullest rank, [P], as :func:`evaluate` has them; without their times, in a fraction of the time."""
    return StepWithMemory(problem, plans, kernels_of(problem, plans.precision)).memory()[0]


def min_costs(problem: PlanProblem, plans: PlanArrays) -> tuple[Floats, Floats]:
    """Lower bounds on step time and memory, [P] each, of all plans that share out no more than ``plans`` do.

    Everything else is as in ``plans``. Collectives among replicas only add to a step; whoever shares out less keeps and
    updates more. Weights that are shared out are gathered for passes, so that memory is bounded by the less of both.
    """
    step = LeastStep(problem, plans, kernels_of(problem, plans.precision))
    return step.times()[0], step.memory_bytes()


@dataclass(frozen=True)
class StageLoads:
    """Seconds of a microbatch, both passes, without collectives among replicas and transfers; arrays of shape [P].

    Attributes:
        layer: of the lightest kind of layer, with its share of recomputation.
        embedding, head: of the ends; the latter at least, with multi-token-prediction layers.
        total: of the whole model; no more than that of any cut into stages.
    """

    layer: Floats
    embedding: Floats
    head: Floats
    total: Floats


def stage_loads(problem: PlanProblem, plans: PlanArrays) -> StageLoads:
    """What stages are made of."""
    work = Step(problem, plans, kernels_of(problem, plans.precision))
    light = np.minimum.reduce([kind.forward + kind.backward for kind in work.kinds])
    again = np.minimum.reduce([kind.recompute for kind in work.kinds])
    # A stage recomputes at least its layers / K, regardless of their number.
    shared = np.where(plans.recompute > 0, again / recompute_period(plans.recompute), 0.0)
    embedding, head = (there + back for there, back in (work.work.embedding, work.work.head))
    once = sum(work.passes) - work.recompute_s
    total = np.where(work.stages.number > 0, work.stages.number * once, 0.0).sum(axis=1)
    later, layer = problem.model.prediction_layers, light + shared
    return StageLoads(layer, embedding, head + later * layer, total + (problem.model.layers + later) * shared)


def steps_and_memory(problem: PlanProblem, plans: PlanArrays, kernels: Kernels) -> tuple[Floats, Floats]:
    """Step times of P plans on the one machine that ``kernels`` price, and bytes of their fullest ranks, [P] each.

    No machine makes a difference to memory.
    """
    step = StepWithMemory(problem, plans, kernels)
    return step.times()[0], step.memory()[0]


def step_seconds(problem: PlanProblem, plans: PlanArrays, kernels: Kernels) -> Floats:
    """Step times of P plans on the A machines that ``kernels`` price, [P, A]."""
    seconds, _ = Step(problem, plans.repeated(kernels.machines), kernels).times()
    return seconds.reshape(plans.count, kernels.machines)
