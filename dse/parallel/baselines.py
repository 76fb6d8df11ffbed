"""Plans that people would make without a search, in the vocabulary of :class:`~dse.parallel.plan.Plan`.

- Data parallelism: the batch is split, trained tensors are whole (the paper's automatic data parallelism).
- Megatron (Shoeybi et al., 2019): products are split by columns, then by rows, along the innermost axis; the batch is
  split along the others. Found from the structure of the step alone, see :func:`tensor_parallel_groups`.
- FSDP (ZeRO-3, Rajbhandari et al., 2020): data parallelism, where trained tensors and the optimizer's state are split
  over all devices too, gathered where they are taken, and their gradients reduce-scattered.

Pins and the limit of memory are left aside. Each plan is None where there is nothing that it could split.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from dse.parallel.choices import NONE
from dse.parallel.linkage_decisions import Decision, Decisions
from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.plan import Plan
from dse.parallel.prices import Priced, Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import resharding
from dse.run.remembered import Remembered, Same

BaselineName = Literal["data parallel", "Megatron", "FSDP"]

_PASSES_ON = frozenset(
    {
        "bitcast",
        "broadcast",
        "convert",
        "copy",
        "dynamic-slice",
        "optimization-barrier",
        "reshape",
        "slice",
        "transpose",
    }
)
"""Operations whose result is their first operand, or a part of it, in another form."""


_BASELINES: Remembered[Mapping[BaselineName, Plan]] = Remembered(4)
"""Of the last problems: an answer, its check and a search that is stopped ask for the same ones."""


def baselines(problem: ParallelProblem, prices: Prices) -> Mapping[BaselineName, Plan]:
    """Those plans that there are."""
    return _BASELINES.get(Same(problem), lambda: _baselines(problem, prices))


def _baselines(problem: ParallelProblem, prices: Prices) -> Mapping[BaselineName, Plan]:
    decisions = Decisions(problem, prices)
    every = range(len(problem.mesh.axes))
    spread = _batch(problem, decisions, every)
    split = {(group, every[-1]) for group in tensor_parallel_groups(problem, decisions, every[-1])}
    plans: dict[BaselineName, Plan] = {}
    if spread:
        plans["data parallel"] = decisions.plan(spread)
    if split:
        plans["Megatron"] = decisions.plan(split | _batch(problem, decisions, every[:-1]))
    if spread:
        plans["FSDP"] = _Sharded(problem, prices, plans["data parallel"]).plan()
    return plans


def data_parallel(problem: ParallelProblem, prices: Prices) -> Plan | None:
    """The group of most inputs, split on as many axes as divide it; None where no group of inputs can be split."""
    decisions = Decisions(problem, prices)
    taken = _batch(problem, decisions, range(len(problem.mesh.axes)))
    return decisions.plan(taken) if taken else None


def _batch(problem: ParallelProblem, decisions: Decisions, axes: Sequence[int]) -> set[Decision]:
    """The group of most inputs on those of ``axes`` that divide it; a batch is not a dimension of a trained tensor."""
    inputs: Counter[int] = Counter()
    groups = decisions.linkage.groups
    trained = {argument.value for argument in problem.graph.trainable}
    features = {group for (value, _), group in decisions.linkage.group_of.items() if value in trained}
    for argument in problem.graph.arguments:
        if axes and argument.role == "input":
            dims = range(len(problem.graph.values[argument.value].dims))
            here = {decisions.linkage.group_of.get((argument.value, dim)) for dim in dims} - {None} - features
            first = problem.mesh.axes[axes[0]].size
            inputs.update(group for group in here if group is not None and groups[group].allows(first))
    if not inputs:
        return set()
    group, taken, parts = max(inputs, key=lambda each: (inputs[each], -each)), set(), 1
    for axis in axes:
        if groups[group].allows(parts * problem.mesh.axes[axis].size):
            parts *= problem.mesh.axes[axis].size
            taken.add((group, axis))
    return taken


def tensor_parallel_groups(problem: ParallelProblem, decisions: Decisions, axis: int) -> set[int]:
    """The groups that Megatron's rule splits on ``axis``.

    Products with weights are taken in their order in the step, each weight once. One whose contracted dimension is
    split already is split by rows; any other by columns: its first free dimension that can be. Tables that inputs are
    looked up in are split by rows. The residual stream is left whole: dimensions contracted by a product that takes the
    sum of two products' results, of which one follows from the other.
    """
    walk = _products(problem)
    residual = {
        group for product in walk if product.is_residual for group in _groups(decisions, product.value, product.inner)
    }
    excluded: dict[int, set[int]] = defaultdict(set)
    for meeting in decisions.linkage.meetings:
        for group in meeting.groups:
            excluded[group] |= {*meeting.groups} - {group}
    taken: set[int] = set()
    for product in walk:
        inner = _groups(decisions, product.value, product.inner)
        if taken.intersection(inner):
            continue
        for group in inner if product.is_lookup else _groups(decisions, product.value, product.free):
            allowed = decisions.linkage.groups[group].allows(problem.mesh.axes[axis].size)
            if allowed and group not in residual and not excluded[group] & taken:
                taken.add(group)
                break
    return taken


def _groups(decisions: Decisions, value: int, dims: Sequence[int]) -> list[int]:
    groups = (decisions.linkage.group_of.get((value, dim)) for dim in dims)
    return [group for group in groups if group is not None]


class _Product(NamedTuple):
    """The first product or lookup that takes a trained tensor.

    Attributes:
        value: the trained tensor in the form in which it is taken.
        inner, free: its dimensions that are contracted (or looked up), and those that the result keeps.
        is_lookup: whether it is a lookup.
        is_residual: whether its other operand sums results of products of which one follows from another.
    """

    value: int
    inner: Sequence[int]
    free: Sequence[int]
    is_lookup: bool
    is_residual: bool


def _products(problem: ParallelProblem) -> list[_Product]:
    """The products and lookups with trained tensors, each tensor once, in the order of the step."""
    graph = problem.graph
    weight = {argument.value: argument.value for argument in graph.trainable}
    behind: dict[int, int] = defaultdict(int)  # of a value, the products whose results reach it, as bits
    before: list[int] = []  # of a product, the products that it follows from
    walk: list[_Product] = []
    seen: set[int] = set()
    for number, operation in enumerate(graph.operations):
        if operation.opcode in _PASSES_ON and operation.operands[0] in weight:
            weight[operation.results[0]] = weight[operation.operands[0]]
        place = None if graph.is_constant(number) else _weight_place(problem, number, weight)
        reaching = 0
        for value in operation.operands:
            reaching |= behind[value]
        if place is not None and weight[operation.operands[place]] not in seen:
            seen.add(weight[operation.operands[place]])
            feeding = [each for each in range(len(before)) if reaching >> each & 1]
            is_residual = any(before[each] & reaching for each in feeding)
            walk.append(_product(problem, number, place, is_residual))
            before.append(reaching | _union(before, feeding))
            reaching = 1 << len(before) - 1
        behind.update((value, reaching) for value in operation.results)
    return walk


def _union(masks: Sequence[int], places: Sequence[int]) -> int:
    union = 0
    for place in places:
        union |= masks[place]
    return union


def _weight_place(problem: ParallelProblem, number: int, weight: Mapping[int, int]) -> int | None:
    """Which operand is a trained tensor, of a product with what is none or of a lookup of what is not a constant."""
    operation = problem.graph.operations[number]
    if operation.opcode == "gather":
        is_data = not problem.graph.values[operation.operands[1]].constant
        return 0 if operation.operands[0] in weight and is_data else None
    places = [place for place, value in enumerate(operation.operands) if value in weight]
    return places[0] if operation.opcode == "dot" and len(places) == 1 else None


def _product(problem: ParallelProblem, number: int, place: int, is_residual: bool) -> _Product:
    operation = problem.graph.operations[number]
    value, side = operation.operands[place], ("lhs", "rhs")[place]
    keys = ("start_index_map",) if operation.opcode == "gather" else (f"{side}_contracting_dims",)
    inner = [int(dim) for key in keys for dim in operation.attributes.get(key, ())]
    batch = [int(dim) for dim in operation.attributes.get(f"{side}_batch_dims", ())]
    free = [dim for dim in range(len(problem.graph.values[value].dims)) if dim not in (*inner, *batch)]
    return _Product(value, inner, free, operation.opcode == "gather", is_residual)


class _Sharded:
    """FSDP made of a data-parallel plan."""

    def __init__(self, problem: ParallelProblem, prices: Prices, spread: Plan) -> None:
        self._problem = problem
        self._prices = prices
        self._spread = spread
        self._layouts = tuple(
            layout if argument.role == "input" else self._shard(argument.value)
            for argument, layout in zip(problem.graph.arguments, spread.arguments, strict=True)
        )
        self._wanted = self._destinations()
        self._known: dict[Hashable, int] = {}

    def plan(self) -> Plan:
        """The plan: gradients are scattered into the parts of what they update; what does not touch the batch is done
        as is cheapest from the layouts of its operands.
        """
        graph = self._problem.graph
        layout_of = {each.value: layout for each, layout in zip(graph.arguments, self._layouts, strict=True)}
        choices = []
        for number, (operation, priced) in enumerate(zip(graph.operations, self._prices.priced, strict=True)):
            choice = 0
            if priced:
                choice = self._scattered(number) if self._is_spread(number) else self._cheapest(number, layout_of)
                layout_of.update(zip(operation.results, priced[choice].layouts.results, strict=True))
            choices.append(choice)
        return Plan(tuple(choices), self._layouts)

    def _shard(self, value: int) -> Layout:
        """The first dimension that all devices divide, split on all axes."""
        mesh, dims = self._problem.mesh, self._problem.graph.values[value].dims
        divided = (dim for dim, size in enumerate(dims) if size > 1 and size % mesh.devices == 0)
        split = next(divided, WHOLE)
        return tuple(split if axis.size > 1 else WHOLE for axis in mesh.axes)

    def _is_spread(self, number: int) -> bool:
        priced = self._prices.priced[number]
        return any(cut.factor != NONE for cut in priced[self._spread.choices[number]].choice)

    def _destinations(self) -> dict[int, Layout]:
        """The layouts that gradients, and what is made of them, should have: those of what they update."""
        graph = self._problem.graph
        wanted = {graph.results[result]: self._layouts[number] for result, number in self._problem.carried.items()}
        for number in range(len(graph.operations) - 1, -1, -1):
            operation, priced = graph.operations[number], self._prices.priced[number]
            if not priced or self._is_spread(number) or len(operation.results) != 1:
                continue
            layout = wanted.get(operation.results[0])
            made = next((each for each in priced if each.layouts.before[0] == layout and _moves(each)), None)
            if layout is not None and made is not None:
                for value, taken in zip(operation.operands, made.layouts.operands, strict=True):
                    if self._problem.mesh.shards(taken) == self._problem.mesh.devices:
                        wanted.setdefault(value, taken)
        return wanted

    def _scattered(self, number: int) -> int:
        """The data-parallel choice, with its terms scattered as they are wanted, where they can be."""
        operation, priced = self._problem.graph.operations[number], self._prices.priced[number]
        spread = priced[self._spread.choices[number]]
        layout = self._wanted.get(operation.results[0])
        if layout is not None and spread.collectives and len(operation.results) == 1:
            choice = tuple(
                cut._replace(scattered=dim) if cut.factor != NONE and before == WHOLE else cut
                for cut, before, dim in zip(spread.choice, spread.layouts.before[0], layout, strict=True)
            )
            for place, each in enumerate(priced):
                if each.choice == choice:
                    return place
        return self._spread.choices[number]

    def _cheapest(self, number: int, layout_of: Mapping[int, Layout]) -> int:
        """The choice of least cost, with what brings its operands into their layouts."""
        operation, priced = self._problem.graph.operations[number], self._prices.priced[number]
        values, fabric = self._problem.graph.values, self._problem.fabric
        operands = tuple(
            (values[each].dims, values[each].size_bytes, layout_of.get(each)) for each in operation.operands
        )
        same = tuple(map(operation.operands.index, operation.operands))
        key = (id(priced), operation.repeats, operands, same)  # equal operations share their choices

        def cost(place: int) -> int:
            taken = set(zip(same, priced[place].layouts.operands, strict=True))
            sent = 0
            for operand, layout in taken:
                dims, size_bytes, before = operands[operand]
                sent += 0 if before is None else resharding(fabric, dims, size_bytes, before, layout).picoseconds
            return priced[place].picoseconds + operation.repeats * sent

        if key not in self._known:
            self._known[key] = min(range(len(priced)), key=cost)
        return self._known[key]


def _moves(priced: Priced) -> bool:
    """Whether a choice joins nothing."""
    return not priced.collectives


def unlimited(problem: ParallelProblem) -> ParallelProblem:
    """The problem without pins and limit of memory, under which baselines are legal."""
    return replace(problem, pins={}, state_bytes=None)
