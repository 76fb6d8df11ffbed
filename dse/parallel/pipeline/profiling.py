"""The profile of a training step: what every point of its forward part computes, keeps and sends (paper, 3.5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.graph.step import StepGraph
from dse.parallel.pipeline.backward import Backward, backward_of
from dse.parallel.pipeline.forward import Forward, forward_of
from dse.parallel.pipeline.problem import Integers, Profile, SharedWeights
from dse.parallel.prices import one_device_picoseconds, work_of
from dse.parallel.problem import Device
from dse.parallel.resharding import PICO
from dse.parallel.storage import Storage


@dataclass(frozen=True, eq=False)
class StepProfile:
    """A profile and what it says of the step.

    Attributes:
        profile: of the forward part; its seconds are whole picoseconds.
        points: the operation that each point begins with, by number, [N].
        update_s: of the update of trained tensors and state, on one device, which no stage waits for.
        unused: trained tensors that the loss does not depend on, by name; they are in no stage.
        edges: (the point that makes an array, one that takes it, its bytes).
        forward, backward: the parts of the step.
        device: that the seconds are of.
    """

    profile: Profile
    points: tuple[int, ...]
    update_s: float
    unused: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]
    forward: Forward
    backward: Backward
    device: Device


def profile_of(graph: StepGraph, device: Device, file: str = "") -> StepProfile:
    """The profile of ``graph`` on ``device``, by the prices of :mod:`dse.parallel.prices`.

    Raises:
        InputError: the step has no loss, or none that depends on trained tensors and inputs.
    """
    forward = forward_of(graph, file)
    backward = backward_of(forward)
    storage = Storage(graph)
    costs = _picoseconds(forward, storage, device)
    of_forward, of_backward = np.zeros((2, len(forward.points)), dtype=np.int64)
    for place, unit in enumerate(forward.points):
        of_forward[place] = costs[unit]
    for unit, places in forward.prepared.items():
        of_forward[places[0] if places else -1] += costs[unit]
    for unit, place in backward.place.items():
        of_backward[place] += costs[unit]
    weight_bytes, variables, shared, unused = _weights(graph, forward)
    profile = Profile(
        forward_s=of_forward.astype(np.float64) * PICO,
        backward_s=of_backward.astype(np.float64) * PICO,
        cut_bytes=_cut_bytes(graph, forward),
        weight_bytes=weight_bytes,
        variables=variables,
        stash_bytes=_stash_bytes(graph, forward, backward, storage),
        shared=shared,
    )
    update_s = sum(costs[unit] for unit in backward.update) * PICO
    return StepProfile(profile, forward.points, update_s, unused, _edges(graph, forward), forward, backward, device)


def _edges(graph: StepGraph, forward: Forward) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (forward.made_at[value], taker, graph.values[value].size_bytes)
        for value, takers in forward.taken_at.items()
        for taker in takers
    )


def _picoseconds(forward: Forward, storage: Storage, device: Device) -> dict[int, int]:
    """Of every unit of the step on one device."""
    graph = forward.units.graph
    sizes = [each.size_bytes for each in graph.values]
    spent = [
        one_device_picoseconds(work_of(each, graph.values, device, sizes, read, storage.stored), device)
        for each, read in zip(graph.operations, storage.read, strict=True)
    ]
    return {unit: sum(spent[number] for number in members) for unit, members in forward.units.members.items()}


def _cut_bytes(graph: StepGraph, forward: Forward) -> Integers:
    """What is made before each cut and taken behind it, each value once, [N + 1]."""
    changes = np.zeros(len(forward.points) + 2, dtype=np.int64)
    for value, takers in forward.taken_at.items():
        if takers:
            changes[forward.made_at[value] + 1] += graph.values[value].size_bytes
            changes[takers[-1] + 1] -= graph.values[value].size_bytes
    return np.cumsum(changes)[:-1]


def _stash_bytes(graph: StepGraph, forward: Forward, backward: Backward, storage: Storage) -> Integers:
    """What the points make, is in memory, and is read by the backward pass, [N]."""
    stash = np.zeros(len(forward.points), dtype=np.int64)
    for value in backward.saved:
        if storage.stored[value]:
            stash[forward.made_at[value]] += graph.values[value].size_bytes
    return stash


def _weights(
    graph: StepGraph, forward: Forward
) -> tuple[Integers, Integers, tuple[SharedWeights, ...], tuple[str, ...]]:
    """Bytes of the trained tensors that each point is the first to read, the number that it reads, those that several
    read, and the unused.
    """
    weight_bytes, variables = np.zeros((2, len(forward.points)), dtype=np.int64)
    shared: dict[tuple[int, ...], list[int]] = {}
    unused = []
    for number, argument in enumerate(graph.arguments):
        if argument.role != "parameter":
            continue
        readers = forward.readers.get(argument.value, ())
        if not readers:
            unused.append(argument.name)
            continue
        weight_bytes[readers[0]] += graph.values[argument.value].size_bytes
        variables[list(readers)] += 1
        if len(readers) > 1:
            shared.setdefault(readers, []).append(number)
    of_several = tuple(
        SharedWeights(
            tuple(graph.arguments[number].name for number in numbers),
            sum(graph.values[graph.arguments[number].value].size_bytes for number in numbers),
            readers,
        )
        for readers, numbers in shared.items()
    )
    return weight_bytes, variables, of_several, tuple(unused)


def first_results(graph: StepGraph, points: Sequence[int]) -> list[str]:
    """The instruction of each point: the name of the first result of the operation that it begins with."""
    return [graph.values[graph.operations[point].results[0]].name for point in points]
