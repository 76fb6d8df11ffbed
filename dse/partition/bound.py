"""Lower bounds on the slowest chip or link, and on the latency of one input."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import rustworkx

from dse.partition.constraints.structure import Structure, structure_of
from dse.partition.downset_kernels import UNREACHED, chain, lattice, link_times, sides, valid_chain
from dse.partition.problem import Chips, Floats, Ints, PartitionProblem, Words
from dse.run.progress import StopSignal, never_stop

_MAX_DOWNSETS, _MAX_OF_SOME = 20_000, 12_000
"""Downsets of all operators, or else of some, that the bound is computed from."""

_MAX_PAIRS = 3e7
"""Pairs of downsets that are priced, over all limits that are tried: a few seconds."""

_PAIRS_AT_ONCE = 1.5e7
"""Approximate pairs of downsets that are priced for one limit: D² · 2 / C is no more."""

_BELOW = 5e-10
"""How far below the best value the first limit lies, relatively: above the accuracy of sums, below that of a proof."""

_WAYS = ((64, 1, 0.0, False), (1, 64, 1.0, False), (64, 1, 1.0, True))
"""Weights of a chip, of an open one and of transfers, and whether to be linear, for the ways to a downset that
:meth:`DownsetLattice.partitions` keeps: few chips suit packages that have few, few open ones graphs in which (4) is
hard to keep."""

_FEWEST, _FASTEST = (1.0, 0.0), (0.0, 1.0)
"""Weights of a chip and of a second of the slowest stage, for chains of few chips and for fast ones."""

_NEAR = 1e-4
"""The same for partitions, which other methods make better."""

_ENOUGH_WORK = 0.95
"""Share of the work that the operators whose downsets are looked at should have."""

_CLOSE = 1e-7
"""Relative difference of an infeasible and a feasible limit at which bisection ends."""


def simple_bound_s(problem: PartitionProblem) -> float:
    """max(all work / C, the longest operator): the chips share the work, and an operator is not split.

    For latency the longest path: every operator waits for its producers.
    """
    graph = problem.graph
    if problem.objective == "latency":
        return _longest_path_s(problem)
    return max(float(graph.latency_s.sum()) / problem.chips, float(graph.latency_s.max()))


def _longest_path_s(problem: PartitionProblem) -> float:
    graph = problem.graph
    digraph: rustworkx.PyDiGraph[int, float] = rustworkx.PyDiGraph()
    digraph.add_nodes_from(range(len(graph) + 1))
    # A node after all others, so that an edge can represent the operator that it leaves.
    edges = [(int(source), int(target), float(graph.latency_s[source])) for source, target in graph.edges]
    edges += [(source, len(graph), float(graph.latency_s[source])) for source in range(len(graph))]
    digraph.add_edges_from(edges)
    length: float = rustworkx.dag_weighted_longest_path_length(digraph, lambda _source, _target, weight: weight)
    return length


@dataclass(frozen=True)
class DownsetBound:
    """A bound from chains of downsets.

    Attributes:
        bound_s: no valid partition has a faster slowest chip or link.
        chip: of every operator along the best chain, (2) kept, (4) perhaps not; None where none is better than the
            best partition known.
    """

    bound_s: float
    chip: npt.NDArray[np.int8] | None


class DownsetLattice:
    """The downsets of a problem's longest operators, as many as may be, and bounds from chains of them.

    Args:
        problem: graph and package; its objective is throughput.
        max_downsets: how many downsets there may be.

    Attributes:
        keys: the operators whose downsets these are, by position.
    """

    def __init__(self, problem: PartitionProblem, max_downsets: int = _MAX_DOWNSETS) -> None:
        graph = problem.graph
        self._problem = problem
        self._structure = structure_of(graph)
        self._transfer_s: Floats = graph.output_bytes / problem.link_bytes_per_s
        some = int(min(_MAX_OF_SOME, np.sqrt(_PAIRS_AT_ONCE * problem.chips / 2)))
        self.keys, sets, self._first, self._leads = _keys(graph.latency_s, self._structure, max_downsets, some)
        self._inside, self._outside = sides(sets, self.keys, self._structure.below, self._structure.above)
        self._link_s = link_times(self._inside, self._outside, self._structure, self._transfer_s)

    @property
    def exact(self) -> bool:
        """Whether all operators are looked at."""
        return len(self.keys) == len(self._problem.graph)

    def bound(self, best_s: float, stop: StopSignal = never_stop, max_pairs: float = _MAX_PAIRS) -> DownsetBound:
        """The best bound at most ``best_s``, by bisection between that and the simple bound.

        Low limits have fewer pairs, so no feasible one is tried without need. But where all operators are looked
        at, ``best_s`` is mostly optimal, or else the fastest chain of any number of chips has no more than the
        package: both are shown by limits just below it.
        """
        low_s, high_s = simple_bound_s(self._problem), best_s * (1 - _BELOW)
        best, spent = None, 0.0
        limit_s = float(np.sqrt(low_s * high_s))
        if self.exact:
            fastest = self._fastest(high_s)
            best, low_s, limit_s = fastest.chip, min(high_s, max(low_s, fastest.bound_s)), high_s
            if best is None or int(best.max()) < self._problem.chips:
                return DownsetBound(min(low_s, best_s), best)
        while (low_s * (1 + _CLOSE) < high_s or low_s < limit_s == high_s) and spent < max_pairs and stop() is None:
            used, _, parent, priced = self._chains(self._problem.chips, limit_s, *_FEWEST)
            spent += priced
            if used[-1] > self._problem.chips:
                low_s = limit_s
            else:
                high_s, best = limit_s, self._chip(used, parent, self._inside)
            # Where there is none so close to the best value, there is mostly none at all.
            is_near = best is None and low_s * (1 + _CLOSE) >= high_s > low_s
            limit_s = high_s if is_near else float(np.sqrt(low_s * high_s))
        return DownsetBound(min(low_s, best_s), best)

    def excludes(self, limit_s: float) -> bool:
        """Whether no valid partition has all chips and links within the limit, as far as these downsets tell."""
        used, *_ = self._chains(self._problem.chips, limit_s, *_FEWEST)
        return bool(used[-1] > self._problem.chips)

    def _fastest(self, limit_s: float) -> DownsetBound:
        """The best chain of any number of chips, infinite where none is within the limit.

        What it costs is a bound, and the best one where the package has that many chips.
        """
        used, stage_s, parent, _ = self._chains(UNREACHED, limit_s, *_FASTEST)
        if used[-1] == UNREACHED:
            return DownsetBound(np.inf, None)
        return DownsetBound(float(stage_s[-1]), self._chip(used, parent, self._inside))

    def partitions(
        self, best_s: float, bound_s: float, stop: StopSignal = never_stop, max_pairs: float = _MAX_PAIRS / 2
    ) -> Chips:
        """Partitions that keep (2) to (5) along chains of these downsets, below ``best_s``, [at most 3, N].

        Each operator is on the chip of the first downset that is sure of it. Found by bisection down to a bound, over
        one way to each downset, so there may be none.
        """
        inside = self._inside.copy()
        inside[-1] = _everything(len(self._problem.graph))
        outside = inside[-1] & ~inside
        sides = inside, outside, link_times(inside, outside, self._structure, self._transfer_s)
        partitions = []
        for weights in _WAYS:
            low_s, high_s, best, spent = bound_s, best_s, None, 0.0
            # The lowest limit has the fewest pairs, and where it is feasible, nothing is left to do.
            limit_s = bound_s * (1 + _NEAR)
            while high_s > low_s * (1 + _NEAR) and spent < max_pairs / len(_WAYS) and stop() is None:
                used, parent, priced = valid_chain(*self._arguments(*sides, self._problem.chips, limit_s), *weights)
                spent += priced
                if used[-1] <= self._problem.chips:
                    high_s, best = limit_s, self._chip(used, parent, inside)
                elif best is None and limit_s == best_s:
                    break
                else:
                    low_s = limit_s
                limit_s = best_s if best is None and limit_s < best_s else float(np.sqrt(low_s * high_s))
            partitions += [best] if best is not None else []
        return np.array(partitions, dtype=np.int8).reshape(-1, len(self._problem.graph))

    def _chains(
        self, chips: int, limit_s: float, chip_weight: float, stage_weight: float
    ) -> tuple[npt.NDArray[np.int8], Floats, npt.NDArray[np.int32], int]:
        chains: tuple[npt.NDArray[np.int8], Floats, npt.NDArray[np.int32], int] = chain(
            *self._arguments(self._inside, self._outside, self._link_s, chips, limit_s), chip_weight, stage_weight
        )
        return chains

    def _arguments(self, inside: Words, outside: Words, link_s: Floats, chips: int, limit_s: float) -> tuple[Any, ...]:
        """The arguments of both kinds of chains."""
        problem = self._problem
        graph = problem.graph
        memory_bytes = problem.memory_limit_bytes
        lattice_ = (self._first, self._leads, inside, outside, link_s, self._structure)
        operators = (graph.latency_s, self._transfer_s, graph.weight_bytes)
        return *lattice_, *operators, chips, limit_s, memory_bytes

    def _chip(self, used: npt.NDArray[np.int8], parent: npt.NDArray[np.int32], inside: Words) -> npt.NDArray[np.int8]:
        """The chips of a chain: of an operator that no downset is sure of, the first after which it may come."""
        count = len(self._problem.graph)
        chip = np.full(count, used[-1] - 1, dtype=np.int8)
        downset = int(parent[-1])
        while downset > 0:
            held = np.unpackbits(inside[downset].view(np.uint8), bitorder="little")[:count]
            chip[held == 1] = used[downset] - 1
            downset = int(parent[downset])
        return chip


def _keys(
    latency_s: Floats, structure: Structure, max_downsets: int, some: int
) -> tuple[Ints, Words, Ints, npt.NDArray[np.int32]]:
    """All operators if they have at most ``max_downsets`` downsets, otherwise as many of the longest as have ``some``.

    Or more, where those have too little of the work. With their lattice.
    """
    everything: Ints = np.arange(len(latency_s))
    sets, first, leads = lattice(everything, structure.above, max_downsets)
    if len(sets):
        return everything, sets, first, leads
    longest = _longest(latency_s, structure, some)
    if latency_s[longest[0]].sum() < _ENOUGH_WORK * latency_s.sum():
        return _longest(latency_s, structure, min(max_downsets, _MAX_OF_SOME))
    return longest


def _longest(latency_s: Floats, structure: Structure, some: int) -> tuple[Ints, Words, Ints, npt.NDArray[np.int32]]:
    """As many of the longest operators as have at most ``some`` downsets, by position, and their lattice."""
    longest = np.argsort(-latency_s, kind="stable")
    few, many = 0, len(latency_s)
    keys: Ints = longest[:0]
    sets, first, leads = lattice(keys, structure.above, some)
    while few < many - 1:
        middle = (few + many) // 2
        tried = np.sort(longest[:middle])
        downsets = lattice(tried, structure.above, some)
        if len(downsets[0]):
            few, keys, (sets, first, leads) = middle, tried, downsets
        else:
            many = middle
    return keys, sets, first, leads


def _everything(count: int) -> Words:
    """The set of all operators, [⌈N / 64⌉]."""
    held = np.zeros(64 * ((count + 63) // 64), dtype=np.uint8)
    held[:count] = 1
    words: Words = np.packbits(held, bitorder="little").view(np.uint64)
    return words
