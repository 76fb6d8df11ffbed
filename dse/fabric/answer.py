"""The answer of ``dse fabric place``: a placement of every piece by the chosen cost, simulated, with its bound."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from dse.fabric.check import placement_faults_of
from dse.fabric.figures import PlacedPiece
from dse.fabric.formats import solution_document
from dse.fabric.methods import COSTS, Candidate, Search, SearchContext
from dse.fabric.misfit import infeasibility
from dse.fabric.options import FabricOptions
from dse.fabric.problem import FabricProblem
from dse.fabric.rules import rule_terms
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.search.expansion import Expansion
from dse.fabric.search.sites import SITE_KINDS
from dse.fabric.setting import tuned_for
from dse.problem import Posed
from dse.results.result import FailedCheckError, Result, result_of
from dse.run.executor import Executor
from dse.run.progress import StopSignal
from dse.run.run import Run
from hardware.inputs import choose

FabricPosed = Posed[FabricOptions, FabricProblem]

CHAINS, RELIEF = "chains", "relief"
"""What of a run can have been stopped before its end."""

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

    Chains that have ended are journalled; one that was cut short begins again.

    Raises:
        FailedCheckError: the checker refuses it (a fault of this program).
    """
    started = time.perf_counter()
    problem, options = posed.problem, posed.options
    if problem.misfit is not None:
        seconds = time.perf_counter() - started
        proof = infeasibility(problem.misfit)
        return result_of("fabric", posed, infeasibility=proof, seed=run.seed, method=options.cost, seconds=seconds)
    costs = {**COSTS, **run.methods}
    choose(options.command(), "--cost", options.cost, costs, "cost")
    search = costs[options.cost]
    with run.executor as executor:
        placed = [_placed(number, problem, options, search, run, executor) for number in range(len(problem.pieces))]
    has_ended = all(each.has_ended for each in placed) and run.stop() is None
    unfinished = [] if has_ended else [CHAINS]
    run.tables.put(CANDIDATES, _candidates_table(problem, placed))
    notes = list(dict.fromkeys(each.candidates[0].note for each in placed if each.candidates[0].note))
    figures = [each.figures for each in placed]
    faults = placement_faults_of(problem, [each.placement for each in figures])
    if faults:
        raise FailedCheckError("; ".join(faults))
    metrics = metrics_of(problem, figures, run.stop)
    if metrics is None:
        unfinished, metrics = [*unfinished, RELIEF], metrics_of(problem, figures, None)
        assert metrics is not None
    result = result_of(
        "fabric",
        posed,
        value=rate(problem, [each.interval_slots for each in figures]),
        bound=rate(problem, [each.bound.slots for each in figures]),
        solution=solution_document(problem, tuple(each.placement for each in figures)),
        metrics=metrics | {"unfinished": unfinished, "notes": notes},
        evaluations=sum(candidate.moves for each in placed for candidate in each.candidates),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=options.cost,
    )
    stopped = bool(unfinished) and run.stop() == "interrupted"
    return result.model_copy(update={"status": "interrupted"}) if stopped else result


def rate(problem: FabricProblem, interval_slots: Sequence[float | None]) -> float:
    """Samples a second of the pieces with these slots a sample; 0 in a deadlock."""
    (interval,) = interval_slots
    return 0.0 if interval is None else 1 / (interval * problem.fabric.slot_s)


def _placed(
    number: int, problem: FabricProblem, options: FabricOptions, search: Search, run: Run, executor: Executor
) -> _Placed:
    """One piece, placed."""
    piece = problem.pieces[number]
    context = SearchContext(
        pipeline=piece.pipeline,
        fabric=problem.fabric,
        settings=AnnealSettings(moves=options.moves, routing=options.routing),
        tuned=tuned_for(problem.fabric, options.tuned),
        chains=options.chains,
        seed=(run.seed, number),
        label=f"piece {number + 1}",
        executor=executor,
        progress=run.progress,
        stop=run.stop,
        journal=run.journal,
    )
    candidates = search(context)
    best = candidates[0]
    figures = PlacedPiece(piece.pipeline, best.placement, problem.fabric)
    tried = sum(each.moves for each in candidates)
    return _Placed(piece, candidates, figures, tried >= options.chains * options.moves)


def metrics_of(problem: FabricProblem, pieces: Sequence[PlacedPiece], stop: StopSignal | None) -> dict[str, Any] | None:
    """``metrics`` but for what was left unfinished; without relief where ``stop`` is None; None after a stop."""
    documents = []
    for each in pieces:
        document = _piece_metrics(problem, each)
        relief = [] if stop is None else each.relief(stop)
        if relief is None:
            return None
        documents.append(document | {"relief": [asdict(change) for change in relief]})
    return {"pieces": documents}


def _piece_metrics(problem: FabricProblem, piece: PlacedPiece) -> dict[str, Any]:
    pipeline, grid = piece.pipeline, problem.fabric.grid
    kinds = [unit.kind.site for unit in pipeline.units]
    units = {kind: kinds.count(kind) for kind in SITE_KINDS}
    names = [unit.name for unit in pipeline.units]
    busiest, bound, interval = piece.busiest_link, piece.bound, piece.interval_slots
    return {
        "units": units,
        "fill": {kind: units[kind] / grid.site_kind.count(kind) for kind in SITE_KINDS},
        "stages": pipeline.stages,
        "ideal_slots": pipeline.ideal_slots,
        "interval_slots": None if interval is None else float(interval),
        "normalized": 0.0 if interval is None else pipeline.ideal_slots / interval,
        "deadlock": interval is None,
        "blocked": dict(zip(names, piece.throughput.outcome.blocked, strict=False)),
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


def _candidates_table(problem: FabricProblem, placed: Sequence[_Placed]) -> pa.Table:
    """What the rules predict of every candidate, and what was simulated."""
    rows: list[Mapping[str, Any]] = []
    for number, each in enumerate(placed, start=1):
        for rank, candidate in enumerate(each.candidates, start=1):
            terms = rule_terms(each.piece.pipeline, candidate.placement, problem.fabric)
            interval = candidate.interval_slots if rank > 1 else each.figures.interval_slots
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
