"""A plan: a choice for each operation and a layout for each argument, and what follows: times, collectives, bytes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dse.parallel.lifetimes import memory_profile
from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.prices import Priced, Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO, Collective, resharding

Cause = Literal["terms", "resharding", "carried"]
"""Why a collective runs: terms of a reduced factor, an operand in another layout, a result that the next step takes."""


@dataclass(frozen=True)
class Plan:
    """What is decided.

    Attributes:
        choices: of each operation the number of its choice in :attr:`Prices.priced`; 0 of one that makes constants.
        arguments: of each argument its layout.
    """

    choices: tuple[int, ...]
    arguments: tuple[Layout, ...]


class Sent(NamedTuple):
    """A collective of a plan with its cause.

    Attributes:
        collective: kind, axis and bytes.
        cause: why it runs.
        value: the position of the value that is sent.
        operation: the number of the operation that causes it; −1 at the end of the step.
        times: how often a step runs it.
        picoseconds: of all times together.
    """

    collective: Collective
    cause: Cause
    value: int
    operation: int
    times: int
    picoseconds: int


class Transfer(NamedTuple):
    """A value that is handed on: from where it is made to an operation that takes it, or to the next step.

    Attributes:
        value: its position.
        source: the operation that makes it, or, below 0, the argument that it is: −1 − its number.
        result: which result of the operation it is.
        target: the operation that takes it, or −1 − the number of the argument that it replaces in the next step.
        operands: as which operands it is taken; empty at the end of the step.
        times: how often a step does so.
    """

    value: int
    source: int
    result: int
    target: int
    operands: tuple[int, ...]
    times: int


def transfers(problem: ParallelProblem) -> Iterator[Transfer]:
    """Everything that is handed on in a step, but constants."""
    graph = problem.graph
    made: dict[int, tuple[int, int]] = {
        argument.value: (-1 - number, 0) for number, argument in enumerate(graph.arguments)
    }
    for number, operation in enumerate(graph.operations):
        if graph.is_constant(number):
            continue
        for value in dict.fromkeys(operation.operands):
            if value in made and not graph.values[value].constant:
                places = tuple(place for place, each in enumerate(operation.operands) if each == value)
                yield Transfer(value, *made[value], number, places, operation.repeats)
        made.update({value: (number, place) for place, value in enumerate(operation.results)})
    for result, argument in problem.carried.items():
        value = graph.results[result]
        if value in made and made[value][0] != -1 - argument:
            yield Transfer(value, *made[value], -1 - argument, (), 1)


def resharded(problem: ParallelProblem, transfer: Transfer, before: Layout, after: Sequence[Layout]) -> Iterator[Sent]:
    """What is sent so that a value in layout ``before`` can be taken in all layouts of ``after``, each made once."""
    dims, size_bytes = problem.graph.values[transfer.value].dims, problem.sent_bytes(transfer.value)
    for layout in dict.fromkeys(after):
        path = resharding(problem.fabric, dims, size_bytes, before, layout)
        for collective in path.collectives:
            yield Sent(
                collective,
                "resharding" if transfer.operands else "carried",
                transfer.value,
                max(transfer.target, -1),
                transfer.times,
                transfer.times * problem.fabric.picoseconds(collective),
            )


def sent_by(problem: ParallelProblem, prices: Prices, plan: Plan) -> list[Sent]:
    """Every collective of a plan, in the order of the step."""
    sent: list[Sent] = []
    for number, operation in enumerate(problem.graph.operations):
        if prices.priced[number]:
            priced = prices.priced[number][plan.choices[number]]
            sent += [
                Sent(each, "terms", operation.results[0], number, operation.repeats,
                     operation.repeats * problem.fabric.picoseconds(each))
                for each in priced.collectives
            ]  # fmt: skip
    for transfer in transfers(problem):
        sent += resharded(problem, transfer, *ends_of(prices, plan, transfer))
    return sorted(sent, key=lambda each: each.operation if each.operation >= 0 else len(problem.graph.operations))


def summed(problem: ParallelProblem, sent: Sequence[Sent]) -> list[dict[str, Any]]:
    """Collectives by kind, axes and cause, those of most bytes first: entries of a result's metrics."""
    groups: dict[tuple[str, tuple[int, ...], Cause], list[Sent]] = defaultdict(list)
    for each in sent:
        groups[each.collective.kind, each.collective.axes, each.cause].append(each)
    entries = [
        {
            "kind": kind,
            "axes": "+".join(problem.mesh.axes[axis].name for axis in axes),
            "cause": cause,
            "runs": sum(each.times for each in members),
            "bytes": sum(each.times * each.collective.size_bytes for each in members),
            "seconds": sum(each.picoseconds for each in members) * PICO,
        }
        for (kind, axes, cause), members in sorted(groups.items())
    ]
    return sorted(entries, key=lambda entry: -entry["bytes"])


def ends_of(prices: Prices, plan: Plan, transfer: Transfer) -> tuple[Layout, tuple[Layout, ...]]:
    """The layout in which a value is made, and those in which it is taken."""

    def chosen(operation: int) -> Priced:
        return prices.priced[operation][plan.choices[operation]]

    before = (
        plan.arguments[-1 - transfer.source]
        if transfer.source < 0
        else chosen(transfer.source).layouts.results[transfer.result]
    )
    if transfer.target < 0:
        return before, (plan.arguments[-1 - transfer.target],)
    return before, tuple(chosen(transfer.target).layouts.operands[place] for place in transfer.operands)


def picoseconds_of(problem: ParallelProblem, prices: Prices, plan: Plan) -> int:
    """The time of a step: work and collectives, in sequence, without what overlaps with work."""
    sent = sum(each.picoseconds for each in sent_by(problem, prices, plan))
    return work_of_plan(prices, plan) + sent - hidden_of(problem, prices, plan)


def work_of_plan(prices: Prices, plan: Plan) -> int:
    """The work of one device, in picoseconds."""
    return sum(priced[choice].work_ps for priced, choice in zip(prices.priced, plan.choices, strict=True) if priced)


def hidden_of(problem: ParallelProblem, prices: Prices, plan: Plan) -> int:
    """The communication that overlaps with work, in picoseconds (:mod:`dse.parallel.overlap`)."""
    hidden = sum(priced[choice].hidden_ps for priced, choice in zip(prices.priced, plan.choices, strict=True) if priced)
    for transfer in transfers(problem) if problem.overlap else ():
        if is_hidden(problem, transfer):
            sent = sum(each.picoseconds for each in resharded(problem, transfer, *ends_of(prices, plan, transfer)))
            hidden += min(sent, prices.priced[transfer.target][plan.choices[transfer.target]].work_ps)
    return hidden


def is_hidden(problem: ParallelProblem, transfer: Transfer) -> bool:
    """Whether a value is brought where it is taken while work runs."""
    return problem.fetched_ahead[transfer.target] == transfer.value if transfer.target >= 0 else False


def state_bytes_of(problem: ParallelProblem, arguments: Sequence[Layout]) -> int:
    """The bytes of all arguments on one device."""
    values = problem.graph.values
    return sum(
        values[argument.value].size_bytes // problem.mesh.shards(layout)
        for argument, layout in zip(problem.graph.arguments, arguments, strict=True)
    )


def profile_of(problem: ParallelProblem, prices: Prices, plan: Plan) -> list[int]:
    """The bytes on one device while each operation runs, [operations]."""
    made = [
        priced[choice].layouts.results if priced else ()
        for priced, choice in zip(prices.priced, plan.choices, strict=True)
    ]
    return memory_profile(problem, prices.stored, plan.arguments, made)


def split_dimensions(problem: ParallelProblem, arguments: Sequence[Layout]) -> int:
    """The dimensions of trained tensors that are split: what the paper's reward counts."""
    return sum(
        len({split for split in layout if split != WHOLE})
        for argument, layout in zip(problem.graph.arguments, arguments, strict=True)
        if argument.role == "parameter"
    )
