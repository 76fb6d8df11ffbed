"""The whole search: rows for every time limit, protocols where adapters count, annealing by successive halving.

1. *Rows*: for time limits from the area bound upwards (the paper's sweep by α), the layouts of the row dynamic program
   with every number of rows, and for the cheapest of them protocols. Their cheapest cost limits the times that are
   worth a look, and the sweep is repeated within these.
2. *Annealing*: the candidates of all times begin with few moves; of each round a third continues with three times as
   many, so that all rounds cost the same. This is done with distance and adapters counting fully, and with a share of
   their weight only: then kernels are packed tightly first, for times that would not be met otherwise. What is left
   of all these goes through the rounds again with the true weights.
3. *Close to the best*: annealing with a fine ladder of times; then slicing trees, found at once for sequences.

Every piece is deterministic by its seed and ends after a number of moves, not seconds, and the pieces of a round are
independent: an executor may run them anywhere. What a round keeps is moved to its best places by a linear program.
After the first pass the bound is computed, and what reaches it ends the search.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from dse.results.result import proven_status
from dse.run.progress import StoppedError, ask
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.search.annealing import Annealing, AnnealTask
from dse.wafer.search.candidates import Candidate, candidate_of, cost_of, distinct, repriced, selection, through
from dse.wafer.search.column_dp import column_layouts
from dse.wafer.search.context import (
    COLUMNS,
    MAX_FACTOR,
    PROTOCOLS,
    TREES,
    Incumbent,
    SearchContext,
    SearchResult,
)
from dse.wafer.search.interval_search import IntervalSearch
from dse.wafer.search.ladder import Ladder, ladder_of, rungs, turned
from dse.wafer.search.layout import Layout, as_columns, as_rows, copied, measure
from dse.wafer.search.layout_kernels import NEW_ROW, STACKED
from dse.wafer.search.protocol_dp import with_protocols
from dse.wafer.search.row_dp import depth_first_order, even_layouts, row_layouts, strip_layouts
from dse.wafer.shapes import Ints, classes_of, shape_table

_LEVELS = 64
"""Time limits of a ladder."""

_COARSE = 24
"""Of the ladder that is tried first, to see which times are worth a look."""

_WITH_PROTOCOLS = 64
"""Layouts of a ladder that get protocols."""

_FIRST, _REDUCTION, _ROUNDS = 96, 3, 4
"""Candidates of the first round, of how many one goes on, and rounds."""

_LENSES = (1.0, 0.3, 0.1)
"""Shares of their weight with which distance and adapters count in the first rounds: tight layouts come first."""

_QUICK, _FIRST_PASS = 8, 1_000_000
"""The first pass gets this part of the moves, or this many: a good answer is there soon."""

_HOPEFUL = 0.9
"""Share of the cost that the bound after the first pass soon comes to, where it goes on."""

_TREES, _ORDERS = 0.4, 3
"""Share of the moves of a pass that slicing trees get, and orders of layouts that they begin with."""

_FIRST_PHASE, _LAST_PHASE, _TREE_PHASE = 1000, 1001, 2000
"""For seeds: of annealing before the rounds and after them, and of slicing trees."""

_FINE = 3
"""Candidates that are annealed with a fine ladder in the end."""

_COMPACTED = 4
"""Candidates of a round that compaction is tried on."""

_MAX_MOVES = 400_000
"""Of one run of annealing: a second or two, after which a search can be stopped."""

_TEMPERATURES = (3e-4, 1e-3, 3e-3)
"""First temperatures, in shares of the cost: annealing from a good start, and from further away."""


def search(context: SearchContext) -> SearchResult:
    """The best placement; none where the search ends before it finds one."""
    incumbent = Incumbent(context, shape_table(context.problem))
    floor = area_bound_ticks(context.problem, incumbent.table)
    if floor is not None:
        with suppress(StoppedError):
            _phases(incumbent, floor)
    return incumbent.best


def _phases(incumbent: Incumbent, floor: int) -> None:
    context, table = incumbent.context, incumbent.table
    ladder = ladder_of(context.problem, table, rungs(floor, floor * MAX_FACTOR, _COARSE))
    candidates = _rows(incumbent, "rows", ladder)
    longest = incumbent.max_ticks(floor)
    taken = [each.ticks for each in candidates[:_LEVELS]]
    ladder = ladder_of(context.problem, table, sorted({*rungs(floor, longest, _LEVELS), *taken}))
    candidates += _rows(incumbent, "rows at improved time limits", ladder)
    taken = [each.ticks for each in sorted(candidates, key=cost_of)[:_LEVELS]]
    ladder = ladder_of(context.problem, table, sorted({*rungs(floor, longest, _LEVELS), *taken}))
    if not candidates and context.moves:
        candidates = _cramped(incumbent, ladder, context.moves // _QUICK)
    survivors: list[Candidate] = []
    unbound, by_protocol = IntervalSearch(incumbent, floor), IntervalSearch(incumbent, floor)
    bound = None
    for number, moves in enumerate(passes(context.moves)):
        if number == 1 and incumbent.best.placement is not None:
            bounds = CostBound(context.problem, table)
            bound = bounds.total(floor, incumbent.best.total, context.stop, min_share=_HOPEFUL)
        if proven_status(incumbent.best.total, bound) == "optimal":
            return
        for_trees = int(moves * _TREES)
        survivors += _lenses(incumbent, floor, ladder, candidates, survivors, number, moves - for_trees)
        if TREES not in context.steps:
            continue
        best = distinct(sorted(repriced(ladder, survivors), key=cost_of))[:_ORDERS]
        orders = [depth_first_order(context.problem), *(each.layout.order.tolist() for each in best)]
        phase = _TREE_PHASE + 2 * number
        if context.problem.weights.adapter > 0 and best:
            for_trees //= 2
            by_protocol.protocols = np.unique(np.concatenate([each.layout.used for each in best]))
            by_protocol.improve(orders, for_trees, phase + 1)
        unbound.improve(orders, for_trees, phase)


def _lenses(
    incumbent: Incumbent,
    floor: int,
    ladder: Ladder,
    candidates: Sequence[Candidate],
    before: Sequence[Candidate],
    number: int,
    moves: int,
) -> list[Candidate]:
    """What pass ``number`` of annealing makes of the candidates; with true weights also of what was left before."""
    share = moves // ((len(_LENSES) + 1) * _ROUNDS + 1)
    survivors: list[Candidate] = []
    if not candidates or not share:
        return survivors
    for view, weight in enumerate((*_LENSES, 1.0)):
        starts = [*before, *survivors] if view == len(_LENSES) else candidates
        phase = (number * (len(_LENSES) + 1) + view) * _ROUNDS
        lens = ladder if weight == 1.0 else through(ladder, weight)
        survivors += _halved(incumbent, lens, ladder, starts, phase, share)
    _finely(incumbent, floor, repriced(ladder, [*before, *survivors]), _LAST_PHASE + number, share)
    return survivors


def _finely(incumbent: Incumbent, floor: int, candidates: Sequence[Candidate], phase: int, moves: int) -> None:
    """Anneal the best few candidates with ladders of times close to theirs."""
    context, table = incumbent.context, incumbent.table
    for best in distinct(sorted(candidates, key=cost_of))[:_FINE]:
        limits = rungs(max(floor, best.ticks * 24 // 25), best.ticks * 51 // 50, _LEVELS)
        fine = ladder_of(context.problem, table, sorted({*limits, best.ticks}))
        name = f"annealing, from {best.cost:,.10g}"
        tasks = _tasks(context, [best] * len(_TEMPERATURES), phase, moves // _FINE)
        _compact(incumbent, distinct(_anneal(incumbent, name, fine, fine, tasks)))


def _halved(
    incumbent: Incumbent, lens: Ladder, ladder: Ladder, starts: Sequence[Candidate], phase: int, share: int
) -> list[Candidate]:
    """What rounds of annealing, each with a third of the candidates, make of these; of the last two rounds all.

    ``lens``: the ladder with the weights that count here.
    """
    context = incumbent.context
    rounds = len(passes(context.moves)) * (len(_LENSES) + 1) * _ROUNDS
    candidates = distinct(sorted(repriced(lens, starts), key=cost_of))[:_FIRST]
    survivors: list[Candidate] = []
    for number in range(_ROUNDS):
        if not candidates:
            break
        tasks = _tasks(context, candidates, phase + number, share)
        name = f"annealing {phase + number + 1} of {rounds}"
        count = len(candidates)
        annealed = distinct(_anneal(incumbent, name, lens, ladder, tasks))
        candidates = selection(annealed, max(1, count // _REDUCTION))
        if lens is ladder:
            _compact(incumbent, candidates)
        survivors += annealed if number >= _ROUNDS - 2 else []
    return survivors


def _cramped(incumbent: Incumbent, ladder: Ladder, moves: int) -> list[Candidate]:
    """Legal layouts where no rows in order are: annealing from even rows, which may be too long at first."""
    context = incumbent.context
    limit = int(ladder.limits[-1])
    layouts = even_layouts(ladder, depth_first_order(context.problem))
    starts = [Candidate(layout, limit, limit, np.inf) for layout in layouts]
    tasks = _tasks(context, starts, _FIRST_PHASE, moves)
    annealed = _anneal(incumbent, "annealing to find a first placement", ladder, ladder, tasks)
    return [each for each in annealed if np.isfinite(each.cost)]


def _tasks(context: SearchContext, candidates: Sequence[Candidate], phase: int, moves: int) -> list[AnnealTask]:
    """Runs from all candidates of so many moves in all; several from each where one would be long."""
    repeats = max(1, -(-moves // (len(candidates) * _MAX_MOVES)))
    starts = list(candidates) * repeats
    steps = max(1, moves // len(starts))
    return [
        AnnealTask(start, context.seed_of(phase, place), steps, _TEMPERATURES[place % len(_TEMPERATURES)])
        for place, start in enumerate(starts)
    ]


def _rows(incumbent: Incumbent, phase: str, ladder: Ladder) -> list[Candidate]:
    """Legal layouts of rows for all time limits, with protocols where adapters count; the cheapest first."""
    context = incumbent.context
    order, candidates = depth_first_order(context.problem), list[Candidate]()
    for level in range(len(ladder.limits)):
        columns = column_layouts(ladder, level, order) if COLUMNS in context.steps else ()
        rows = [*row_layouts(ladder, level, order), *strip_layouts(ladder, level, order), *columns]
        if ladder.size[0] != ladder.size[1]:
            high = int(ladder.size[1])
            rows += [as_columns(each, high) for each in row_layouts(turned(ladder), level, order)]
        legal = [each for each in (candidate_of(ladder, layout, level) for layout in rows) if each is not None]
        incumbent.offer_cheapest(legal, len(rows))
        candidates += legal
        context.progress(phase, level + 1, len(ladder.limits))
        ask(context.stop)
    if context.problem.weights.adapter > 0 and PROTOCOLS in context.steps:
        candidates += _protocols(incumbent, f"protocols of {phase}", ladder, candidates)
    return sorted(candidates, key=cost_of)


def _protocols(incumbent: Incumbent, phase: str, ladder: Ladder, plain: Sequence[Candidate]) -> list[Candidate]:
    """Layouts with protocols, made of those that would be cheapest if adapters did not count.

    Protocols make kernels wider, so what costs more without adapters than the best with them is left out.
    """
    context, table = incumbent.context, incumbent.table
    classes = classes_of(table.protocols)
    blind = ladder._replace(weights=ladder.weights * np.array([1.0, 1.0, 0.0, 1.0]))
    level_of = {int(limit): level for level, limit in enumerate(ladder.limits)}
    ranked = sorted(
        ((measure(blind, each.layout, level_of[each.limit])[0], place) for place, each in enumerate(plain))
    )[:_WITH_PROTOCOLS]
    candidates: list[Candidate] = []
    for number, (plain_cost, place) in enumerate(ranked):
        if plain_cost >= incumbent.best.total:
            break
        level = level_of[plain[place].limit]
        layout = _with_protocols(ladder, level, plain[place].layout, classes)
        candidate = None if layout is None else candidate_of(ladder, layout, level)
        if candidate is not None:
            candidates.append(candidate)
            incumbent.offer_cheapest([candidate], 1)
        context.progress(phase, number + 1, len(ranked))
        ask(context.stop)
    return candidates


def _anneal(
    incumbent: Incumbent, phase: str, lens: Ladder, ladder: Ladder, tasks: Sequence[AnnealTask]
) -> list[Candidate]:
    """The best of every run with the weights of ``lens``; what is better by the ladder's own is kept."""
    context = incumbent.context
    candidates: list[Candidate] = []
    runs = context.executor.map(Annealing(lens, context.stop), tasks, context.stop)
    for candidate in runs:
        # What a worker sends can be read only.
        candidate = replace(candidate, layout=copied(candidate.layout))
        candidates.append(candidate)
        incumbent.offer_cheapest(repriced(ladder, [candidate]), candidate.moves)
        context.progress(phase, len(candidates), len(tasks))
    return sorted(candidates, key=cost_of)


def _compact(incumbent: Incumbent, candidates: Sequence[Candidate]) -> None:
    """Move the rectangles of the first candidates to their best places."""
    context = incumbent.context
    for each in candidates[:_COMPACTED]:
        ask(context.stop)
        incumbent.offer_compacted(incumbent.placement_of(each))


def _with_protocols(ladder: Ladder, level: int, layout: Layout, classes: Ints) -> Layout | None:
    """The layout with the cheapest protocols found; stacks in a single row are rows of the turned wafer."""
    if (layout.mark == NEW_ROW).sum() > 1 or not (layout.mark == STACKED).any():
        return with_protocols(ladder, level, layout, classes)
    chosen = with_protocols(turned(ladder), level, as_rows(layout), classes)
    return None if chosen is None else as_columns(chosen, int(ladder.size[1]))


def passes(moves: int) -> list[int]:
    """The moves of each pass: few, then seven times as many, then always twice as many as all before; at least half."""
    sizes, left = list[int](), moves
    while left > 0:
        size = (7, 2)[len(sizes) > 1] * sum(sizes) or min(max(1, moves // _QUICK), _FIRST_PASS)
        # What would be left for a short pass goes to this one.
        sizes.append(left if sizes and left < 2 * size else min(size, left))
        left -= sizes[-1]
    return sizes
