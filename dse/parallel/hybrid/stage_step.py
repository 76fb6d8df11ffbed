"""What a stage of a pipeline does of a training step, as a step of its own that can be sharded.

A stage has neighbouring points of the forward part (:mod:`dse.parallel.pipeline.forward`), the operations of the
backward pass that belong to them (:mod:`dse.parallel.pipeline.backward`), and the update of the trained tensors whose
gradients it makes. What follows from arguments alone (casts, transposes, masks) is made in every stage that takes it.
What other stages make is an argument of the stage, what they take a result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dse.graph.step import StepArgument, StepGraph
from dse.parallel.pipeline.backward import Backward, backward_of
from dse.parallel.pipeline.forward import Forward, forward_of
from dse.parallel.pipeline.microbatching import Microbatching, microbatching_of
from dse.parallel.problem import carried_results
from dse.parallel.storage import Storage
from dse.sharding.factors import Factor

Rules = tuple[tuple[Factor, ...] | None, ...]


@dataclass(frozen=True, eq=False)
class StageStep:
    """The step of one stage.

    Attributes:
        graph: its operations, in the order of the whole step.
        rules: of every operation (:func:`dse.sharding.hlo.table.step_factors`).
        carried: as :func:`~dse.parallel.problem.carried_results` of the whole step.
        of_batch, once, divided, runs_once, summed: as
            :class:`~dse.parallel.pipeline.microbatching.Microbatching` of the whole step.
        forward: of each operation, whether it is part of the forward pass.
        in_memory: of each value, whether the whole step has it in memory.
        saved: of each value, whether the forward part leaves it in memory for the backward pass.
        again: of each operation, whether a stage before this one has it too: it follows from arguments alone.
        copies: of each argument, whether a stage before this one has it too.
        arrives: the numbers of arguments that other stages make.
        entering: those of them that the forward part takes.
    """

    graph: StepGraph
    rules: Rules
    carried: Mapping[int, int]
    of_batch: tuple[bool, ...]
    once: tuple[bool, ...]
    divided: tuple[bool, ...]
    runs_once: tuple[bool, ...]
    summed: tuple[bool, ...]
    forward: tuple[bool, ...]
    in_memory: tuple[bool, ...]
    saved: tuple[bool, ...]
    again: tuple[bool, ...]
    copies: tuple[bool, ...]
    arrives: tuple[int, ...]
    entering: tuple[int, ...]

    @property
    def as_first(self) -> "StageStep":
        """The same piece at the beginning of a stage, which has all that it takes by itself."""
        return replace(self, again=(False,) * len(self.again), copies=(False,) * len(self.copies))


class Stages:
    """The stages that a step can be cut into; what they have in common is worked out once.

    Args:
        graph: the step.
        rules: of its operations.
        file: what errors call it.
    """

    def __init__(self, graph: StepGraph, rules: Rules, file: str = "") -> None:
        self.graph, self.rules, self.file = graph, rules, file
        self.forward: Forward = forward_of(graph, file)
        self.backward: Backward = backward_of(self.forward)

    @property
    def points(self) -> int:
        """Of the forward part."""
        return len(self.forward.points)

    def stage(self, points: range) -> StageStep:
        """The step of the stage with these points."""
        numbers = sorted(self._with_constants(self._own_operations(points)))
        made = {value for number in numbers for value in self.graph.operations[number].results}
        taken = dict.fromkeys(value for number in numbers for value in self.graph.operations[number].operands)
        arguments = [each for each in self.graph.arguments if each.value in taken]
        known = {each.value for each in arguments}
        arriving = [value for value in taken if value not in made and value not in known]
        arguments += [StepArgument(value, self.graph.values[value].name, "input") for value in arriving]
        return self._renumbered(points, numbers, arguments, self._leaving(points, made), frozenset(arriving))

    def _own_operations(self, points: range) -> set[int]:
        """The operations of points, backward pass and update, and what they take that follows from arguments alone."""
        units = self.forward.units
        waiting = [unit for unit, place in self._place.items() if place in points]
        if points.start == 0:
            results = set(self.graph.results)
            waiting += [unit for unit in self._free if results.intersection(self._made(unit))]
        own: set[int] = set()
        while waiting:
            unit = waiting.pop()
            if unit not in own:
                own.add(unit)
                makers = (units.maker[value] for value in units.taken[unit])
                waiting += [maker for maker in makers if maker in self._free]
        return {number for unit in own for number in units.members[unit]}

    def _with_constants(self, numbers: set[int]) -> set[int]:
        """The operations with those that make the constants that they take."""
        own, waiting = set(numbers), list(numbers)
        while waiting:
            for value in self.graph.operations[waiting.pop()].operands:
                maker = self._constant_maker.get(value)
                if maker is not None and maker not in own:
                    own.add(maker)
                    waiting.append(maker)
        return own

    def _leaving(self, points: range, made: set[int]) -> list[int]:
        """What other stages take, and what the step results in."""
        leaving = []
        for value in sorted(made):
            places = self._takers.get(value)
            if places is not None and (places[0] < points.start or places[1] >= points.stop):
                leaving.append(value)
        own = self._results_of(points) & made
        return [*leaving, *(value for value in dict.fromkeys(self.graph.results) if value in own - set(leaving))]

    def _results_of(self, points: range) -> set[int]:
        """The results of the whole step that are this stage's to give: others may be made in several."""
        results = set(self.graph.results)
        units = self.forward.units
        return {
            value
            for value in results
            if (maker := units.maker[value]) is not None
            and (self._place.get(maker, 0 if maker in self._free else -1) in points)
        }

    def _renumbered(
        self, points: range, numbers: list[int], arguments: list[StepArgument], results: list[int],
        arriving: frozenset[int],
    ) -> StageStep:  # fmt: skip
        graph = self.graph
        made = sorted({value for number in numbers for value in graph.operations[number].results})
        values = [*(each.value for each in arguments), *made]
        place = {value: number for number, value in enumerate(values)}
        operations = tuple(
            each._replace(
                operands=tuple(place[value] for value in each.operands),
                results=tuple(place[value] for value in each.results),
            )
            for each in (graph.operations[number] for number in numbers)
        )
        own = StepGraph(
            graph.name,
            tuple(graph.values[value] for value in values),
            operations,
            tuple(each._replace(value=place[each.value]) for each in arguments),
            tuple(place[value] for value in results),
            framework=graph.framework,
        )
        position = {each.name: number for number, each in enumerate(arguments)}
        carried = {
            results.index(graph.results[result]): position[graph.arguments[argument].name]
            for result, argument in self._carried.items()
            if graph.results[result] in results and graph.arguments[argument].name in position
        }
        places = [number for number, each in enumerate(arguments) if each.value in arriving]
        times = self.microbatching
        return StageStep(
            own,
            tuple(self.rules[number] for number in numbers),
            carried,
            tuple(times.of_batch[value] for value in values),
            tuple(times.once[value] for value in values),
            tuple(times.divided[number] for number in numbers),
            tuple(times.runs_once[number] for number in numbers),
            tuple(times.summed[number] for number in numbers),
            tuple(self._role[number] == "forward" for number in numbers),
            tuple(self._stored[value] for value in values),
            tuple(value in self.backward.saved and self._stored[value] for value in values),
            tuple(self._first_place[self._unit_of[n]] < points.start if n in self._unit_of else False for n in numbers),
            tuple(self._first_taken.get(each.value, points.start) < points.start for each in arguments),
            tuple(places),
            tuple(n for n in places if any(at in points for at in self.forward.taken_at.get(arguments[n].value, ()))),
        )

    @cached_property
    def _unit_of(self) -> dict[int, int]:
        """The unit of each operation that follows from arguments alone."""
        return {number: unit for unit in self._free for number in self.forward.units.members[unit]}

    @cached_property
    def _first_place(self) -> dict[int, int]:
        """Of each unit, the point that it belongs to; of one of arguments alone, the first that needs it."""
        units, first_place = self.forward.units, dict(self._place)
        results = set(self.graph.results)
        for unit in reversed(units.members):
            if unit in self._free and results.intersection(self._made(unit)):
                first_place[unit] = 0
            for value in units.taken[unit] if unit in first_place else ():
                maker = units.maker[value]
                if maker in self._free and maker is not None:
                    first_place[maker] = min(first_place.get(maker, first_place[unit]), first_place[unit])
        return first_place

    @cached_property
    def _first_taken(self) -> dict[int, int]:
        """The first point that needs each argument."""
        units = self.forward.units
        first_taken: dict[int, int] = {}
        for unit, place in self._first_place.items():
            for value in units.taken[unit]:
                if units.maker[value] is None:
                    first_taken[value] = min(first_taken.get(value, place), place)
        return first_taken

    def _made(self, unit: int) -> Iterator[int]:
        for number in self.forward.units.members[unit]:
            yield from self.graph.operations[number].results

    @cached_property
    def _carried(self) -> dict[int, int]:
        return carried_results(self.graph)

    @cached_property
    def _constant_maker(self) -> dict[int, int]:
        operations = enumerate(self.graph.operations)
        return {value: n for n, each in operations if self.graph.is_constant(n) for value in each.results}

    @cached_property
    def _free(self) -> frozenset[int]:
        """The units of forward part and update that follow from arguments and constants alone."""
        units = self.forward.units
        free: set[int] = set()
        for unit in units.members:
            makers = (units.maker[value] for value in units.taken[unit])
            if unit not in self._has_place and all(maker is None or maker in free for maker in makers):
                free.add(unit)
        return frozenset(free)

    @cached_property
    def _has_place(self) -> frozenset[int]:
        """The units of the forward part and of the backward pass, which belong to one point each."""
        return frozenset((*self.forward.place, *self.backward.place))

    @cached_property
    def _place(self) -> dict[int, int]:
        """The point that each unit belongs to; none of those that follow from arguments alone.

        An update comes where the latest of its gradients are computed.
        """
        units, place = self.forward.units, dict(self.forward.place)
        place |= self.backward.place
        for unit in units.members:
            if unit in self.backward.update and unit not in self._free:
                makers = (units.maker[value] for value in units.taken[unit])
                place[unit] = max((place[maker] for maker in makers if maker in place), default=0)
        return place

    @cached_property
    def _takers(self) -> dict[int, tuple[int, int]]:
        """Of each value that a unit with a place makes, the first and the last place at which it is taken."""
        units = self.forward.units
        takers: dict[int, tuple[int, int]] = {}
        for unit, place in self._place.items():
            for value in units.taken[unit]:
                if units.maker[value] in self._place:
                    first, last = takers.get(value, (place, place))
                    takers[value] = min(first, place), max(last, place)
        return takers

    @cached_property
    def _role(self) -> dict[int, str]:
        """What each operation is part of."""
        roles: dict[int, str] = {}
        for unit, members in self.forward.units.members.items():
            is_forward = unit in self.forward.place or unit in self.forward.prepared
            role = "forward" if is_forward else "update" if unit in self.backward.update else "backward"
            roles.update(dict.fromkeys(members, role))
        return {number: roles.get(number, "forward") for number in range(len(self.graph.operations))}

    @cached_property
    def microbatching(self) -> Microbatching:
        """What microbatches share of the step."""
        return microbatching_of(self.graph, self.forward, self.file)

    @cached_property
    def _stored(self) -> tuple[bool, ...]:
        return Storage(self.graph).stored
