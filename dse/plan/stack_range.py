"""What a plan takes with each stack that was measured on its accelerator."""

from dataclasses import replace

from dse.plan.check_costs import plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.stack import list_stacks, stack
from dse.plan.training_plan import TrainingPlan

GENERIC = "generic"
"""The stack whose rates rest on no run."""


def stacks_measured_on(chip: str) -> list[str]:
    """Names of the built-in stacks with a rate that was fitted to runs on this accelerator; sorted."""
    return [
        name
        for name in list_stacks()
        if any(rate.fitted and chip in (rate.fitted_on or stack(name).fitted_on) for rate in stack(name).rates.values())
    ]


def steps_by_stack(problem: PlanProblem, plan: TrainingPlan) -> list[tuple[str, float]]:
    """(stack, seconds of a step) of the plan with each of them; none for accelerators of the template."""
    chip, model = problem.system.chip, problem.model
    if problem.machine is not None:
        return []
    steps = []
    for name in stacks_measured_on(chip.name):
        own = stack(name).on_chip(chip, model.key_width, problem.sequence, plan.precision)
        steps.append((name, plan_costs(replace(problem, stack=own), plan).step_s))
    return steps
