"""Exact placement of layer graphs that branch: the dynamic program over downsets (paper section 5).

A *downset* is a set of layers closed under predecessors. A stage is the difference of two, and
``value[s, D, k]`` is the least largest load of splitting the layers outside D into exactly s stages on at most k
accelerators. A stage may use several groups of accelerators, up to the width of the graph (its largest set of
incomparable layers); its load is the least over all assignments of its layers to groups
(:mod:`dse.placement.search.stage_groups`), which is also where the definition of a stage's schedule is.

The number of downsets can be exponential; beyond :data:`DOWNSET_LIMIT` of them, or :data:`TABLE_LIMIT` entries of the
table, the problem is refused. The search for the groups of a stage ends after :data:`SEARCH_LIMIT` steps; where that
leaves a doubt, a second run in which such stages count with their lower bounds gives a bound on the optimum. The best
placement with stages contiguous in the problem's order, from :mod:`dse.placement.search.chain_dp`, is the first
incumbent: it prunes all stages with too high a load. Under GPipe, where memory depends on the number of pipelines, they
are branched on: many numbers share one run, under the memory rule of the roomiest, and are distinguished only where
that matters.

Of placements of equal ``batch_s`` the first is returned by: smaller width, the contiguous one, fewer stages, smaller
first stage, fewer groups in it, fewer accelerators, fewer pipelines; then the same, stage by stage.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dse.placement.check import stage_memory_bytes
from dse.placement.problem import LayerGraph, Placement, PlacementProblem, Stage
from dse.placement.search.downset_kernels import solve_downsets, stage_pairs
from dse.placement.search.pipelines import (
    PipelineChoices,
    PipelineRange,
    gradient_sync,
    pipeline_choices,
    pipeline_ranges,
)
from dse.placement.search.stage_groups import GraphArrays, graph_arrays, min_load
from dse.run.progress import StopSignal, never_stop
from dse.run.watched import watched
from hardware.inputs import fail

DOWNSET_LIMIT = 4096
TABLE_LIMIT = 2**25
SEARCH_LIMIT = 20_000
STEP_LIMIT = 2 * 10**7
"""Steps of the search for the groups of one stage, and of all such searches together. Beyond them, stages run on the
best groups found, and the answer carries a bound."""

_SLACK = 1e-12
_SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True)
class Downsets:
    """All downsets of a graph by ascending size: ``member[D, v]``, and the width of the graph."""

    member: NDArray[np.bool_]
    width: int


def downsets(graph: LayerGraph, limit: int = DOWNSET_LIMIT) -> Downsets | None:
    """The downsets of a graph, or None where there are more than ``limit``."""
    before = [0] * len(graph.layers)
    for source, target, _ in graph.edges:
        before[target] |= 1 << source
    seen = {0}
    layer_of_search = [0]
    while layer_of_search:
        larger: set[int] = set()
        for downset in layer_of_search:
            for layer, needed in enumerate(before):
                if not downset >> layer & 1 and downset & needed == needed:
                    larger.add(downset | 1 << layer)
        seen |= larger
        if len(seen) > limit:
            return None
        layer_of_search = sorted(larger)
    ordered = sorted(seen, key=lambda downset: (downset.bit_count(), downset))
    count = len(graph.layers)
    member = np.array([[downset >> layer & 1 for layer in range(count)] for downset in ordered], dtype=np.bool_)
    return Downsets(member, max(_maximal_layers(downset, before) for downset in ordered))


def _maximal_layers(downset: int, before: list[int]) -> int:
    """Layers of a downset that no other of its layers needs: an antichain, and every antichain is one of these."""
    needed = 0
    for layer, predecessors in enumerate(before):
        if downset >> layer & 1:
            needed |= predecessors
    return (downset & ~needed).bit_count()


@dataclass(frozen=True)
class DownsetAnswer:
    """The best placement found at one width (None: none is faster than the incumbent), and a bound.

    No placement of the width takes less than ``bound_s``, unless the incumbent does. The bound is the placement's own
    ``batch_s`` where all searches ended, as they nearly always do.
    """

    placement: Placement | None
    bound_s: float


def downset_placement(
    problem: PlacementProblem,
    tensor: int,
    incumbent_s: float = math.inf,
    limit: int = DOWNSET_LIMIT,
    stop: StopSignal = never_stop,
) -> DownsetAnswer:
    """The best placement at one width that is faster than ``incumbent_s``, as far as was seen before a ``stop``.

    Raises:
        InputError: the graph has more than ``limit`` downsets, or the table exceeds its limit.
    """
    graph = problem.tensor_parallel[tensor]
    key, layers = f"tensor_parallel.{tensor}.edges", f"{len(graph.layers)} layers"
    sets = downsets(graph, limit)
    if sets is None:
        rule = f"the layer graph must have at most {limit} downsets for exact placement, but has more"
        raise fail(problem.name, key, layers, f"{rule}; merge parallel layers")
    ranges = pipeline_ranges(problem, problem.accelerators)
    entries = _Table(problem, tensor, sets, ranges[-1]).entries  # the fewest pipelines leave the most accelerators
    if entries > TABLE_LIMIT:
        rule = f"{len(sets.member)} downsets need {entries} table entries, but the limit is {TABLE_LIMIT}"
        raise fail(problem.name, key, layers, f"{rule}; merge parallel layers")
    return _best_of(problem, tensor, sets, ranges, incumbent_s, stop)


def _best_of(
    problem: PlacementProblem,
    tensor: int,
    sets: Downsets,
    ranges: list[PipelineRange],
    incumbent_s: float,
    stop: StopSignal,
) -> DownsetAnswer:
    """The best placement with numbers of pipelines in ``ranges`` (ascending microbatches a pipeline).

    All ranges together are relaxed to the memory rule of the roomiest, the first. Where the optimum of that is not a
    placement, or fits memory as it is, it is the answer; otherwise either half is looked at by itself.
    """
    roomiest, last = ranges[0], ranges[-1]
    together = PipelineRange(last.min_data, roomiest.max_data, roomiest.stashes, roomiest.growth)
    table = _Table(problem, tensor, sets, together)
    if table.bound_s() * (1.0 - _SLACK) >= incumbent_s:
        return DownsetAnswer(None, incumbent_s)
    relaxed = table.best(incumbent_s, stop)
    if len(ranges) == 1 or relaxed.placement is None or _fits(problem, relaxed.placement):
        return relaxed
    if stop() is not None:
        return DownsetAnswer(None, min(incumbent_s, relaxed.bound_s))
    middle = len(ranges) // 2
    front = _best_of(problem, tensor, sets, ranges[:middle], incumbent_s, stop)
    best_s = front.placement.batch_s if front.placement else incumbent_s
    back = _best_of(problem, tensor, sets, ranges[middle:], best_s, stop)
    return DownsetAnswer(back.placement or front.placement, min(front.bound_s, back.bound_s))


def _fits(problem: PlacementProblem, placement: Placement) -> bool:
    """Whether every stage fits memory with the placement's own number of pipelines."""
    graph, depth = problem.tensor_parallel[placement.tensor], len(placement.stages)
    return all(
        stage_memory_bytes(problem, graph, stage, depth - place, placement.data) <= problem.hbm_bytes
        for place, stage in enumerate(placement.stages)
    )


class _Table:
    """The dynamic program of one width and memory rule; accelerators are counted in units of ``unit``."""

    def __init__(self, problem: PlacementProblem, tensor: int, sets: Downsets, pipelines: PipelineRange) -> None:
        self._problem = problem
        self._tensor = tensor
        self._graph = problem.tensor_parallel[tensor]
        self._sets = sets
        self._arrays: GraphArrays = graph_arrays(self._graph, problem.network_bytes_per_s)
        self._sliced = np.array([layer.sliced for layer in self._graph.layers], dtype=np.bool_)
        group_size = tensor if self._sliced.any() else 1
        self._unit = group_size if self._sliced.all() else 1
        self._slots = np.where(self._sliced, group_size // self._unit, 1)
        self._stages = min(len(self._graph.layers), problem.accelerators)
        useful = self._stages * sets.width * int(self._slots.max())
        self._pipelines = pipelines
        self._accelerators = min(problem.accelerators // (self._unit * pipelines.min_data), useful)
        self._rules = (
            problem.recompute,
            problem.last_recomputes,
            problem.recomputes_layers,
            float(problem.state_factor),
            float(problem.hbm_bytes),
            pipelines.stashes,
            pipelines.growth,
        )

    @property
    def entries(self) -> int:
        """Size of the table of values."""
        return (self._stages + 1) * len(self._sets.member) * (self._accelerators + 1)

    def bound_s(self) -> float:
        """A lower bound on ``batch_s``: longest layer or equal share of the work, times the passes."""
        layers = self._arrays[0]
        work_s = layers[:, 0] + layers[:, 1]
        stages = np.arange(1, self._stages + 1)
        rounds = -(-self._problem.microbatches // self._pipelines.max_data)
        loads_s = np.maximum(work_s.max(), work_s.sum() / (stages * self._sets.width))
        return float((loads_s * (rounds + stages - 1)).min())

    def best(self, incumbent_s: float, stop: StopSignal) -> DownsetAnswer:
        """The best placement faster than ``incumbent_s``, or what was found before a ``stop``."""
        if self._accelerators == 0:  # fewer than a group
            return DownsetAnswer(None, incumbent_s)
        passes = self._fewest_passes()
        limit_s = incumbent_s / passes[1]
        pairs = stage_pairs(self._sets.member, self._arrays, self._rules, self._sets.width, limit_s)
        shape = (self._stages + 1, len(self._sets.member), self._accelerators + 1)
        value, cut = np.full(shape, np.inf), np.zeros((*shape, 2), dtype=np.int32)
        first, complete = self._solve(pairs, passes, incumbent_s, False, value, cut, stop)
        batch_s, _, stages, _, choice, _, _ = first
        placement = None
        if stages:
            decided = self._trace(first, pairs[1], value, cut)
            placement = self._placement(choice, decided)
        if not complete and stop() is None:
            value.fill(np.inf)
            (batch_s, *_), complete = self._solve(pairs, passes, batch_s, True, value, cut, stop)
        if not complete and stop() is not None:
            batch_s = min(batch_s, self.bound_s() * (1.0 - _SLACK))
        return DownsetAnswer(placement, batch_s)

    def _solve(
        self,
        pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
        passes: NDArray[np.float64],
        incumbent_s: float,
        optimistic: bool,
        value: NDArray[np.float64],
        cut: NDArray[np.int32],
        stop: StopSignal,
    ) -> tuple[tuple[float, float, int, int, int, int, int], bool]:
        """One run of the dynamic program, see :func:`dse.placement.search.downset_kernels.solve_downsets`."""
        layers, member = self._graph.layers, self._sets.member
        first_bytes = member @ np.array([layer.weight_bytes for layer in layers], dtype=np.float64)
        first_update_s = member @ np.array([layer.update_s for layer in layers], dtype=np.float64)
        choices = self._choices
        work = partial(
            solve_downsets,
            member,
            self._arrays,
            self._rules,
            self._sets.width,
            self._slots,
            pairs,
            (first_bytes, first_update_s),
            (choices.offset, choices.rounds, choices.sync_s_per_byte),
            passes,
            incumbent_s,
            _SLACK,
            (SEARCH_LIMIT, STEP_LIMIT),
            optimistic,
            value,
            cut,
        )
        first, complete = watched(stop, work)
        return first, bool(complete)

    def _trace(
        self,
        first: tuple[float, float, int, int, int, int, int],
        target: NDArray[np.int64],
        value: NDArray[np.float64],
        cut: NDArray[np.int32],
    ) -> list[tuple[Stage, float]]:
        """The stages with their loads, from the first on."""
        _, largest_s, stages, accelerators, _, pair, groups = first
        decided: list[tuple[Stage, float]] = []
        downset = 0
        for from_end in range(stages, 0, -1):
            if downset:
                pair, groups = (int(number) for number in cut[from_end, downset, accelerators])
                largest_s = float(value[from_end, downset, accelerators])
            chosen = self._sets.member[target[pair]] & ~self._sets.member[downset]
            decided.append(self._stage(chosen, groups, from_end, largest_s))
            downset = int(target[pair])
            accelerators -= decided[-1][0].accelerators // self._unit
        return decided

    def _stage(self, chosen: NDArray[np.bool_], groups: int, from_end: int, largest_s: float) -> tuple[Stage, float]:
        """A stage on groups that reach a load of ``largest_s`` or less, and its load."""
        stage = np.flatnonzero(chosen)
        local = np.full(len(chosen), -1, dtype=np.int64)
        local[stage] = np.arange(len(stage))
        recompute, last_recomputes, one_by_one, state_factor, hbm_bytes, stashes, growth = self._rules
        stashed = stashes + growth * (from_end - 1)
        repeats = recompute if from_end > 1 else last_recomputes
        rules = (repeats, recompute, one_by_one, state_factor, hbm_bytes, stashed)
        limit_s = max(largest_s, _SMALLEST_NORMAL) * (1.0 + 1e3 * _SLACK)
        load_s, _, group_of, _ = min_load(stage, local, self._arrays, groups, rules, limit_s, _SLACK, SEARCH_LIMIT)
        held = [tuple(stage[group_of == group].tolist()) for group in sorted(set(group_of.tolist()))]
        size = int(self._slots[stage].max()) * self._unit if self._sliced[stage].any() else 1
        return Stage(tuple(stage.tolist()), size * len(held), tuple(held) if len(held) > 1 else ()), float(load_s)

    def _placement(self, choice: int, decided: list[tuple[Stage, float]]) -> Placement:
        stages = tuple(stage for stage, _ in decided)
        first = [self._graph.layers[layer] for layer in stages[0].layers]
        batch_s = (
            max(load_s for _, load_s in decided) * (int(self._choices.rounds[choice]) + len(stages) - 1)
            + float(self._choices.sync_s_per_byte[choice]) * sum(layer.weight_bytes for layer in first)
            + sum(layer.update_s for layer in first)
        )
        return Placement(self._tensor, int(self._choices.data[choice]), stages, batch_s)

    @cached_property
    def _choices(self) -> PipelineChoices:
        """Useful numbers of pipelines for each number of accelerators of one pipeline (none for zero)."""
        problem = self._problem
        limits = [0] + [problem.accelerators // (self._unit * used) for used in range(1, self._accelerators + 1)]
        sync = gradient_sync(problem, self._tensor)
        return pipeline_choices(problem.microbatches, sync, limits, self._pipelines.min_data, self._pipelines.max_data)

    def _fewest_passes(self) -> NDArray[np.float64]:
        """For each s the fewest passes of any placement with s or more stages (one more entry, infinite)."""
        choices = self._choices
        fewest = np.full(self._stages + 2, np.inf)
        for stages in range(self._stages, 0, -1):
            fewest[stages] = fewest[stages + 1]
            if stages <= self._accelerators:  # each stage needs one unit at least
                rounds = choices.rounds[choices.offset[stages] : choices.offset[stages + 1]]
                fewest[stages] = min(fewest[stages], rounds[-1] + stages - 1)
        return fewest
