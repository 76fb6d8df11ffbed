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
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

import dse
from dse.executor import InProcessExecutor
from dse.partition.graphs.catalogue import split
from dse.partition.options import EvaluatorName, PartitionOptions, question_of
from dse.partition.search.context import SearchContext
from dse.partition.search.refining import starts_of
from dse.progress import StopSignal, ask, never_stop
from policies.partition.checkpoint import Checkpoint
from policies.partition.curves import CurvePoint, curve_point
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.local_training import LocalTraining
from policies.partition.search import learn
from policies.partition.settings import AnchorName, LearningSettings

ScoreName = Literal["zero_shot", "fine_tuned", "both"]
"""``both``: the geometric mean of the two."""

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

    def samples_until(self, number: int) -> int:
        """Evaluations after which checkpoint ``number`` (from 1 on) is made."""
        return -(-self.samples * number // self.checkpoints)


def stored_graphs(
    names: Sequence[str], packages: Sequence[str], evaluator: EvaluatorName = "analytical"
) -> list[StoredGraph]:
    """Every graph of the catalogue on every package.

    Raises:
        InputError: an unknown name or package.
    """
    graphs = []
    for package in packages:
        for name in names:
            problem = question_of(PartitionOptions(name, package=package)).problem
            # Elites and best values are kept by name.
            named = replace(problem.graph, name=f"{name} on {package}")
            simulated = package if evaluator == "simulator" else None
            graphs.append(StoredGraph.of(replace(problem, graph=named), simulated))
    return graphs


def with_start(graph: StoredGraph) -> StoredGraph:
    """The graph with the cheapest partition that simple methods find, which a policy that refines begins with."""
    chips = starts_of(SearchContext(graph.problem, graph.evaluator, InProcessExecutor()))
    return replace(graph, start=tuple(chips[int(np.argmin(graph.evaluator.costs(chips)))].tolist()))


@lru_cache(maxsize=4)
def _shared_graphs(
    names: tuple[str, ...], packages: tuple[str, ...], evaluator: EvaluatorName, anchor: AnchorName
) -> tuple[StoredGraph, ...]:
    """:func:`stored_graphs`, made once a process: a sweep has many trainers and validators, one after the other."""
    graphs = stored_graphs(names, packages, evaluator)
    return tuple(map(with_start, graphs) if anchor == "best" else graphs)


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

    @cached_property
    def _training(self) -> LocalTraining:
        plan = self.plan
        graphs = _shared_graphs(plan.training, plan.packages, plan.evaluator, plan.settings.anchor)
        return LocalTraining(GraphStore(graphs), plan.settings, plan.seed)

    def advance(self, before: Progressed, stop: StopSignal = never_stop) -> Progressed:
        """The checkpoint after ``before``, to which this trainer goes first if it is elsewhere.

        Raises:
            StoppedError: ``stop`` gave a reason; what was learned since ``before`` is lost.
        """
        if before.number != self._at:
            # Made anew: RLlib's learner does not go back from newer weights to older ones.
            self.__dict__.pop("_training", None)
            if before.number:
                self._training.restore(pickle.loads(before.state))
        self._at = -1
        number, samples = before.number + 1, before.samples
        curve = []
        while samples < self.plan.samples_until(number):
            ask(stop)
            episodes, told = self._training.iterate()
            samples += len(episodes)
            curve.append(curve_point(samples, episodes, told))
        self._at = number
        about = {"number": number, "samples": samples, "plan": self.plan.document(), "dse": dse.__version__}
        checkpoint = Checkpoint(self.plan.settings, self._training.weights(), about)
        return Progressed(number, samples, checkpoint, pickle.dumps(self._training.state()), tuple(curve))


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
    """Scores checkpoints on the validation graphs of a plan, each on the plan's packages."""

    def __init__(self, plan: PretrainingPlan) -> None:
        self.plan = plan

    @cached_property
    def _graphs(self) -> tuple[StoredGraph, ...]:
        plan = self.plan
        return _shared_graphs(plan.validation, plan.packages, plan.evaluator, plan.settings.anchor)

    def score(self, progressed: Progressed) -> Score:
        """Both scores of a checkpoint; the same for the same plan and weights."""
        assert progressed.checkpoint is not None
        zero_shot, fine_tuned = (
            {graph.name: self._reward(graph, progressed.checkpoint, tune=tune) for graph in self._graphs}
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
