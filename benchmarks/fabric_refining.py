"""Rounds of refinement that draw units evenly, or by what the stream waits for, with equally many simulations.

Both begin with the fastest of the same chains. Every brief simulation counts: of the start, of each change, and of each
placement that units are drawn for by what it waits for. The slots at the end are those over 16 samples, as
`dse fabric place` has them. CPU seconds are those of the rounds, in one process.
"""

import time

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.fabric.contract import PROBLEM
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import Candidate, SearchContext, by_tuned, judged, nearby_of
from dse.fabric.options import FabricOptions
from dse.fabric.problem import FabricProblem
from dse.fabric.refining import Changing, Start
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.setting import tuned_for
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop, silent

RECORD = Record(
    "fabric_refining",
    ("less", "seconds"),
    {"main": ("seed", "units are drawn", "rounds", "simulations", "slots of the chains", "slots", "CPU s")},
)


class Evenly(Changing):
    """Draws all units alike."""

    def shares(self, placement):
        return np.ones(len(placement.site))


def context_of(problem: FabricProblem, chains: int, moves: int, seed: int) -> SearchContext:
    """The search for the first piece, as `dse fabric place` has it."""
    return SearchContext(
        pipeline=problem.pieces[0].pipeline,
        fabric=problem.fabric,
        settings=AnnealSettings(moves=moves),
        rounds=0,
        tuned=tuned_for(problem.fabric),
        chains=chains,
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
    """Two lines for each seed."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--graph", default="bert-large:layer3")
    parser.add_argument("--pass", dest="graph_pass", default="forward", choices=("forward", "training"))
    parser.add_argument("--fabric", default="sn10")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--moves", type=int, default=100_000)
    parser.add_argument("--simulations", type=int, default=61)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    options = FabricOptions(arguments.graph, fabric=arguments.fabric, pass_=arguments.graph_pass)
    problem = PROBLEM.pose(options).problem
    less, times = [], []
    for seed in range(arguments.seeds):
        context = context_of(problem, arguments.chains, arguments.moves, seed)
        first = judged(context, by_tuned(context))[0]
        slots = []
        for how in ("evenly", "by what waits"):
            *counts, before, after, seconds = row(context, first, how, arguments.simulations)
            results.row("main", seed, how, *counts, f"{before:.1f}", f"{after:.1f}", f"{seconds:.1f}")
            slots.append(after)
            times.append(seconds)
        less.append(f"{100 * (1 - slots[1] / slots[0]):.1f}")
    results.figure("less", f"{', '.join(less)} %")
    results.figure("seconds", f"{min(times):.0f} to {max(times):.0f} CPU seconds")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
