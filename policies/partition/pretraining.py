"""Pretraining (paper, section 4.3): a policy is trained over many graphs, and its checkpoints are scored on others.

Two workers, each a plain object: the :class:`Trainer` goes over the training graphs and stops at every checkpoint; the
:class:`Validator` scores a checkpoint on the validation graphs, as it is (zero-shot) and fine-tuned on each of them.
They share nothing but checkpoints, so they may run one after the other or at the same time on different machines
(:mod:`actors.pretraining`). What a trainer needs to go on is in the :class:`Progressed` of its last checkpoint, so a
worker that dies, or a run that is interrupted, continues from there.

Cost: training is ``samples`` evaluations, and a pass of the network forward and back for each of their groups ×
``epochs``; validation of one checkpoint evaluates ``2 × validation_samples × validation_seeds`` candidates of every
validation graph.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

import dse
from dse.partition.constraints.sampler import seeds_of
from dse.partition.options import EvaluatorName, PartitionOptions, question_of
from dse.partition.problem import Chips
from dse.partition.search.context import SearchContext
from dse.partition.search.refining import starts_of
from dse.run.executor import InProcessExecutor
from dse.run.progress import ProgressCallback, StopSignal, ask, never_stop, silent
from dse.sources.catalogue import split
from hardware.inputs import fail
from hardware.packages import Package, package
from policies.learning.curves import CurvePoint
from policies.partition.checkpoint import Checkpoint
from policies.partition.curves import iteration_scalars
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.local_training import LocalTraining
from policies.partition.search import learn
from policies.partition.settings import AnchorName, LearningSettings

ScoreName = Literal["zero_shot", "fine_tuned", "both"]
"""``both``: the geometric mean of the two."""

PREPARED = "graphs prepared"

_TRIED = 50
"""Random partitions of a graph, to see whether it can run at all."""

_SCORES: tuple[ScoreName, ScoreName] = ("zero_shot", "fine_tuned")


@dataclass(frozen=True)
class PretrainingPlan:
    """What is asked of a pretraining run.

    Attributes:
        settings: of policy and learning.
        samples: evaluations of training in all (paper: 20,000).
        checkpoints: how many are made, evenly over the samples (paper: 200).
        packages: package specs; every training graph is trained on each. Paper: 36 chips.
        evaluator: of training and validation. Paper: the analytical one.
        seed: of first weights, rollouts and validation.
        validation_samples: candidates of a validation graph, zero-shot and fine-tuned each.
        validation_seeds: how often each is made: one says little about two checkpoints that are nearly as good.
        training, validation: graphs of the catalogue; those of the split as a rule.
    """

    settings: LearningSettings
    samples: int = 20_000
    checkpoints: int = 200
    packages: tuple[str, ...] = ("mcm-36",)
    evaluator: EvaluatorName = "analytical"
    seed: int = 0
    validation_samples: int = 50
    validation_seeds: int = 1
    training: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = split()
        for name in ("training", "validation"):
            object.__setattr__(self, name, tuple(getattr(self, name)) or parts[name])

    def document(self) -> dict[str, Any]:
        """The plan as JSON types."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "PretrainingPlan":
        """The plan that :meth:`document` wrote."""
        lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
        return cls(**{**document, **lists, "settings": LearningSettings.from_document(document["settings"])})

    @property
    def least_validation_samples(self) -> int:
        """With fewer, nothing is learned on a validation graph, and both scores are the same.

        A policy that refines begins with two partitions that it has not drawn.
        """
        settings = self.settings.on_one_graph()
        return settings.rollouts * settings.graphs + (2 if settings.anchor == "best" else 0) + 1

    @property
    def identity(self) -> dict[str, Any]:
        """What decides all weights and scores: the plan, and what its packages are now.

        Raises:
            InputError: an unknown package, or a file that breaks a rule.
        """
        return self.document() | {"package_constants": [asdict(package(spec)) for spec in self.packages]}

    def samples_until(self, number: int) -> int:
        """Evaluations after which checkpoint ``number`` (from 1 on) is made."""
        return -(-self.samples * number // self.checkpoints)


def graph_name(name: str, package_spec: str) -> str:
    """What a graph of the catalogue is called on a package: elites, best values and scores are kept by name."""
    return f"{name} on {package_spec}"


def stored_graphs(
    names: Sequence[str], packages: Sequence[str], evaluator: EvaluatorName = "analytical"
) -> list[StoredGraph]:
    """Every graph of the catalogue on every package.

    Raises:
        InputError: an unknown name or package.
    """
    graphs = []
    for spec in packages:
        for name in names:
            problem = question_of(PartitionOptions(name, package=spec)).problem
            named = replace(problem.graph, name=graph_name(name, spec))
            simulated = spec if evaluator == "simulator" else None
            graphs.append(StoredGraph.of(replace(problem, graph=named), simulated))
    return graphs


def _context(graph: StoredGraph) -> SearchContext:
    return SearchContext(graph.problem, graph.evaluator, InProcessExecutor())


def with_start(graph: StoredGraph) -> StoredGraph:
    """The graph with the cheapest partition that simple methods find, which a policy that refines begins with."""
    chips = starts_of(_context(graph))
    return replace(graph, start=tuple(chips[int(np.argmin(graph.evaluator.costs(chips)))].tolist()))


@lru_cache(maxsize=1024)
def _shared_graph(
    name: str, package_spec: str, evaluator: EvaluatorName, anchor: AnchorName, _package: Package
) -> StoredGraph | None:
    """One of :func:`stored_graphs`, made once a process: a sweep has many trainers and validators, one after the other.

    None where nothing that simple methods try can run: there is nothing to learn from it, and it would hide what every
    other graph says of a checkpoint.
    """
    (graph,) = stored_graphs((name,), (package_spec,), evaluator)
    if anchor == "best":
        graph = with_start(graph)
        return graph if _runs(graph, np.array([graph.start], dtype=np.int8)) else None
    random = graph.sampler.sample(seeds_of(0, 0, _TRIED))
    return graph if _runs(graph, random) or _runs(graph, starts_of(_context(graph))) else None


def _runs(graph: StoredGraph, chips: Chips) -> bool:
    """Whether one of the partitions [B, N] can run."""
    return bool(np.isfinite(graph.evaluator.costs(chips)).any())


def _shared_graphs(
    plan: PretrainingPlan, names: tuple[str, ...], stop: StopSignal, progress: ProgressCallback
) -> tuple[StoredGraph, ...]:
    """Those of ``names`` on every package of the plan that can run.

    Raises:
        StoppedError: ``stop`` gave a reason.
        InputError: none can.
    """
    found: list[StoredGraph] = []
    for place, package_spec in enumerate(plan.packages):
        for number, name in enumerate(names, start=1):
            ask(stop)
            graph = _shared_graph(name, package_spec, plan.evaluator, plan.settings.anchor, package(package_spec))
            found += [] if graph is None else [graph]
            progress(PREPARED, place * len(names) + number, len(names) * len(plan.packages))
    if not found:
        raise fail("dse pretrain", "--package", ", ".join(plan.packages), f"nothing can run of {', '.join(names)}")
    return tuple(found)


@dataclass(frozen=True)
class Progressed:
    """A checkpoint, and what the trainer needs to go on from it.

    Attributes:
        number: of the checkpoint, from 1 on; 0 before the first.
        samples: evaluations so far.
        checkpoint: the weights; None before the first.
        state: of the algorithm, pickled; empty before the first.
        curve: the iterations since the checkpoint before.
    """

    number: int = 0
    samples: int = 0
    checkpoint: Checkpoint | None = None
    state: bytes = b""
    curve: tuple[CurvePoint, ...] = ()


class Trainer:
    """Trains over the training graphs of a plan, from one checkpoint to the next."""

    def __init__(self, plan: PretrainingPlan) -> None:
        self.plan = plan
        self._at = 0
        self._training: LocalTraining | None = None

    def _made(self, stop: StopSignal, progress: ProgressCallback) -> LocalTraining:
        if self._training is None:
            graphs = _shared_graphs(self.plan, self.plan.training, stop, progress)
            self._training = LocalTraining(GraphStore(graphs), self.plan.settings, self.plan.seed)
        return self._training

    def advance(
        self, before: Progressed, stop: StopSignal = never_stop, progress: ProgressCallback = silent
    ) -> Progressed:
        """The checkpoint after ``before``, to which this trainer goes first if it is elsewhere.

        Raises:
            StoppedError: ``stop`` gave a reason; what was learned since ``before`` is lost.
            InputError: no training graph can run on any package.
        """
        if before.number != self._at:
            # Made anew: RLlib's learner does not go back from newer weights to older ones.
            self._training = None
        training = self._made(stop, progress)
        if before.number != self._at and before.number:
            training.restore(pickle.loads(before.state))
        self._at = -1
        number, samples = before.number + 1, before.samples
        curve = []
        while samples < self.plan.samples_until(number):
            episodes, told = training.iterate(stop)
            samples += len(episodes)
            curve.append(CurvePoint(samples, iteration_scalars(episodes, told)))
        self._at = number
        about = {"number": number, "samples": samples, "plan": self.plan.document(), "dse": dse.__version__}
        about["graphs"] = len(training.runner.store)
        checkpoint = Checkpoint(self.plan.settings, training.weights(), about)
        return Progressed(number, samples, checkpoint, pickle.dumps(training.state()), tuple(curve))


@dataclass(frozen=True)
class Score:
    """What a checkpoint is worth on the validation graphs.

    Attributes:
        number: of the checkpoint.
        samples: evaluations that it was trained with.
        zero_shot, fine_tuned: throughput of the best candidate over that of the simple bound, by graph; the
            simulator can be faster than that bound, which knows nothing of fusion.
    """

    number: int
    samples: int
    zero_shot: Mapping[str, float]
    fine_tuned: Mapping[str, float]

    def mean(self, name: ScoreName) -> float:
        """The geometric mean over the graphs."""
        if name == "both":
            return _geometric_mean([self.mean(each) for each in _SCORES])
        return _geometric_mean(list(getattr(self, name).values()))

    def document(self) -> dict[str, Any]:
        """The score as JSON types."""
        return asdict(self) | {"means": {name: self.mean(name) for name in _SCORES}}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Score":
        """The score that :meth:`document` wrote."""
        return cls(document["number"], document["samples"], document["zero_shot"], document["fine_tuned"])


class Validator:
    """Scores checkpoints on the validation graphs of a plan that can run, each on the plan's packages."""

    def __init__(self, plan: PretrainingPlan) -> None:
        self.plan = plan

    def score(self, progressed: Progressed, stop: StopSignal = never_stop) -> Score:
        """Both scores of a checkpoint; the same for the same plan and weights.

        Raises:
            StoppedError: ``stop`` gave a reason while graphs were prepared.
            InputError: no validation graph can run on any package.
        """
        assert progressed.checkpoint is not None
        graphs = _shared_graphs(self.plan, self.plan.validation, stop, silent)
        zero_shot, fine_tuned = (
            {graph.name: self._reward(graph, progressed.checkpoint, tune=tune) for graph in graphs}
            for tune in (False, True)
        )
        return Score(progressed.number, progressed.samples, zero_shot, fine_tuned)

    def _reward(self, graph: StoredGraph, checkpoint: Checkpoint, *, tune: bool) -> float:
        """The geometric mean over the seeds."""
        plan = self.plan
        rewards = []
        for seed in range(plan.seed, plan.seed + plan.validation_seeds):
            context = SearchContext(graph.problem, graph.evaluator, InProcessExecutor(), seed, plan.validation_samples)
            if graph.start is not None:
                context = replace(context, starts=(graph.start,))
            best = learn(context, plan.settings.on_one_graph(), checkpoint, tune=tune)
            rewards.append(float(graph.reward(np.array([best.cost_s]))[0]))
        return _geometric_mean(rewards)


def _geometric_mean(values: Sequence[float]) -> float:
    """0 where one of them is."""
    return float(np.exp(np.mean(np.log(values)))) if all(values) else 0.0


def selected(scores: Sequence[Score], name: ScoreName) -> Score:
    """The best score; of equals the earliest."""
    return max(scores, key=lambda score: (score.mean(name), -score.number))
