"""Which stack is taken where none is named, and what a plan takes with each that could be meant."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache

from dse.plan.check_costs import plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.stack import Stack, list_stacks, stack
from dse.plan.training_plan import TrainingPlan
from hardware.chips import Chip
from hardware.chips import chip as read_chip

GENERIC = "generic"
"""The stack whose rates rest on no run."""

_YEARS = 2
"""That separate stacks which could be meant on a chip that they were not measured on."""


def stacks_measured_on(chip: str) -> list[str]:
    """Names of the built-in stacks with published runs on this accelerator; sorted."""
    return [name for name in list_stacks() if chip in _chips_of(name)]


def _chips_of(name: str) -> tuple[str, ...]:
    """The accelerators that a stack was measured on."""
    measured = stack(name).measured_on
    return () if measured is None else measured.value


@cache
def _platforms_of(name: str) -> frozenset[str]:
    """The platforms of these."""
    return frozenset(read_chip(each).platform for each in _chips_of(name))


@cache
def _kernels_of(name: str) -> frozenset[str]:
    """The chips whose timed kernels hold for these."""
    return frozenset(read_chip(each).timed_on for each in _chips_of(name))


def _months(name: str) -> int:
    """The date of a stack, 0 without one."""
    date = stack(name).date
    return 0 if date is None else 12 * int(date.value[:4]) + int(date.value[5:])


def stacks_meant(chip: Chip) -> list[str]:
    """What could be meant on a chip: stacks that were measured on it, recent ones of its platform, or else ``generic``.

    Recent ones were measured on a chip of the platform, are no more than :data:`_YEARS` older than the newest of
    these, and not in-house.
    """
    measured = stacks_measured_on(chip.name)
    others = [name for name in stacks_of_others() if chip.platform in _platforms_of(name)]
    since = max(map(_months, others), default=0) - 12 * _YEARS
    return sorted({*measured, *(name for name in others if _months(name) >= since)}) or [GENERIC]


def stacks_of_others() -> list[str]:
    """Stacks that others can run too."""
    return [name for name in list_stacks() if stack(name).use != "in-house"]


def usual_stack(chip: Chip, known: Collection[str] | None = None) -> str:
    """What is taken on a chip where no stack is named.

    The newest of the stacks that were measured on the chip, or on one with the same kernels; else of those that could
    be meant. Frameworks go before submissions; of several, the first one by name. Nobody else can run in-house
    software, so it is never taken.

    Args:
        chip: where the plan runs.
        known: stacks to choose from; all without it.
    """
    others = [name for name in stacks_of_others() if known is None or name in known]
    measured = [name for name in others if chip.timed_on in _kernels_of(name)]
    meant = [name for name in others if name in stacks_meant(chip)]
    return max(measured or meant or [GENERIC], key=lambda name: (stack(name).use == "framework", _months(name)))


def why_usual(chip: Chip) -> str:
    """Why :func:`usual_stack` is taken, in words."""
    name = usual_stack(chip)
    if name == GENERIC:
        return f"as none was measured on {chip.name} or on chips of its platform"
    if chip.name in _chips_of(name):
        return f"the newest measured on {chip.name}"
    if chip.timed_on in _kernels_of(name):
        return f"the newest measured on chips with the kernels of {chip.timed_on}"
    return f"the newest of its platform, as none was measured on {chip.name}"


def on_problem(problem: PlanProblem, name: str) -> Stack:
    """A built-in stack on the chip of a problem."""
    return stack(name).on_chip(problem.system.chip, problem.model.key_width, problem.sequence, problem.precision)


def steps_by_stack(problem: PlanProblem, plan: TrainingPlan) -> dict[str, float]:
    """Seconds of a step of the plan with each stack that could be meant; none for accelerators of the template."""
    if problem.machine is not None:
        return {}
    return {
        name: plan_costs(replace(problem, stack=on_problem(problem, name)), plan).step_s
        for name in stacks_meant(problem.system.chip)
    }
