"""The experts of one layer on one rank: two grouped products with what permutes, activates and combines.

Experts that any token chose are read once; products are padded to blocks of rows, of the best of three heights. Which
experts are chosen is an input, as the tokens of each expert on the rank (:func:`tokens_by_expert`).
"""

from functools import cache

import numpy as np

from hardware.kernel_times.form import Constants, Floats, Form, Range, Rates, Shapes, blocks, overlapping

HEIGHTS = (16, 64, 128)
_HALF_HEIGHT = 48.0
ACTIVATION_BYTES = 2.0
_LARGEST_SHARE = 0.8
_ORDERS = 64


@cache
def tokens_by_expert(
    experts: int, chosen: int, tokens: int, ranks: int = 1, exponent: float | None = None
) -> tuple[float, ...]:
    """Tokens of each expert on the busiest rank, where each of ``tokens`` chooses ``chosen`` of ``experts``.

    Args:
        experts: of the layer.
        chosen: by a token.
        tokens: of all ranks.
        ranks: over which the experts are spread evenly.
        exponent: of the power law of the loads, from 1 token to 0.8 of all; None for equal loads. Which experts lie on
            a rank is drawn 64 times from a fixed seed, and the median of the busiest ranks taken.
    """
    if exponent is None:
        return (tokens * chosen / experts,) * (experts // ranks)
    largest = max(_LARGEST_SHARE * tokens, 1.0001)
    quantiles = (np.arange(experts) + 0.5) / experts
    power = 1.0 - exponent
    loads = ((largest**power - 1.0) * quantiles + 1.0) ** (1.0 / power)
    loads = _whole(_shared(loads, tokens, tokens * chosen), tokens * chosen, experts)
    if ranks == 1:
        return tuple(loads)
    random = np.random.default_rng(0)
    busiest = []
    for _ in range(_ORDERS):
        by_rank = random.permutation(loads).reshape(ranks, -1)
        busiest.append(by_rank[by_rank.sum(axis=1).argmax()])
    order = np.argsort([each.sum() for each in busiest], kind="stable")
    return tuple(busiest[int(order[_ORDERS // 2])])


def _shared(loads: Floats, most: int, total: int) -> Floats:
    """``loads`` scaled to ``total``, none above ``most``."""
    loads = loads * (total / loads.sum())
    while (over := np.maximum(loads - most, 0.0).sum()) > 1e-9 * total:
        loads = np.minimum(loads, most)
        free = loads < most
        loads[free] *= 1.0 + over / loads[free].sum()
    return np.minimum(loads, most)


def _whole(loads: Floats, total: int, experts: int) -> Floats:
    """Whole tokens; where choices are fewer than experts, what is left goes to the most chosen ones."""
    whole = np.floor(loads)
    rest = round(total - whole.sum())
    order = np.argsort(-(loads - whole if total >= experts else loads), kind="stable")
    whole[order[:rest]] += 1.0
    return whole


def expert_sums(loads: tuple[float, ...]) -> dict[str, float]:
    """What the form needs of the tokens by expert: experts hit, rows, and rows padded to each height."""
    tokens = np.asarray(loads)
    hit = np.minimum(tokens, 1.0)
    padded = {
        f"padded_{height}": float((hit * blocks(np.maximum(tokens, 1.0), height) * height).sum()) for height in HEIGHTS
    }
    return {"hit": float(hit.sum()), "rows": float(tokens.sum())} | padded


def _seconds(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    hidden, width, element = shapes["hidden"], shapes["width"], shapes["element_bytes"]
    memory = shapes["hit"] * 3.0 * hidden * width * element / (rates.bytes_per_s * constants["memory_share"])
    best = np.full(np.shape(memory), np.inf)
    for height in HEIGHTS:
        full = height / (height + _HALF_HEIGHT) * (HEIGHTS[-1] + _HALF_HEIGHT) / HEIGHTS[-1]
        rate = rates.flops_per_s * constants["compute_share"] * full
        best = np.minimum(best, overlapping(2.0, shapes[f"padded_{height}"] * 6.0 * hidden * width / rate, memory))
    own = shapes["rows"] * (2.0 * hidden + 3.0 * width) * ACTIVATION_BYTES
    choices = shapes["tokens"] * shapes["chosen"]
    other = ((choices - shapes["rows"]) + shapes["tokens"]) * 2.0 * hidden * ACTIVATION_BYTES
    passes = constants["row_passes"] * own + constants["other_passes"] * np.maximum(other, 0.0)
    return np.asarray(
        constants["floor_s"]
        + best
        + passes / rates.bytes_per_s
        + constants["expert_s"] * shapes["hit"]
        + constants["route_s"] * shapes["tokens"] * shapes["experts"] / 128.0
    )


EXPERTS = Form(
    shapes=(
        "tokens", "hidden", "width", "chosen", "experts", "element_bytes", "hit", "rows",
        *(f"padded_{height}" for height in HEIGHTS),
    ),
    constants={
        "floor_s": Range(1e-6, 2e-5, 3e-4),
        "memory_share": Range(0.03, 0.75, 1.0),
        "compute_share": Range(0.02, 0.35, 1.0),
        "row_passes": Range(0.05, 1.0, 30.0),
        "other_passes": Range(0.01, 0.3, 30.0),
        "expert_s": Range(1e-9, 1e-7, 5e-6),
        "route_s": Range(1e-12, 1e-9, 1e-8),
    },
    seconds=_seconds,
)  # fmt: skip
