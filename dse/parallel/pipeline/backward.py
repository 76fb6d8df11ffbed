"""Where the rest of a training step belongs: each operation of the backward pass to a point of the forward part.

The backward pass goes through the points from the last to the first. So an operation of it stands at most where the
gradients that it takes stand, and at a point that takes or makes what it reads of the forward part: the product that
takes a weight, for the product with that weight's transpose. What reads nothing of the forward part (sums of
gradients) is where its gradients are. The update of trained tensors comes after all of this: elementwise work from
which only results follows.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dse.parallel.pipeline.forward import Forward
from dse.parallel.storage import FUSED


@dataclass(frozen=True)
class Backward:
    """What of a step is not the forward part.

    Attributes:
        place: the point that each unit of the backward pass belongs to, by unit.
        update: the units that update trained tensors and state.
        saved: values of the forward part that the backward pass reads.
    """

    place: Mapping[int, int]
    update: frozenset[int]
    saved: frozenset[int]


def backward_of(forward: Forward) -> Backward:
    """The rest of a step with its forward part; O(operands · log readers)."""
    units = forward.units
    outside = [unit for unit in units.members if unit not in forward.place and unit not in forward.prepared]
    update = _update(forward, outside)
    place: dict[int, int] = {}
    roots: dict[int, tuple[int, ...]] = dict(forward.readers)
    saved: set[int] = set()
    for unit in outside:
        if unit in update:
            continue
        taken = units.taken[unit]
        made = [value for value in taken if value in forward.made_at]
        saved.update(made)
        gradients = [
            place[maker]
            for value in taken
            if value not in roots and (maker := units.maker[value]) is not None and maker in place
        ]
        read = [roots[value] for value in taken if value in roots]
        if not made and not gradients:
            points = tuple(sorted(set[int]().union(*read)))
            for number in units.members[unit]:
                roots.update(dict.fromkeys(units.graph.operations[number].results, points))
            place[unit] = points[-1] if points else len(forward.points) - 1
        elif not gradients:
            place[unit] = max(forward.made_at[value] for value in made)
        else:
            latest = min(gradients)
            takers = [(forward.made_at[value], *forward.taken_at[value]) for value in made]
            place[unit] = min(_last(points, latest) for points in (*takers, *read, (latest,)))
    return Backward(place, frozenset(update), frozenset(saved))


def _last(points: Sequence[int], latest: int) -> int:
    """The last of rising ``points`` up to ``latest``; that one itself where there is none."""
    number = bisect_right(points, latest)
    return points[number - 1] if number else latest


def _update(forward: Forward, outside: Sequence[int]) -> set[int]:
    """Elementwise units from which only results of the step and other such units follow."""
    units, graph = forward.units, forward.units.graph
    results = set(graph.results)
    takers: dict[int, list[int]] = {}
    for unit in outside:
        for value in units.taken[unit]:
            takers.setdefault(value, []).append(unit)
    update: set[int] = set()
    for unit in reversed(outside):
        numbers = units.members[unit]
        if len(numbers) > 1 or graph.operations[numbers[0]].opcode not in FUSED:
            continue
        made = graph.operations[numbers[0]].results
        readers = [reader for value in made for reader in takers.get(value, ())]
        if update.issuperset(readers) and (readers or results.intersection(made)):
            update.add(unit)
    return update
