"""Reductions that make a segment of a layer small and exact before it is searched.

Times become whole numbers of a common unit, all-core modes that cannot help are dropped, cores that no operator could
use are left out, and chains of operators that are equal in every respect are ordered.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Integer = int | np.int64
"""What a kernel takes where callers pass constants: typed ones, or numba compiles a version for each constant."""

NO_MODE = 1 << 60
"""The duration, in units, of a mode that an operator does not have."""


class UnitLatencies(NamedTuple):
    """Latencies in whole units of ``unit_s`` seconds; :data:`NO_MODE` where a mode is missing or dropped.

    ``rounding`` is how many units a makespan may have gained by rounding: 0 where the unit divides every latency.
    """

    single: Ints
    all_cores: Ints
    unit_s: float
    rounding: int


@compiled
def common_unit(latencies: Floats) -> float:
    """The largest time of which all ``latencies`` are whole multiples (to 1e-11 relative), or 0 where there is none.

    Euclid's algorithm on doubles, then judged by its result: estimators give whole clock cycles divided by the clock,
    and counting in them lets simultaneous events be seen as such.
    """
    smallest, largest, total = np.inf, 0.0, 0.0
    for latency in latencies:
        if latency <= 0.0:
            return 0.0
        smallest, largest, total = min(smallest, latency), max(largest, latency), total + latency
    unit = largest
    for latency in latencies:
        a, b = unit, latency
        while b > 1e-4 * smallest and b > 1e-9 * largest:
            remainder = a - b * np.floor(a / b)
            if b - remainder < 1e-6 * b:
                remainder = 0.0
            a, b = b, remainder
        unit = a
    if unit <= 0.0 or total / unit >= 2.0**44:
        return 0.0
    multiples = 0.0
    for latency in latencies:
        multiples += np.round(latency / unit)
    unit = total / multiples
    for latency in latencies:
        if abs(np.round(latency / unit) * unit - latency) > 1e-11 * latency:
            return 0.0
    return unit


@compiled
def unit_latencies(kind: npt.NDArray[np.int8], single_s: Floats, all_cores_s: Floats, cores: Ints) -> UnitLatencies:
    """Latencies as whole numbers, without dominated all-core modes.

    On all cores an operator that takes no less than on one core never helps: on one core it blocks less. A missing
    core kind (``cores`` holds tensor cores, vector cores, pairs) leaves the all-core mode alone. Where no common unit
    exists the unit is a 2^-44th of the sum of all latencies, and every latency counts at least one unit; both roundings
    are far below the accuracy of a double sum of the same length.
    """
    count = len(kind)
    has_single, has_all = np.empty(count, np.bool_), np.empty(count, np.bool_)
    used = np.empty(2 * count)
    length = 0
    for i in range(count):
        has_single[i] = cores[kind[i]] >= 1 and np.isfinite(single_s[i])
        has_all[i] = not has_single[i] or all_cores_s[i] < single_s[i]
        if has_single[i]:
            used[length] = single_s[i]
            length += 1
        if has_all[i]:
            used[length] = all_cores_s[i]
            length += 1
    unit_s = common_unit(used[:length])
    rounding = 0 if unit_s > 0.0 else count
    if unit_s == 0.0:
        unit_s = max(used[:length].sum(), 1e-300) / 2.0**43
    single, all_cores = np.full(count, NO_MODE), np.full(count, NO_MODE)
    for i in range(count):
        if has_single[i]:
            single[i] = max(1, int(np.round(single_s[i] / unit_s)))
        if has_all[i]:
            all_cores[i] = max(1, int(np.round(all_cores_s[i] / unit_s)))
            if all_cores[i] >= single[i]:
                all_cores[i] = NO_MODE
    return UnitLatencies(single, all_cores, unit_s, rounding)


@compiled
def start_order(kind: npt.NDArray[np.int8], single: Ints, all_cores: Ints, covers: Bools, ancestor: Bools) -> Bools:
    """``order[b, a]``: operator b need not start before operator a; [O, O], transitively reduced.

    Two rules, of which some optimal schedule keeps both:

    * Steps of :func:`interchangeable_chains`.
    * Of two operators of one kind and equal latencies, a has no ancestors that b lacks, and b no descendants that a
      lacks. Where b starts first they exchange places: what b waited for is all that a waits for, and what waits for b
      waits for a. The gradients of weights, which nobody waits for, are so ordered along the chain that they hang on.

    An exchange moves no start, so all that is true of an optimal schedule because of its starts stays true. Each one
    raises the sum of starts weighted by ranks in the order (more ancestors; fewer descendants; higher position), which
    both rules follow, so there is an end to them.
    """
    count = len(kind)
    twin_before = interchangeable_chains(kind, single, all_cores, covers)
    after = np.zeros((count, count), np.bool_)
    for b in range(count):
        for a in range(count):
            if a == twin_before[b]:
                after[b, a] = True
            elif a != b and kind[a] == kind[b] and single[a] == single[b] and all_cores[a] == all_cores[b]:
                after[b, a] = _waits_for_no_more(ancestor, a, b)
    order = after.copy()
    for b in range(count):
        for a in range(count):
            if after[b, a]:
                for between in range(count):
                    order[b, a] &= not (after[b, between] and after[between, a])
    return order


@compiled
def _waits_for_no_more(ancestor: Bools, a: int, b: int) -> bool:
    """Whether a has no ancestors besides those of b, and b no descendants besides those of a; equals by position."""
    if ancestor[a, b] or ancestor[b, a]:
        return False
    equal = True
    for other in range(len(ancestor)):
        if (ancestor[a, other] and not ancestor[b, other]) or (ancestor[other, b] and not ancestor[other, a]):
            return False
        equal &= ancestor[a, other] == ancestor[b, other] and ancestor[other, a] == ancestor[other, b]
    return not equal or a < b


@compiled
def interchangeable_chains(kind: npt.NDArray[np.int8], single: Ints, all_cores: Ints, covers: Bools) -> Ints:
    """For each operator the one before it in a row of equal chains (attention heads, twin GEMMs), or -1.

    Chains are equal when they are as long, have the same kinds and latencies step by step, and every step has the same
    neighbours outside the chain. Then an operator need not start before its twin in an earlier chain: at each step,
    handing the k-th earliest start to the k-th chain keeps every precedence (the k-th earliest start of the next step
    is no earlier than the k-th earliest finish of this one) and the cores in use. Operators come in topological order
    with twins of earlier chains at lower positions; ``covers[i, j]``: j directly precedes i.
    """
    count = len(kind)
    twin_before = np.full(count, -1)
    first_steps, second_steps = np.empty(count, np.int64), np.empty(count, np.int64)
    for second in range(count):
        if twin_before[second] >= 0:
            continue
        for first in range(second - 1, -1, -1):
            steps = _equal_steps(kind, single, all_cores, covers, first, second, first_steps, second_steps)
            ordered = steps > 0
            for step in range(steps):
                ordered &= first_steps[step] < second_steps[step] and twin_before[second_steps[step]] < 0
                for other in range(second_steps[step]):
                    ordered &= twin_before[other] != first_steps[step]
            if ordered:
                for step in range(steps):
                    twin_before[second_steps[step]] = first_steps[step]
                break
    return twin_before


@compiled
def _equal_steps(
    kind: npt.NDArray[np.int8],
    single: Ints,
    all_cores: Ints,
    covers: Bools,
    first: int,
    second: int,
    first_steps: Ints,
    second_steps: Ints,
) -> int:
    """Length of the equal chains that begin at ``first`` and ``second``, written to the step lists; 0 if none do."""
    count, steps = len(kind), 0
    while True:
        if kind[first] != kind[second] or single[first] != single[second] or all_cores[first] != all_cores[second]:
            return 0
        first_steps[steps], second_steps[steps] = first, second
        for other in range(count):
            in_first = steps > 0 and other == first_steps[steps - 1]
            in_second = steps > 0 and other == second_steps[steps - 1]
            if covers[first, other] != covers[second, other] and not (in_first or in_second):
                return 0
        steps += 1
        next_first, next_second, private = -1, -1, 0
        for other in range(count):
            if covers[other, first] != covers[other, second]:
                private += 1
                if covers[other, first]:
                    next_first = other
                else:
                    next_second = other
        if private == 0:
            return steps
        if private != 2 or next_first < 0 or next_second < 0:
            return 0
        first, second = next_first, next_second
