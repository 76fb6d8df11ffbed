"""What one operation costs under a choice: its work on one device, and the joining of its terms.

Work is the longer one of two times: floating-point operations at the device's rate (products and convolutions alone;
zeros that a dilation inserts count), and bytes to and from memory. As compilers fuse, an array is *stored* only where
it has to be: it is an argument or a result of the step, a product, convolution or another operation that is not fused
makes or takes it, or several operations take it. After optimisation, the kernels are known: stored is what leaves one,
and a kernel reads an array once. What is not stored costs nothing; a lookup reads and writes what it looks up, an
update what it writes.

No launch times; the sum of all operations and all collectives, without what overlaps with work
(:mod:`dse.parallel.overlap`), is the time of a step.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from dse.graph.step import StepOperation, StepValue
from dse.graph.step_work import computing_s
from dse.parallel.choices import ALL_REDUCE, Choice, Layouts, choices_of, joined, layouts_of, parts_of
from dse.parallel.mesh import Mesh
from dse.parallel.overlap import joined_late
from dse.parallel.problem import Device, ParallelProblem
from dse.parallel.resharding import Collective, Fabric, repeated_picoseconds, whole_picoseconds
from dse.parallel.storage import Storage
from dse.run.remembered import Remembered, Same
from dse.sharding.factors import Dims, Factor


class Work(NamedTuple):
    """What an operation does in all, before it is cut.

    Attributes:
        computing_s: what the device takes to compute it.
        operands, results: bytes to and from memory of each array; 0 where it is not stored.
        repeats: how often a step does it.
    """

    computing_s: float
    operands: tuple[float, ...]
    results: tuple[float, ...]
    repeats: int


class Priced(NamedTuple):
    """A choice of an operation with what follows from it.

    Attributes:
        choice: the cut of each axis.
        layouts: of its arrays.
        work_ps: of its share of the work.
        collectives: those that join its terms.
        joined_ps: their time.
        hidden_ps: how much of that overlaps with work.
    """

    choice: Choice
    layouts: Layouts
    work_ps: int
    collectives: tuple[Collective, ...]
    joined_ps: int
    hidden_ps: int

    @property
    def picoseconds(self) -> int:
        """Work and joining together."""
        return self.work_ps + self.joined_ps - self.hidden_ps


class Prices:
    """The prices of all operations of a problem; equal operations are priced once."""

    def __init__(self, problem: ParallelProblem) -> None:
        self._problem = problem
        self._fabric = problem.fabric

    @property
    def storage(self) -> Storage:
        """What of the step is in memory."""
        return self._problem.storage

    @property
    def stored(self) -> tuple[bool, ...]:
        """Of each value: whether it is written to memory in every step."""
        return self.storage.stored

    @cached_property
    def priced(self) -> tuple[tuple[Priced, ...], ...]:
        """Of each operation all its choices; none of one that makes constants."""
        graph = self._problem.graph
        return tuple(
            () if graph.is_constant(number) else self._priced(number, operation)
            for number, operation in enumerate(graph.operations)
        )

    def _priced(self, number: int, operation: StepOperation) -> tuple[Priced, ...]:
        values = self._problem.graph.values
        device = self._problem.device
        work = work_of(operation, values, device, self._moved_bytes, self.storage.read[number], self.stored)
        work = work._replace(computing_s=work.computing_s / self._problem.parts_in_time(number))
        results = tuple((values[each].dims, self._problem.sent_bytes(each)) for each in operation.results)
        return _priced_choices(
            work, self._problem.rules[number] or (), results, self._fabric, device, self._is_late[number]
        )

    @cached_property
    def _moved_bytes(self) -> tuple[float, ...]:
        return tuple(map(self._problem.moved_bytes, range(len(self._problem.graph.values))))

    @cached_property
    def _is_late(self) -> tuple[bool, ...]:
        graph = self._problem.graph
        return joined_late(graph) if self._problem.overlap else (False,) * len(graph.operations)


_PRICES: Remembered[Prices] = Remembered(4)
"""Of the last problems: an answer, its check and its page ask for the same ones."""


def prices_of(problem: ParallelProblem) -> Prices:
    """The prices of ``problem``, remembered while it lives."""
    return _PRICES.get(Same(problem), lambda: Prices(problem))


def work_of(
    operation: StepOperation, values: Sequence[StepValue], device: Device, sizes: Sequence[float],
    read: Sequence[bool], stored: Sequence[bool],
) -> Work:  # fmt: skip
    """What ``operation`` does in all: ``read`` of its operands, ``stored`` of all values, of ``sizes`` in bytes."""
    operands = [sizes[each] if is_read else 0 for each, is_read in zip(operation.operands, read, strict=True)]
    results = [sizes[each] if stored[each] else 0 for each in operation.results]
    match operation.opcode:
        case "gather" | "dynamic-slice":
            # Of a table only what is looked up is read.
            operands[0] = sizes[operation.results[0]] if read[0] else 0
        case "scatter" | "dynamic-update-slice":
            written = 2 if operation.opcode == "scatter" else 1
            operands[0] = 0  # updated in place
            updated = operation.operands[written : written + 1]
            results[0] = sum(sizes[each] for each in updated) if stored[operation.results[0]] else 0
        case _ if operation.forwards:
            operands, results = [0] * len(operands), [0] * len(results)
    return Work(computing_s(operation, values, device.products), tuple(operands), tuple(results), operation.repeats)


@lru_cache(maxsize=100_000)
def _priced_choices(
    work: Work, factors: tuple[Factor, ...], results: tuple[tuple[Dims, int], ...], fabric: Fabric, device: Device,
    is_late: bool,
) -> tuple[Priced, ...]:  # fmt: skip
    choices = choices_of(factors, [dims for dims, _ in results], fabric.mesh)
    return tuple(_price(work, factors, results, fabric, device, is_late, choice) for choice in choices)


def _price(
    work: Work, factors: tuple[Factor, ...], results: tuple[tuple[Dims, int], ...], fabric: Fabric, device: Device,
    is_late: bool, choice: Choice,
) -> Priced:  # fmt: skip
    layouts = layouts_of(choice, factors, len(work.operands), len(results))
    collectives = tuple(terms_of(choice, factors, layouts, [size for _, size in results], fabric.mesh))
    once_ps = work_picoseconds(work, choice, layouts, fabric.mesh, device)
    work_ps = repeated_picoseconds(work.repeats, once_ps, "--accelerator", device.name)
    sent_ps = sum(map(fabric.picoseconds, collectives))
    joined_ps = repeated_picoseconds(work.repeats, sent_ps, "--network", fabric.network.name)
    return Priced(choice, layouts, work_ps, collectives, joined_ps, min(work_ps, joined_ps) if is_late else 0)


def work_picoseconds(work: Work, choice: Choice, layouts: Layouts, mesh: Mesh, device: Device) -> int:
    """The time of one device's share of the work, once."""
    arrays = zip((*work.operands, *work.results), (*layouts.operands, *layouts.before), strict=True)
    moved = sum(size / mesh.shards(layout) for size, layout in arrays)
    return _picoseconds(work.computing_s / parts_of(choice, mesh), moved, device)


def one_device_picoseconds(work: Work, device: Device) -> int:
    """The time of all of the work on one device, all repeats added."""
    once_ps = _picoseconds(work.computing_s, sum(work.operands) + sum(work.results), device)
    return repeated_picoseconds(work.repeats, once_ps, "--accelerator", device.name)


def _picoseconds(computing_s: float, moved: float, device: Device) -> int:
    seconds = max(computing_s, moved / device.bytes_per_s)
    return whole_picoseconds(seconds, "--accelerator", device.name)


def terms_of(
    choice: Choice, factors: Sequence[Factor], layouts: Layouts, sizes: Sequence[int], mesh: Mesh
) -> list[Collective]:
    """The collectives that join the terms of the results: reduce-scatters first, as they leave less, then one
    all-reduce along all other axes.
    """
    scattered = [axis for axis, cut in joined(choice, factors) if cut.scattered != ALL_REDUCE]
    reduced = tuple(axis for axis, cut in joined(choice, factors) if cut.scattered == ALL_REDUCE)
    collectives = []
    for result, size in enumerate(sizes):
        remaining = size // mesh.shards(layouts.before[result])
        for axis in scattered:
            collectives.append(Collective("reduce_scatter", (axis,), remaining))
            remaining //= mesh.axes[axis].size
        if reduced:
            collectives.append(Collective("all_reduce", reduced, remaining))
    return collectives
