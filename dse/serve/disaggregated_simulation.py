"""Prefill and decode workers under one load, by events: what clients measure."""

from dataclasses import dataclass

import numpy as np

from dse.serve.disaggregated import Split
from dse.serve.disaggregated_events import SplitRules, simulate_apart
from dse.serve.engine import Engine
from dse.serve.events import COMPOSITIONS
from dse.serve.load import Load
from dse.serve.simulation import Outcome, outcome_of, rank_of
from hardware.kernel_times.form import Floats


@dataclass(frozen=True)
class RecordedApart:
    """A simulation with what its first steps did.

    Attributes:
        outcome: of all requests.
        sent_s, first_s, last_s: of each request, [N]; NaN for those that memory never holds.
        steps: [S, 6]: station, begin and end in s, new tokens of prompts, requests that decode, tokens of memory held.
    """

    outcome: Outcome
    sent_s: Floats
    first_s: Floats
    last_s: Floats
    steps: Floats


def simulated_apart(split: Split, engine: Engine, load: Load, requests: int, seed: int = 0) -> Outcome:
    """Prefill and decode workers under one load.

    Args:
        split: the workers.
        engine: of both kinds.
        load: of all.
        requests: how many are sent.
        seed: of lengths and arrivals.
    """
    return recorded_apart(split, (engine, engine), load, requests, seed, 0).outcome


def recorded_apart(
    split: Split, engines: tuple[Engine, Engine], load: Load, requests: int, seed: int, steps: int
) -> RecordedApart:
    """As :func:`simulated_apart`, with the engine of each kind, and a record of the first ``steps``."""
    prompts, outputs, arrivals = load.drawn(requests, seed)
    rules = SplitRules(
        COMPOSITIONS[engines[0].steps.value], split.prefill_ranks, split.decode_ranks, split.step_tokens,
        split.requests, float(split.cache_tokens),
    )  # fmt: skip
    log = np.zeros((steps, 6))
    ranks = [rank_of(each, engine, seed) for each, engine in zip((split.prefill, split.decode), engines, strict=True)]
    # Processes that take prompts in are as many as workers: few wait for others.
    taken_s = engines[0].constants.before_s(load.prompt.mean)
    prefill, decode = (each._replace(costs=each.costs._replace(request_s=taken_s)) for each in ranks)
    sent, first, last, count = simulate_apart(
        arrivals, load.concurrency, prompts, outputs, split.fixed_transfer_s + split.token_transfer_s * prompts,
        prefill, decode, rules, log,
    )  # fmt: skip
    outcome = outcome_of(sent, first, last, outputs, int(count), 0)
    return RecordedApart(outcome, sent, first, last, log[: int(count)])
