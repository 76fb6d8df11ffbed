"""Storage of the partial schedules of a search: a pool of nodes, a heap per level and a table of dominance."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.schedule.search.reduce import Integer, Ints
from dse.schedule.search.segment import STARTED, Codes
from hardware.compiled import compiled, kernel

_TABLE_SIZE = 1 << 15


class Pool(NamedTuple):
    """Nodes by number; a node is a partial schedule whose last operator ``op`` started at ``start``.

    ``time`` is when the next operator may start at the earliest. ``mode`` is the core that ``op`` was given, -1 where
    cores are only counted, -2 for all cores. ``running`` lists the operators that finish after ``time`` with their
    ``finish`` and ``core``. ``left`` and ``right`` form skew heaps by (``bound``, ``spread``), one root per number of
    started operators. ``table`` and ``chain`` form the hash table over the sets of started operators.
    """

    time: Ints
    bound: Ints
    spread: Ints
    depth: Ints
    parent: Ints
    op: Ints
    start: Ints
    mode: Ints
    signature: npt.NDArray[np.uint64]
    dead: npt.NDArray[np.bool_]
    status: Codes
    running: Ints
    finish: Ints
    core: Ints
    running_count: Ints
    left: Ints
    right: Ints
    roots: Ints
    table: Ints
    chain: Ints


@compiled
def new_pool(nodes: int, operators: int, slots: int) -> Pool:
    """An empty pool for ``nodes`` nodes, each with at most ``slots`` operators running at once."""
    return Pool(
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.uint64),
        np.empty(nodes, np.bool_),
        np.empty((nodes, operators), np.int8),
        np.empty((nodes, slots), np.int64),
        np.empty((nodes, slots), np.int64),
        np.empty((nodes, slots), np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.full(operators + 1, -1),
        np.full(_TABLE_SIZE, -1),
        np.empty(nodes, np.int64),
    )


@kernel
def push(pool: Pool, node: Integer) -> None:
    """Enters ``node`` into the heap of its level."""
    pool.left[node], pool.right[node] = -1, -1
    level = pool.depth[node]
    pool.roots[level] = _merge(pool, pool.roots[level], node)


@kernel
def pop(pool: Pool, level: int, limit: int) -> int:
    """Removes the best living node of ``level`` with a bound below ``limit``; -1 where there is none."""
    while True:
        node = pool.roots[level]
        if node < 0 or pool.bound[node] >= limit:
            return -1
        pool.roots[level] = _merge(pool, pool.left[node], pool.right[node])
        if not pool.dead[node]:
            return int(node)


@kernel
def _before(pool: Pool, a: Integer, b: Integer) -> bool:
    if pool.bound[a] != pool.bound[b]:
        return bool(pool.bound[a] < pool.bound[b])
    return bool(pool.spread[a] < pool.spread[b])


@kernel
def _merge(pool: Pool, a: Integer, b: Integer) -> int:
    """Merges two skew heaps and returns the root of the union."""
    if a < 0 or b < 0:
        return int(max(a, b))
    if _before(pool, b, a):
        a, b = b, a
    top = int(a)
    while True:
        right = pool.right[a]
        pool.right[a] = pool.left[a]
        if right < 0:
            pool.left[a] = b
            return top
        if _before(pool, b, right):
            right, b = b, right
        pool.left[a] = right
        a = right


@kernel
def enter(pool: Pool, node: Integer) -> bool:
    """Enters the filled-in ``node`` into table and heap unless another node dominates it; kills what it dominates."""
    slot = int(pool.signature[node] % np.uint64(len(pool.table)))
    other = pool.table[slot]
    while other >= 0:
        if not pool.dead[other] and pool.signature[other] == pool.signature[node]:
            # One call in a loop, since a kernel is compiled once more wherever it is called.
            for turn in range(2):
                if _dominates(pool, other if turn == 0 else node, node if turn == 0 else other):
                    if turn == 0:
                        return False
                    pool.dead[other] = True
        other = pool.chain[other]
    pool.chain[node], pool.table[slot] = pool.table[slot], node
    pool.dead[node] = False
    push(pool, node)
    return True


@kernel
def _dominates(pool: Pool, a: Integer, b: Integer) -> bool:
    """Whether every completion of node ``b`` is as feasible after node ``a``: no cores are busy for longer.

    Both have started the same operators; ``a`` is free no later, what still runs there also runs in ``b``, on the same
    core and for no shorter, and no operator is delayed or kept off all cores in ``a`` that is not in ``b``.
    """
    if pool.time[a] > pool.time[b]:
        return False
    for x in range(pool.running_count[a]):
        if pool.finish[a, x] <= pool.time[b]:
            continue
        matched = False
        for y in range(pool.running_count[b]):
            if pool.running[a, x] == pool.running[b, y]:
                matched = pool.finish[a, x] <= pool.finish[b, y] and pool.core[a, x] == pool.core[b, y]
        if not matched:
            return False
    for i in range(pool.status.shape[1]):
        in_a, in_b = pool.status[a, i], pool.status[b, i]
        if (in_a == STARTED) != (in_b == STARTED) or in_a & ~in_b:
            return False
    return True
