"""What a framework cannot express of a plan."""

from collections.abc import Iterable

from dse.plan.training_plan import AS_STACK, AXES, SETTINGS, TrainingPlan


class NotExpressibleError(Exception):
    """A framework lacks what the plan has; the message says what."""


def refuse(*conditions: tuple[bool, str]) -> None:
    """Refuse a plan by the conditions that hold, of pairs of one and what is lacking.

    Raises:
        NotExpressibleError: one holds.
    """
    lacking = [words for holds, words in conditions if holds]
    if lacking:
        raise NotExpressibleError("; ".join(lacking))


def refuse_settings(plan: TrainingPlan, expressible: Iterable[str] = ()) -> None:
    """Refuse a plan that sets a precision of state or an overlap which is not among the ``expressible`` keys.

    Raises:
        NotExpressibleError: it sets another one.
    """
    known = {"precision", *expressible}
    given = {key: getattr(plan, key) for key in SETTINGS if getattr(plan, key) != AS_STACK}
    refuse(*((key not in known, f"{key}={value}") for key, value in given.items()))


def is_ordered_as(plan: TrainingPlan, order: str) -> bool:
    """Whether the axes of more than one rank are in this order."""
    wide = {axis for axis in AXES if getattr(plan, axis) > 1}
    one, other = ([axis for axis in each.split("-") if axis in wide] for each in (plan.order, order))
    return one == other


def has_equal_stages(plan: TrainingPlan) -> bool:
    """Whether the ends of the pipeline have as many layers as the others."""
    return not plan.first_layers and not plan.last_layers
