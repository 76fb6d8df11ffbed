"""Good plans by simulated annealing: nodes change their choice, and neighbours that this leaves without one follow.

Forbidden pairs and usage beyond the limits are allowed on the way, at a price: a forbidden pair costs more than any
plan; a share of a limit in excess costs a price that rises while nothing fits and falls while everything does. The best
plan on the way is kept.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing", Science 220 (1983).
"""

from functools import partial

import numpy as np

from dse.algorithms.pairwise.arrays import arrays_of
from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.local_search_kernels import anneal
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints
from dse.run.progress import StopSignal, never_stop
from dse.run.watched import watched

_LAST_TEMPERATURE = 0.1
"""Costs are whole numbers: at this temperature a rise by 1 is as good as refused (e^-10)."""

_MAX_SUM = 2**62


def improved(
    core: Core, start: Ints, moves: int, temperature: float, seed: int, stop: StopSignal = never_stop
) -> Ints | None:
    """The best plan among those visited in ``moves`` moves from ``start`` on, [nodes]; None if there was none.

    Args:
        core: in which every node has an allowed choice.
        start: [nodes], any choices.
        moves: proposed in all.
        temperature: at the first move, in units of cost; it falls geometrically.
        seed: of the moves.
        stop: a reason ends it before.
    """
    arrays = arrays_of(core)
    largest = sum(int(np.max(each, initial=0, where=each < FORBIDDEN)) for each in (*core.costs, *core.edge_costs))
    degree = int(np.diff(arrays.incident_starts).max(initial=0))
    penalty = min(largest + 1, _MAX_SUM // (degree + 2))
    costs = np.where(arrays.costs < FORBIDDEN, arrays.costs, penalty)
    pairs = np.where(arrays.pairs < FORBIDDEN, arrays.pairs, penalty)
    work = partial(
        anneal,
        arrays._replace(costs=costs, pairs=pairs),
        start.astype(np.int64),
        moves,
        max(temperature, _LAST_TEMPERATURE),
        _LAST_TEMPERATURE,
        penalty,
        np.array([seed], dtype=np.uint64),
    )
    best = watched(stop, work)
    return None if best[0] < 0 else np.asarray(best)
