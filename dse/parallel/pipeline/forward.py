"""The forward part of a training step: the operations that the loss depends on, as points between which it can be cut.

Only dependence is used, so that steps of every framework are treated alike. What the loss depends on is the
forward part; what follows from trained tensors alone (their transposes and casts) or from inputs alone (masks,
indices) is made where it is taken and never sent. All else are *points*: each is one operation, or a whole loop.

Points are ordered by their longest path of operations to the loss, so that what is taken late is made late: a
decoder's embedding comes right before the decoder, even where the step looks it up before the encoder.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dse.graph.step import StepGraph
from dse.graph.step_loops import loop_owners
from dse.parallel.problem import carried_results
from hardware.inputs import fail

_TRAINED, _INPUT = 1, 2


class Units:
    """The operations of a step in units that cannot be cut: one operation, or a whole loop.

    Attributes:
        graph: the step.
        members: the operations of each unit, by the number of its first one; what makes constants alone is left out.
        maker: of each value that is not a constant, the unit that makes it; None of arguments.
    """

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.members: dict[int, list[int]] = {}
        self.maker: list[int | None] = [None] * len(graph.values)
        for number, owner in enumerate(loop_owners(graph)):
            if not graph.is_constant(number):
                self.members.setdefault(owner, []).append(number)
                for value in graph.operations[number].results:
                    self.maker[value] = owner

    @cached_property
    def taken(self) -> Mapping[int, tuple[int, ...]]:
        """The values that each unit takes from outside, each once; constants are left out."""
        operations, values = self.graph.operations, self.graph.values
        return {
            unit: tuple(
                dict.fromkeys(
                    value
                    for number in members
                    for value in operations[number].operands
                    if not values[value].constant and self.maker[value] != unit
                )
            )
            for unit, members in self.members.items()
        }

    def behind(self, value: int) -> set[int]:
        """The units that ``value`` depends on."""
        units: set[int] = set()
        waiting = [value]
        while waiting:
            maker = self.maker[waiting.pop()]
            if maker is not None and maker not in units:
                units.add(maker)
                waiting += self.taken[maker]
        return units


@dataclass(frozen=True, eq=False)
class Forward:
    """The forward part.

    Attributes:
        units: of the whole step.
        points: the unit of each point, in their order, [N].
        prepared: the units that are made where they are taken, with the points that take them, rising.
        readers: of each value that the points do not make, the points that need it, rising.
    """

    units: Units
    points: tuple[int, ...]
    prepared: Mapping[int, tuple[int, ...]]
    readers: Mapping[int, tuple[int, ...]]

    @cached_property
    def place(self) -> Mapping[int, int]:
        """The place of each point in their order, by its unit."""
        return {unit: place for place, unit in enumerate(self.points)}

    @cached_property
    def made_at(self) -> Mapping[int, int]:
        """The point that makes each value that points make."""
        return {
            value: place
            for place, unit in enumerate(self.points)
            for number in self.units.members[unit]
            for value in self.units.graph.operations[number].results
        }

    @cached_property
    def taken_at(self) -> Mapping[int, tuple[int, ...]]:
        """The points that take each value that points make, rising."""
        takers: dict[int, list[int]] = {value: [] for value in self.made_at}
        for place, unit in enumerate(self.points):
            for value in self.units.taken[unit]:
                if value in takers:
                    takers[value].append(place)
        return {value: tuple(places) for value, places in takers.items()}


def forward_of(graph: StepGraph, file: str = "") -> Forward:
    """The forward part of a step; O(operations · log operations).

    Raises:
        InputError: the step has no loss, or the loss does not depend on trained tensors and inputs.
    """
    units = Units(graph)
    forward = units.behind(_loss(graph, units, file))
    depends = _depends(units, forward)
    points = [unit for unit in units.members if unit in forward and depends[unit] == _TRAINED | _INPUT]
    if not points:
        raise fail(file, "", "", "must have a loss that depends on trained tensors and inputs, to be cut into stages")
    ordered = _ordered(units, points)
    prepared = [unit for unit in units.members if unit in forward and depends[unit] != _TRAINED | _INPUT]
    readers = _readers(units, ordered, prepared)
    of_prepared = {unit: _union(readers.get(value, ()) for value in _results(units, unit)) for unit in prepared}
    return Forward(units, tuple(ordered), of_prepared, readers)


def _loss(graph: StepGraph, units: Units, file: str) -> int:
    """The number that depends on most trained tensors; of several, that of fewest operations.

    Numbers that the next step takes are left out, unless there are no others. A reported norm of the gradients depends
    on more operations than the loss.
    """
    carried = carried_results(graph)
    numbers = {
        value: place not in carried
        for place, value in enumerate(graph.results)
        if all(size == 1 for size in graph.values[value].dims)
        and graph.values[value].dtype.startswith(("f", "bf"))
        and not graph.values[value].constant
    }
    candidates = [value for value, is_reported in numbers.items() if is_reported] or list(numbers)
    trained = {argument.value for argument in graph.trainable}
    ranked = []
    for value in candidates:
        behind = units.behind(value)
        used = {each for unit in behind for each in units.taken[unit]} & trained
        ranked.append((-len(used), len(behind), value))
    if not ranked or not min(ranked)[0]:
        raise fail(
            file, "", "", "must return its loss, a scalar that depends on trained tensors, to be cut into stages"
        )
    return min(ranked)[2]


def _depends(units: Units, forward: set[int]) -> dict[int, int]:
    """Of each unit, whether it depends on trained tensors, on inputs, or both."""
    roles = {"parameter": _TRAINED, "input": _INPUT, "state": 0}
    of = {argument.value: roles[argument.role] for argument in units.graph.arguments}
    depends: dict[int, int] = {}
    for unit in units.members:
        if unit in forward:
            sources = 0
            for value in units.taken[unit]:
                maker = units.maker[value]
                sources |= of.get(value, 0) if maker is None else depends[maker]
            depends[unit] = sources
    return depends


def _ordered(units: Units, points: Sequence[int]) -> list[int]:
    """The points by the operations on their longest path to the loss, the longest first."""
    left = dict.fromkeys(points, 0)
    for unit in reversed(points):
        for value in units.taken[unit]:
            maker = units.maker[value]
            if maker in left:
                left[maker] = max(left[maker], left[unit] + 1)
    return sorted(points, key=lambda unit: (-left[unit], unit))


def _readers(units: Units, ordered: Sequence[int], prepared: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The points that need each argument and each result of prepared units, directly or through prepared ones."""
    makers = {*prepared, None}
    readers: dict[int, set[int]] = {}
    for place, unit in enumerate(ordered):
        for value in units.taken[unit]:
            if units.maker[value] in makers:
                readers.setdefault(value, set()).add(place)
    for unit in reversed(prepared):
        places = set[int]().union(*(readers.get(value, ()) for value in _results(units, unit)))
        for value in units.taken[unit]:
            readers.setdefault(value, set()).update(places)
    return {value: tuple(sorted(places)) for value, places in readers.items()}


def _results(units: Units, unit: int) -> list[int]:
    return [value for number in units.members[unit] for value in units.graph.operations[number].results]


def _union(places: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(set[int]().union(*places)))
