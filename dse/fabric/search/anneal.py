"""Simulated annealing of placements under rules, which a student may correct, with routes that follow every move."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from dse.fabric.model import Integers, Net, Pipeline, Placement
from dse.fabric.rules import (
    MIXTURE,
    RULES,
    RuleWeights,
    channel_slots,
    isolated_slots,
    rule_scales,
)
from dse.fabric.search import anneal_kernels, move_kernels, move_state
from dse.fabric.search.anneal_kernels import Best
from dse.fabric.search.move_state import NOBODY, Case, State
from dse.fabric.search.routing import Routing, form_of, tree_room, ways_of
from dse.fabric.search.sites import SITE_KINDS, near_sites, random_sites, require_sites, sites_around
from dse.fabric.search.student import Student, StudentView, room_for, without_student
from dse.run.executor import Executor, InProcessExecutor
from dse.run.progress import StopSignal, never_stop
from dse.run.watched import watched
from hardware.fabrics import Fabric

_SLICE = 50_000
"""Moves per kernel call. Each call rounds the temperatures again, so another number would give other answers."""

MAX_NETS = 2**15 - 2
"""Nets that can share a link: flits of all together, and their rates, are numbers of 32 bits."""

_SAMPLED_MOVES = 200
"""Moves whose mean rise of the cost gives the unit of temperatures."""


@dataclass(frozen=True, slots=True)
class AnnealSettings:
    """How a chain is annealed.

    Attributes:
        moves: tried, however long they take.
        initial_temperature: in mean rises of the cost over random moves that raise it from the start.
        final_temperature: as a share of the first one.
        final_reach: share of the sites of its kind, nearest first, that a unit may go to at the end; at the start all.
        attraction: share of the moves that take a unit near to another one of its nets; the others go near to where
            it is.
        routing: of nets after every move.

    Raises:
        ValueError: a value that breaks a rule.
    """

    moves: int = 100_000
    initial_temperature: float = 1.0
    final_temperature: float = 1e-3
    final_reach: float = 0.05
    attraction: float = 0.5
    routing: Routing = "congestion"

    def __post_init__(self) -> None:
        if self.moves < 1:
            raise ValueError(f"`moves` must be at least 1, but got {self.moves}")
        if not (np.isfinite(self.initial_temperature) and self.initial_temperature >= 0):
            raise ValueError(
                f"`initial_temperature` must be finite and not negative, but got {self.initial_temperature}"
            )
        if not 0 <= self.attraction <= 1:
            raise ValueError(f"`0 <= attraction <= 1` must hold, but got {self.attraction}")
        for name in ("final_temperature", "final_reach"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"`0 < {name} <= 1` must hold, but got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Chain:
    """A run of annealing: its seed, and the sites to begin with, [U]; None: random ones by the seed."""

    seed: int
    start: Integers | None = None


@dataclass(frozen=True, eq=False)
class Annealed:
    """The best placement that a chain met.

    Attributes:
        placement: legal.
        cost: of it, by the rules' weights and the student.
        moves: that were tried.
        accepted: those of them that were accepted.
    """

    placement: Placement
    cost: float
    moves: int
    accepted: int


@dataclass(frozen=True, eq=False)
class Annealing:
    """Anneals chains for one pipeline, as a function of the chain alone, for executors.

    ``stop`` is consulted in this process only: workers elsewhere are ended by their executor.

    Raises:
        SitesMissingError: the fabric has too few sites of some kind.
    """

    pipeline: Pipeline
    fabric: Fabric
    weights: RuleWeights = MIXTURE
    settings: AnnealSettings = AnnealSettings()
    stop: StopSignal = never_stop
    student: Student | None = None

    def __post_init__(self) -> None:
        require_sites(self.pipeline, self.fabric)

    def __reduce__(self) -> tuple[Any, ...]:
        return Annealing, (self.pipeline, self.fabric, self.weights, self.settings, never_stop, self.student)

    @cached_property
    def case(self) -> Case:
        """What the kernels read."""
        return case_of(self.pipeline, self.fabric, self.weights, self.settings.routing, self.student)

    def __call__(self, chain: Chain) -> Annealed:
        """The best placement of a chain."""
        generator = np.random.default_rng(chain.seed)
        start = random_sites(self.pipeline, self.fabric, generator) if chain.start is None else chain.start
        state = state_of(self.pipeline, self.fabric, start, self.case)
        lowest = float(move_kernels.begin(self.case, state, False))
        seed = generator.integers(2**63, size=1, dtype=np.uint64)
        alike = np.arange(1.0, len(state.site) + 1)
        *_, rise = anneal_kernels.wander(self.case, state, seed, 0, _SAMPLED_MOVES, np.inf, 1.0, alike)
        hot = self.settings.initial_temperature * rise
        best = Best(state.site.copy(), np.empty_like(state.route[:, 0]), np.zeros(len(state.used), np.int32))
        lowest, made, accepted = np.inf, 0, 0
        for begin, end in self._slices():
            shares = np.array([begin, end]) / self.settings.moves
            temperatures = hot * self.settings.final_temperature**shares
            reaches = self.settings.final_reach**shares
            moves = end - begin
            work = partial(
                anneal_kernels.anneal,
                *(self.case, state, best, lowest, seed, moves, temperatures, reaches, self.settings.attraction),
            )
            lowest, more, kept = watched(self.stop, work)
            made, accepted = made + more, accepted + kept
            if self.stop() is not None:
                break
        routes = [route[:length].tolist() for route, length in zip(best.route, best.length, strict=True)]
        return Annealed(Placement.of(best.site.tolist(), routes), float(lowest), made, int(accepted))

    def _slices(self) -> Iterator[tuple[int, int]]:
        edges = [*range(0, self.settings.moves, _SLICE), self.settings.moves]
        return pairwise(edges)


def annealed(annealing: Annealing, chains: Sequence[Chain], executor: Executor | None = None) -> Annealed:
    """The best of several chains, of equal ones the first: the same for any number of workers.

    Raises:
        StoppedError: stopped before the first chain ended.
    """
    runs = (executor or InProcessExecutor()).map(annealing, chains, annealing.stop)
    return min(runs, key=lambda each: each.cost)


def case_of(
    pipeline: Pipeline, fabric: Fabric, weights: RuleWeights, routing: Routing, student: Student | None = None
) -> Case:
    """What :mod:`dse.fabric.search.move_kernels` reads of a pipeline and a fabric.

    Raises:
        ValueError: more nets than :data:`MAX_NETS`.
    """
    nets = pipeline.nets
    if len(nets) > MAX_NETS:
        raise ValueError(f"a pipeline must have at most {MAX_NETS:,} nets to be annealed, but has {len(nets):,}")
    unit_nets: list[list[int]] = [[] for _ in pipeline.units]
    for number, net in enumerate(nets):
        for unit in (net.source, *(sink.unit for sink in net.sinks)):
            unit_nets[unit].append(number)
    slots = isolated_slots(pipeline, fabric)
    near, near_count = near_sites(fabric.grid)
    around, around_count = sites_around(fabric.grid)
    flits = np.array([net.flits for net in nets], dtype=np.int64)
    isolated = np.array([slots[net.source] for net in nets], dtype=np.int64)
    rate = flits / isolated
    return Case(
        unit_first=_firsts([len(each) for each in unit_nets]),
        unit_net=np.array([net for each in unit_nets for net in each], dtype=np.int64),
        source=np.array([net.source for net in nets], dtype=np.int64),
        sink_first=_firsts([len(net.sinks) for net in nets]),
        sink=np.array([sink.unit for net in nets for sink in net.sinks], dtype=np.int64),
        flits=flits,
        isolated=isolated,
        rate=rate,
        # Half a unit more than it is, so that errors of rounding do not matter.
        max_rate=np.ceil(rate / move_state.RATE_UNIT + 0.5).astype(np.int64),
        bursts=-(-flits // fabric.burst_flits),
        critical=np.array([_critical(net, slots) for net in nets], dtype=np.int64),
        channel_slots=channel_slots(pipeline, fabric).astype(np.float64),
        site_cell=fabric.grid.site_cell.astype(np.uint16),
        site_channel=fabric.channel_of_site,
        near=near,
        near_count=near_count,
        around=around,
        around_count=around_count,
        unit_kind=np.array([SITE_KINDS.index(unit.kind.site) for unit in pipeline.units], dtype=np.int64),
        ways=ways_of(fabric),
        form=form_of(routing),
        tracks=float(fabric.tracks),
        hop_slots=fabric.hop_slots,
        floor=np.array([0.0, slots.max(initial=1), flits.max(initial=0)]),
        scaled=weights.array / rule_scales(pipeline, fabric),
        peak_counts=weights.array[[RULES.index(name) for name in ("max_load", "expert", "route")]]
        > (0 if student is None else -1),
        student=without_student() if student is None else StudentView(pipeline, fabric).case(student),
    )


def state_of(pipeline: Pipeline, fabric: Fabric, site: Integers, case: Case) -> State:
    """A state of ``case`` with these sites, [U], whose nets :func:`dse.fabric.search.move_kernels.begin` routes."""
    grid, nets = fabric.grid, len(pipeline.nets)
    links, cells = len(grid.link_from), grid.cells
    holder = np.full(len(grid.site_kind), NOBODY, dtype=np.int64)
    holder[site] = np.arange(len(site))
    return State(
        site=np.array(site, dtype=np.int64),
        holder=holder,
        route=np.zeros((nets, 2, cells), dtype=np.uint16),
        length=np.zeros((nets, 2), dtype=np.int32),
        depth=np.zeros((nets, 2), dtype=np.int32),
        used=np.zeros(nets, dtype=np.int8),
        load=np.zeros(links, dtype=np.int32),
        link=np.zeros((links, move_state.COLUMNS), dtype=np.int32),
        member=np.zeros((links, -(-nets // 64)), dtype=np.uint64),
        channel=np.zeros(fabric.channel_count),
        term=np.zeros(len(RULES)),
        peak_link=np.zeros(move_state.PEAKS, dtype=np.int64),
        tree=tree_room(fabric),
        room=room_for(case.student),
        cells=np.zeros(len(pipeline.units), dtype=np.uint16),
        nets=np.zeros(nets, dtype=np.int64),
        touched=np.zeros(links, dtype=np.uint16),
        mark=np.zeros(links, dtype=np.int64),
        net_mark=np.zeros(nets, dtype=np.int64),
        saved_load=np.zeros(links, dtype=np.int32),
        saved_link=np.zeros((links, move_state.COLUMNS), dtype=np.int32),
        saved_term=np.zeros(len(RULES)),
        saved_peak_link=np.zeros(move_state.PEAKS, dtype=np.int64),
        extent=np.zeros(3, dtype=np.int64),
        move=np.zeros(1, dtype=np.int64),
    )


def _critical(net: Net, slots: Integers) -> int:
    """How critical a net is (:class:`~dse.fabric.search.move_state.Case`), with units of these slots in isolation."""
    slowest = max(int(slots[unit]) for unit in (net.source, *(sink.unit for sink in net.sinks)))
    return round((slowest / int(slots.max())) ** 4 / move_state.CRITICAL_UNIT)


def _firsts(counts: Sequence[int]) -> Integers:
    return np.array([0, *accumulate(counts)], dtype=np.int64)


def state_with(pipeline: Pipeline, fabric: Fabric, placement: Placement, case: Case) -> tuple[State, float]:
    """A state of ``case`` with these sites and routes, and its cost."""
    state = state_of(pipeline, fabric, placement.site, case)
    for net in range(len(pipeline.nets)):
        route = placement.route(net)
        state.route[net, 0, : len(route)] = route
        state.length[net, 0] = len(route)
    return state, float(move_kernels.begin(case, state, True))
