"""Prefill and decode workers under one load, by events: what clients measure."""

from dse.serve.disaggregated import Split
from dse.serve.disaggregated_events import SplitRules, simulate_apart
from dse.serve.engine import Engine
from dse.serve.events import COMPOSITIONS
from dse.serve.load import Load
from dse.serve.simulation import Outcome, outcome_of, rank_of


def simulated_apart(split: Split, engine: Engine, load: Load, requests: int, seed: int = 0) -> Outcome:
    """Prefill and decode workers under one load.

    Args:
        split: the workers.
        engine: of both kinds.
        load: of all.
        requests: how many are sent.
        seed: of lengths and arrivals.
    """
    prompts, outputs, arrivals = load.drawn(requests, seed)
    rules = SplitRules(
        COMPOSITIONS[engine.steps.value], split.prefill_ranks, split.decode_ranks, split.step_tokens, split.requests,
        float(split.cache_tokens),
    )  # fmt: skip
    sent, first, last, steps = simulate_apart(
        arrivals, load.concurrency, prompts, outputs, split.fixed_transfer_s + split.token_transfer_s * prompts,
        rank_of(split.prefill, engine, seed), rank_of(split.decode, engine, seed), rules,
    )  # fmt: skip
    return outcome_of(sent, first, last, outputs, int(steps), 0)
