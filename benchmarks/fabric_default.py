"""What `dse fabric place` does by default, tuned rules, and the student alone, at equal CPU time on unseen families.

Three graphs of each of the ten families of :mod:`benchmarks.fabric_unseen`, which no model has learned from and no rule
was tuned on; three seeds.

- ``tuned``: one chain under the tuned rules.
- ``student``: one chain under the rules that the student corrects, also on graphs beyond its range.
- ``default``: the search of `dse fabric place`, on graphs beyond the student's range without it, with as many
  `--moves` as the time allows.

The CPU time of a move, of the start of a chain, and of simulations is measured once for each graph and sets the moves.
"CPU s" is what was used then, including the simulations by which the default chooses, not the one that gives the
figures. It is CPU time of this process: other work on the machine slows all methods, by shared caches alone. A graph
that a method brings to the bound with every seed is not placed by it with more time, and counts as that.

Share: bound over simulated slots of a sample, at most 1. Gains are of throughput, means over graphs of the mean over
seeds, with 90 % intervals from a bootstrap over graphs. What the bound leaves: mean gain if all placements of the tuned
rules were as fast as the bound. Everything measured is in the journal and not measured again.

Target: 3 % more than tuned in 0.3 and 1 s, its interval above 0; half of what the bound leaves in 3 and 10 s; nowhere
behind the student alone.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.fabric_unseen import DATA, FABRIC
from benchmarks.recording import Record, Results, parser_of
from dse.fabric.bound import bound
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import SearchContext, nearby_of
from dse.fabric.model import Pipeline, Placement
from dse.fabric.options import CHAINS, Effort, FabricOptions
from dse.fabric.refining import Changing
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.setting import tuned_for
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop, silent
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.data.tables import read_samples
from policies.fabric.methods import SHIPPED, ByStudentAndSimulator, LearnedFor
from policies.fabric.student_checkpoint import TrainedStudent, load_student
from policies.fabric.study.intervals import mean_interval

Floats = npt.NDArray[np.float64]
Value = TypeVar("Value")

METHODS = ("tuned", "default", "student")

BUDGETS_S = (0.3, 1.0, 3.0, 10.0)

GRAPHS, SEEDS = 3, 3
"""Graphs of each family, and seeds of each graph."""

AT_BOUND = 0.9995
"""Share of the bound from which a placement counts as at it."""

_SHORT, _LONG = 10_000, 40_000
"""Moves of the chains that are timed."""

RECORD = Record(
    "fabric_default",
    ("short", "second", "three", "ten", "graphs", "beyond", "at_bound"),
    {
        "main": (
            "CPU time",
            "graphs",
            *METHODS,
            *("default over tuned", "the bound leaves", "default over student"),
            "CPU s used: tuned, default, student",
        )
    },
)


class Speed(NamedTuple):
    """CPU seconds on a graph: of a move, of all else of a chain, of a simulation, and of a change of a placement."""

    move_s: float
    start_s: float
    simulation_s: float
    change_s: float


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph that is placed."""

    pipeline: Pipeline
    trained: TrainedStudent

    @property
    def follows(self) -> bool:
        """Whether the default follows the student here."""
        return not self.trained.out_of_range(self.pipeline, FABRIC)

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.pipeline, FABRIC)

    def context(self, effort: Effort, seed: int) -> SearchContext:
        """As `dse fabric place` has it."""
        return SearchContext(
            pipeline=self.pipeline,
            fabric=FABRIC,
            settings=AnnealSettings(moves=effort.moves),
            rounds=effort.rounds,
            tuned=tuned_for(FABRIC),
            chains=effort.chains,
            seed=(seed, 0),
            label="piece 1",
            executor=InProcessExecutor(),
            progress=silent,
            stop=never_stop,
        )

    def chain(self, with_student: bool, moves: int, seed: int) -> Placement:
        """The placement of one chain."""
        rules = self.trained.rules if with_student else tuned_for(FABRIC).setting
        student = self.trained.student if with_student else None
        schedule = rules.schedule(AnnealSettings(moves))
        chain = Chain(int(np.random.default_rng(seed).integers(2**63)))
        return Annealing(self.pipeline, FABRIC, rules.weights, schedule, never_stop, student)(chain).placement

    def default(self, effort: Effort, seed: int) -> Placement:
        """The placement of the default."""
        search = ByStudentAndSimulator(LearnedFor(None, FABRIC.name, "streaming"))
        return search(self.context(effort, seed))[0].placement

    def speed(self, with_student: bool) -> Speed:
        """Of chains and of what comes after them."""
        seconds = []
        for moves in (_SHORT, _LONG):
            placement, used_s = timed(partial(self.chain, with_student, moves, 0))
            seconds.append(used_s)
        move_s = max((seconds[1] - seconds[0]) / (_LONG - _SHORT), 0.1 * seconds[1] / _LONG)
        changing = Changing(nearby_of(self.context(Effort(1, _SHORT, 1), 0)))
        shares, change_s = timed(lambda: changing.shares(placement))
        _, several_s = timed(lambda: [changing((placement, shares, seed)) for seed in range(CHAINS)])
        _, simulation_s = timed(lambda: throughput(self._simulator, placement))
        return Speed(move_s, max(0.0, seconds[0] - _SHORT * move_s), simulation_s, max(change_s, several_s / CHAINS))

    def share(self, placement: Placement) -> float:
        """Share of the bound; 0 in a deadlock."""
        slots = throughput(self._simulator, placement).interval_slots
        return 0.0 if slots is None else min(1.0, bound(self.pipeline, FABRIC).slots / slots)


def timed(work: Callable[[], Value]) -> tuple[Value, float]:
    """What work comes to, and its CPU seconds."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def affordable(speed: Speed, budget_s: float) -> Effort:
    """The default's effort with as many moves as a budget allows."""

    def needed_s(moves: int) -> float:
        effort = FabricOptions("", moves=moves).effort
        chains_s = effort.chains * (speed.start_s + effort.moves * speed.move_s)
        if not effort.rounds:
            return chains_s
        changes = 2 + effort.chains * effort.rounds
        return chains_s + (effort.chains + 1) * speed.simulation_s + changes * speed.change_s

    low, high = 1, int(budget_s / speed.move_s) + 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed_s(middle) <= budget_s else (low, middle)
    return FabricOptions("", moves=low).effort


def graphs_of_families(trained: TrainedStudent) -> Iterator[tuple[int, Graph]]:
    """The first graphs of each family, by number."""
    seen: list[str] = []
    for number, record in sorted(read_samples(DATA).graphs.items()):
        seen.append(record.kind)
        if seen.count(record.kind) <= GRAPHS:
            yield number, Graph(record.pipeline, trained)


def key_of(number: int, budget_s: float, method: str, seed: int) -> str:
    """Of an entry of the journal."""
    return f"{number} {budget_s:g} s {method} {seed}"


def shares(journal: Journal, number: int, budget_s: float, method: str) -> list[float] | None:
    """What a method reaches on a graph, by seed; None where it was not measured."""
    keys = [key_of(number, budget_s, method, seed) for seed in range(SEEDS)]
    if all(key in journal for key in keys):
        return [min(1.0, journal[key]["share"]) for key in keys]
    shorter = BUDGETS_S.index(budget_s) - 1
    known = shares(journal, number, BUDGETS_S[shorter], method) if shorter >= 0 else None
    return [1.0] * SEEDS if known is not None and min(known) > AT_BOUND else None


def place(graph: Graph, method: str, speeds: dict[bool, Speed], budget_s: float, seed: int) -> dict[str, object]:
    """What a method reaches on a graph, as in the journal."""
    if method == "default":
        effort = affordable(speeds[graph.follows], budget_s)
        placement, used_s = timed(lambda: graph.default(effort, seed))
    else:
        speed = speeds[method == "student"]
        effort = Effort(1, int((budget_s - speed.start_s) / speed.move_s), 0)
        placement, used_s = timed(lambda: graph.chain(method == "student", effort.moves, seed))
    return {"share": graph.share(placement), "used_s": used_s, "moves": effort.chains * effort.moves}


def measure(journal: Journal, graphs: dict[int, Graph]) -> None:
    """Place what the journal does not have yet, with little time first."""
    is_ready = False
    for budget_s, method, (number, graph) in product(BUDGETS_S, METHODS, graphs.items()):
        if shares(journal, number, budget_s, method) is not None:
            continue
        if not is_ready:  # compiled code is loaded before anything is timed
            graph.speed(True)
            graph.default(Effort(1, _SHORT, 1), 0)
            is_ready = True
        speeds = {}
        for with_student in (False, True):
            key = f"{number} speed {'with the student' if with_student else 'under rules'}"
            if key not in journal:
                journal.append(key, list(graph.speed(with_student)))
            speeds[with_student] = Speed(*journal[key])
        for seed in range(SEEDS):
            key = key_of(number, budget_s, method, seed)
            if key not in journal:
                journal.append(key, place(graph, method, speeds, budget_s, seed))
                print(key, journal[key], flush=True)


def tabulate(journal: Journal, graphs: dict[int, Graph], results: Results) -> None:
    """One row for each budget, over the graphs that the tuned rules and the default have placed."""
    for budget_s, figure in zip(BUDGETS_S, RECORD.figures[: len(BUDGETS_S)], strict=True):
        by_method = {method: [shares(journal, number, budget_s, method) for number in graphs] for method in METHODS}
        placed = [tuned and default for tuned, default in zip(by_method["tuned"], by_method["default"], strict=True)]
        means = {
            method: np.array(
                [np.mean(own) if own else np.nan for own, is_placed in zip(rows, placed, strict=True) if is_placed]
            )
            for method, rows in by_method.items()
        }
        tuned, default, student = (means[method] for method in METHODS)
        gain, is_alone_known = shown(default / tuned - 1), not np.isnan(student).any()
        used_s = {
            method: [
                journal[key]["used_s"]
                for number, seed in product(graphs, range(SEEDS))
                if (key := key_of(number, budget_s, method, seed)) in journal
            ]
            for method in METHODS
        }
        results.row(
            "main",
            f"{budget_s:g} s",
            len(tuned),
            f"{tuned.mean():.3f}",
            f"{default.mean():.3f}",
            f"{student.mean():.3f}" if is_alone_known else None,
            gain,
            f"{100 * np.mean(1 / tuned - 1):+.1f} %",
            shown(default / student - 1) if is_alone_known else None,
            ", ".join(f"{np.mean(each):.2f}" for each in used_s.values() if each),
        )
        results.figure(figure, gain)
    results.figure("graphs", len(graphs))
    results.figure("beyond", sum(not graph.follows for graph in graphs.values()))
    at_bound = [min(own) > AT_BOUND for number in graphs if (own := shares(journal, number, BUDGETS_S[0], "tuned"))]
    results.figure("at_bound", sum(at_bound))


def shown(gains: Floats) -> str:
    """A mean gain with its interval in per cent."""
    interval = mean_interval(gains, 0)
    value, low, high = (f"{100 * each:+.1f}" for each in (interval.value, interval.low, interval.high))
    return f"{value} % [{low}, {high}]"


def main() -> None:
    """One row for each budget."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--journal", type=Path, required=True, help="file of what was measured; continued")
    parser.add_argument("--table", action="store_true", help="show what the journal has, and measure nothing")
    arguments = parser.parse_args()
    trained = load_student(SHIPPED, provenance_of(FABRIC, operator_slots()))
    graphs = dict(graphs_of_families(trained))
    with Journal(arguments.journal) as journal:
        if not arguments.table:
            measure(journal, graphs)
        tabulate(journal, graphs, results)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
