"""Rounds of refinement that draw units evenly, or by what the stream waits for, with equally many simulations.

Both begin with the fastest of the same chains. Every brief simulation counts: of the start, of each change, and of each
placement that units are drawn for by what it waits for. The slots at the end are those over 16 samples, as
`dse fabric place` has them. CPU seconds are those of the rounds, in one process. The first graph has several seeds;
larger ones, with fewer moves and simulations, have one.
"""

import time
from typing import NamedTuple

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.fabric.bound import bound
from dse.fabric.contract import PROBLEM
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import Candidate, SearchContext, by_tuned, judged, nearby_of
from dse.fabric.options import FabricOptions
from dse.fabric.problem import FabricProblem
from dse.fabric.refining import Changing, Start
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.setting import tuned_for
from dse.graph.dataflow.graph import GraphPass
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop, silent

RECORD = Record(
    "fabric_refining",
    ("less", "seconds", "training_gap"),
    {
        "main": (
            "graph",
            "seed",
            "units are drawn",
            "rounds",
            "simulations",
            "slots of the chains",
            "slots",
            "bound",
            "CPU s",
        )
    },
)


class Case(NamedTuple):
    """A graph on ``sn10``, and how much is searched."""

    graph: str
    pass_: GraphPass
    chains: int
    moves: int
    simulations: int
    seeds: int


CASES = (
    Case("bert-large:layer3", "forward", 4, 100_000, 61, 3),
    Case("gpt2-xl:layer3", "forward", 2, 50_000, 15, 1),
    Case("bert-large:layer3", "training", 2, 20_000, 8, 1),
)


class Evenly(Changing):
    """Draws all units alike."""

    def shares(self, placement):
        return np.ones(len(placement.site))


def context_of(problem: FabricProblem, case: Case, seed: int) -> SearchContext:
    """The search for the first piece, as `dse fabric place` has it."""
    return SearchContext(
        pipeline=problem.pieces[0].pipeline,
        fabric=problem.fabric,
        settings=AnnealSettings(moves=case.moves),
        rounds=0,
        tuned=tuned_for(problem.fabric),
        chains=case.chains,
        seed=(seed, 0),
        label="piece 1",
        executor=InProcessExecutor(),
        progress=silent,
        stop=never_stop,
    )


def row(context: SearchContext, first: Candidate, how: str, simulations: int) -> tuple[int, int, float, float, float]:
    """(Rounds, simulations, slots before and after, CPU s) of as many rounds as the simulations allow."""
    begun = time.process_time()
    evenly = how == "evenly"
    changing = (Evenly if evenly else Changing)(nearby_of(context))
    start, slots = Start(changing, first.placement), changing.slots(first.placement)
    done, rounds = 1 if evenly else 2, 0
    while done + context.chains <= simulations:
        fastest = context.changed(changing, start, rounds)
        rounds, done = rounds + 1, done + context.chains
        if fastest is not None and fastest.slots < slots:
            start, slots = Start(changing, fastest.placement), fastest.slots
            done += not evenly
    seconds = time.process_time() - begun
    last = throughput(Simulator(context.pipeline, context.fabric), start.placement).interval_slots
    assert first.interval_slots is not None
    assert last is not None
    return rounds, done, first.interval_slots, last, seconds


def main() -> None:
    """Two lines for each graph and seed."""
    parser, results = parser_of(__doc__), Results(RECORD)
    arguments = parser.parse_args()
    less, times = [], []
    for case in CASES:
        problem = PROBLEM.pose(FabricOptions(case.graph, fabric="sn10", pass_=case.pass_)).problem
        least = bound(problem.pieces[0].pipeline, problem.fabric).slots
        for seed in range(case.seeds):
            context = context_of(problem, case, seed)
            first = judged(context, by_tuned(context))[0]
            slots = []
            for how in ("evenly", "by what waits"):
                *counts, before, after, seconds = row(context, first, how, case.simulations)
                extent = f"{before:,.1f}", f"{after:,.1f}", f"{least:,.1f}", f"{seconds:.1f}"
                results.row("main", f"{case.graph}, {case.pass_}", seed, how, *counts, *extent)
                slots.append(after)
                times.append(seconds)
            if case is CASES[0]:
                less.append(f"{100 * (1 - slots[1] / slots[0]):.1f}")
            if case.pass_ == "training":
                results.figure("training_gap", f"{100 * (1 - least / slots[1]):.0f} %")
        if case is CASES[0]:
            results.figure("less", f"{', '.join(less)} %")
            results.figure("seconds", f"{min(times):.0f} to {max(times):.0f} CPU seconds")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
