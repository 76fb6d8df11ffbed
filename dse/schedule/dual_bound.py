"""The dual bound on a makespan, for kernels: one choice of multipliers, the best chain, and each operator's share.

Let M be the time of a schedule in which no operator holds all cores. Operators on all cores exclude each other and
everything else, so makespan = M + the sum of ``all_cores`` over the operators that run on all cores. For the operators
on single cores and any chain C of the graph:

* M ≥ Σ_{i in C} single_i, since operators of a chain run in sequence;
* n · M ≥ Σ_{i uses tensor cores} single_i + Σ_{i in C} (n − beside_i) · single_i, where n tensor cores can be in use at
  once and no more than beside_i of them while operator i runs; the same for the vector cores.

Convex combinations with multipliers λ_C, λ_T, λ_V bound M by Σ_i share_i · single_i, so that::

    makespan ≥ Σ_i min(all_cores_i, share_i · single_i)

for every chain and all multipliers. λ_C = 1 is the critical path of the shorter latencies, λ_T = 1 without a chain the
work of the tensor cores. The best chain for given multipliers is a longest path.

A few multipliers are tried (:data:`MULTIPLIER_GRID`); where a segment is searched, :func:`ascend` combines them, each
with a chain of its own, to next to the best bound of this form.

How many operators of a set can run at once is bounded by the number of chains that cover the set (Dilworth).
"""

import numpy as np
import numpy.typing as npt

from dse.schedule.search.reduce import Bools, Floats, Ints
from hardware.compiled import compiled

MULTIPLIER_GRID = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.02, 0.98),
    (0.9, 0.1, 0.0),
    (0.75, 0.25, 0.0),
    (0.5, 0.5, 0.0),
    (0.25, 0.75, 0.0),
    (0.1, 0.9, 0.0),
    (0.75, 0.0, 0.25),
    (0.5, 0.0, 0.5),
    (0.25, 0.0, 0.75),
    (0.0, 0.75, 0.25),
    (0.0, 0.5, 0.5),
    (0.0, 0.25, 0.75),
    (0.34, 0.33, 0.33),
)
"""The multipliers (λ_T, λ_V, λ_C) that are tried; each triple sums to at most 1."""


_STEPS, _SHRINKAGE = 200, 0.98
"""Steps from the best bound of :data:`MULTIPLIER_GRID`, and what each of them makes of the smoothing."""

_ROUNDING = 1e-13
"""More than the relative rounding of shares that are moved so many times."""


@compiled
def core_users(kind: npt.NDArray[np.int8], k: int) -> Bools:
    """Which operators use a core of kind k (0 tensor, 1 vector); kind 2 (fused) uses both."""
    users: Bools = (kind == k) | (kind == 2)
    return users


@compiled
def lines_beside(ancestor: Bools, line: Ints, uses: Bools) -> Ints:
    """How many users of one kind of core can be running while operator i runs on a single core, itself included.

    ``line`` numbers the chains that cover the users able to run on single cores, -1 for other operators.
    """
    count = len(line)
    beside = np.empty(count, np.int64)
    seen = np.full(count, -1)
    for i in range(count):
        beside[i] = 1 if uses[i] else 0
        for j in range(count):
            free = j != i and line[j] >= 0 and not ancestor[i, j] and not ancestor[j, i]
            if free and seen[line[j]] != i:
                seen[line[j]] = i
                beside[i] += 1
    return beside


@compiled
def core_shares(uses: Bools, beside: Ints, cores: Floats, share: Floats) -> None:
    """Fills ``share`` [4, O]: what a unit of operator i costs of M by tensor work, by vector work, and by the tensor
    and vector cores left idle if it is on the chain.

    ``cores`` [2] is how many cores of each kind can be in use at once, ``uses`` and ``beside`` are [2, O].
    """
    for k in range(2):
        each = 1.0 / cores[k]
        for i in range(share.shape[1]):
            share[k, i] = each if uses[k, i] else 0.0
            share[2 + k, i] = max(0.0, 1.0 - beside[k, i] * each)


@compiled
def dual_value(
    begin: int,
    end: int,
    first: Ints,
    before: Ints,
    single: Floats,
    all_cores: Floats,
    share: Floats,
    multipliers: Floats,
    longest: Floats,
) -> float:
    """The dual bound of operators ``begin`` to ``end`` (topological order) with the best chain.

    ``share`` comes from :func:`core_shares`; a missing mode takes infinite time. ``longest`` is overwritten with the
    lengths of the longest paths, by what an operator gains on the chain.
    """
    tensor, vector, path = multipliers[0], multipliers[1], multipliers[2]
    total, chain = 0.0, 0.0
    for i in range(begin, end):
        if single[i] == np.inf:
            total += all_cores[i]
            gain = 0.0
        else:
            outside = tensor * share[0, i] + vector * share[1, i]
            inside = outside + path + tensor * share[2, i] + vector * share[3, i]
            base = min(all_cores[i], outside * single[i])
            gain = min(all_cores[i], inside * single[i]) - base
            total += base
        reach = 0.0
        for e in range(first[i], first[i + 1]):
            if before[e] >= begin:
                reach = max(reach, longest[before[e]])
        longest[i] = reach + gain
        chain = max(chain, longest[i])
    return total + chain


@compiled
def chain_shares(
    first: Ints, before: Ints, share: Floats, multipliers: Floats, longest: Floats, result: Floats
) -> None:
    """Fills ``result`` [O] with the share of each operator in the combination, that of the chain included."""
    tensor, vector, path = multipliers[0], multipliers[1], multipliers[2]
    for i in range(len(result)):
        result[i] = tensor * share[0, i] + vector * share[1, i]
    i = int(np.argmax(longest)) if len(longest) else -1
    while i >= 0:
        result[i] += path + tensor * share[2, i] + vector * share[3, i]
        nearest, reach = -1, -1.0
        for e in range(first[i], first[i + 1]):
            if longest[before[e]] > reach:
                nearest, reach = int(before[e]), float(longest[before[e]])
        i = nearest


@compiled
def ascend(
    single: Floats, all_cores: Floats, first: Ints, before: Ints, share: Floats, start: Floats, result: Floats
) -> None:
    """Fills ``result`` [O] with the shares of the best bound in a series of combinations that begins with ``start``.

    The bound is a concave function of the shares, and a convex combination of shares that are valid is valid, whatever
    chains they are of. Each step of the Frank-Wolfe method goes towards the kind of cores, or none, and the chain from
    which the bound gains the most (Jaggi 2013). The bound is not smooth where both modes of an operator cost the same,
    so steps go by its gradient with the modes mixed over a range around that, which shrinks.
    """
    count = len(single)
    shares, gain, longest, target = start.copy(), np.zeros(count), np.zeros((3, count)), np.zeros(count)
    best = shares_value(single, all_cores, shares)
    for i in range(count):
        result[i] = start[i]
    smoothing = best / count
    for step in range(_STEPS):
        smoothing *= _SHRINKAGE
        for i in range(count):
            on_one = 0.5 + 0.5 * (all_cores[i] - shares[i] * single[i]) / smoothing if single[i] < np.inf else 0.0
            gain[i] = min(1.0, on_one) * single[i] if on_one > 0.0 else 0.0
        _steepest(gain, first, before, share, longest, target)
        for i in range(count):
            shares[i] += 2.0 / (step + 3) * (target[i] - shares[i])
        value = shares_value(single, all_cores, shares)
        if value > best:
            best = value
            for i in range(count):
                result[i] = shares[i]
    for i in range(count):
        result[i] *= 1.0 - _ROUNDING


@compiled
def shares_value(single: Floats, all_cores: Floats, shares: Floats) -> float:
    """The bound of ``shares`` [O]; a missing mode takes infinite time."""
    total = 0.0
    for i in range(len(single)):
        total += all_cores[i] if single[i] == np.inf else min(all_cores[i], shares[i] * single[i])
    return total


@compiled
def _steepest(gain: Floats, first: Ints, before: Ints, share: Floats, longest: Floats, target: Floats) -> None:
    """Fills ``target`` [O] with the shares of one multiplier and chain under which ``gain`` [O] is the most.

    ``longest`` [3, O] is overwritten with the longest paths for tensor cores, vector cores and the chain alone.
    """
    chosen, most = 0, -1.0
    for k in range(3):
        work, chain = 0.0, 0.0
        for i in range(len(gain)):
            reach = 0.0
            for e in range(first[i], first[i + 1]):
                reach = max(reach, longest[k, before[e]])
            longest[k, i] = reach + gain[i] * (share[2 + k, i] if k < 2 else 1.0)
            chain = max(chain, longest[k, i])
            work += gain[i] * share[k, i] if k < 2 else 0.0
        if work + chain > most:
            chosen, most = k, work + chain
    multipliers = np.zeros(3)
    multipliers[chosen] = 1.0
    chain_shares(first, before, share, multipliers, longest[chosen], target)


@compiled
def cover_by_chains(ancestor: Bools, member: Bools, line: Ints) -> int:
    """Covers the operators of ``member`` by the fewest chains, numbered in ``line``; returns how many.

    By Dilworth's theorem that is the largest number of members that could ever run at once. A chain cover is a matching
    of operators with later ones, grown here by augmenting paths.
    """
    count = len(member)
    follower, leader = np.full(count, -1), np.full(count, -1)
    for i in range(count):
        if member[i]:
            _augment(ancestor, member, i, follower, leader)
    chains = 0
    for i in range(count):
        if member[i] and leader[i] < 0:
            j = i
            while j >= 0:
                line[j] = chains
                j = follower[j]
            chains += 1
    return chains


@compiled
def _augment(ancestor: Bools, member: Bools, root: int, follower: Ints, leader: Ints) -> None:
    """Gives ``root`` a follower if an augmenting path exists (breadth first)."""
    count = len(member)
    reachable_from = np.full(count, -1)
    queue = np.empty(count, np.int64)
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for j in range(count):
            if not member[j] or not ancestor[j, i] or reachable_from[j] >= 0:
                continue
            reachable_from[j] = i
            if leader[j] >= 0:
                queue[tail] = leader[j]
                tail += 1
                continue
            while True:
                i = reachable_from[j]
                follower[i], leader[j], j = j, i, follower[i]
                if i == root:
                    return
