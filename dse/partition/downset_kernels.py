"""The lattice of downsets of some operators, and cheapest chains of them: the kernels.

A downset holds the producers of every operator that it holds. Under (2) the operators on chips 0 … k are one for every
k, so a partition is a chain of downsets from the empty one to the whole graph. A chip between downsets D ⊂ D′ runs
D′ − D, receives each output of D that is consumed in D′ − D, and sends each output of D′ − D that is consumed outside
D′; the link behind it carries each output of D′ that is consumed outside. Nothing else of the chain matters, so the
chain with the least slowest stage is found by dynamic programming over downsets, exactly but for (4).

Of (4) the kernels keep what two downsets tell: no edge passes over a chip that lies on a way between its ends, that is
one with a descendant of the producer and an ancestor of the consumer.

Where a graph has too many downsets, those of some *key* operators do. What D says of the others is then: the ancestors
of its keys are inside, the descendants of the other keys outside. A chip has at least the operators that are outside D
and certainly inside D′, and all costs of those are counted; so the result is a bound.

Cost: O(A) for A arcs of the lattice (one more key), O(P S) for P pairs D ⊂ D′ within the limit and S operators on a
chip.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit, lowest
from hardware.compiled import compiled, kernel

UNREACHED = 127


@kernel
def _holds(words, operator):
    return words[operator >> 6] & bit(operator & 63)


@kernel
def _slot(table, sets, words, mask):
    """The slot of a set in the hash table, or the free slot where it belongs."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for word in range(len(words)):
        mixed = (mixed ^ words[word]) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    slot = mixed & mask
    while table[slot] >= 0:
        same = True
        for word in range(len(words)):
            if sets[table[slot], word] != words[word]:
                same = False
        if same:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def lattice(keys, above, max_downsets):
    """Every downset of the operators ``keys``, by its size, and the arcs that add one key.

    Returns:
        (sets of keys by their places, [D, ⌈K / 64⌉]; where the arcs of each downset begin, [D + 1]; the downsets they
        lead to). No rows where there are more than ``max_downsets`` downsets.
    """
    count = len(keys)
    required = np.zeros((count, (count + 63) // 64), dtype=np.uint64)
    for place in range(count):
        for other in range(count):
            if other != place and _holds(above[keys[place]], keys[other]):
                required[place, other >> 6] |= bit(other & 63)
    width = (count + 63) // 64
    sets = np.zeros((max_downsets + 1, width), dtype=np.uint64)
    size = 1
    while size < 4 * max_downsets:
        size *= 2
    table, mask = np.full(size, -1, dtype=np.int32), np.uint64(size - 1)
    words = np.zeros(width, dtype=np.uint64)
    table[_slot(table, sets, words, mask)] = 0
    first, capacity = np.zeros(max_downsets + 2, dtype=np.int64), 8 * max_downsets
    leads = np.zeros(capacity, dtype=np.int32)
    downsets, arcs, number = 1, 0, 0
    while number < downsets:
        for operator in range(count):
            if _holds(sets[number], operator):
                continue
            ready = True
            for word in range(width):
                if required[operator, word] & ~sets[number, word]:
                    ready = False
            if not ready:
                continue
            for word in range(width):
                words[word] = sets[number, word]
            words[operator >> 6] |= bit(operator & 63)
            slot = _slot(table, sets, words, mask)
            if table[slot] < 0:
                if downsets > max_downsets:
                    return sets[:0].copy(), first[:1].copy(), leads[:0].copy()
                table[slot] = downsets
                sets[downsets] = words
                downsets += 1
            if arcs == capacity:
                capacity *= 2
                leads = np.concatenate((leads, np.zeros(capacity - arcs, dtype=np.int32)))
            leads[arcs] = table[slot]
            arcs += 1
        number += 1
        first[number] = arcs
    return sets[:downsets].copy(), first[: downsets + 1].copy(), leads[:arcs].copy()


@compiled
def sides(sets, keys, below, above):
    """(operators certainly inside each downset of ``keys``, those outside, as words of 64), [D, ⌈N / 64⌉] each."""
    inside = np.zeros((len(sets), below.shape[1]), dtype=np.uint64)
    outside = np.zeros((len(sets), below.shape[1]), dtype=np.uint64)
    for number in range(len(sets)):
        for index in range(len(keys)):
            if _holds(sets[number], index):
                for word in range(below.shape[1]):
                    inside[number, word] |= above[keys[index], word]
            else:
                for word in range(below.shape[1]):
                    outside[number, word] |= below[keys[index], word]
    return inside, outside


@kernel
def _consumed_in(operator, words, graph):
    """Whether a consumer of ``operator`` is in a set of operators."""
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        if _holds(words, graph.out_node[index]):
            return True
    return False


@compiled
def link_times(inside, outside, graph, transfer_s):
    """Seconds of the link behind each downset, [D]."""
    link_s = np.zeros(len(inside))
    for number in range(len(inside)):
        for operator in range(len(transfer_s)):
            if _holds(inside[number], operator) and _consumed_in(operator, outside[number], graph):
                link_s[number] += transfer_s[operator]
    return link_s


@kernel
def _producers(inside, graph, operators, result):
    """The operators inside a downset with a consumer that may be outside: how many, and which."""
    count = 0
    for operator in range(operators):
        if not _holds(inside, operator):
            continue
        for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
            if not _holds(inside, graph.out_node[index]):
                result[count] = operator
                count += 1
                break
    return count


@kernel
def _passed_by(chip, outside, producers, count, graph):
    """Whether an edge from ``producers`` to the operators ``outside`` passes over a chip on a way between its ends."""
    for place in range(count):
        source = producers[place]
        after = False
        for word in range(len(chip)):
            after = after or (graph.below[source, word] & chip[word]) != np.uint64(0)
        if not after:
            continue
        for index in range(graph.out_first[source], graph.out_first[source + 1]):
            target = graph.out_node[index]
            if not _holds(outside, target):
                continue
            for word in range(len(chip)):
                if graph.above[target, word] & chip[word]:
                    return True
    return False


@kernel
def _work(chip, latency_s, weight_bytes):
    """(seconds, bytes of weights) of a set of operators."""
    seconds = held = 0.0
    for word in range(len(chip)):
        left = chip[word]
        while left != np.uint64(0):
            operator = 64 * word + np.int64(lowest(left))
            left &= left - np.uint64(1)
            seconds += latency_s[operator]
            held += weight_bytes[operator]
    return seconds, held


@kernel
def _sent_s(chip, outside, graph, transfer_s):
    """Seconds of the outputs of a chip that are consumed outside."""
    seconds = 0.0
    for word in range(len(chip)):
        left = chip[word]
        while left != np.uint64(0):
            operator = 64 * word + np.int64(lowest(left))
            left &= left - np.uint64(1)
            if _consumed_in(operator, outside, graph):
                seconds += transfer_s[operator]
    return seconds


@compiled
def chain(
    first, leads, inside, outside, link_s, graph, latency_s, transfer_s, weight_bytes, chips, limit_s, memory_bytes,
    chip_weight, stage_weight,
):  # fmt: skip
    """The best way to every downset with stages within ``limit_s`` on ``chips`` at most.

    Of two ways the one with less weight stays: a weight for every chip, and one for its slowest stage.

    Returns:
        (chips, [D], :data:`UNREACHED` where there are too few; the slowest stage, [D]; the downset before, [D]; pairs
        that were priced).
    """
    count, operators = len(inside), len(latency_s)
    used, parent = np.full(count, 127, dtype=np.int8), np.full(count, -1, dtype=np.int32)
    stamp, stack = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    producers, chip = np.zeros(operators, dtype=np.int32), np.zeros(inside.shape[1], dtype=np.uint64)
    stage_s, weight = np.zeros(count), np.full(count, np.inf)
    used[0], weight[0], pairs = 0, 0.0, 0
    for outer in range(count):
        if used[outer] >= chips:
            continue
        sources = _producers(inside[outer], graph, operators, producers)
        stamp[outer], stack[0], height = outer, outer, 1
        while height > 0:
            height -= 1
            here = stack[height]
            for arc in range(first[here], first[here + 1]):
                there = leads[arc]
                if stamp[there] == outer:
                    continue
                stamp[there] = outer
                pairs += 1
                _both(outside[outer], inside[there], chip)
                seconds, held = _work(chip, latency_s, weight_bytes)
                for place in range(sources):
                    if _consumed_in(producers[place], chip, graph):
                        seconds += transfer_s[producers[place]]
                if seconds > limit_s or held > memory_bytes:
                    continue
                stack[height] = there
                height += 1
                slowest_s, of_chips = max(stage_s[outer], seconds, link_s[there]), chip_weight * (used[outer] + 1)
                if of_chips + stage_weight * slowest_s >= weight[there] or link_s[there] > limit_s:
                    continue
                seconds += _sent_s(chip, outside[there], graph, transfer_s)
                slowest_s = max(slowest_s, seconds)
                if seconds > limit_s or of_chips + stage_weight * slowest_s >= weight[there]:
                    continue
                if not _passed_by(chip, outside[there], producers, sources, graph):
                    used[there], parent[there] = min(used[outer] + 1, 126), outer
                    stage_s[there], weight[there] = slowest_s, of_chips + stage_weight * slowest_s
    return used, stage_s, parent, pairs


@kernel
def _both(first, second, result):
    """Fill in the operators that are in both of two sets."""
    for word in range(len(result)):
        result[word] = first[word] & second[word]


@kernel
def _mark_chips(downset, parent, used, inside, chip_of):
    """Fill in the chip of every operator inside a downset."""
    while downset > 0:
        before = parent[downset]
        for word in range(inside.shape[1]):
            left = inside[downset, word] & ~inside[before, word]
            while left != np.uint64(0):
                chip_of[64 * word + np.int64(lowest(left))] = used[downset] - 1
                left &= left - np.uint64(1)
        downset = before


@kernel
def _received_by(chip, producers, count, graph, transfer_s, chip_of, origin, heard):
    """Seconds of what a chip receives, −1 where one of the chips that it receives from leads to another.

    ``origin``: the chips that lead to each chip; ``heard``: [1], gets all that lead to this one.
    """
    seconds, sources, before = 0.0, np.uint64(0), np.uint64(0)
    for place in range(count):
        producer = producers[place]
        if not _consumed_in(producer, chip, graph):
            continue
        seconds += transfer_s[producer]
        source = chip_of[producer]
        if not sources & bit(source):
            if before & bit(source) or origin[source] & sources:
                return -1.0
            sources |= bit(source)
            before |= origin[source]
    heard[0] = sources | before
    return seconds


@kernel
def _open_chips(outside, producers, count, graph, chip_of):
    """How many of the chips of ``producers`` have outputs that are consumed ``outside``."""
    open_chips = np.uint64(0)
    for place in range(count):
        if _consumed_in(producers[place], outside, graph):
            open_chips |= bit(chip_of[producers[place]])
    number = np.int64(0)
    while open_chips != np.uint64(0):
        open_chips &= open_chips - np.uint64(1)
        number += 1
    return number


@compiled
def valid_chain(
    first, leads, inside, outside, link_s, graph, latency_s, transfer_s, weight_bytes, chips, limit_s, memory_bytes,
    chip_weight, open_weight, traffic_weight, linear,
):  # fmt: skip
    """As :func:`chain`, with all of (4), but over one way to each downset: the result is a partition.

    ``outside``: all operators that are not inside, so that each belongs to the first downset that is sure of it. Each
    downset has the chip graph of the way to it, and a chip may receive from chips of which none leads to another. Of
    two ways the one with less weight stays: a weight for every chip, and one for every *open* chip before the last,
    with consumers outside, which may get in the way later; of equals the one with less weighted transfer time, or else
    the first. ``linear``: there must be no open chips.
    """
    count, operators = len(inside), len(latency_s)
    used, parent = np.full(count, 127, dtype=np.int8), np.full(count, -1, dtype=np.int32)
    stamp, stack = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    producers, chip = np.zeros(operators, dtype=np.int32), np.zeros(inside.shape[1], dtype=np.uint64)
    origin, chip_of = np.zeros((count, 64), dtype=np.uint64), np.zeros(operators, dtype=np.int8)
    heard, weight = np.zeros(1, dtype=np.uint64), np.full(count, 1 << 30, dtype=np.int64)
    traffic_s = np.zeros(count)
    used[0], pairs = 0, 0
    for outer in range(count):
        if used[outer] >= chips:
            continue
        _mark_chips(outer, parent, used, inside, chip_of)
        sources = _producers(inside[outer], graph, operators, producers)
        stamp[outer], stack[0], height = outer, outer, 1
        while height > 0:
            height -= 1
            here = stack[height]
            for arc in range(first[here], first[here + 1]):
                there = leads[arc]
                if stamp[there] == outer:
                    continue
                stamp[there] = outer
                pairs += 1
                _both(outside[outer], inside[there], chip)
                seconds, held = _work(chip, latency_s, weight_bytes)
                received_s = _received_by(
                    chip, producers, sources, graph, transfer_s, chip_of, origin[outer], heard
                )  # fmt: skip
                if received_s < 0.0 or seconds + received_s > limit_s or held > memory_bytes:
                    continue
                stack[height] = there
                height += 1
                if link_s[there] > limit_s or weight[there] < chip_weight * (used[outer] + 1):
                    continue
                sent_s = _sent_s(chip, outside[there], graph, transfer_s)
                if seconds + received_s + sent_s > limit_s:
                    continue
                still_open = _open_chips(outside[there], producers, sources, graph, chip_of)
                weighs = chip_weight * (used[outer] + 1) + open_weight * still_open
                moved_s = traffic_s[outer] + traffic_weight * (received_s + sent_s)
                if weighs > weight[there] or (weighs == weight[there] and moved_s >= traffic_s[there]):
                    continue
                if linear and still_open > 0:
                    continue
                traffic_s[there] = moved_s
                used[there], parent[there], weight[there] = used[outer] + 1, outer, weighs
                origin[there, : used[outer]] = origin[outer, : used[outer]]
                origin[there, used[outer]] = heard[0]
    return used, parent, pairs
