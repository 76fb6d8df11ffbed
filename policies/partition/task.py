"""What is learned about partitioning (paper, section 4.3): a policy over many graphs, scored on others.

Cost: training is ``samples`` evaluations, and a pass of the network forward and back for each of their groups ×
``epochs``; validation of one checkpoint evaluates ``2 × validation_samples × validation_seeds`` candidates of every
validation graph.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dse.partition.options import EvaluatorName
from dse.partition.search.context import SearchContext
from dse.run.executor import InProcessExecutor
from dse.run.progress import ProgressCallback, StopSignal, ask, silent
from dse.sources.catalogue import split
from hardware.packages import package
from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.checkpoint import CheckpointFormat
from policies.learning.scores import geometric_mean
from policies.learning.task import LearningTask
from policies.partition.checkpoint import POLICY, PolicyCheckpoint
from policies.partition.choices import CRITERIA, SWEPT
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.search import learn
from policies.partition.settings import PAPER, LearningSettings
from policies.partition.training import PartitionTraining
from policies.partition.training_graphs import graph_name, usable_graphs


@dataclass(frozen=True)
class PartitionTask(LearningTask[LearningSettings]):
    """The policy over graphs of the catalogue.

    Its scores are throughput of the best candidate over that of the simple bound; the simulator can be faster than that
    bound, which knows nothing of fusion. ``zero_shot``: of a policy that does not learn on the validation graph;
    ``fine_tuned``: of one that does.

    Attributes:
        settings: of policy and learning.
        packages: package specs; every training graph is trained on each. Paper: 36 chips.
        evaluator: of training and validation. Paper: the analytical one.
        validation_samples: candidates of a validation graph, zero-shot and fine-tuned each.
        validation_seeds: how often each is made: one says little about two checkpoints that are nearly as good.
        training, validation: graphs of the catalogue; those of the split as a rule.
    """

    packages: tuple[str, ...] = ("mcm-36",)
    evaluator: EvaluatorName = "analytical"
    validation_samples: int = 50
    validation_seeds: int = 1
    training: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()

    checkpoint_format: ClassVar[CheckpointFormat[LearningSettings]] = POLICY
    score_title: ClassVar[str] = "throughput relative to the simple bound"
    criteria: ClassVar[Mapping[str, tuple[str, ...]]] = CRITERIA
    swept: ClassVar[Mapping[str, tuple[float, ...]]] = SWEPT
    references: ClassVar[Mapping[str, Mapping[str, float]]] = {
        # Of the learning rate the paper says nothing.
        "paper": {name: getattr(PAPER, name) for name in ("rollouts", "minibatches", "epochs")}
    }

    def __post_init__(self) -> None:
        parts = split()
        for name in ("training", "validation"):
            object.__setattr__(self, name, tuple(getattr(self, name)) or parts[name])

    @property
    def identity(self) -> dict[str, Any]:
        """The task, and what its packages are now.

        Raises:
            InputError: an unknown package, or a file that breaks a rule.
        """
        return self.document() | {"package_constants": [asdict(package(spec)) for spec in self.packages]}

    @property
    def samples_per_iteration(self) -> int:
        """The rollouts of all groups."""
        return self.settings.rollouts * self.settings.graphs

    @property
    def validation_names(self) -> tuple[str, ...]:
        """Every validation graph on every package."""
        return tuple(graph_name(name, spec) for spec in self.packages for name in self.validation)

    @property
    def min_validation_samples(self) -> int:
        """With fewer, nothing is learned on a validation graph, and both scores are the same.

        A policy that refines begins with two partitions that it has not drawn.
        """
        settings = self.settings.on_one_graph()
        return settings.rollouts * settings.graphs + (2 if settings.anchor == "best" else 0) + 1

    def optimiser_steps(self, iterations: int) -> int:
        """RLlib goes over the rows again and again in minibatches of one size, which need not divide them."""
        rows = self.samples_per_iteration * self.settings.passes
        minibatch = max(1, rows // self.settings.minibatches)
        return iterations * math.ceil(rows * self.settings.epochs / minibatch)

    def begin(
        self, seed: int, stop: StopSignal, progress: ProgressCallback, actors: TrainingActors = NO_ACTORS
    ) -> PartitionTraining:
        """Rollouts of the training graphs that can run, and learning from them.

        Raises:
            StoppedError: ``stop`` gave a reason while graphs were prepared.
            InputError: no training graph can run on any package.
        """
        store = GraphStore(self._graphs(self.training, stop, progress))
        return PartitionTraining(store, self.settings, seed, actors=actors)

    def score(self, checkpoint: PolicyCheckpoint, seed: int, stop: StopSignal) -> dict[str, dict[str, float]]:
        """Both scores on the validation graphs that can run, each on every package.

        Raises:
            StoppedError: ``stop`` gave a reason.
            InputError: no validation graph can run on any package.
        """
        graphs = self._graphs(self.validation, stop, silent)
        return {
            name: {graph.name: self._reward(graph, checkpoint, seed, stop, tune=tune) for graph in graphs}
            for name, tune in (("zero_shot", False), ("fine_tuned", True))
        }

    def _graphs(self, names: tuple[str, ...], stop: StopSignal, progress: ProgressCallback) -> tuple[StoredGraph, ...]:
        return usable_graphs(names, self.packages, self.evaluator, self.settings.anchor, stop, progress)

    def _reward(
        self, graph: StoredGraph, checkpoint: PolicyCheckpoint, first_seed: int, stop: StopSignal, *, tune: bool
    ) -> float:
        """The geometric mean over the seeds."""
        rewards = []
        for seed in range(first_seed, first_seed + self.validation_seeds):
            samples = self.validation_samples
            context = SearchContext(graph.problem, graph.evaluator, InProcessExecutor(), seed, samples, stop=stop)
            if graph.start is not None:
                context = replace(context, starts=(graph.start,))
            best = learn(context, self.settings.on_one_graph(), checkpoint, tune=tune)
            ask(stop)  # what was cut short is not a score
            rewards.append(float(graph.reward(np.array([best.cost_s]))[0]))
        return geometric_mean(rewards)
