"""The best distinct partitions that are known of each graph."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.partition.problem import Chips, Floats


class EliteBuffer:
    """The ``size`` cheapest distinct partitions of every graph; of equals the first stay.

    Args:
        size: partitions of a graph.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._held: dict[str, tuple[Chips, Floats]] = {}

    def add(self, graph: str, chips: Chips, costs: Floats) -> None:
        """Take partitions [B, N] of a graph with their costs [B]; those that cannot run (infinite) are left out."""
        held = self._held.get(graph)
        if held is not None:
            chips, costs = np.concatenate([held[0], chips]), np.concatenate([held[1], costs])
        places: dict[bytes, int] = {}
        for place in np.argsort(costs, kind="stable").tolist():
            if len(places) == self.size or not np.isfinite(costs[place]):
                break
            places.setdefault(np.ascontiguousarray(chips[place]).tobytes(), place)
        if places:
            rows = list(places.values())
            self._held[graph] = (np.asarray(chips[rows], dtype=np.int8), costs[rows])

    def merge(self, state: Mapping[str, Any]) -> None:
        """Take what another buffer holds, as its :meth:`state` gives it."""
        for name, held in state.items():
            self.add(name, held["chips"], held["costs_s"])

    def chips(self, graph: str) -> Chips | None:
        """The partitions of a graph, the cheapest first, [≤ size, N]; None before there is any."""
        held = self._held.get(graph)
        return None if held is None else held[0]

    def costs(self, graph: str) -> Floats:
        """Their costs."""
        held = self._held.get(graph)
        return np.zeros(0) if held is None else held[1]

    def shares(self, graph: str, chips: int) -> npt.NDArray[np.float32] | None:
        """Share of the graph's elite that has each operator on each chip, [N, C]; None before there is any."""
        held = self.chips(graph)
        if held is None:
            return None
        return np.asarray((held[:, :, None] == np.arange(chips)).mean(axis=0), dtype=np.float32)

    def state(self) -> dict[str, Any]:
        """Everything that is held, for a checkpoint."""
        return {name: {"chips": chips, "costs_s": costs} for name, (chips, costs) in self._held.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Hold what :meth:`state` gave, and nothing else."""
        self._held = {name: (held["chips"], held["costs_s"]) for name, held in state.items()}
