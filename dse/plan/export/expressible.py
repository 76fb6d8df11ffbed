"""What a framework cannot express of a plan."""

from collections.abc import Iterable

from dse.plan.training_plan import AS_STACK, SETTINGS, TrainingPlan


class NotExpressibleError(Exception):
    """A framework lacks what the plan has; the message says what."""


def refuse(*conditions: tuple[bool, str]) -> None:
    """Refuse a plan by the first condition that holds, of pairs of one and what is lacking.

    Raises:
        NotExpressibleError: one holds.
    """
    for holds, lacking in conditions:
        if holds:
            raise NotExpressibleError(lacking)


def refuse_settings(plan: TrainingPlan, expressible: Iterable[str] = ()) -> None:
    """Refuse a plan that sets a precision of state or an overlap which is not among the ``expressible`` keys.

    Raises:
        NotExpressibleError: it sets another one.
    """
    known = {"precision", *expressible}
    given = {key: getattr(plan, key) for key in SETTINGS if getattr(plan, key) != AS_STACK}
    refuse(*((key not in known, f"{key}={value}") for key, value in given.items()))
