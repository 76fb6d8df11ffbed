"""A contracted problem as flat arrays, for kernels."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.contraction import Contracted, Usage
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints

Floats = npt.NDArray[np.float64]

ROWS_OF_BUCKET = 64
"""Rows that share a list of the segments that have some of them."""


class ContractedArrays(NamedTuple):
    """A contracted problem as flat arrays.

    Choice i of node u is number ``starts[u] + i``. An *arc* is an edge seen from one of its ends, its node; the arcs of
    a node are adjacent, by rising neighbour. Pairs are stored for both arcs, row-major in the arc's node, so that
    the costs of all choices of the other end are adjacent.

    Attributes:
        starts: [nodes + 1].
        costs: [choices of all nodes].
        arc_starts: [nodes + 1].
        later: [nodes], the first arc of each node to a node after it.
        other: [arcs], the node at the other end.
        opposite: [arcs], the same edge seen from the other end.
        pair_starts: [arcs + 1], where the pairs of each arc begin.
        pairs: [pairs of all arcs], their costs; where forbidden, more than any plan costs.
        message_starts: [arcs + 1], where the numbers of each arc, one for each choice of its node, begin.
        interval_starts: [nodes + 1], where the intervals of each node begin.
        first: [intervals], the first row.
        end: [intervals], the row after the last one.
        usage_starts: [intervals + 1], where the usages in each begin, one for each choice of the node.
        usages: [usages of all intervals].
        owners: [intervals], the node of each.
        segment_first, segment_end: [segments], rows between which no interval of a node begins or ends; segments in
            which all of its choices use the same are left out.
        segment_owners: [segments], the node of each.
        segment_starts: [segments + 1], where the usages in each begin, one for each choice of the node.
        segment_usages: [usages of all segments], over all intervals of the node.
        segment_ranges: [segments], the largest of those usages less the smallest.
        bucket_starts: [buckets + 1], where the segments begin that have some of :data:`ROWS_OF_BUCKET` rows.
        bucket_segments: the segments of all buckets; in each bucket the one with the largest range first.
    """

    starts: Ints
    costs: Floats
    arc_starts: Ints
    later: Ints
    other: Ints
    opposite: Ints
    pair_starts: Ints
    pairs: Floats
    message_starts: Ints
    interval_starts: Ints
    first: Ints
    end: Ints
    usage_starts: Ints
    usages: Ints
    owners: Ints
    segment_first: Ints
    segment_end: Ints
    segment_owners: Ints
    segment_starts: Ints
    segment_usages: Ints
    segment_ranges: Ints
    bucket_starts: Ints
    bucket_segments: Ints


def contracted_arrays(problem: Contracted) -> ContractedArrays:
    """``problem`` as flat arrays."""
    count, edges = len(problem.costs), len(problem.edges)
    sizes = np.array([len(each) for each in problem.costs], dtype=np.int64)
    ends = np.concatenate([problem.edges[:, 0], problem.edges[:, 1]])
    others = np.concatenate([problem.edges[:, 1], problem.edges[:, 0]])
    order = np.lexsort((others, ends))
    place = np.empty(2 * edges, np.int64)
    place[order] = np.arange(2 * edges)
    opposite = place[(order + edges) % max(1, 2 * edges)]
    matrices = [*problem.edge_costs, *(each.T for each in problem.edge_costs)]
    pairs = _joined([matrices[arc].ravel() for arc in order.tolist()], np.int64)
    penalty = 1 + sum(
        int(np.max(each, initial=0, where=each < FORBIDDEN)) for each in (*problem.costs, *problem.edge_costs)
    )
    arc_starts = np.searchsorted(ends[order], np.arange(count + 1))
    intervals = [usage for usages in problem.usages for usage in usages]
    interval_starts = _offsets([len(each) for each in problem.usages])
    first = np.array([each.first for each in intervals], dtype=np.int64)
    end = np.array([each.end for each in intervals], dtype=np.int64)
    owners = np.repeat(np.arange(count), np.diff(interval_starts))
    segments = [segment for node, usages in enumerate(problem.usages) for segment in _segments(node, usages)]
    segment_first = np.array([each.first for _, each in segments], dtype=np.int64)
    segment_end = np.array([each.end for _, each in segments], dtype=np.int64)
    segment_owners = np.array([node for node, _ in segments], dtype=np.int64)
    ranges = np.array([np.ptp(each.by_choice) for _, each in segments], dtype=np.int64)
    bucket_starts, bucket_segments = _buckets(problem.rows, segment_first, segment_end, ranges)
    return ContractedArrays(
        starts=_offsets(sizes),
        costs=_joined(problem.costs, np.float64),
        arc_starts=arc_starts,
        later=arc_starts[:-1] + np.bincount(ends[others < ends], minlength=count),
        other=others[order],
        opposite=opposite,
        pair_starts=_offsets((sizes[ends] * sizes[others])[order]),
        pairs=np.where(pairs < FORBIDDEN, pairs, penalty).astype(np.float64),
        message_starts=_offsets(sizes[ends][order]),
        interval_starts=interval_starts,
        first=first,
        end=end,
        usage_starts=_offsets(sizes[owners]),
        usages=_joined([each.by_choice for each in intervals], np.int64),
        owners=owners,
        segment_first=segment_first,
        segment_end=segment_end,
        segment_owners=segment_owners,
        segment_starts=_offsets(sizes[segment_owners]),
        segment_usages=_joined([each.by_choice for _, each in segments], np.int64),
        segment_ranges=ranges,
        bucket_starts=bucket_starts,
        bucket_segments=bucket_segments,
    )


def _segments(node: int, usages: Sequence[Usage]) -> Iterator[tuple[int, Usage]]:
    """(``node``, what it uses in all intervals) between their ends, where that is not the same for all choices."""
    if len(usages) == 1:
        if np.ptp(usages[0].by_choice):
            yield node, usages[0]
        return
    times = np.unique([time for each in usages for time in (each.first, each.end)])
    changes = np.zeros((len(times), len(usages[0].by_choice) if usages else 0), np.int64)
    for each in usages:
        changes[np.searchsorted(times, each.first)] += each.by_choice
        changes[np.searchsorted(times, each.end)] -= each.by_choice
    used = np.cumsum(changes, axis=0)
    for place in np.flatnonzero(np.ptp(used, axis=1)).tolist() if usages else []:
        yield node, Usage(int(times[place]), int(times[place + 1]), used[place])


def _buckets(rows: int, first: Ints, end: Ints, ranges: Ints) -> tuple[Ints, Ints]:
    count = -(-rows // ROWS_OF_BUCKET)
    begins = first // ROWS_OF_BUCKET
    lengths = (end - 1) // ROWS_OF_BUCKET + 1 - begins
    total = int(lengths.sum())
    bucket = np.arange(total) - np.repeat(_offsets(lengths)[:-1] - begins, lengths)
    segments = np.repeat(np.arange(len(first)), lengths)
    order = np.lexsort((-ranges[segments], bucket))
    return np.searchsorted(bucket[order], np.arange(count + 1)), segments[order]


def _offsets(sizes: "Sequence[int] | Ints") -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def _joined(arrays: Sequence[Ints], dtype: Any) -> Any:
    return np.concatenate(arrays).astype(dtype) if len(arrays) else np.zeros(0, dtype)
