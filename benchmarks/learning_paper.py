"""The paper's own method, tested as its authors would: Tables 2 and 3 with the form, the training and the samples of
Xie et al. (sections 4 and 5).

    python -m benchmarks.learning_paper --journal DIR [--workers 2]      # goes on wherever it was stopped
    python -m benchmarks.learning_paper --journal DIR --table 3          # BERT alone, with the pretraining
    python -m benchmarks.learning_paper --journal DIR --show             # prints what is finished, and makes nothing

The form is ``policies.partition.settings.PAPER``: 8 × 128 GraphSAGE, one likelihood ratio for the whole assignment,
20 rollouts, 4 minibatches, 10 epochs, FIX. It is pretrained on the 66 training graphs with 20,000 samples and the
analytical evaluator; of its 200 checkpoints the one with the best fine-tuned score on the 5 validation graphs is taken
(40 samples of each, 20 before and 20 after an update: of that the paper says nothing). Then, with every seed,

- on the 16 test graphs, analytical: from scratch, zero-shot and fine-tuned, random partitions and annealing with the
  same samples; dynamic programming and the portfolio count for the best known;
- on BERT of 2,164 operators, simulated: the same with fewer samples.

Everything is on ``mcm-36``. A unit of work is one method with one seed on one graph,
or one checkpoint of the pretraining. Finished units are in the journal, with their CPU seconds, and are not recomputed;
killing the process costs the unit in progress. Seed 0 of everything comes first, and small graphs before large ones.

The tables are followed by the mean, not the best, throughput of the first and the last hundred samples over greedy's: a
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

from actors.ray_executor import RayExecutor
from benchmarks.learning_paper_tables import (
    BASELINES,
    ONCE,
    PAPER_SCRATCH,
    TRANSFERRED,
    missing_s,
    operators,
    paper_contenders,
    show_tables,
)
from dse.reproduce.mcm.bert import NAME as BERT
from dse.reproduce.mcm.study import SAMPLED, Trials
from dse.reproduce.mcm.tables import Trial
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
from policies.partition.methods import ask_for_extra, weights_digest
from policies.partition.settings import PAPER
from policies.partition.task import PartitionTask

CRITERION = "fine_tuned"
POLICY_FOLDER = "policy"
TABLES = ("2", "3")
"""Of the paper: the test graphs, and BERT."""


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
        tables: whose units are made now.
    """

    folder: Path
    budget: Budget = Budget()
    graphs: tuple[str, ...] = ()
    large: str = BERT
    tables: tuple[str, ...] = TABLES

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
        seeds, pretraining = range(self.budget.seeds), Pretraining(str(self.policy), self.budget)
        if "2" in self.tables:
            yield list(self.trials(BASELINES, seeds))
            first = self.trials([PAPER_SCRATCH], seeds[:1])
            yield [*first, pretraining, *self.trials([PAPER_SCRATCH], seeds[1:2])]
            for seed in seeds:
                yield list(self.trials([PAPER_SCRATCH, *TRANSFERRED], [seed]))
        if "3" in self.tables:
            yield [*self.trials(BASELINES, seeds, large=True), pretraining]
            for seed in seeds:
                yield list(self.trials([PAPER_SCRATCH, *TRANSFERRED], [seed], large=True))

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
        show_tables(title, "table3" if large else "table2", units, graphs)


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
    parser.add_argument("--table", choices=TABLES, help="make only what this table needs: 2 (test graphs) or 3 (BERT)")
    parser.add_argument("--graphs", default="", help="in place of the test graphs, separated by commas")
    given = parser.parse_args()
    ask_for_extra("benchmarks.learning_paper", "--journal", str(given.journal))
    budget = Budget(given.samples, given.bert_samples, given.seeds, given.training_samples, given.checkpoints)
    graphs = tuple(filter(None, given.graphs.split(",")))
    large = BERT if given.bert_samples else ""
    study = Study(given.journal, budget, graphs, large, (given.table,) if given.table else TABLES)
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
