"""Placements by rules and by learned costs at equal CPU time, on graphs that nobody has learned from or tuned on.

Target: on open graphs the learned cost is at least 2 % faster than the tuned rules at 1 and 10 s, with an interval
above 0; elsewhere it loses no more than 0.5 %. Open graphs are those that a pilot run of the tuned rules, with another
seed and the same budget, leaves more than 1 % from the bound.

- ``mixture``, ``tuned``: one chain under the untuned and under the tuned rules.
- ``student``: one chain under rules that the student corrects.
- ``learned``: chains that follow the student, and the one that the cost model expects to be fastest.
- ``tuned, judged`` and ``learned, judged``: of several chains, the one that the simulator finds to be fastest; its time
  counts.
- ``tuned, refined`` and ``learned, refined``: the same, and then rounds in which small changes of it are simulated:
  `dse fabric place --cost simulator` and `--cost learned+simulator`.

The CPU time of a move, of the start of a chain, and of judging is measured once for each graph, for all methods in
turn, and sets the moves. "CPU s" says what was really used, also by whoever judges; the last simulation, which gives
the figures, is not counted. Share: bound over simulated slots of a sample. Gains are relative to ``--over`` on the same
graphs, mean over graphs of the mean over seeds, with 90 % intervals from 10,000 resamples of the graphs.

``--families`` places blocks of thirteen families that nothing was trained on (:mod:`benchmarks.fabric_families`).
Everything measured is in the journal, and not measured again: the script can be stopped and started. ``--table`` prints
what is there, graphs on which all methods of a budget have been run.
"""

import argparse
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np

from benchmarks import fabric_families
from benchmarks.fabric_rules import interval
from dse.fabric.bound import bound
from dse.fabric.cases import block_case
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import Candidate, SearchContext, judged, refined
from dse.fabric.options import ROUNDS
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.expansion import expand
from dse.fabric.search.sites import SitesMissingError
from dse.fabric.setting import ChosenRules, Setting, tuned_for
from dse.graph.dataflow.graph import GraphPass
from dse.results.result import digest
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop, silent
from dse.sources.dataflow import dataflow_of, resolve_dataflow
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots

PILOT_SEED = 10**6
WITHIN = 0.99
SHORT, LONG = 4_000, 12_000
METHODS = ("mixture", "tuned", "student", "learned")
METHODS += ("tuned, judged", "learned, judged", "tuned, refined", "learned, refined")
JUDGED_CHAINS = 4
MIN_MOVES = 500


@dataclass(frozen=True)
class Method:
    """How placements are found: a setting, who corrects it, how many chains, who judges them, and rounds of changes."""

    setting: Setting
    student: object = None
    chains: int = 1
    judge: str = ""
    rounds: int = 0


class Bench:
    """The methods on a fabric."""

    def __init__(self, fabric_name, tuned, checkpoint, names):
        self.grid = fabric(fabric_name)
        tuned = tuned_for(self.grid, tuned)
        if tuned.note:
            raise SystemExit(tuned.note)
        rules = tuned.setting
        self.methods = {"mixture": Method(Setting.untuned()), "tuned": Method(rules)}
        self.methods["tuned, judged"] = Method(rules, chains=JUDGED_CHAINS, judge="simulator")
        self.methods["tuned, refined"] = Method(rules, chains=JUDGED_CHAINS, judge="simulator", rounds=ROUNDS)
        self.ensemble = None
        if not set(names) <= set(self.methods):
            self._load(checkpoint, "learned" in names)
        self.methods = {name: self.methods[name] for name in names}

    def _load(self, checkpoint, needs_ensemble):
        from policies.fabric.data.collection import provenance_of
        from policies.fabric.methods import SHIPPED
        from policies.fabric.model.checkpoint import load_for
        from policies.fabric.model.ensemble import Ensemble
        from policies.fabric.student_checkpoint import load_student

        folder = Path(checkpoint or SHIPPED)
        labelled_by = provenance_of(self.grid, operator_slots())
        trained = load_student(folder, labelled_by)
        if needs_ensemble:
            loaded = load_for(folder, labelled_by)
            self.ensemble = Ensemble.of(loaded.settings, loaded.tensors)
        student = trained.rules, trained.student
        self.methods["student"] = Method(*student)
        self.methods["learned"] = Method(*student, chains=JUDGED_CHAINS, judge="ensemble")
        self.methods["learned, judged"] = Method(*student, chains=JUDGED_CHAINS, judge="simulator")
        self.methods["learned, refined"] = Method(*student, chains=JUDGED_CHAINS, judge="simulator", rounds=ROUNDS)

    def graph(self, seed):
        """A graph that is placed: the block case of a seed, or a block of another family, by name and pass."""
        if isinstance(seed, int):
            return Graph(self, block_case(seed, self.grid, operator_slots()).expansion.pipeline)
        return Graph(self, family_expansion(seed, self.grid).pipeline)


MAX_FILL = 0.9
"""Share of the units that a block of another family may use."""


def family_expansion(name, grid):
    """The block ``FUNCTION PASS`` of :mod:`benchmarks.fabric_families` over the units; None where it does not fit."""
    function, graph_pass = name.split()
    source = f"{Path(fabric_families.__file__)}:{function}"
    graph = dataflow_of(resolve_dataflow(source), graph_pass, None, None)
    try:
        expansion = expand(graph, grid, operator_slots(), MAX_FILL)
    except SitesMissingError:
        return None
    is_placed = expansion.period_slots == expansion.target_slots and not expansion.is_channel_bound
    return expansion if is_placed else None


def families(fabric_name):
    """The blocks of other families that fit, as the block cases that costs are trained on do."""
    names = [f"{each.__name__} {direction}" for each in fabric_families.FAMILIES for direction in get_args(GraphPass)]
    return [name for name in names if family_expansion(name, fabric(fabric_name)) is not None]


class Graph:
    """A graph with what judges its placements."""

    def __init__(self, bench, pipeline):
        self.bench, self.grid, self.pipeline = bench, bench.grid, pipeline
        self.bound_slots = bound(self.pipeline, self.grid).slots

    @cached_property
    def simulator(self):
        """Of the pipeline."""
        return Simulator(self.pipeline, self.grid)

    def chains(self, method, moves, seed):
        """The placements of a method's chains."""
        settings = method.setting.schedule(AnnealSettings(moves))
        chains = np.random.default_rng(seed).integers(2**63, size=method.chains).tolist()
        annealings = [
            Annealing(self.pipeline, self.grid, method.setting.weights, settings, student=method.student)
            for _ in chains
        ]
        return [annealing(Chain(chain)) for annealing, chain in zip(annealings, chains, strict=True)]

    def chosen(self, method, annealed, seed):
        """The placement that a method chooses, or makes of it."""
        placements = [each.placement for each in annealed]
        if method.judge == "simulator":
            found = [Candidate(number, each.placement, each.cost, 0) for number, each in enumerate(annealed)]
            context = self._context(method, seed)
            candidates = judged(context, found)
            return (refined(context, candidates) if method.rounds else candidates)[0].placement
        if method.judge == "ensemble":
            from policies.fabric.model.cost import LearnedCost

            return placements[LearnedCost(self.bench.ensemble, self.pipeline, self.grid).ranked(placements)[0]]
        return min(annealed, key=lambda each: each.cost).placement

    def _context(self, method, seed):
        return SearchContext(
            pipeline=self.pipeline,
            fabric=self.grid,
            settings=AnnealSettings(),
            rounds=method.rounds,
            tuned=ChosenRules(method.setting),
            chains=method.chains,
            seed=(seed,),
            label="graph",
            executor=InProcessExecutor(),
            progress=silent,
            stop=never_stop,
        )

    def share(self, placement):
        """Share of the bound; 0 in a deadlock."""
        interval_slots = throughput(self.simulator, placement).interval_slots
        return 0.0 if interval_slots is None else self.bound_slots / interval_slots

    def speeds(self):
        """By method: CPU seconds of a move, of all else of a chain, and of choosing."""
        return {name: self._speed(method) for name, method in self.bench.methods.items()}

    def _speed(self, method):
        seconds = []
        for moves in (SHORT, LONG):
            start = time.process_time()
            annealed = self.chains(method, moves, 0)
            seconds.append((time.process_time() - start) / method.chains)
        start = time.process_time()
        self.chosen(method, annealed, 0)
        choosing_s = time.process_time() - start
        move_s = max((seconds[1] - seconds[0]) / (LONG - SHORT), 0.1 * seconds[1] / LONG)
        return [move_s, max(0.0, seconds[0] - SHORT * move_s), choosing_s]

    def run(self, name, speeds, budget_s, seed):
        """What a method reaches, as in the journal."""
        method, (move_s, start_s, choosing_s) = self.bench.methods[name], speeds[name]
        moves = int(((budget_s - choosing_s) / method.chains - start_s) / move_s)
        start = time.process_time()
        placement = self.chosen(method, self.chains(method, max(MIN_MOVES, moves), seed), seed)
        used_s = time.process_time() - start
        return {"share": self.share(placement), "used_s": used_s, "moves": max(MIN_MOVES, moves)}


def within_fill(graphs, fabric_name, max_fill):
    """The graphs that may use at most this share of the units; all may where it is 1."""
    if max_fill >= 1:
        return graphs
    grid, slots = fabric(fabric_name), operator_slots()
    return [seed for seed in graphs if block_case(seed, grid, slots).fill <= max_fill]


def measure(bench, journal, seeds, budgets, count):
    """Run what the journal does not have yet, budget by budget, so that tables can be shown early."""
    for name, method in bench.methods.items():
        journal.append(f"digest of {name}", identity_of(method))
        if journal[f"digest of {name}"] != identity_of(method):
            raise SystemExit(f"the journal has measured another {name}: begin a new one")
    loaded = False
    for budget in budgets:
        for seed in seeds:
            tasks = tasks_of(bench.methods, seed, budget, count)
            missing = {key: task for key, task in tasks.items() if key not in journal}
            if not missing:
                continue
            graph = bench.graph(seed)
            if not loaded:
                graph.speeds()  # loads compiled code
                loaded = True
            for name, speed in graph.speeds().items() if _lacks_speeds(bench, journal, seed) else ():
                journal.append(f"graph {seed} speed of {name}", speed)
            speeds = {name: journal[f"graph {seed} speed of {name}"] for name in bench.methods}
            for key, (name, chain_seed) in missing.items():
                journal.append(key, graph.run(name, speeds, budget, chain_seed))
            print(f"{budget:g} s: graph {seed}", flush=True)


def identity_of(method):
    """A digest of a method's rules and student."""
    layers = {} if method.student is None else {name: each.tolist() for name, each in method.student.layers.items()}
    weight = None if method.student is None else method.student.weight
    rounds = [method.rounds] if method.rounds else []
    return digest([method.setting.document(), method.chains, method.judge, layers, weight, *rounds])


def _lacks_speeds(bench, journal, seed):
    return any(f"graph {seed} speed of {name}" not in journal for name in bench.methods)


def tasks_of(methods, graph, budget, count):
    """The runs on a graph within a budget: (method, seed of its chains) by key; the pilot's is of the tuned rules."""
    tasks = {f"graph {graph} {budget:g} s {name} {seed}": (name, seed) for name in methods for seed in range(count)}
    return tasks | {f"graph {graph} {budget:g} s pilot": ("tuned", PILOT_SEED)}


def table(journal, names, graphs, budget, count, base):
    """Print a budget's rows, with gains relative to ``base``."""
    finished = [seed for seed in graphs if all(key in journal for key in tasks_of(names, seed, budget, count))]
    if not finished:
        return
    runs = {
        name: [[journal[f"graph {each} {budget:g} s {name} {seed}"] for seed in range(count)] for each in finished]
        for name in names
    }
    shares = {name: np.array([[run["share"] for run in row] for row in rows]) for name, rows in runs.items()}
    is_open = np.array([journal[f"graph {each} {budget:g} s pilot"]["share"] < WITHIN for each in finished])
    print(f"\n{budget:g} s CPU, {len(finished)} graphs, {count} seeds, {is_open.sum()} open")
    print(
        f"gains over {base}\n"
        f"{'cost':16}{'of the bound':>24}{'gap':>7}{'gap, open':>10}{'all':>26}{'open':>26}{'others':>26}"
        f"{'within 1 %':>11}{'seeds ±':>8}{'moves':>9}{'CPU s':>7}"
    )
    compared = shares[base].mean(axis=1)
    for name, share in shares.items():
        mean = share.mean(axis=1)
        gain = mean / compared - 1
        parts = (np.full(len(finished), True), is_open, ~is_open)
        cells = [interval(gain[part]) if part.any() else "-" for part in parts]
        gaps = [f"{1 - mean.mean():.1%}", f"{1 - mean[is_open].mean():.1%}" if is_open.any() else "-"]
        used = np.mean([[run["used_s"] for run in row] for row in runs[name]])
        moves = np.mean([[run["moves"] for run in row] for row in runs[name]])
        spread = share.std(axis=1, ddof=1).mean() if count > 1 else 0.0
        print(
            f"{name:16}{interval(mean):>24}{gaps[0]:>7}{gaps[1]:>10}{cells[0]:>26}{cells[1]:>26}{cells[2]:>26}"
            f"{f'{(mean > WITHIN).sum()}/{len(mean)}':>11}{spread:>8.3f}{moves:>9,.0f}{used:>7.2f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=Path, required=True, help="file of what was measured; continued")
    parser.add_argument("--fabric", default="plasticine-8x16")
    parser.add_argument("--first-graph", type=int, default=90_000)
    parser.add_argument("--graphs", type=int, default=60)
    parser.add_argument("--families", action="store_true", help="blocks of families that nothing was trained on")
    parser.add_argument("--max-fill", type=float, default=1.0, help="leave out graphs that may use more of the units")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="0.3,1,3,10", help="CPU seconds, separated by commas")
    parser.add_argument("--tuned", help="tuned rules (default: those in the package)")
    parser.add_argument("--checkpoint", help="learned cost (default: the one in the package)")
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons; tuned must be there")
    parser.add_argument("--over", choices=METHODS, default="tuned", help="the method that gains are relative to")
    parser.add_argument("--table", action="store_true", help="print what the journal has, and measure nothing")
    given = parser.parse_args()
    if given.over not in given.methods.split(";"):
        parser.error(f"argument --over: {given.over} must be one of --methods")
    budgets, names = [float(each) for each in given.budgets.split(",")], given.methods.split(";")
    numbers = range(given.first_graph, given.first_graph + given.graphs)
    graphs = families(given.fabric) if given.families else within_fill(numbers, given.fabric, given.max_fill)
    with Journal(given.journal) as journal:
        if not given.table:
            bench = Bench(given.fabric, given.tuned, given.checkpoint, names)
            measure(bench, journal, graphs, budgets, given.seeds)
        for budget in budgets:
            table(journal, names, graphs, budget, given.seeds, given.over)


if __name__ == "__main__":
    main()
