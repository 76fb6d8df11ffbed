"""Soft maxima over the paths of timing graphs, and how much each arc has a part in them."""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SoftMaximum:
    """Over all paths of a design: ``temperature * log(sum(exp(delay / temperature)))``, in the unit of the delays.

    Attributes
    ----------
    value : float
        At least the delay of the longest path, and that delay in the limit of a low temperature.
    of_arcs : array, shape (arcs,)
        The derivatives of ``value`` by the arcs' delays: the share of the paths, weighted by the exponential, that run
        along each arc.
    of_launches : array, shape (nodes,)
        The same for the delays at which paths begin.
    through_arcs : array, shape (arcs,)
        The soft maximum over the paths along each arc.
    """

    value: float
    of_arcs: NDArray[np.float64]
    of_launches: NDArray[np.float64]
    through_arcs: NDArray[np.float64]


@numba.njit(cache=True)
def _log_add(left: float, right: float) -> float:
    high, low = max(left, right), min(left, right)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@numba.njit(cache=True)
def _sweep(sources, sinks, delays, launches):
    """Log-sums of the paths up to each node, and from each node on; delays and launches over the temperature."""
    nodes = len(launches)
    up_to = np.full(nodes + 1, -np.inf)
    up_to[:nodes] = launches
    for arc in range(len(sources)):
        sink = sinks[arc]
        up_to[sink] = _log_add(up_to[sink], up_to[sources[arc]] + delays[arc])
    from_on = np.full(nodes + 1, -np.inf)
    from_on[nodes] = 0.0
    for arc in range(len(sources) - 1, -1, -1):
        source = sources[arc]
        from_on[source] = _log_add(from_on[source], from_on[sinks[arc]] + delays[arc])
    return up_to, from_on


def soft_maximum(
    sources: NDArray[np.int32],
    sinks: NDArray[np.int32],
    delays: NDArray[np.float64],
    launches: NDArray[np.float64],
    temperature: float,
) -> SoftMaximum:
    """The soft maximum over the paths of one timing graph, by one sweep forwards and one backwards.

    Parameters
    ----------
    sources, sinks : arrays of int32, shape (arcs,)
        As in ``TimingGraph``: topologically ordered, paths end in the node ``len(launches)``.
    delays : array, shape (arcs,)
    launches : array, shape (nodes,)
        The delay at which a path begins in a node; minus infinity where none does.
    temperature : float
        In the unit of the delays.

    Raises
    ------
    ValueError
        No path leads to the end.
    """
    scaled, starts = delays / temperature, launches / temperature
    up_to, from_on = _sweep(sources, sinks, scaled, starts)
    total = up_to[-1]
    if total == -np.inf:
        raise ValueError("a design must have a path between two clock edges")
    through = up_to[sources] + scaled + from_on[sinks]
    return SoftMaximum(
        float(temperature * total),
        np.exp(through - total),
        np.exp(starts + from_on[:-1] - total),
        temperature * through,
    )
