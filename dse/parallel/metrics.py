"""The metrics of a plan, from an account of it: the search's own, or the checker's."""

from typing import Any

from dse.parallel.baselines import baselines, unlimited
from dse.parallel.check import Account, account
from dse.parallel.formats import plan_document, stated_from_document
from dse.parallel.plan import (
    Plan,
    hidden_of,
    picoseconds_of,
    profile_of,
    sent_by,
    split_dimensions,
    state_bytes_of,
    summed,
    work_of_plan,
)
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.whole_operations import whole_operations
from dse.results.result import FailedCheckError
from dse.run.remembered import Remembered, Same

_OWN: Remembered[dict[str, Any]] = Remembered(4, is_mutable=True)
"""What the search says of plans that need no search, for the last problems."""

_BASELINES: Remembered[dict[str, Any]] = Remembered(4, is_mutable=True)
"""What the checker says of them, for the last problems that were checked."""


def own_baselines(problem: ParallelProblem, prices: Prices) -> dict[str, Any]:
    """What the search itself says of the plans that need no search."""

    def accounts() -> dict[str, Any]:
        plans = baselines(problem, prices)
        return {name: _baseline(_account(problem, prices, plan)) for name, plan in plans.items()}

    return _OWN.get(Same(problem), accounts)


def metrics(problem: ParallelProblem, prices: Prices, plan: Plan) -> dict[str, Any]:
    """``metrics`` of a plan, by the search's own account of it and of the plans that need no search."""
    return _metrics(problem, prices, plan, _account(problem, prices, plan), own_baselines(problem, prices))


def checked_metrics(problem: ParallelProblem, prices: Prices, plan: Plan, of: Account) -> dict[str, Any]:
    """``metrics`` of a plan, by the checker's account ``of`` it and of the plans that need no search."""
    compared = _BASELINES.get(Same(problem), lambda: _checked_baselines(problem, prices))
    return _metrics(problem, prices, plan, of, compared)


def _metrics(
    problem: ParallelProblem, prices: Prices, plan: Plan, of: Account, compared: dict[str, Any]
) -> dict[str, Any]:
    whole = Plan((0,) * len(problem.graph.operations), (problem.mesh.whole,) * len(problem.graph.arguments))
    return {
        "step_s": of.step_ps * PICO,
        "work_s": of.work_ps * PICO,
        "communication_s": of.communication_ps * PICO,
        "hidden_s": of.hidden_ps * PICO,
        "state_bytes": of.state_bytes,
        "peak_bytes": of.peak_bytes,
        "split_dimensions": of.split_dimensions,
        "collectives": summed(problem, sent_by(problem, prices, plan)),
        "one_device_s": picoseconds_of(problem, prices, whole) * PICO,
        "baselines": compared,
        "whole_operations": whole_operations(problem.graph, problem.rules),
    }


def _account(problem: ParallelProblem, prices: Prices, plan: Plan) -> Account:
    """The search's own account of a plan."""
    work_ps, hidden_ps = work_of_plan(prices, plan), hidden_of(problem, prices, plan)
    return Account(
        work_ps=work_ps,
        communication_ps=picoseconds_of(problem, prices, plan) - work_ps + hidden_ps,
        hidden_ps=hidden_ps,
        state_bytes=state_bytes_of(problem, plan.arguments),
        peak_bytes=max(profile_of(problem, prices, plan), default=0),
        split_dimensions=split_dimensions(problem, plan.arguments),
    )


def _checked_baselines(problem: ParallelProblem, prices: Prices) -> dict[str, Any]:
    documents: dict[str, Any] = {}
    for name, plan in baselines(problem, prices).items():
        stated = stated_from_document(problem, plan_document(problem, prices, plan), "solution")
        of = account(unlimited(problem), stated)
        if of.faults:
            raise FailedCheckError(f"{name}: {'; '.join(of.faults)}")
        documents[name] = _baseline(of)
    return documents


def _baseline(of: Account) -> dict[str, Any]:
    return {
        "step_s": of.step_ps * PICO,
        "communication_s": of.communication_ps * PICO,
        "state_bytes": of.state_bytes,
        "peak_bytes": of.peak_bytes,
    }
