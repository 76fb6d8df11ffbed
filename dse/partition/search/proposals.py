"""Random numbers for changes of a partition that move neighbours together.

One standard normal number for every operator says where in its own distribution its draw is. Numbers of operators that
are near each other along the work are alike (a Gaussian copula), so a change moves a whole stretch of the graph, while
each operator's own distribution stays what it is.
"""

import numpy as np
import numpy.typing as npt

from dse.partition.problem import Chips, Floats, Ints, PartitionGraph, Words

Float32s = npt.NDArray[np.float32]

_KNOTS_PER_WIDTH = 3
"""Knots of the correlated draws' basis in one width: closer ones change nothing that can be seen."""

_FOCUS = 1
"""Sets the draws of where a change looks apart from those of what it sees there."""

_GUIDED = 0.8
"""Share of the changes that look at the bottleneck, where it is known."""

_WHOLE = 2.0
"""Normal number of operators that move as one: with a spread of half a chip, that is the next chip."""

_MAX_SCATTERED = 0.2
"""Share of the operators that a change looks at anywhere, at most."""


def shares_before(amount: Floats, order: Ints) -> Floats:
    """Share of the whole amount before the middle of each operator, along ``order``, [N] in (0, 1)."""
    total = float(amount.sum())
    amount = amount if total > 0 else np.ones_like(amount)
    before = np.empty(len(amount))
    before[order] = np.cumsum(amount[order]) - amount[order] / 2
    return before / float(amount.sum())


def field_basis(work: Floats, width: float) -> Float32s:
    """Weights of a smooth Gaussian field over the work, of variance 1 everywhere, [N, K].

    Row i holds exp(−(w_i − t_k)² / width²) at knots t_k, over its norm: for independent standard normals ξ_k,
    Σ_k a_ik ξ_k is standard normal, and two operators δ apart correlate by about exp(−δ² / (2 width²)).
    """
    count = 1 + int(np.ceil(_KNOTS_PER_WIDTH * (1 + 4 * width) / width))
    knots = np.linspace(-2 * width, 1 + 2 * width, count)
    weights = np.exp(-(((work[:, None] - knots) / width) ** 2))
    basis: Float32s = (weights / np.linalg.norm(weights, axis=1, keepdims=True)).astype(np.float32)
    return basis


def normals(seeds: Ints, basis: Float32s, correlation: float) -> Float32s:
    """Normal numbers for every operator, correlated along the work, [B, N]; each row is determined by its seed alone.

    √ρ g(w) + √(1 − ρ) ε for a smooth Gaussian field g over the work and independent ε, all standard normal.

    Args:
        seeds: of each row, non-negative, [B, any number of parts].
        basis: of the field, [N, K] (:func:`field_basis`).
        correlation: ρ.
    """
    count, knots = basis.shape
    drawn = np.stack([np.random.default_rng(seed).standard_normal(knots + count, np.float32) for seed in seeds])
    # Not a matrix product: libraries add in another order for other numbers of rows.
    field = np.einsum("bk,nk->bn", drawn[:, :knots], basis)
    mixed: Float32s = np.sqrt(correlation) * field + np.sqrt(1 - correlation) * drawn[:, knots:]
    return mixed


def bottleneck(graph: PartitionGraph, chip: Chips, busy_s: Floats) -> Ints:
    """The operators of what is busy longest, along the topological order, [K].

    Those on the chip; or those whose output takes the link, and those that read it beyond.

    Args:
        graph: the graph.
        chip: of every operator, [N].
        busy_s: of every chip, and of the link behind it, [2, C].
    """
    kind, place = np.unravel_index(int(np.argmax(busy_s)), busy_s.shape)
    if kind == 0:
        is_hot = chip == place
    else:
        source, target = graph.edges.reshape(-1, 2).T
        across = (chip[source] <= place) & (chip[target] > place)
        is_hot = np.zeros(len(chip), dtype=np.bool_)
        is_hot[source[across]] = is_hot[target[across]] = True
    order = graph.topological_order
    return np.asarray(order[is_hot[order]])


def focused(drawn: Float32s, seeds: Ints, work: Floats, share: float, hot: Ints | None = None) -> Float32s:
    """``drawn`` [B, N] where a change looks, and 0, each operator's middle chip, elsewhere.

    Where the bottleneck is known, most changes look at it. Of the others that look at a part only, half look at a
    stretch of the work, mostly a short one, and half at operators anywhere, mostly few.

    Args:
        drawn: of :func:`normals`.
        seeds: the same as for those.
        work: place of every operator along the work, [N].
        share: of the changes that look at a part, of those that do not look at the bottleneck.
        hot: operators of the bottleneck, along the topological order, [K] (:func:`bottleneck`); None: not known.
    """
    moves = drawn.copy()
    for row, seed in enumerate(seeds):
        draw = np.random.default_rng((*seed.tolist(), _FOCUS))
        if hot is not None and len(hot) and draw.random() < _GUIDED:
            moves[row] = _relieved(drawn[row], work, hot, draw)
        elif draw.random() < share:
            moves[row, ~_part(work, draw)] = 0.0
    return moves


def _part(work: Floats, draw: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Operators of one stretch of the work, or some anywhere, [N]."""
    if draw.random() < 0.5:
        width = 0.5 * draw.random() ** 3
        looked_at = np.abs(work - draw.random()) <= width
    else:
        looked_at = draw.random(len(work)) < _MAX_SCATTERED * draw.random() ** 4
    # Whatever else: one operator at least.
    looked_at[int(draw.integers(len(work)))] = True
    return looked_at


def _relieved(drawn: Float32s, work: Floats, hot: Ints, draw: np.random.Generator) -> Float32s:
    """A change that looks at the bottleneck, [N]: its first or last operators go back or on as one, or it draws again
    a stretch of the work around one of them, some of them, or all.
    """
    kind = int(draw.integers(4))
    looked_at = np.zeros(len(work), dtype=np.bool_)
    if kind == 0:
        moved = np.zeros_like(drawn)
        count = 1 + int(len(hot) * draw.random() ** 2)
        if draw.random() < 0.5:
            moved[hot[-count:]] = _WHOLE
        else:
            moved[hot[:count]] = -_WHOLE
        return moved
    if kind == 1:
        looked_at = np.abs(work - work[draw.choice(hot)]) <= 0.5 * draw.random() ** 3
    elif kind == 2:
        looked_at[hot] = draw.random(len(hot)) < draw.random()
    else:
        looked_at[hot] = True
    looked_at[draw.choice(hot)] = True
    return np.where(looked_at, drawn, np.float32(0.0))


def mixed_orders(topological: Ints, seeds: Words) -> npt.NDArray[np.int64]:
    """The constraint solver's visits: topological for even rows, random for odd ones, [B, N]."""
    return np.stack(
        [
            topological if row % 2 == 0 else np.random.default_rng(int(seed)).permutation(len(topological))
            for row, seed in enumerate(seeds)
        ]
    )
