"""The problem of a parallel plan: a step, a mesh of devices, their rates, and the rules that the plan has to keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

from dse.graph.step import StepGraph, StepValue
from dse.graph.step_updates import updates_of
from dse.parallel.mesh import Layout, Mesh
from dse.parallel.overlap import fetched_ahead
from dse.parallel.resharding import Fabric
from dse.parallel.storage import Storage
from dse.sharding.factors import Factor
from dse.sharding.linkage import Linkage, linkage
from hardware.network import Network
from hardware.product_rates import ProductRates

Objective = Literal["cost", "count"]
"""Seconds of a step, or the dimensions of trained tensors that are split (the paper's reward)."""


@dataclass(frozen=True)
class Device:
    """What one device does in a second: products, by the formats of their operands, and bytes of its memory."""

    name: str
    products: ProductRates
    bytes_per_s: float
    memory_bytes: int


@dataclass(frozen=True)
class ParallelProblem:
    """A step to be spread over a mesh.

    Attributes:
        graph: the step.
        mesh: the devices.
        device: each of them.
        network: what joins them.
        objective: what is optimised.
        state_bytes: the most that the arguments of the step may take on one device; None for no limit.
        activations: whether the limit holds at every operation, for what the step makes as well
            (:mod:`dse.parallel.lifetimes`).
        overlap: whether communication overlaps with work where it can (:mod:`dse.parallel.overlap`).
        pins: layouts that arguments must have, by their positions in ``graph.arguments``.
        file: what errors call the step.
        rules: the factors of every operation (:func:`dse.sharding.hlo.table.step_factors`); None where the opcode has
            no rule, so that nothing can be cut.
    """

    graph: StepGraph
    mesh: Mesh
    device: Device
    network: Network
    objective: Objective = "cost"
    state_bytes: int | None = None
    activations: bool = False
    overlap: bool = False
    pins: Mapping[int, Layout] = field(default_factory=dict)
    file: str = ""
    rules: tuple[tuple[Factor, ...] | None, ...] = field(kw_only=True, repr=False)

    @property
    def fabric(self) -> Fabric:
        """The mesh on its network."""
        return Fabric(self.mesh, self.network)

    @cached_property
    def storage(self) -> Storage:
        """What of the step is in memory."""
        return Storage(self.graph)

    @cached_property
    def fetched_ahead(self) -> tuple[int | None, ...]:
        """Of each operation the value that is brought to it while work runs; None of all without overlap."""
        return fetched_ahead(self.graph) if self.overlap else (None,) * len(self.graph.operations)

    @cached_property
    def carried(self) -> Mapping[int, int]:
        """:func:`carried_results` of the step."""
        return carried_results(self.graph)

    @cached_property
    def linkage(self) -> Linkage:
        """The linkage groups of the step, with the arguments tied to the results that replace them."""
        graph = self.graph
        ties = [(graph.results[result], graph.arguments[number].value) for result, number in self.carried.items()]
        return linkage(graph, self.file, ties)

    def pinned(self, pins: Mapping[int, Layout]) -> Self:
        """The problem with these pins in place of its own; what is known of the step stays known."""
        other = replace(self, pins=pins)
        known = ("storage", "fetched_ahead", "carried", "linkage")
        vars(other).update((name, value) for name, value in vars(self).items() if name in known)
        return other

    def sent_bytes(self, value: int) -> int:
        """The bytes of a value, of all devices together, when it is joined or resharded."""
        return self.graph.values[value].size_bytes

    def moved_bytes(self, value: int) -> float:
        """The bytes of a value, of all devices together, that one run of an operation reads or writes."""
        return self.graph.values[value].size_bytes

    def parts_in_time(self, operation: int) -> int:
        """Into how many runs and replicas an operation is divided, in addition to its cut over the mesh."""
        del operation
        return 1

    def layouts_of_argument(self, number: int) -> tuple[Layout, ...]:
        """The layouts that an argument may have: its pin, or all."""
        if number in self.pins:
            return (self.pins[number],)
        return tuple(self.mesh.layouts(self.graph.values[self.graph.arguments[number].value].dims))


def carried_results(graph: StepGraph) -> dict[int, int]:
    """The argument that each result of the step replaces in the next step, by their positions.

    What a result is made from element by element, it replaces (:mod:`dse.graph.step_updates`). Of what is left, in the
    order of both, each argument that is trained or kept is replaced by the next result of its type and dimensions.
    """
    values = graph.values
    updates = updates_of(values, graph.operations, [argument.value for argument in graph.arguments], graph.results)
    carried = {place: number for place, number in updates.replaced.items() if graph.arguments[number].role != "input"}
    known, start = {*carried.values()}, 0
    for number, argument in enumerate(graph.arguments):
        if argument.role != "input" and number not in known:
            of = _kind(values[argument.value])
            places = range(start, len(graph.results))
            free = (place for place in places if place not in carried)
            match = next((place for place in free if _kind(values[graph.results[place]]) == of), None)
            if match is not None:
                carried[match] = number
                start = match + 1
    return carried


def _kind(value: StepValue) -> tuple[str, tuple[int, ...]]:
    return value.dtype, value.dims
