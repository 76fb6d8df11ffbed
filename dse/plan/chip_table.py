"""The table of several chips: what the plan of each reaches, and what its rates rest on."""

from collections.abc import Mapping, Sequence
from typing import Any

from dse.plan.problem import PlanProblem
from dse.report.units import memory_text, share_text, time_text
from dse.results.result import Result

HEADERS = ("chip", "step", "tokens/s", "MFU", "memory", "rates", "plan")
"""Headers of the table of several chips."""


def row(problem: PlanProblem, result: Result) -> tuple[str, ...]:
    """One chip in the table of several: what its plan reaches, what its rates rest on, and the plan."""
    basis = rests_on(problem)
    if not result.solution:
        return "", "", "", f"nothing fits in {memory_text(problem.usable_bytes)}", basis, ""
    metrics, used_bytes = result.metrics, sum(result.metrics["memory_bytes"].values())
    return figures(problem, metrics["step_s"], metrics["mfu"], used_bytes, result.solution["plan"])


def figures(
    problem: PlanProblem, step_s: float, mfu: float, used_bytes: float, plan: Mapping[str, Any]
) -> tuple[str, ...]:
    """The cells of a chip's plan, behind its name."""
    return (
        time_text(step_s),
        f"{problem.global_batch * problem.sequence / step_s:,.0f}",
        share_text(mfu),
        f"{memory_text(used_bytes)} of {memory_text(problem.system.chip.hbm_bytes)}",
        rests_on(problem),
        shown_plan(plan),
    )


def shown_plan(plan: Mapping[str, Any]) -> str:
    """A plan's document without what is not split, recomputed or set."""
    return ", ".join(f"{key}={value}" for key, value in plan.items() if value not in _ORDINARY)


_ORDINARY = (0, 1, "none", "stack", "1f1b", "tensor-context-data-pipeline")
"""Values of a plan's keys that the table of several chips leaves out: what is not split, recomputed or set."""


def notes(problems: Sequence[PlanProblem]) -> list[str]:
    """What a reader of the table must know before comparing its rows."""
    if len({rests_on(problem) for problem in problems}) == 1:
        return []
    return ["times are comparable only if their rates have the same basis: see the column rates"]


def rests_on(problem: PlanProblem) -> str:
    """The stack, and which of its sustained shares were timed on the chip, fitted to runs, or assumed."""
    if problem.machine is not None:
        return f"{'ideal' if problem.stack.grouped is None else 'derated'}: kernels as they map to the template's cores"
    kinds: dict[str, list[str]] = {}
    for key, rate in problem.stack.rates.items():
        kind = "timed" if rate.timed_on else "fitted" if rate.fitted else "assumed" if rate.assumed else "stated"
        kinds.setdefault(kind, []).append(key.removesuffix("_rate"))
    return f"{problem.stack.name}; " + "; ".join(f"{kind}: {', '.join(keys)}" for kind, keys in kinds.items())
