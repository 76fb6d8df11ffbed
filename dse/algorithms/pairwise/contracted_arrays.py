"""A contracted problem as flat arrays, for kernels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints

Floats = npt.NDArray[np.float64]

ROWS_OF_BUCKET = 64
"""Rows that share a list of the intervals that have some of them."""


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
        bucket_starts: [buckets + 1], where the intervals begin that have some of :data:`ROWS_OF_BUCKET` rows.
        bucket_intervals: the intervals of all buckets, those of a node side by side.
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
    bucket_starts: Ints
    bucket_intervals: Ints


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
    bucket_starts, bucket_intervals = _buckets(problem.rows, first, end)
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
        bucket_starts=bucket_starts,
        bucket_intervals=bucket_intervals,
    )


def _buckets(rows: int, first: Ints, end: Ints) -> tuple[Ints, Ints]:
    count = -(-rows // ROWS_OF_BUCKET)
    begins = first // ROWS_OF_BUCKET
    lengths = (end - 1) // ROWS_OF_BUCKET + 1 - begins
    total = int(lengths.sum())
    bucket = np.arange(total) - np.repeat(_offsets(lengths)[:-1] - begins, lengths)
    order = np.argsort(bucket, kind="stable")
    return np.searchsorted(bucket[order], np.arange(count + 1)), np.repeat(np.arange(len(first)), lengths)[order]


def _offsets(sizes: "Sequence[int] | Ints") -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def _joined(arrays: Sequence[Ints], dtype: Any) -> Any:
    return np.concatenate(arrays).astype(dtype) if len(arrays) else np.zeros(0, dtype)
