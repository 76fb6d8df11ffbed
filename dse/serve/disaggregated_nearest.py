"""Pairs of workers where none keeps the limits: those that exceed them least, or that answer the most requests."""

from collections.abc import Sequence

import numpy as np

from dse.serve.disaggregated_search import PricedPairs, most_written, price_pairs
from dse.serve.disaggregated_workers import Integers, Kinds
from dse.serve.problem import ServeProblem

_AT_ONCE = 64
_MOST = 200_000
"""Pairs that are priced at most."""


def nearest_pairs(problem: ServeProblem, known: Sequence[Kinds]) -> list[PricedPairs]:
    """The pair that answers the most requests, and where limits are given, those nearest to them."""
    parts = [price_pairs(problem, own, *rows) for own in known if (rows := _busiest(problem, own)) is not None]
    goals = problem.goals
    if (goals.ttft_s, goals.tpot_s) == (None, None):
        return parts
    best, count = np.inf, 0
    for own in known:
        order = np.argsort(own.decode.token_s.min(axis=1)[own.decode.cell], kind="stable")
        for begin in range(0, len(order), _AT_ONCE):
            block = order[begin : begin + _AT_ONCE]
            least = _least_excess(problem, own, block)
            if (best_place := least.min(initial=np.inf)) > best or count > _MOST:
                break
            places = np.flatnonzero(least.ravel() <= max(best_place, min(best, 2.0 * best_place)))[:_MOST]
            part = price_pairs(problem, own, places % least.shape[1], block[places // least.shape[1]])
            parts.append(part)
            count += len(part)
            best = min(best, float(_excess(problem, part).min(initial=np.inf)))
    return parts


def _busiest(problem: ServeProblem, own: Kinds) -> tuple[Integers, Integers] | None:
    """Rows of the pair within the machine whose slower workers are fastest."""
    prompts, tokens = own.prefill, own.decode
    if not len(prompts.cell) or not len(tokens.cell):
        return None
    writes = most_written(tokens, tokens.requests, None, max(problem.load.output.mean - 1.0, 1e-9))
    computes = prompts.ranks / prompts.prompt_s
    order = np.lexsort((-computes, prompts.devices))
    most = np.maximum.accumulate(computes[order])
    within = np.searchsorted(prompts.devices[order], problem.devices - tokens.devices, side="right") - 1
    rate = np.where(within >= 0, np.minimum(writes, most[np.maximum(within, 0)]), 0.0)
    decode = int(rate.argmax())
    if rate[decode] <= 0:
        return None
    prefill = order[int(np.searchsorted(most, most[within[decode]]))]
    return np.array([prefill]), np.array([decode])


def _least_excess(problem: ServeProblem, own: Kinds, rows: Integers) -> np.ndarray:
    """[N, P]: by which factor the worse limit is exceeded at least; infinite beyond the machine."""
    goals, tokens = problem.goals, own.decode
    token_s = tokens.token_s.min(axis=1)[tokens.cell[rows]]
    least = np.zeros((len(rows), len(own.prefill.cell)))
    if goals.ttft_s is not None:
        least = np.maximum(least, own.prefill.alone_s / goals.ttft_s)
    if goals.tpot_s is not None:
        least = np.maximum(least, token_s[:, None] / goals.tpot_s)
    within = tokens.devices[rows, None] + own.prefill.devices <= problem.devices
    return np.where(within, least, np.inf)


def _excess(problem: ServeProblem, part: PricedPairs) -> np.ndarray:
    goals = problem.goals
    over = np.where(np.isfinite(part.latency_s), 0.0, np.inf)
    for limit, values in ((goals.ttft_s, part.ttft_s), (goals.tpot_s, part.tpot_s)):
        over = over if limit is None else np.maximum(over, values / limit)
    return over
