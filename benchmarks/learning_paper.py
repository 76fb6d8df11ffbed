"""The paper's own method, tested as its authors would: Tables 2 and 3 with the form, the training and the samples of
Xie et al. (sections 4 and 5).

    python -m benchmarks.learning_paper --journal DIR [--workers 2]      # goes on wherever it was stopped
    python -m benchmarks.learning_paper --journal DIR --show             # prints what is finished, and makes nothing

The form is ``policies.partition.settings.PAPER``: 8 × 128 GraphSAGE, one likelihood ratio for the whole assignment,
20 rollouts, 4 minibatches, 10 epochs, FIX. It is pretrained on the 66 training graphs with 20,000 samples and the
analytical evaluator; of its 200 checkpoints the one with the best fine-tuned score on the 5 validation graphs is taken
(40 samples of each, 20 before and 20 after an update: of that the paper says nothing). Then, with every seed,

- on the 16 test graphs, analytical: from scratch, zero-shot and fine-tuned, random partitions and annealing with the
  same samples; dynamic programming and the portfolio count for the best known;
- on BERT of 2,164 operators, simulated: the same with fewer samples.

Everything is on ``mcm-36``. A unit of work is one method with one seed on one graph,
or one checkpoint of the pretraining. Finished units are in the journal, with their CPU seconds, and are not made again;
killing the process costs the unit in progress. Seed 0 of everything comes first, and small graphs before large ones.

Beside the tables stands the mean, not the best, throughput of the first and the last hundred samples over greedy's: a
policy that learns draws better partitions on average, which the best of many draws hardly shows.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from actors.ray_executor import RayExecutor
from dse.reproduce.mcm.bert import NAME as BERT
from dse.reproduce.mcm.study import SAMPLED, Trials, question_about
from dse.reproduce.mcm.tables import GREEDY, Trial, all_shares, method_table
from dse.reproduce.trials import finished
from dse.results.result import digest
from dse.run.directory import JOURNAL_FILE, RunDirectory
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop
from dse.run.run import Run
from dse.sources.catalogue import split
from hardware.inputs import InputError
from policies.learning.checkpoint import BEST
from policies.learning.pretraining import PretrainingPlan
from policies.learning.pretraining_run import PretrainingRun, pretrain
from policies.partition.contenders import PAPER_SCRATCH, paper_contenders
from policies.partition.methods import ask_for_extra, weights_digest
from policies.partition.settings import PAPER
from policies.partition.task import PartitionTask

BASELINES = (GREEDY, "dp", "portfolio", "random", "anneal")
ONCE = (GREEDY, "dp", "portfolio")
"""Methods that have no seed, or no use for more than one."""

LEARNED = tuple(paper_contenders(Path()))
TRANSFERRED = tuple(name for name in LEARNED if name != PAPER_SCRATCH)
PLACES = (20, 100, 300, 1000)
CONFIDENCE = 0.95
"""Of the interval of a paired difference."""

CRITERION = "fine_tuned"
POLICY_FOLDER = "policy"


@dataclass(frozen=True)
class Budget:
    """How much of everything.

    Attributes:
        samples, bert_samples: of each method on a test graph, and on BERT.
        seeds: of what is drawn.
        training, checkpoints, validation: samples and checkpoints of pretraining, samples of a validation graph.
    """

    samples: int = 2_000
    bert_samples: int = 600
    seeds: int = 5
    training: int = 20_000
    checkpoints: int = 200
    validation: int = 40

    def plan(self) -> PretrainingPlan:
        """Of the pretraining."""
        task = PartitionTask(PAPER, validation_samples=self.validation)
        return PretrainingPlan(task, self.training, self.checkpoints)


@dataclass(frozen=True)
class Pretraining:
    """The unit that pretrains in a folder of its own, and goes on there if it was stopped."""

    folder: str
    budget: Budget


@dataclass(frozen=True)
class Maker:
    """Makes units, wherever it is sent.

    Attributes:
        policy: the folder of the pretraining run.
    """

    policy: str

    def __call__(self, unit: Trial | Pretraining) -> dict[str, Any]:
        """A trial's curve, its hundreds' throughputs and its CPU seconds; of the pretraining what was chosen."""
        begun = time.process_time()
        value = self._pretrained(unit) if isinstance(unit, Pretraining) else self._tried(unit)
        return value | {"cpu_s": time.process_time() - begun}

    def _pretrained(self, unit: Pretraining) -> dict[str, Any]:
        with PretrainingRun(Path(unit.folder), unit.budget.plan()) as run:
            pretrain(run, _report, never_stop)
            best = run.choose(CRITERION)
        return {"checkpoint": best.number, "samples": best.samples}

    def _tried(self, trial: Trial) -> dict[str, Any]:
        made = Trials({**SAMPLED, **paper_contenders(Path(self.policy, BEST))}).made(trial)
        return {"curve": made.curve, "throughputs": made.throughputs}


@dataclass(frozen=True)
class Study:
    """All units, in the order in which they are made.

    Attributes:
        folder: of journal and pretraining.
        budget: how much of everything.
        graphs: of Table 2; the test graphs of the split as a rule.
        large: of Table 3; empty: without it.
    """

    folder: Path
    budget: Budget = Budget()
    graphs: tuple[str, ...] = ()
    large: str = BERT

    @property
    def policy(self) -> Path:
        """The folder of the pretraining run."""
        return self.folder / POLICY_FOLDER

    def by_size(self) -> list[str]:
        """The test graphs, the smallest first."""
        return sorted(self.graphs or split()["test"], key=operators)

    def trials(self, methods: Iterable[str], seeds: Iterable[int], *, large: bool = False) -> Iterator[Trial]:
        """Those of ``methods`` with ``seeds`` on the test graphs, or on the large one."""
        seeds = list(seeds)
        for graph in ([self.large] if self.large else []) if large else self.by_size():
            for method in methods:
                for seed in seeds if method not in ONCE else [0]:
                    samples = self.budget.bert_samples if large else self.budget.samples
                    yield Trial(graph, "simulator" if large else "analytical", method, seed, samples)

    def batches(self) -> Iterator[list[Trial | Pretraining]]:
        """Units that may run side by side. What begins with the checkpoint comes after it."""
        seeds = range(self.budget.seeds)
        yield list(self.trials(BASELINES, seeds))
        first = self.trials([PAPER_SCRATCH], seeds[:1])
        yield [*first, Pretraining(str(self.policy), self.budget), *self.trials([PAPER_SCRATCH], seeds[1:2])]
        for seed in seeds:
            yield list(self.trials([PAPER_SCRATCH, *TRANSFERRED], [seed]))
        yield list(self.trials([*BASELINES, PAPER_SCRATCH, *TRANSFERRED], seeds, large=True))

    def keys(self, units: Iterable[Trial | Pretraining]) -> dict[Trial | Pretraining, str]:
        """Of units in the journal; of what begins with a checkpoint, with the digest of its weights."""
        keys: dict[Trial | Pretraining, str] = {}
        for unit in units:
            if isinstance(unit, Pretraining):
                keys[unit] = digest({"pretraining": self.budget.plan().document()})
            elif unit.method not in TRANSFERRED:
                keys[unit] = digest(asdict(unit))
            elif (self.policy / BEST).exists():
                keys[unit] = digest(asdict(unit) | {"weights": weights_digest(str(self.policy / BEST))})
        return keys

    def make(self, run: Run) -> list[str]:
        """Make what is missing; why units failed."""
        failed: list[str] = []
        for units in self.batches():
            keys = self.keys(units)
            _, reasons = finished(run, f"units of {len(keys)}", Maker(str(self.policy)), keys)
            failed += [f"{unit}: {reason}" for unit, reason in reasons.items()]
        return failed

    def arguments(self) -> dict[str, Any]:
        """What decides all units, as JSON types."""
        graphs = list(self.graphs or split()["test"])
        return {"settings": PAPER.document(), "budget": asdict(self.budget), "graphs": graphs, "large": self.large}


def show(study: Study, journal: Journal) -> None:
    """What is finished, what it says, and the CPU seconds that are missing."""
    every = list(dict.fromkeys(unit for units in study.batches() for unit in units))
    keys = study.keys(every)
    values = {unit: journal[key] for unit, key in keys.items() if key in journal}
    _show_progress(study, every, values)
    _show_pretraining(study)
    for large, title in ((False, "Test graphs, analytical"), (True, "BERT, simulated")):
        units = {
            unit: value
            for unit, value in values.items()
            if isinstance(unit, Trial) and (unit.graph == study.large) == large
        }
        graphs = [study.large] if large else study.by_size()
        _show_tables(title, "table3" if large else "table2", units, graphs)


def show_copy(study: Study) -> None:
    """:func:`show` of a copy of the journal, which the study itself may have open."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copy(study.folder / JOURNAL_FILE, folder))
        with Journal(path) as journal:
            show(study, journal)


def _stage(unit: Trial | Pretraining, large: str) -> str:
    if isinstance(unit, Pretraining):
        return "pretraining"
    where = f" on {unit.graph}" if unit.graph == large else ""
    return (unit.method if unit.method not in BASELINES else "baselines") + where


def _show_progress(study: Study, every: Sequence[Trial | Pretraining], values: Mapping[Any, Any]) -> None:
    print(f"{'stage':<60} {'finished':>12} {'CPU s':>8} {'missing, about':>15}")
    for stage in dict.fromkeys(_stage(unit, study.large) for unit in every):
        units = [unit for unit in every if _stage(unit, study.large) == stage]
        done = [unit for unit in units if unit in values]
        spent = sum(values[unit]["cpu_s"] for unit in done)
        left_s = missing_s(units, values)
        left = "not known" if left_s is None else f"{left_s:.0f}"
        print(f"{stage:<60} {len(done):>4} of {len(units):>4} {spent:>8.0f} {left:>15}")
    print()


def _show_pretraining(study: Study) -> None:
    """Scores of the checkpoints that are there, and the mean reward of each round over the training graphs."""
    path = study.policy / JOURNAL_FILE
    if not path.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder)
        with PretrainingRun(Path(folder), study.budget.plan()) as run:
            scores, rewards = run.scores(), [point.scalars["reward"] for point in run.curve()]
    done = f"{len(scores)} of {study.budget.checkpoints} checkpoints scored"
    print(f"pretraining: {done} (throughput over the simple bound's)")
    for name in ("zero_shot", "fine_tuned") if scores else ():
        means = [score.mean(name) for score in scores]
        best = max(range(len(means)), key=means.__getitem__)
        print(f"  {name}: first {means[0]:.3f}, last {means[-1]:.3f}, best {means[best]:.3f} (checkpoint {best + 1})")
    # Every graph is visited once a round.
    graphs = len(study.budget.plan().task.training)
    rounds = [statistics.mean(rewards[end - graphs : end]) for end in range(graphs, len(rewards) + 1, graphs)]
    if rounds:
        print(f"  mean reward of each round over the graphs: {', '.join(f'{reward:.3f}' for reward in rounds)}")
    print()


def operators(graph: str) -> int:
    """How many a graph has."""
    return len(question_about(graph).problem.graph)


def missing_s(units: Sequence[Any], values: Mapping[Any, Any]) -> float | None:
    """CPU seconds that the missing ones of ``units`` may take; None where none has finished.

    A method takes on a graph what it took there with other seeds, or what a line through its finished graphs says of
    one of that size.
    """
    missing = [unit for unit in units if unit not in values]
    if not missing:
        return 0.0
    spent: dict[str, dict[str, list[float]]] = {}
    for unit in units:
        if unit in values:
            spent.setdefault(unit.method, {}).setdefault(unit.graph, []).append(values[unit]["cpu_s"])
    if not spent:
        return None
    every = statistics.mean(each for by_graph in spent.values() for seconds in by_graph.values() for each in seconds)
    return sum(_expected_s(spent.get(unit.method, {}), unit.graph, every) for unit in missing)


def _expected_s(by_graph: Mapping[str, Sequence[float]], graph: str, otherwise: float) -> float:
    if graph in by_graph:
        return statistics.mean(by_graph[graph])
    means = {operators(name): statistics.mean(seconds) for name, seconds in by_graph.items()}
    if len(means) < 2:
        return statistics.mean(means.values()) if means else otherwise
    slope, fixed = np.polyfit(list(means), list(means.values()), 1)
    return max(0.0, float(fixed + slope * operators(graph)))


def _show_tables(title: str, part: str, units: Mapping[Trial, Any], graphs: Sequence[str]) -> None:
    """Over the graphs on which all methods have finished with the first seed; at first without what is transferred."""
    started = {unit.method for unit in units}
    methods = [name for name in (*BASELINES, *LEARNED) if name in started]
    begun = {(unit.graph, unit.method) for unit in units if unit.seed == 0}
    tables = {}
    for compared in ([name for name in methods if name not in TRANSFERRED], methods):
        finished_on = tuple(graph for graph in graphs if all((graph, name) in begun for name in compared))
        if compared and finished_on:
            # Where more methods have finished on the same graphs, their table is the better one.
            tables[finished_on] = compared
    for finished_on, compared in tables.items():
        print(f"{title}: {len(finished_on)} of {len(graphs)} graphs ({', '.join(finished_on)})")
        _show_table(part, units, finished_on, compared)


def _show_table(part: str, units: Mapping[Trial, Any], graphs: Sequence[str], methods: Sequence[str]) -> None:
    own = {unit: value for unit, value in units.items() if unit.graph in graphs and unit.method in methods}
    samples = max(unit.samples for unit in own)
    curves = {
        unit: tuple((int(place), float(cost_s)) for place, cost_s in value["curve"]) for unit, value in own.items()
    }
    shares = all_shares(curves, graphs, methods, samples)
    table = method_table(part, shares, PLACES, samples)
    _print_aligned(
        [("seeds", *table.headers), *((str(len(shares[row[0]].of_best)), *row) for row in table.rows)],
    )
    best = {unit: curve[-1][1] for unit, curve in curves.items() if curve}
    greedy_s = {unit.graph: cost_s for unit, cost_s in best.items() if unit.method == GREEDY}
    for name in methods:
        throughputs = {unit: value["throughputs"] for unit, value in own.items() if unit.method == name}
        if name not in ONCE and (means := first_and_last(throughputs, greedy_s)):
            first, last = means
            print(f"  {name}: mean throughput over greedy, first hundred {first:.3f}, last {last:.3f}")
        if name in LEARNED and (gains := paired(best, name, "random")):
            print(f"  {name} over random after {samples}: {described(gains)}")
    print()


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    """Headers are long, so that each stands in a line of its own, with the number of its column."""
    headers, *cells = rows
    for number, header in enumerate(headers[2:], start=1):
        print(f"  ({number}) {header}")
    numbered = [(*headers[:2], *(f"({number})" for number in range(1, len(headers) - 1))), *cells]
    widths = [max(len(row[place]) for row in numbered) for place in range(len(headers))]
    for row in numbered:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def first_and_last(
    throughputs: Mapping[Trial, Sequence[float]], greedy_s: Mapping[str, float]
) -> tuple[float, float] | None:
    """Mean throughput of the first and of the last hundred samples over greedy's, geometric means over the trials.

    Trials in which one of the two has nothing that can run are left out; None where all are.
    """
    logs = [
        np.log(np.array([each[0], each[-1]]) * greedy_s[trial.graph])
        for trial, each in throughputs.items()
        if trial.graph in greedy_s and each and min(each[0], each[-1]) > 0
    ]
    if not logs:
        return None
    first, last = np.exp(np.mean(logs, axis=0)).tolist()
    return first, last


def paired(best: Mapping[Trial, float], method: str, other: str) -> dict[str, float]:
    """log of throughput over the other method's at the end, by graph: the mean over the seeds that both have."""
    cost_s = {(unit.graph, unit.method, unit.seed): value for unit, value in best.items()}
    gains: dict[str, list[float]] = {}
    for (graph, name, seed), value in cost_s.items():
        if name == method and (graph, other, seed) in cost_s:
            gains.setdefault(graph, []).append(float(np.log(cost_s[graph, other, seed] / value)))
    return {graph: statistics.mean(each) for graph, each in gains.items()}


def described(gains: Mapping[str, float]) -> str:
    """The geometric mean of paired gains with an interval over the graphs, and on how many it is one."""
    logs = np.array(list(gains.values()))
    better, worse = int((logs > 1e-9).sum()), int((logs < -1e-9).sum())
    text = f"{100 * np.expm1(logs.mean()):+.2f} %"
    if len(logs) > 1:
        from scipy.stats import t

        reach = t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        low, high = (100 * np.expm1(logs.mean() + sign * reach) for sign in (-1, 1))
        text += f" [{low:+.2f}, {high:+.2f}]"
    return f"{text}; better on {better}, equal on {len(logs) - better - worse}, worse on {worse} of {len(logs)} graphs"


def main() -> None:
    """Make what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole = Budget()
    parser.add_argument("--journal", type=Path, required=True, help="folder of everything that is finished")
    parser.add_argument("--show", action="store_true", help="only print what is finished")
    parser.add_argument("--workers", type=int, default=0, help="Ray workers; 0: this process alone")
    parser.add_argument("--samples", type=int, default=whole.samples, help="of each method on a test graph")
    parser.add_argument(
        "--bert-samples", type=int, default=whole.bert_samples, help="of each method on BERT; 0: without"
    )
    parser.add_argument("--seeds", type=int, default=whole.seeds)
    parser.add_argument("--training-samples", type=int, default=whole.training)
    parser.add_argument("--checkpoints", type=int, default=whole.checkpoints)
    parser.add_argument("--graphs", default="", help="in place of the test graphs, separated by commas")
    given = parser.parse_args()
    ask_for_extra("benchmarks.learning_paper", "--journal", str(given.journal))
    budget = Budget(given.samples, given.bert_samples, given.seeds, given.training_samples, given.checkpoints)
    graphs = tuple(filter(None, given.graphs.split(",")))
    study = Study(given.journal, budget, graphs, BERT if given.bert_samples else "")
    if given.show and not (study.folder / JOURNAL_FILE).exists():
        parser.error(f"argument --journal: {study.folder}: holds no study yet")
    arguments = study.arguments()
    try:
        RunDirectory(study.folder, "benchmarks.learning_paper", arguments, digest(arguments), resume=True)
    except InputError as error:
        parser.error(str(error))
    if given.show:
        show_copy(study)
        return
    with (
        Journal(study.folder / JOURNAL_FILE) as journal,
        RayExecutor(given.workers) if given.workers else InProcessExecutor() as executor,
    ):
        for reason in study.make(Run(executor, _report, journal=journal)):
            print(reason)
        show(study, journal)


def _report(phase: str, done: int, total: int) -> None:
    print(f"{time.strftime('%H:%M:%S')} {phase}: {done} of {total}", flush=True)


if __name__ == "__main__":
    main()
