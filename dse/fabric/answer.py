"""The answer of ``dse fabric place``: a placement of every piece by the chosen cost, simulated, with its bound."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from dse.fabric.check import placement_faults_of
from dse.fabric.figures import PlacedPiece, placed_piece
from dse.fabric.formats import solution_document
from dse.fabric.methods import COSTS, Candidate, Search, SearchContext
from dse.fabric.misfit import infeasibility
from dse.fabric.options import FabricOptions
from dse.fabric.problem import FabricProblem
from dse.fabric.relief import reliefs
from dse.fabric.rules import rule_terms
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.search.expansion import Expansion
from dse.fabric.search.sites import SITE_KINDS
from dse.fabric.setting import tuned_for
from dse.fabric.turns import min_batch_s, min_times, shares, turn_times
from dse.problem import Posed, result_of
from dse.results.result import FailedCheckError, Result
from dse.run.executor import Executor
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.run.run import Run
from hardware.inputs import choose

FabricPosed = Posed[FabricOptions, FabricProblem]

CHAINS, RELIEF = "chains", "relief"
"""What of a run can have been stopped before its end."""

_SEARCHED = 0.9
"""Share of a time limit that chains and rounds have; the rest is for the simulation of the answer and what follows."""

CANDIDATES = "candidates"
"""The table of the placements that the chains ended with."""


@dataclass(frozen=True)
class _Placed:
    """A piece with its candidates, the chosen one first; ``has_ended``: whether all chains have."""

    piece: Expansion
    candidates: Sequence[Candidate]
    figures: PlacedPiece
    has_ended: bool


def answer(posed: FabricPosed, run: Run) -> Result:
    """A placement of every piece, passed by the checker, with its bound.

    Chains that have ended are journalled; one that was cut short starts over.

    Raises:
        FailedCheckError: the checker refuses it (a fault of this program).
    """
    started = time.perf_counter()
    problem, options = posed.problem, posed.options
    method = options.chosen_cost
    if problem.misfit is not None:
        seconds = time.perf_counter() - started
        proof = infeasibility(problem.misfit, problem.cut)
        return result_of("fabric", posed, infeasibility=proof, seed=run.seed, method=method, seconds=seconds)
    costs = {**COSTS, **run.methods}
    choose(options.command(), "--cost", method, costs, "cost")
    search = costs[method]
    with run.executor as executor:
        contexts = [_context(number, problem, options, run, executor) for number in range(len(problem.pieces))]
        # The answer of a search that is stopped needs no simulation of what was not placed.
        first = _in_order(problem, contexts) if problem.turns and run.stop is not never_stop else {}
        placed = [
            _placed(problem, context, piece, search, run.stop, first.get(number))
            for number, (context, piece) in enumerate(zip(contexts, problem.pieces, strict=True))
        ]
    has_ended = all(each.has_ended for each in placed) and run.stop() is None
    unfinished = [] if has_ended else [CHAINS]
    figures = [each.figures for each in placed]
    faults = placement_faults_of(problem, [each.placement for each in figures])
    if faults:
        raise FailedCheckError("; ".join(faults))
    metrics = metrics_of(problem, figures, run.stop, run.progress)
    if metrics is None:
        unfinished, metrics = [*unfinished, RELIEF], metrics_of(problem, figures, None)
        assert metrics is not None
    run.tables.put(CANDIDATES, _candidates_table(problem, placed, metrics))
    result = result_of(
        "fabric",
        posed,
        value=value_of(problem, figures),
        bound=bound_of(problem, figures),
        solution=solution_document(problem, tuple(each.placement for each in figures)),
        metrics=metrics | {"unfinished": unfinished, "notes": _notes(placed)},
        evaluations=sum(candidate.moves for each in placed for candidate in each.candidates),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=method,
    )
    stopped = bool(unfinished) and run.stop() == "interrupted"
    return result.model_copy(update={"status": "interrupted"}) if stopped else result


def _notes(placed: Sequence[_Placed]) -> list[str]:
    """Where another cost was used than the requested one, with the pieces if that does not hold for all."""
    pieces: dict[str, list[str]] = {}
    for number, each in enumerate(placed, start=1):
        if each.candidates[0].note:
            pieces.setdefault(each.candidates[0].note, []).append(str(number))
    return [
        note if len(numbers) == len(placed) else f"Piece{'s' * (len(numbers) > 1)} {', '.join(numbers)}: {note}"
        for note, numbers in pieces.items()
    ]


def value_of(problem: FabricProblem, pieces: Sequence[PlacedPiece]) -> float:
    """Samples per second; 0 in a deadlock.

    Of a graph that fits: once the pipeline is full. Of one that is cut: of a batch, over all turns.
    """
    if problem.turns:
        times = turn_times(problem, pieces)
        return 0.0 if times is None else problem.batch / math.fsum(time.total_s for time in times)
    (piece,) = pieces
    return 0.0 if piece.interval_slots is None else 1 / (piece.interval_slots * problem.fabric.slot_s)


def bound_of(problem: FabricProblem, pieces: Sequence[PlacedPiece]) -> float:
    """Samples per second that no placement exceeds; of a graph that is cut, no placement of any cut."""
    if problem.turns:
        return problem.batch / min_batch_s(problem)
    (piece,) = pieces
    return 1 / (piece.bound.slots * problem.fabric.slot_s)


def _context(
    number: int, problem: FabricProblem, options: FabricOptions, run: Run, executor: Executor
) -> SearchContext:
    """Of the search for one piece; of a time limit, each has as much as every other."""
    effort = options.effort
    share = _SEARCHED * (number + 1) / len(problem.pieces)
    return SearchContext(
        pipeline=problem.pieces[number].pipeline,
        fabric=problem.fabric,
        settings=AnnealSettings(moves=effort.moves, routing=options.routing),
        rounds=effort.rounds,
        tuned=tuned_for(problem.fabric, options.tuned),
        chains=effort.chains,
        seed=(run.seed, number),
        label=f"piece {number + 1}",
        executor=executor,
        progress=run.progress,
        stop=run.with_share(share).stop,
        journal=run.journal,
    )


def _in_order(problem: FabricProblem, contexts: Sequence[SearchContext]) -> dict[int, PlacedPiece]:
    """Every piece of a cut graph with its sites in order, by number, simulated for a batch."""
    placed = {
        number: placed_piece(each.pipeline, each.in_order().placement, problem.fabric)
        for number, each in enumerate(contexts)
    }
    with ThreadPoolExecutor() as threads:  # the simulator holds no lock
        deque(threads.map(lambda each: each.latency_s(problem.batch), placed.values()), maxlen=0)
    return placed


def _placed(
    problem: FabricProblem,
    context: SearchContext,
    piece: Expansion,
    search: Search,
    stop: StopSignal,
    first: PlacedPiece | None,
) -> _Placed:
    """One piece, placed; one of a cut graph is simulated for a batch too. ``first``: as :func:`_in_order`."""
    candidates = search(context)
    if problem.turns and candidates[0].is_simulated:
        candidates = _by_batch(problem, piece, candidates, stop)
    is_in_order = first is not None and candidates[0].chain < 0
    figures = first if is_in_order else placed_piece(piece.pipeline, candidates[0].placement, problem.fabric)
    assert figures is not None
    if problem.turns:
        figures.latency_s(problem.batch)
    tried = sum(each.moves for each in candidates if each.chain < context.chains)
    return _Placed(piece, candidates, figures, tried >= context.chains * context.settings.moves)


def _by_batch(
    problem: FabricProblem, piece: Expansion, candidates: Sequence[Candidate], stop: StopSignal
) -> list[Candidate]:
    """The candidates by how long a batch takes, which is what counts in a turn; of equal ones as they were.

    After an interrupt the rest follows unchanged.
    """
    judged: list[tuple[float, int]] = []
    for number, candidate in enumerate(candidates):
        if stop() is not None:
            break
        own = placed_piece(piece.pipeline, candidate.placement, problem.fabric).latency_s(problem.batch)
        judged.append((math.inf if own is None else own, number))
    return [*(candidates[number] for _, number in sorted(judged)), *candidates[len(judged) :]]


def metrics_of(
    problem: FabricProblem,
    pieces: Sequence[PlacedPiece],
    stop: StopSignal | None,
    progress: ProgressCallback = silent,
) -> dict[str, Any] | None:
    """``metrics`` without what was left unfinished; None if the run was stopped.

    Where ``stop`` is None, without relief, and of a cut graph without the steady state, as a batch says how long it
    takes.
    """
    cut = _cut_metrics(problem, pieces) if problem.turns else None
    most = _dominating(problem, pieces)
    documents = []
    for number, each in enumerate(pieces):
        if stop is not None and stop() is not None:
            return None
        relieved = [] if stop is None or number != most else reliefs(each, stop, progress)
        if relieved is None:
            return None
        own = _piece_metrics(problem, each) | _steady_metrics(problem, each, stop is not None or cut is None)
        documents.append(own | {"relief": [asdict(change) for change in relieved]})
    return {"pieces": documents, "cut": cut}


def _dominating(problem: FabricProblem, pieces: Sequence[PlacedPiece]) -> int:
    """The piece that takes most of the time; the first one in a deadlock."""
    times = turn_times(problem, pieces)
    return next(shares(times, problem.turns))[0] if times else 0


def _cut_metrics(problem: FabricProblem, pieces: Sequence[PlacedPiece]) -> dict[str, Any]:
    times, least = turn_times(problem, pieces), min_times(problem)
    runs: list[float | None] = [None] * len(least) if times is None else [time.run_s for time in times]
    turns = [
        {
            "piece": turn.piece + 1,
            "configuration_s": bound.configuration_s,
            "load_s": bound.load_s,
            "run_s": run_s,
            "bound_s": bound.run_s,
        }
        for turn, bound, run_s in zip(problem.turns, least, runs, strict=True)
    ]
    return {
        "turns": turns,
        "batch_s": None if times is None else math.fsum(time.total_s for time in times),
        "bound_per_s": problem.batch / math.fsum(time.total_s for time in least),
    }


def _piece_metrics(problem: FabricProblem, piece: PlacedPiece) -> dict[str, Any]:
    pipeline, grid = piece.pipeline, problem.fabric.grid
    kinds = [unit.kind.site for unit in pipeline.units]
    units = {kind: kinds.count(kind) for kind in SITE_KINDS}
    names = [unit.name for unit in pipeline.units]
    busiest, bound = piece.busiest_link, piece.bound
    return {
        "units": units,
        "fill": {kind: units[kind] / grid.site_kind.count(kind) for kind in SITE_KINDS},
        "stages": pipeline.stages,
        "ideal_slots": pipeline.ideal_slots,
        "latency_s": piece.latency_s(1),
        "batch_latency_s": piece.latency_s(problem.batch),
        "bound": {
            "resource": bound.resource,
            "unit": names[bound.unit] if bound.unit >= 0 else None,
            "slots": float(bound.slots),
        },
        "rules": {name: float(value) for name, value in piece.rules._asdict().items()},
        "busiest_link": None
        if busiest is None
        else {"cells": [busiest.start, busiest.end], "flits": busiest.flits, "nets": busiest.nets},
    }


def _steady_metrics(problem: FabricProblem, piece: PlacedPiece, is_simulated: bool) -> dict[str, Any]:
    """Of the steady state, if that is simulated; whether there is a deadlock, a batch says otherwise."""
    if not is_simulated:
        is_deadlock = piece.latency_s(problem.batch) is None
        return {"interval_slots": None, "normalized": None, "deadlock": is_deadlock, "blocked": {}, "waits": None}
    interval, names = piece.interval_slots, [unit.name for unit in piece.pipeline.units]
    return {
        "interval_slots": None if interval is None else float(interval),
        "normalized": 0.0 if interval is None else piece.pipeline.ideal_slots / interval,
        "deadlock": interval is None,
        "blocked": dict(zip(names, piece.throughput.outcome.blocked, strict=False)),
        "waits": piece.waits,
    }


def _candidates_table(problem: FabricProblem, placed: Sequence[_Placed], metrics: Mapping[str, Any]) -> pa.Table:
    """What the rules predict of every candidate, and what was simulated."""
    rows: list[Mapping[str, Any]] = []
    for number, (each, chosen) in enumerate(zip(placed, metrics["pieces"], strict=True), start=1):
        for rank, candidate in enumerate(each.candidates, start=1):
            terms = (
                each.figures.rules
                if rank == 1
                else rule_terms(each.piece.pipeline, candidate.placement, problem.fabric)
            )
            interval = candidate.interval_slots if rank > 1 else chosen["interval_slots"]
            rows.append(
                {
                    "piece": number,
                    "rank": rank,
                    "chain": candidate.chain,
                    "cost": float(candidate.cost),
                    **{name: float(value) for name, value in terms._asdict().items()},
                    "interval_slots": interval,
                }
            )
    return pa.Table.from_pylist(rows)
