"""The checker: does a plan compute the step, and what does it cost?

It shares with the search the rules of the operations (:mod:`dse.sharding.hlo`, tested against numpy) and the prices of
collectives (:mod:`hardware.network`), and nothing else: layouts, resharding, work and memory are worked out again from
the problem alone, one operation at a time.
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from math import prod

import numpy as np

from dse.graph.step import StepGraph, StepOperation
from dse.graph.step_work import computing_s, flops_of
from dse.parallel.check_sending import Sending
from dse.parallel.formats import Stated
from dse.parallel.mesh import Layout
from dse.parallel.problem import Device, ParallelProblem
from dse.parallel.storage import FUSED
from dse.sharding.factors import Factor

_FORWARDING = (
    "while-begin",
    "while-end",
    "branch-begin",
    "branch-end",
    "optimization-barrier",
    "bitcast",
    "local-view",
)
"""Operations whose results are their operands."""


@dataclass
class Account:
    """What a plan amounts to.

    Attributes:
        faults: rules that it breaks, one sentence each; the figures mean nothing where there are any.
        work_ps: work of one device.
        communication_ps: all collectives.
        hidden_ps: how much of them overlaps with work.
        state_bytes: of all arguments on one device.
        peak_bytes: the most that arguments and the results that are live take together on one device.
        split_dimensions: of trained tensors.
        worked: the work of each operation, in picoseconds, by number.
        sent: what is joined or resharded: (the value, the operation for which, or -1 at the end, picoseconds).
        layouts: in which each value is made.
        resharded: a value that is brought into another layout, if only by taking a part of it; empty if none is.
    """

    faults: list[str] = field(default_factory=list)
    work_ps: int = 0
    communication_ps: int = 0
    hidden_ps: int = 0
    state_bytes: int = 0
    peak_bytes: int = 0
    split_dimensions: int = 0
    worked: dict[int, int] = field(default_factory=dict)
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    layouts: dict[int, Layout] = field(default_factory=dict)
    resharded: str = ""

    @property
    def step_ps(self) -> int:
        """The time of a step."""
        return self.work_ps + self.communication_ps - self.hidden_ps


def account(problem: ParallelProblem, stated: Stated, in_memory: Set[int] | None = None) -> Account:
    """The account of a plan; ``in_memory`` are the values in memory, where a larger step says so."""
    return _Checking(problem, stated, in_memory).account


class _Checking:
    """One pass over the step."""

    def __init__(self, problem: ParallelProblem, stated: Stated, in_memory: Set[int] | None) -> None:
        self._problem = problem
        self._graph = problem.graph
        self._sizes = [axis.size for axis in problem.mesh.axes]
        self._in_memory = values_in_memory(problem.graph) if in_memory is None else in_memory
        self._number = -1
        self._stored = {value for value in self._in_memory if not problem.graph.values[value].constant}
        self._read_by_kernel: set[tuple[int, int]] = set()
        self._before_products = _before_products(problem.graph)
        self._sending = Sending(problem)
        self._arguments_taken = {argument.value for argument in problem.graph.arguments}
        self.account = Account()
        self._layout_of = self.account.layouts
        self._arguments(stated.arguments)
        if self.account.faults:
            return
        for number, operation in enumerate(self._graph.operations):
            self._number = number
            if not all(self._graph.values[each].constant for each in operation.results):
                self._operation(operation, stated.cuts[number], problem.rules[number] or ())
            elif any(cut.factor >= 0 for cut in stated.cuts[number]):
                self._refuse(operation, "must not be split, because it produces constants")
            if self.account.faults:
                return
        self._number = -1
        for result, argument in problem.carried.items():
            value = self._graph.results[result]
            if value in self._layout_of and value != self._graph.arguments[argument].value:
                self._send(value, {stated.arguments[argument]}, 1)
        self._memory()

    def _refuse(self, operation: StepOperation, rule: str) -> None:
        name = self._graph.values[operation.results[0]].name
        self.account.faults.append(f"{name} ({operation.opcode}): {rule}")

    def _arguments(self, layouts: Sequence[Layout]) -> None:
        for number, (argument, layout) in enumerate(zip(self._graph.arguments, layouts, strict=True)):
            value = self._graph.values[argument.value]
            self._layout_of[argument.value] = layout
            split = [dim for dim in layout if dim >= 0]
            for dim in set(split):
                parts = self._sending.parts(layout, dim)
                if value.dims[dim] % parts or value.dims[dim] <= 1:
                    rule = f"dimension {dim} of size {value.dims[dim]} must be a multiple of {parts}"
                    self.account.faults.append(f"{argument.name}: {rule}")
            if number in self._problem.pins and layout != self._problem.pins[number]:
                self.account.faults.append(f"{argument.name}: must be split as its pin states")
            self.account.state_bytes += value.size_bytes // self._sending.shards(layout)
            if argument.role == "parameter":
                self.account.split_dimensions += len(set(split))
        limit = self._problem.state_bytes
        if limit is not None and self.account.state_bytes > limit:
            self.account.faults.append(
                f"the arguments must fit in {limit:,} bytes, but take {self.account.state_bytes:,}"
            )

    def _memory(self) -> None:
        """The peak: every array that takes memory holds on from where it is made to its last reader."""
        graph, replaced = self._graph, {self._graph.results[result] for result in self._problem.carried}
        end = len(graph.operations) - 1
        roots: dict[int, set[int]] = {}  # of each value the arrays in memory that have to be there to read it
        maker: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, operation in enumerate(graph.operations):
            read = set().union(*(roots.get(value, set()) for value in operation.operands))
            for value in read:
                last[maker[value]] = number
            forwards = _forwards(operation)
            for value in operation.results:
                roots[value] = (read if forwards or value not in self._stored else set()) | {value}
                maker[value] = number
                last.setdefault(number, number)
        for value in set(graph.results) & maker.keys():
            for root in roots[value]:
                last[maker[root]] = end
        loads = np.full(max(1, end + 1), self.account.state_bytes)
        for number, operation in enumerate(graph.operations):
            for value in () if _forwards(operation) else operation.results:
                if value in self._stored and value in self._layout_of and value not in replaced:
                    size = graph.values[value].size_bytes // self._sending.shards(self._layout_of[value])
                    loads[number : last[number] + 1] += size
        self.account.peak_bytes = int(loads.max())
        limit = self._problem.state_bytes
        if self._problem.activations and limit is not None and self.account.peak_bytes > limit:
            self.account.faults.append(f"the step must fit in {limit:,} bytes, but takes {self.account.peak_bytes:,}")

    def _operation(self, operation: StepOperation, cuts: Sequence[tuple[int, int]], factors: Sequence[Factor]) -> None:
        for number, _ in cuts:
            if not -1 <= number < len(factors):
                self._refuse(operation, f"the factor must be from 0 to {len(factors) - 1}, but is {number}")
                return
        for number in {number for number, _ in cuts if number >= 0}:
            parts = prod(size for size, (cut, _) in zip(self._sizes, cuts, strict=True) if cut == number)
            if factors[number].size % parts:
                self._refuse(operation, f"factor {number} of size {factors[number].size} must be a multiple of {parts}")
                return
        taken = [self._of(cuts, factors, "operands", place) for place in range(len(operation.operands))]
        before = [self._of(cuts, factors, "results", place) for place in range(len(operation.results))]
        if any(len(dims) > 1 for layout in (*taken, *before) for dims in layout):
            self._refuse(operation, "an axis must split at most one dimension of an array")
            return
        operands, results = list(map(_plain, taken)), list(map(_plain, before))
        fetched_ps = self._take(operation, operands)
        work_ps = self._work(operation, cuts, operands, results)
        sent_ps = self.account.communication_ps
        self._join(operation, cuts, factors, results)
        self.account.work_ps += work_ps
        self.account.worked[self._number] = work_ps
        if self._problem.overlap:
            joined_ps = self.account.communication_ps - sent_ps
            self.account.hidden_ps += min(fetched_ps, work_ps)
            if not self._before_products.intersection(operation.results):
                self.account.hidden_ps += min(joined_ps, work_ps)

    def _of(self, cuts: Sequence[tuple[int, int]], factors: Sequence[Factor], side: str, place: int) -> list[list[int]]:
        """For each axis the dimensions of an array that it splits."""
        return [
            [dim for array, dim in getattr(factors[number], side) if array == place] if number >= 0 else []
            for number, _ in cuts
        ]

    def _take(self, operation: StepOperation, layouts: Sequence[Layout]) -> int:
        """Bring every operand into the layouts in which it is taken, each of them once.

        Returns the time of the largest argument, the first of those of one size.
        """
        wanted: dict[int, set[Layout]] = {}
        for value, layout in zip(operation.operands, layouts, strict=True):
            if not self._graph.values[value].constant:
                wanted.setdefault(value, set()).add(layout)
        arguments = [value for value in wanted if value in self._arguments_taken]
        largest = sorted(arguments, key=lambda value: (-self._graph.values[value].size_bytes, value))[:1]
        sent = {value: self._send(value, each, operation.repeats) for value, each in wanted.items()}
        return sum(sent[value] for value in largest)

    def _work(
        self, operation: StepOperation, cuts: Sequence[tuple[int, int]], taken: Sequence[Layout],
        before: Sequence[Layout],
    ) -> int:  # fmt: skip
        """The time of one device's share of the work."""
        moved = 0.0
        for sizes, layouts in zip(self._moved(operation), (taken, before), strict=True):
            moved += sum(size / self._sending.shards(layout) for size, layout in zip(sizes, layouts, strict=True))
        share = prod(size for size, (number, _) in zip(self._sizes, cuts, strict=True) if number >= 0)
        share *= self._problem.parts_in_time(self._number)
        device = self._problem.device
        seconds = max(_computing_s(self._graph, operation, device) / share, moved / device.bytes_per_s)
        return operation.repeats * round(seconds * 1e12)

    def _moved(self, operation: StepOperation) -> tuple[list[float], list[float]]:
        """Bytes to and from memory, of each operand and of each result."""
        if _forwards(operation):
            return [0.0] * len(operation.operands), [0.0] * len(operation.results)
        moved_bytes, in_memory = self._problem.moved_bytes, self._in_memory
        written = [moved_bytes(value) if value in in_memory else 0.0 for value in operation.results]
        read = []
        for value in operation.operands:
            again = operation.kernel is not None and (operation.kernel, value) in self._read_by_kernel
            read.append(moved_bytes(value) if value in in_memory and not again else 0.0)
            if operation.kernel is not None:
                self._read_by_kernel.add((operation.kernel, value))
        if operation.opcode in ("gather", "dynamic-slice"):
            read[0] = moved_bytes(operation.results[0]) if read[0] else 0.0
        elif operation.opcode in ("scatter", "dynamic-update-slice"):
            updates = operation.operands[2 if operation.opcode == "scatter" else 1]
            read[0] = 0.0
            written[0] = moved_bytes(updates) if operation.results[0] in in_memory else 0.0
        return read, written

    def _join(
        self, operation: StepOperation, cuts: Sequence[tuple[int, int]], factors: Sequence[Factor],
        before: Sequence[Layout],
    ) -> None:  # fmt: skip
        reduced = [axis for axis, (number, _) in enumerate(cuts) if number >= 0 and factors[number].combiner]
        scattered = [axis for axis, (_, dim) in enumerate(cuts) if dim >= 0]
        if set(scattered) - set(reduced):
            self._refuse(operation, "only partial sums can be scattered")
            return
        if scattered and len(operation.results) > 1:
            self._refuse(operation, "an operation with several results cannot be scattered")
            return
        for place, value in enumerate(operation.results):
            dims, size = self._graph.values[value].dims, self._problem.sent_bytes(value)
            layout, begun_ps = list(before[place]), self.account.communication_ps
            for axis in scattered:
                dim = cuts[axis][1]
                if factors[cuts[axis][0]].combiner != "add" or dim >= len(dims) or dims[dim] <= 1:
                    self._refuse(operation, f"its partial sums cannot be scattered along dimension {dim}")
                    return
                if dim in before[place][axis + 1 :]:
                    self._refuse(operation, "axes must scatter a dimension in mesh order")
                    return
                self.account.communication_ps += operation.repeats * self._sending.collective_ps(
                    "reduce_scatter", axis, size // self._sending.shards(tuple(layout))
                )
                layout[axis] = dim
                self.account.resharded = self._graph.values[value].name
            remaining = [axis for axis in reduced if axis not in scattered]
            if remaining:
                self.account.communication_ps += operation.repeats * self._sending.all_reduce_ps(
                    remaining, size // self._sending.shards(tuple(layout))
                )
            self.account.sent.append((value, self._number, self.account.communication_ps - begun_ps))
            for dim in {each for each in layout if each >= 0}:
                if dims[dim] % self._sending.parts(tuple(layout), dim):
                    self._refuse(operation, f"dimension {dim} of size {dims[dim]} must be divisible by its axes")
            self._layout_of[value] = tuple(layout)

    def _send(self, value: int, layouts: set[Layout], times: int) -> int:
        """The time to bring a value from its layout into others."""
        if layouts != {self._layout_of[value]}:
            self.account.resharded = self._graph.values[value].name
        dims, size = self._graph.values[value].dims, self._problem.sent_bytes(value)
        distances = self._sending.distances(dims, size)
        sent_ps = sum(times * distances[self._layout_of[value], layout] for layout in layouts)
        self.account.communication_ps += sent_ps
        self.account.sent.append((value, self._number, sent_ps))
        return sent_ps


def _plain(layout: Sequence[Sequence[int]]) -> Layout:
    return tuple(dims[0] if dims else -1 for dims in layout)


def _before_products(graph: StepGraph) -> set[int]:
    """The values from which a product or a convolution follows, back from each of them."""
    maker = {value: operation for operation in graph.operations for value in operation.results}
    before: set[int] = set()
    waiting = [value for each in graph.operations if _flops(graph, each) for value in each.operands]
    while waiting:
        value = waiting.pop()
        if value not in before:
            before.add(value)
            if value in maker:
                waiting += maker[value].operands
    return before


def _forwards(operation: StepOperation) -> bool:
    """Whether it only gives another name to what it takes; inside a kernel a bitcast is what reads its operand."""
    return operation.kernel is None and operation.opcode in _FORWARDING


def values_in_memory(graph: StepGraph) -> set[int]:
    """The values that are read from memory, by the rule that :mod:`dse.parallel.prices` states."""
    stored = {argument.value for argument in graph.arguments} | set(graph.results)
    if graph.is_optimised:
        readers: dict[int, set[int | None]] = {}
        for operation in graph.operations:
            for value in operation.operands:
                readers.setdefault(value, set()).add(operation.kernel)
        for operation in graph.operations:
            stored.update(value for value in operation.results if readers.get(value, set()) - {operation.kernel})
        return stored
    taken = Counter(value for operation in graph.operations for value in set(operation.operands))
    stored |= {value for value, count in taken.items() if count > 1}
    for operation in graph.operations:
        if operation.opcode not in FUSED:
            stored.update(operation.results)
            if operation.opcode != "reduce":
                stored.update(operation.operands)
    return {value for value in stored if not graph.values[value].constant}


def _flops(graph: StepGraph, operation: StepOperation) -> int:
    """Two for each multiplication of real numbers of a product or a convolution; of others the textbook's count."""
    if operation.opcode not in ("dot", "convolution"):
        return flops_of(operation, graph.values)
    left, right = (graph.values[value] for value in operation.operands[:2])
    flops = 2 * prod(graph.values[operation.results[0]].dims) * (4 if left.dtype in ("c64", "c128") else 1)
    if operation.opcode == "dot":
        contracted = operation.attributes.get("lhs_contracting_dims", ())
        return flops * prod(left.dims[int(each)] for each in contracted)
    kernel = str(operation.attributes["dim_labels"]).split("_")[1].split("->")[0]
    return flops * prod(size for size, label in zip(right.dims, kernel, strict=True) if label != "o")


def _computing_s(graph: StepGraph, operation: StepOperation, device: Device) -> float:
    """The operations of a plain product by the rate of its widest operand; of others as they are priced."""
    types = {graph.values[value].dtype for value in operation.operands[:2]}
    if operation.opcode not in ("dot", "convolution") or "algorithm" in operation.attributes or len(types) > 1:
        return computing_s(operation, graph.values, device.products)
    rates, element_type = dict(device.products.flops_per_s), types.pop()
    element_type = {"c64": "f32", "c128": "f64"}.get(element_type, element_type)
    keys = [f"fp{element_type[1:]}", element_type, f"int{element_type[1:]}"]
    if element_type == "f32":
        stated = str(operation.attributes.get("operand_precision", ""))
        words = [each for each in ("highest", "high") if each in stated]
        level = device.products.float32 or (words[0] if words else "default")
        keys = ["fp32_default"] * (level == "default") + ["fp32_high"] * (level != "highest") + ["fp32"]
    rate = next((rates[key] for key in keys if key in rates), None)
    if rate is None:
        return computing_s(operation, graph.values, device.products)
    return _flops(graph, operation) / rate
