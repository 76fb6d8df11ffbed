"""The constraint solver of the paper (section 4.2): valid partitions from distributions, or near candidates.

SAMPLE visits the operators in some order and draws the chip of each from its distribution, restricted to the chips that
are left to it (Algorithm 1). FIX first keeps the candidate's chip wherever it is left, and then draws the others
(Algorithm 2). How, and why neither ever fails, is in :mod:`dse.partition.constraints.dive`.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.partition.constraints.closest import new_room, reach_of
from dse.partition.constraints.decisions import new_state
from dse.partition.constraints.dive import FALL_BACK, MAX_CLOSEST, Drawn, new_scratch, partitions
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import Chips, PartitionGraph, Words

"""The two forms of the constraint solver."""

LINEAR_SHARE = 0.5
"""Share of the linear partitions among the samples."""


_UNKNOWN_REACH = np.zeros((0, 0), dtype=np.uint8)


class Sampler:
    """Valid partitions of a graph on a package; without memory limits, which only an evaluator knows.

    Args:
        graph: the operators.
        chips: C.
        linear_share: of SAMPLE's partitions that are linear on purpose; with 1, those of FIX are linear too.

    Attributes:
        operators: N.
        dead_ends: of the last call, how many dead ends each partition took, negative where it is linear, [B].
    """

    def __init__(self, graph: PartitionGraph, chips: int, linear_share: float = LINEAR_SHARE) -> None:
        self.structure = structure_of(graph)
        self.chips = chips
        self.dead_ends: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._linear_share = float(linear_share)
        self._bounds = np.minimum(self.structure.max_chip, chips - 1).astype(np.int32)
        self.operators = len(graph)

    @property
    def fall_backs(self) -> int:
        """Partitions of the last call that are linear because no general one was found within the dead ends."""
        return int(np.count_nonzero(self.dead_ends == FALL_BACK))

    def sample(
        self, seeds: Words, weights: npt.NDArray[np.float64] | None = None, orders: npt.NDArray[np.int64] | None = None
    ) -> Chips:
        """One partition for each of ``seeds`` [B] (SAMPLE).

        Args:
            seeds: of the draws: the same seed gives the same partition in any batch.
            weights: of every chip for every operator, ≥ 0, [N, C]; None: all chips are alike.
            orders: the operators in the order of their visits, [B, N] or [1, N]; None: a random one each.
        """
        return self._partitions(seeds, weights, orders, np.zeros((1, 0), dtype=np.int64))

    def fix(
        self,
        candidates: npt.NDArray[np.int64],
        seeds: Words,
        weights: npt.NDArray[np.float64] | None = None,
        orders: npt.NDArray[np.int64] | None = None,
    ) -> Chips:
        """One partition near a candidate for each of ``seeds`` (FIX). ``candidates``: [B, N] or [1, N].

        Operators keep the candidate's chips where those visited before them let them: what comes first is kept and may
        drag others along, so that a step away from a valid partition leads somewhere.
        """
        return self._partitions(seeds, weights, orders, np.ascontiguousarray(candidates, dtype=np.int64))

    def closest(
        self,
        candidates: npt.NDArray[np.int64],
        seeds: Words,
        weights: npt.NDArray[np.float64] | None = None,
        orders: npt.NDArray[np.int64] | None = None,
    ) -> Chips:
        """As :meth:`fix`, with as few operators changed as :mod:`~dse.partition.constraints.closest` can: no linear
        partition changes fewer (on weakly connected graphs, of up to :data:`MAX_CLOSEST` operators).
        """
        wanted = np.ascontiguousarray(candidates, dtype=np.int64)
        return self._partitions(seeds, weights, orders, wanted, self._reach)

    @cached_property
    def _reach(self) -> npt.NDArray[np.uint8]:
        """What :meth:`closest` needs to find linear partitions."""
        reach: npt.NDArray[np.uint8] = reach_of(self.structure) if self.operators <= MAX_CLOSEST else _UNKNOWN_REACH
        return reach

    def _partitions(
        self,
        seeds: Words,
        weights: npt.NDArray[np.float64] | None,
        orders: npt.NDArray[np.int64] | None,
        wanted: npt.NDArray[np.int64],
        reach: npt.NDArray[np.uint8] = _UNKNOWN_REACH,
    ) -> Chips:
        drawn = Drawn(np.zeros((len(seeds), self.operators), np.int8), np.zeros(len(seeds), np.int32))
        partitions(
            new_state(self.operators, self.chips),
            self.structure,
            np.ones_like(self.structure.gap),
            self._bounds,
            reach,
            new_room(len(reach)),
            np.zeros((0, self.operators), dtype=np.int64) if orders is None else np.ascontiguousarray(orders, np.int64),
            np.zeros((self.operators, 0)) if weights is None else np.ascontiguousarray(weights, np.float64),
            wanted,
            np.ascontiguousarray(seeds, dtype=np.uint64),
            self._linear_share,
            new_scratch(self.operators),
            drawn,
        )
        self.dead_ends = drawn.dead_ends
        return drawn.chips


def seeds_of(seed: int, first: int, count: int) -> Words:
    """The seeds of partitions number ``first`` … of a search: the same for any split of the search into batches."""
    sequence = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    numbers = np.arange(first, first + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return np.asarray((numbers + sequence) * np.uint64(0xD1342543DE82EF95) + np.uint64(1), dtype=np.uint64)
