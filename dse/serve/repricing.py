"""Configurations by events: percentiles of what clients see, and whether the order of the closed form holds.

One rank's batch is simulated with its part of the requests (:mod:`dse.serve.events`); all are alike. A closed loop
sends ``REQUESTS_PER_CLIENT`` requests for each client, as the public benchmark does; an open one, so many that the
first of them do not decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dse.serve.checkpoints import formats_of
from dse.serve.closed_form import held_bytes, piped, room, tables_of
from dse.serve.disaggregated_repricing import MOST_REQUESTS, OPEN_REQUESTS, repriced_apart
from dse.serve.load import Load
from dse.serve.problem import Goals, ServeProblem
from dse.serve.requests import GivenRequests
from dse.serve.serving_plan import Plan, ServingPlan, SplitPlan
from dse.serve.simulation import REQUESTS_PER_CLIENT, Limits, Outcome, Recorded, recorded
from dse.serve.vocabulary import Cell
from hardware.kernel_times.form import Floats

STATISTICS: Mapping[str, float | None] = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Repriced:
    """A configuration by events.

    Attributes:
        plan: which.
        outcome: of one batch's requests; of workers apart, of all.
        tokens_per_s: output of the machine.
        batches: that are busy.
    """

    plan: Plan
    outcome: Outcome
    tokens_per_s: float
    batches: float

    @property
    def tokens_per_s_per_accelerator(self) -> float:
        """Of those that it uses."""
        return self.tokens_per_s / self.plan.accelerators

    def keeps(self, goals: Goals) -> bool:
        """Whether its requests keep the limits in their statistic."""
        pairs = ((goals.ttft_s, self.outcome.ttft_s), (goals.tpot_s, self.outcome.tpot_s))
        return all(limit is None or statistic(values, goals.statistic) <= limit for limit, values in pairs)


def statistic(values: Floats, name: str) -> float:
    """Of the finite ``values``; 0 where there are none, as of TPOT of single tokens."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0
    share = STATISTICS[name]
    return float(known.mean()) if share is None else float(np.quantile(known, share))


def statistics(values: Floats) -> dict[str, float]:
    """All of :data:`STATISTICS`."""
    return {name: statistic(values, name) for name in STATISTICS}


def cell_of(problem: ServeProblem, plan: ServingPlan) -> Cell:
    """The cell of a configuration."""
    engine = next(each for each in problem.engines if each.name == plan.engine)
    formats = formats_of(problem.model, plan.precision, plan.kv_precision)
    return Cell(engine, plan.shape, plan.precision, plan.kv_precision, formats, plan.drafts)


def repriced(problem: ServeProblem, plan: Plan, seed: int, requests: int | None = None) -> Repriced:
    """A configuration that fits, by events; ``requests``: of the whole machine under Poisson arrivals."""
    if isinstance(plan, SplitPlan):
        outcome = repriced_apart(problem, plan, seed, 0, requests)[0].outcome
        return Repriced(plan, outcome, outcome.output_tokens_per_s, 1.0)
    return _repriced(problem, plan, seed, 0, requests)[0]


def recorded_steps(problem: ServeProblem, plan: ServingPlan, seed: int, steps: int) -> tuple[Recorded, Limits]:
    """The same with a record of so many steps of a batch, and its limits."""
    _, record, limits = _repriced(problem, plan, seed, steps)
    return record, limits


def _repriced(
    problem: ServeProblem, plan: ServingPlan, seed: int, steps: int, requests: int | None = None
) -> tuple[Repriced, Recorded, Limits]:
    cell, load = cell_of(problem, plan), problem.load
    limits, batches = _limits(problem, plan, cell), plan.groups
    tables, engine = tables_of(problem, cell), piped(cell.engine, plan.pipeline)
    busy = batches if problem.is_open else min(batches, load.concurrency)
    clients = 0 if problem.is_open else -(-load.concurrency // batches)
    if isinstance(load, GivenRequests):
        own: Load = load.part(busy, clients)
        count = -(-load.given // busy)
    else:
        own = replace(load, concurrency=clients, rate_per_s=load.rate_per_s / batches)
        count = min(REQUESTS_PER_CLIENT * clients, max(clients, MOST_REQUESTS))
        if problem.is_open:
            count = OPEN_REQUESTS if requests is None else -(-requests // batches)
    record = recorded(tables, engine, limits, own, count, seed, steps)
    share = 1.0 if problem.is_open else load.concurrency / (busy * clients)
    outcome = record.outcome
    priced = Repriced(plan, outcome, share * busy * outcome.output_tokens_per_s, busy * share)
    return priced, record, limits


def _limits(problem: ServeProblem, plan: ServingPlan, cell: Cell) -> Limits:
    """Of a batch: its part of the memory of its rank."""
    ones, load = np.ones(1, np.int64), problem.load
    memory = room(problem, cell, plan.batch * ones, plan.chunk * ones)
    tokens = load.prompt.mean + load.output.mean
    one = held_bytes(problem, cell, tokens)
    shared = held_bytes(problem, cell, load.prefix) if load.hit_rate else 0.0
    free = max(float(memory.cache[0]) - shared, 0.0)
    held = max(free / one * tokens / plan.pipeline, float(problem.longest))
    sharers = plan.attention_data * plan.pipeline
    return Limits(plan.chunk, max(plan.batch // plan.pipeline, 1), held, sharers=sharers)


def events_document(problem: ServeProblem, own: Repriced) -> dict[str, Any]:
    """In JSON types."""
    outcome, goals = own.outcome, problem.goals
    good = np.ones(len(outcome.ttft_s), dtype=np.bool_)
    for limit, values in ((goals.ttft_s, outcome.ttft_s), (goals.tpot_s, outcome.tpot_s)):
        if limit is not None:
            good &= ~(values > limit)
    seconds = max(outcome.seconds, np.finfo(float).tiny)
    return {
        "tokens_per_s": own.tokens_per_s,
        "goodput_per_s": float(own.batches * good.sum() / seconds),
        "keeps_limits": own.keeps(goals),
        "requests": len(outcome.ttft_s),
        "refused": outcome.refused,
        "preemptions": outcome.preemptions,
        "steps": outcome.steps,
    }
