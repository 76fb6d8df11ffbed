"""What stages take whose devices do equal shares of each microbatch, by the prices of a whole step.

Every device runs all operations of its stage on its share of the arrays of the batch, and reads and writes all other
arrays whole, weights above all (:mod:`dse.parallel.pipeline.microbatching`). The gradient of each trained tensor is
all-reduced by itself. So a stage of one microbatch takes what a sharded step takes whose batch is split over its
devices (:mod:`dse.parallel.prices`), where these divide it.
"""

from collections.abc import Iterator

import numpy as np

from dse.parallel.pipeline.microbatching import Microbatching, microbatching_of
from dse.parallel.pipeline.profiling import StepProfile
from dse.parallel.pipeline.share_times import EqualShares
from dse.parallel.prices import work_of
from dse.parallel.resharding import PICO
from dse.parallel.storage import Storage


def equal_shares(step: StepProfile) -> EqualShares:
    """Of a step with its profile; O(operations)."""
    graph = step.forward.units.graph
    times = microbatching_of(graph, step.forward)
    storage = Storage(graph)
    sizes = np.array([each.size_bytes for each in graph.values], dtype=np.float64)
    of_batch = np.array(times.of_batch)
    split = (np.where(of_batch, sizes, 0.0).tolist(), np.where(of_batch, 0.0, sizes).tolist())
    once_s, rows = np.zeros(step.profile.points), list[tuple[float, ...]]()
    for number, place, is_forward in _placed(step):
        operation = graph.operations[number]
        of = [
            work_of(operation, graph.values, step.device, part, storage.read[number], storage.stored) for part in split
        ]
        batch_bytes, whole_bytes = (sum(each.operands) + sum(each.results) for each in of)
        if times.runs_once[number]:
            seconds = max(of[0].computing_s, whole_bytes / step.device.bytes_per_s)
            once_s[place] += operation.repeats * round(seconds / PICO) * PICO
        else:
            divided = times.divided[number]
            rows.append((place, is_forward, operation.repeats, of[0].computing_s, divided, batch_bytes, whole_bytes))
    columns = np.array(rows, dtype=np.float64).T
    return EqualShares(
        points=step.profile.points,
        device=step.device,
        place=columns[0].astype(np.int64),
        is_forward=columns[1] > 0,
        repeats=columns[2].astype(np.int64),
        computing_s=columns[3],
        divided=columns[4] > 0,
        batch_bytes=columns[5],
        whole_bytes=columns[6],
        once_s=once_s,
        joined=tuple(_joined(step, times)),
        copied=_copied(step),
    )


def _placed(step: StepProfile) -> Iterator[tuple[int, int, bool]]:
    """Each operation of forward part and backward pass with its point, and whether it is part of the former."""
    forward = step.forward
    places = [(unit, place, True) for unit, place in forward.place.items()]
    places += [(unit, points[0] if points else -1, True) for unit, points in forward.prepared.items()]
    places += [(unit, place, False) for unit, place in step.backward.place.items()]
    for unit, place, is_forward in places:
        for number in forward.units.members[unit]:
            yield number, place % step.profile.points, is_forward


def _joined(step: StepProfile, times: Microbatching) -> Iterator[tuple[int, int]]:
    """Gradients, where their trained tensors are first read, and what is summed up to one number."""
    graph = step.forward.units.graph
    for argument in graph.trainable:
        if readers := step.forward.readers.get(argument.value, ()):
            yield readers[0], graph.values[argument.value].size_bytes
    for number, place, _ in _placed(step):
        if times.summed[number]:
            yield place, sum(graph.values[value].size_bytes for value in graph.operations[number].results)


def _copied(step: StepProfile) -> tuple[tuple[int, ...], ...]:
    graph = step.forward.units.graph
    sizes = {each.name: graph.values[each.value].size_bytes for each in graph.trainable}
    return tuple(tuple(sizes[name] for name in each.names) for each in step.profile.shared)
