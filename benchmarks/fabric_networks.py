"""Graph networks, the paper's and ours, next to models without one, on families that none has learned from.

All learn from the placements of a directory of ``dse fabric train``, and are judged on those of
:mod:`benchmarks.fabric_unseen` and, those of ``--folds``, in five folds by graph. Ratios of errors have 90 % intervals
from a bootstrap over graphs. What a fitted model predicts is kept in ``--out``, so that a run that was stopped
continues; with ``--only`` some models are fitted, and nothing is printed.

``--sweep N`` tries N settings of what the paper leaves open, at random, with Ray Tune. It uses a third of the graphs
that the first fold learns from, of which it holds out a quarter: neither other families nor that fold's are seen.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.fabric_ood import number, shown
from benchmarks.fabric_unseen import FABRIC, unseen
from benchmarks.recording import Record, Results, parser_of
from dse.run.journal import Journal
from dse.run.tables import FOLDER
from policies.fabric.data.tables import read_samples
from policies.fabric.model.ensemble import SHARE
from policies.fabric.model.examples import Learner
from policies.fabric.model.paper import PaperLearner, PaperSettings
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import NetworkLearner
from policies.fabric.study.accuracy import Accuracy, accuracy, relative_errors
from policies.fabric.study.fits import journalled
from policies.fabric.study.folds import folds_by_graph, held_out_predictions
from policies.fabric.study.intervals import Interval, error_ratio
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.learners import Plain

Floats = npt.NDArray[np.float64]

PLAIN = ("ridge", "trees", "trees-all", "perceptrons", "stack")

SEVERAL = 3
"""Networks with other seeds, in an ensemble."""

_ENSEMBLES = tuple(f"{name}, {SEVERAL} networks" for name in ("graph-alone", "graph"))

_MODELS = (*PLAIN, "paper", "graph-alone", "graph")

_COLUMNS = ("RE", "ρ", "ρ within graphs", "RE / that of the best model without a network")

RECORD = Record(
    "fabric_networks",
    (
        "best",
        "ratio",
        "ratio_alone",
        "ratio_several",
        "re",
        "alone_re",
        "paper_re",
        "paper_rho",
        "paper_folds_re",
        "paper_folds_rho",
    ),
    {"unseen": ("learned from", "model", *_COLUMNS), "folds": ("model", *_COLUMNS[:3])},
)

OPEN: Mapping[str, tuple[Any, ...]] = {
    "layers": (2, 3, 4),
    "width": (24, 32, 48),
    "embedding": (4, 8, 16),
    "aggregation": ("mean", "sum", "max"),
    "pooling": ("mean", "max"),
    "target": ("logarithm", "throughput"),
    "graphs_in_batch": (4, 12),
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "epochs": (15,),
}
"""What the paper leaves open, with the values that are tried; all with as many epochs."""


def learners() -> Mapping[str, Learner]:
    """All by name; ``graph`` is made of the stack and ``graph-alone``, ensembles of networks with other seeds."""
    networks = {_network(seed): NetworkLearner(CostSettings(), seed) for seed in range(SEVERAL)}
    return {**Plain(0).learners, "paper": PaperLearner(), **networks}


def _network(seed: int) -> str:
    """The name of a network alone, by its seed."""
    return f"graph-alone {seed}" if seed else "graph-alone"


@dataclass(frozen=True, eq=False)
class Judge:
    """What models are judged on.

    Attributes:
        labelled: placements with their labels.
        predict: the targets that a learner comes to, [S].
        learners: by name.
    """

    labelled: Labelled
    predict: Callable[[Learner], Floats]
    learners: Mapping[str, Learner]
    _known: dict[str, Floats] = field(default_factory=dict)

    def target(self, name: str) -> Floats:
        """What a model predicts, [S]."""
        if name not in self._known:
            if name in ("graph", _ENSEMBLES[1]):
                network = name.replace("graph", "graph-alone")
                predicted = (1 - SHARE) * self.target("stack") + SHARE * self.target(network)
            elif name == _ENSEMBLES[0]:
                predicted = np.mean([self.target(_network(seed)) for seed in range(SEVERAL)], axis=0)
            else:
                predicted = self.predict(self.learners[name])
            self._known[name] = predicted
        return self._known[name]

    def ratio(self, name: str, rival: str) -> Interval:
        """RE of one model over that of another."""
        of = self.labelled
        one, other = (of.throughput_of(self.target(each)) for each in (name, rival))
        return error_ratio(one, other, of.label, of.examples.graph)

    def accuracy(self, name: str) -> Accuracy:
        """Of a model."""
        of = self.labelled
        return accuracy(of.throughput_of(self.target(name)), of.label, of.examples.graph, of.wirelength)

    @cached_property
    def best(self) -> str:
        """The model without a network whose RE is least."""
        return min(PLAIN, key=lambda name: self.accuracy(name).error)


def on_unseen(labelled: Labelled, known: Mapping[str, Learner]) -> Judge:
    """Other families."""
    others, seen = unseen(with_encodings=True), labelled.examples
    return Judge(others, lambda learner: learner.fit(seen).predict(others.examples), known)


def in_folds(labelled: Labelled, known: Mapping[str, Learner]) -> Judge:
    """What is held out in five folds by graph."""
    seen = labelled.examples
    folds = folds_by_graph(seen.graph, 5, 0)
    return Judge(labelled, lambda learner: held_out_predictions(learner, seen, folds), known)


def cells(measured: Accuracy) -> tuple[str, str, str]:
    """RE and both ρ."""
    return number(measured.error, 4), number(measured.correlation), number(measured.within or 0.0)


@dataclass(frozen=True)
class SweepJudge:
    """Says how well the paper's model does with some settings, as a function of them alone, for workers.

    Attributes:
        folder: directory of a training.
    """

    folder: Path

    def __call__(self, settings: PaperSettings) -> float:
        """RE on graphs that were not learned from."""
        labelled, held_out = self._split
        target = np.zeros(len(held_out))
        examples = labelled.examples
        target[held_out] = PaperLearner(settings).fit(examples.at(~held_out)).predict(examples.at(held_out))
        return float(relative_errors(labelled.throughput_of(target), labelled.label)[held_out].mean())

    @cached_property
    def _split(self) -> tuple[Labelled, npt.NDArray[np.bool_]]:
        samples = read_samples(self.folder / FOLDER)
        graph = np.array([sample.graph for sample in samples.samples])
        learned_from = np.random.default_rng(1).permutation(np.unique(graph[~folds_by_graph(graph, 5, 0)[0]]))
        part = learned_from[: len(learned_from) // 3]
        own = tuple(sample for sample in samples.samples if sample.graph in set(part.tolist()))
        labelled = Labelled(replace(samples, samples=own), FABRIC, with_encodings=True)
        return labelled, np.isin(labelled.examples.graph, part[: len(part) // 4])


def choices(count: int) -> list[PaperSettings]:
    """The default, and settings at random."""
    random = np.random.default_rng(0)
    drawn = [{name: values[random.integers(len(values))] for name, values in OPEN.items()} for _ in range(count - 1)]
    return [PaperSettings(epochs=OPEN["epochs"][0]), *(PaperSettings(**each) for each in drawn)]


def swept(folder: Path, count: int) -> list[tuple[float, PaperSettings]]:
    """The errors of settings, the least one first."""
    from ray import tune

    from actors.quiet_tune import run_trials
    from actors.ray_executor import RayExecutor
    from actors.task_trial import SHARES, TASK, TaskTrial

    class Kept(tune.Callback):
        """Keeps what trials report."""

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            found.append((result[SHARES], result["config"][TASK]))

    found: list[tuple[float, PaperSettings]] = []
    with RayExecutor(1) as executor, tempfile.TemporaryDirectory() as into:
        executor.release()
        space = {TASK: tune.grid_search(choices(count))}
        never = tune.stopper.NoopStopper()
        run_trials(TaskTrial, {"judge": SweepJudge(folder)}, Path(into), 1, never, [Kept()], space)
    return sorted(found, key=lambda each: each[0])


def main() -> None:
    """Both tables, or some fits of theirs."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--samples", type=Path, action="append", required=True, help="directory of a training")
    parser.add_argument("--out", type=Path, required=True, help="directory of what was predicted")
    parser.add_argument("--only", action="append", help="fit these models on other families, and print nothing")
    parser.add_argument("--folds", action="append", default=[], help="models that the first samples judge in folds")
    parser.add_argument("--sweep", type=int, default=0, metavar="N", help="try N settings of the paper's model")
    arguments = parser.parse_args()
    for error, settings in swept(arguments.samples[0].absolute(), arguments.sweep) if arguments.sweep else ():
        print(number(error, 4), *(f"{name}={getattr(settings, name)}" for name in OPEN), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with Journal(arguments.out / "journal.jsonl") as journal:
        known = journalled(learners(), journal)
        trainings = [Labelled(read_samples(each / FOLDER), FABRIC, with_encodings=True) for each in arguments.samples]
        folds = in_folds(trainings[0], known)
        for labelled in trainings:
            judge = on_unseen(labelled, known)
            for name in arguments.only or ():
                judge.target(name)
            if not arguments.only:
                report(results, labelled, judge, _ENSEMBLES if labelled is trainings[-1] else ())
        for name in arguments.folds:
            folds.target(name)
            if not arguments.only:
                results.row("folds", name, *cells(folds.accuracy(name)))
        if arguments.only:
            return
        paper = folds.accuracy("paper")
        results.figure("paper_folds_re", number(paper.error))
        results.figure("paper_folds_rho", number(paper.correlation))
    results.save(arguments.record)


def report(results: Results, labelled: Labelled, judge: Judge, ensembles: tuple[str, ...]) -> None:
    """A row for each model on other families; figures and ensembles are those of the last samples."""
    kinds = len({record.kind for record in labelled.samples.graphs.values()})
    learned_from = f"{len(labelled.label):,} placements, {kinds} kinds"
    for name in (*_MODELS, *ensembles):
        ratio = "1" if name == judge.best else shown(judge.ratio(name, judge.best))
        results.row("unseen", learned_from, name, *cells(judge.accuracy(name)), ratio)
    results.figure("best", judge.best)
    for name, prefix in (("graph", ""), ("graph-alone", "alone_"), ("paper", "paper_")):
        results.figure(f"{prefix}re", number(judge.accuracy(name).error, 4))
    results.figure("paper_rho", number(judge.accuracy("paper").correlation))
    results.figure("ratio", shown(judge.ratio("graph", judge.best)))
    results.figure("ratio_alone", shown(judge.ratio("graph-alone", judge.best)))
    if ensembles:
        results.figure("ratio_several", shown(judge.ratio(_ENSEMBLES[1], judge.best)))


if __name__ == "__main__":
    main()
