"""The solution and the metrics of a parallel plan, as in a result file."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from dse.parallel.baselines import BaselineName
from dse.parallel.choices import ALL_REDUCE, NONE, Choice, Cut
from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.plan import Cause, Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from hardware.inputs import Document, fail, nearest, validate

_Count = Annotated[int, Field(ge=0)]


class SolutionDocument(Document):
    """``solution`` of ``--strategy sharding``.

    Attributes:
        mesh: the axes, from the outermost in.
        arguments: by name, for each dimension the axes that split it.
        operations: by the name of its first result, each operation that is cut: for each axis the number of the factor
            (−1: none), and the dimension along which its terms are scattered (−1: they are all-reduced, or there are
            none).
    """

    mesh: str
    arguments: dict[str, list[list[str]]]
    operations: dict[str, list[Annotated[list[int], Field(min_length=2, max_length=2)]]]


class CollectiveDocument(Document):
    """Collectives of one kind along the same axes for one cause.

    Attributes:
        kind, axes, cause: as in :class:`~dse.parallel.plan.Sent`.
        runs: in a step.
        bytes: of the arrays that a group of devices holds together, summed over all runs.
        seconds: all runs in sequence.
    """

    kind: str
    axes: str
    cause: Cause
    runs: _Count
    bytes: _Count
    seconds: float


class AlternativeDocument(Document):
    """A layout of the argument of ``--why``.

    Attributes:
        split: for each dimension the axes that split it.
        step_s: time of a step with it; null where no plan has it.
        reason: why no plan has it.
    """

    split: list[list[str]]
    step_s: float | None
    reason: str


class BaselineDocument(Document):
    """A plan to compare with; pins and the memory limit are ignored.

    Attributes:
        step_s, communication_s: the time of a step, and that of all collectives.
        state_bytes: of all arguments on one device.
        peak_bytes: peak of arguments and intermediate arrays on one device.
    """

    step_s: float
    communication_s: float
    state_bytes: _Count
    peak_bytes: _Count


class WholeDocument(Document):
    """Operations of one opcode that every device computes as a whole.

    Attributes:
        opcode: of custom calls, with their target.
        count: how many.
        flops: of all of them, with their repeats; 0 if only the bytes that they move are known.
        names: of the first few.
    """

    opcode: str
    count: _Count
    flops: _Count
    names: list[str]


class MetricsDocument(Document):
    """``metrics`` of ``--strategy sharding``.

    Attributes:
        step_s: the time of a step: work_s and communication_s in sequence, without hidden_s.
        work_s, communication_s, hidden_s: work, communication, and how much of that overlaps with work.
        state_bytes: of all arguments on one device.
        peak_bytes: peak of arguments and intermediate arrays on one device.
        split_dimensions: of trained tensors.
        collectives: by kind, axes and cause, those with the most bytes first.
        one_device_s: the step on one device.
        baselines: plans that need no search (:mod:`dse.parallel.baselines`), by name; only those that exist.
        whole_operations: what every device computes as a whole, because no rule splits it, by opcode.
        unfinished: ``why`` where the run was stopped before all layouts were tried.
        why: every layout of the argument given with ``--why``; None without it.
    """

    step_s: float
    work_s: float
    communication_s: float
    hidden_s: float
    state_bytes: _Count
    peak_bytes: _Count
    split_dimensions: _Count
    collectives: list[CollectiveDocument]
    one_device_s: float
    baselines: dict[BaselineName, BaselineDocument]
    whole_operations: list[WholeDocument]
    unfinished: list[str]
    why: list[AlternativeDocument] | None = None


def plan_document(problem: ParallelProblem, prices: Prices, plan: Plan) -> dict[str, Any]:
    """``plan`` as the ``solution`` of a result."""
    graph, mesh = problem.graph, problem.mesh
    operations = {}
    for operation, priced, choice in zip(graph.operations, prices.priced, plan.choices, strict=True):
        if priced and any(cut.factor != NONE for cut in priced[choice].choice):
            operations[graph.values[operation.results[0]].name] = [list(cut) for cut in priced[choice].choice]
    return {
        "mesh": mesh.text,
        "arguments": {
            argument.name: [list(axes) for axes in mesh.spec(layout, len(graph.values[argument.value].dims))]
            for argument, layout in zip(graph.arguments, plan.arguments, strict=True)
        },
        "operations": operations,
    }


class Stated(NamedTuple):
    """A solution as it was read: the cuts of operations and the layouts of arguments, by their numbers.

    Attributes:
        cuts: of each operation; all :data:`NONE` of one that is not named.
        arguments: of each argument its layout.
    """

    cuts: tuple[Choice, ...]
    arguments: tuple[Layout, ...]


def stated_from_document(problem: ParallelProblem, document: Any, path: str) -> Stated:
    """What :func:`plan_document` wrote.

    Raises:
        InputError: names or axes that the problem does not have, or something missing.
    """
    parsed = validate(SolutionDocument, document, path)
    if parsed.mesh != problem.mesh.text:
        raise fail(path, "solution.mesh", parsed.mesh, f"must be {problem.mesh.text}, the mesh in the settings")
    graph = problem.graph
    named = {graph.values[each.results[0]].name: number for number, each in enumerate(graph.operations) if each.results}
    nothing: Choice = (Cut(),) * len(problem.mesh.axes)
    cuts = [nothing] * len(graph.operations)
    for name, entries in parsed.operations.items():
        key = f"solution.operations.{name}"
        if name not in named:
            raise fail(path, key, name, "must be the first result of an operation", nearest(name, named))
        if len(entries) != len(problem.mesh.axes):
            raise fail(path, key, str(len(entries)), f"must have an entry for each of {len(problem.mesh.axes)} axes")
        cuts[named[name]] = tuple(Cut(*entry) for entry in entries)
        if cuts[named[name]] == nothing:
            raise fail(path, key, "", "must be left out, because none of the operation's factors is cut")
        if any(cut.factor == NONE and cut.scattered != ALL_REDUCE for cut in cuts[named[name]]):
            raise fail(path, key, "", "must not be scattered along an axis that cuts no factor")
    arguments = tuple(
        _layout(problem, parsed.arguments, each.name, len(graph.values[each.value].dims), path)
        for each in graph.arguments
    )
    known = {each.name for each in graph.arguments}
    for name in parsed.arguments:
        if name not in known:
            raise fail(path, f"solution.arguments.{name}", name, "must be an argument of the step")
    return Stated(tuple(cuts), arguments)


def plan_of(prices: Prices, stated: Stated) -> Plan:
    """The plan that a legal solution states."""
    numbers = tuple(
        next((number for number, each in enumerate(priced) if each.choice == cuts), 0)
        for priced, cuts in zip(prices.priced, stated.cuts, strict=True)
    )
    return Plan(numbers, stated.arguments)


def _layout(
    problem: ParallelProblem, arguments: Mapping[str, list[list[str]]], name: str, rank: int, path: str
) -> Layout:
    key = f"solution.arguments.{name}"
    spec = arguments.get(name)
    if spec is None or len(spec) != rank:
        raise fail(path, key, "", f"must have an entry for each of {rank} dimensions")
    layout = [WHOLE] * len(problem.mesh.axes)
    names = [axis.name for axis in problem.mesh.axes]
    for dim, axes in enumerate(spec):
        if sorted(axes, key=names.index if set(axes) <= set(names) else str) != axes or not set(axes) <= set(names):
            raise fail(path, key, str(axes), f"must name axes of {problem.mesh.text} from the outermost inwards")
        for axis in axes:
            if layout[names.index(axis)] != WHOLE:
                raise fail(path, key, axis, "an axis must split at most one dimension")
            layout[names.index(axis)] = dim
    return tuple(layout)
