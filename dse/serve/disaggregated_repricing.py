"""Prefill and decode workers of a configuration by events: all of them together, under the whole load."""

import numpy as np

from dse.serve.checkpoints import formats_of
from dse.serve.closed_form import held_bytes, piped, room, tables_of
from dse.serve.disaggregated import Split
from dse.serve.disaggregated_simulation import RecordedApart, recorded_apart
from dse.serve.disaggregated_workers import received_of, sent_of
from dse.serve.links import links
from dse.serve.problem import ServeProblem
from dse.serve.requests import GivenRequests
from dse.serve.serving_plan import SplitPlan
from dse.serve.simulation import REQUESTS_PER_CLIENT
from dse.serve.vocabulary import Cell

MOST_REQUESTS = 20_000
"""In a closed loop, unless it has more clients."""

OPEN_REQUESTS = 2000
"""Under Poisson arrivals, for each decode rank."""


def split_of(problem: ServeProblem, plan: SplitPlan) -> Split:
    """The workers of a configuration; stages have as many batches on their way."""
    load, prefill, decode = problem.load, plan.prefill, plan.decode
    formats = formats_of(problem.model, plan.precision, plan.kv_precision)
    engine = next(each for each in problem.engines if each.name == plan.engine)
    one, other = (
        Cell(engine, each.shape, plan.precision, plan.kv_precision, formats, plan.drafts) for each in (prefill, decode)
    )
    memory = room(problem, other, np.array([decode.batch]), np.array([decode.chunk]))
    mean, prompt = load.prompt.mean + load.output.mean, load.prompt.mean
    held = float(memory.cache[0]) / held_bytes(problem, other, mean) * mean / decode.pipeline
    fixed, rate = links(problem).of(plan.accelerators)
    most = max(sent_of(problem, one), received_of(problem, other))
    return Split(
        tables_of(problem, one), tables_of(problem, other), prefill.groups, decode.groups, prefill.chunk,
        max(decode.batch // decode.pipeline, 1), max(held, float(problem.longest)), fixed,
        most / rate / prompt,
    )  # fmt: skip


def repriced_apart(
    problem: ServeProblem, plan: SplitPlan, seed: int, steps: int = 0, requests: int | None = None
) -> tuple[RecordedApart, Split]:
    """A configuration that fits, with a record of its first steps; ``requests``: under Poisson arrivals."""
    load, engine = problem.load, next(each for each in problem.engines if each.name == plan.engine)
    if isinstance(load, GivenRequests):
        count = load.given
    elif problem.is_open:
        count = OPEN_REQUESTS * min(plan.groups, MOST_REQUESTS // OPEN_REQUESTS) if requests is None else requests
    else:
        count = min(REQUESTS_PER_CLIENT * load.concurrency, max(load.concurrency, MOST_REQUESTS))
    split = split_of(problem, plan)
    engines = (piped(engine, plan.prefill.pipeline), piped(engine, plan.decode.pipeline))
    return recorded_apart(split, engines, load, count, seed, steps), split
