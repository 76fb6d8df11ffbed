"""Cost models measured for ``dse reproduce rdu``: samples are collected into the journal of its run."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.fabric.cases import block_case
from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.evaluators.measure import latency_s, throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.options import FabricOptions, problem_of
from dse.fabric.problem import FabricProblem
from dse.fabric.rules import MIXTURE, RuleWeights, single_rule
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.student import Student
from dse.fabric.setting import tuned_for
from dse.reproduce.rdu.study import VERSIONS, Budget
from dse.reproduce.rdu.tables import KIND_LEFT_OUT
from dse.reproduce.trials import required_journal
from dse.run.progress import ask
from dse.run.run import Run
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import samples_in
from policies.fabric.data.records import Samples
from policies.fabric.data.rounds import Rounds
from policies.fabric.model.ensemble import EnsembleLearner
from policies.fabric.model.examples import Examples, Learner, Model
from policies.fabric.model.features import FEATURES
from policies.fabric.model.paper import PaperLearner, PaperSettings
from policies.fabric.model.settings import CostSettings
from policies.fabric.model_trial import ModelTrial, PieceDone
from policies.fabric.student import StudentLearner, student_examples
from policies.fabric.study.accuracy import accuracy
from policies.fabric.study.folds import folds_by_graph, held_out_predictions
from policies.fabric.study.intervals import Interval, correlation_interval, error_ratio
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.learners import Plain
from policies.fabric.study.versions import next_version, relabelled

Floats = npt.NDArray[np.float64]

FABRIC, SLOTS = "plasticine-8x16", "streaming"

ROUNDS = 3

_RULES = ("expert", "route")
_FIRST_PLACED = 1_000_000
"""Seed of the first graph that is placed: far from those that are collected."""


@dataclass(frozen=True)
class FabricLaboratory:
    """Measures models by name: a rule, a baseline, ``paper`` or ``graph``; after a comma, what it is denied, or
    that it does not learn from the kind of block that it predicts.
    """

    budget: Budget
    run: Run
    _predicted: dict[str, Floats] = field(default_factory=dict, init=False, repr=False)
    _problems: dict[str, FabricProblem] = field(default_factory=dict, init=False, repr=False)
    _unseen: dict[tuple[str, str], Labelled] = field(default_factory=dict, init=False, repr=False)
    _versions: dict[str, "Version"] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def fabric(self) -> Fabric:
        """Of all placements."""
        return fabric(FABRIC)

    @cached_property
    def samples(self) -> Samples:
        """All that were collected."""
        return samples_in(required_journal(self.run))

    def effort(self) -> Mapping[str, Any]:
        """What the samples took, which are collected first."""
        started, journal = time.process_time(), required_journal(self.run)
        slots, budget, run = operator_slots(SLOTS), self.budget, self.run
        rounds = Rounds(self.fabric, slots, budget.graphs, budget.placements, ROUNDS, run.seed)
        rounds.collect(journal, run.executor, run.progress, run.stop)
        return {
            "graphs": len(self.samples.graphs),
            "placements": len(self.samples.samples),
            "followed": sum(each.round > 0 for each in self.samples.samples),
            "cpu_s": time.process_time() - started,
        }

    def accuracy(self, model: str) -> Mapping[str, Any]:
        """Of a model in five folds by graph, or in folds by kind of block; of a rule on all placements."""
        started = time.process_time()
        predicted, kinds = self._held_out(model), self._plain.kind
        by_kind = {str(kind): _measured(self._plain, predicted, kinds == kind) for kind in np.unique(kinds)}
        whole = _measured(self._plain, predicted, np.ones(len(predicted), dtype=bool))
        return {"whole": whole, "by_kind": by_kind, "cpu_s": time.process_time() - started}

    def error_ratio(self, model: str, rival: str) -> Mapping[str, Any]:
        """Of two models, in the same folds."""
        predicted, others = self._held_out(model), self._held_out(rival)
        return asdict(error_ratio(predicted, others, self._plain.label, self._plain.examples.graph, self.run.seed))

    @cached_property
    def _plain(self) -> Labelled:
        """What predictions are compared with."""
        return Labelled(self.samples, self.fabric)

    def _held_out(self, model: str) -> Floats:
        """What a model says of placements whose graphs (or kind of block) it has not learned from, [S]."""
        if model not in self._predicted:
            name, _, denied = model.partition(", ")
            labelled = Labelled(self.samples, self.fabric, name in ("paper", "graph"), denied != "no slots")
            self._predicted[model] = labelled.throughput_of(self._targets(labelled, name, denied))
        return self._predicted[model]

    def _targets(self, labelled: Labelled, name: str, denied: str) -> Floats:
        examples = labelled.examples
        if name in _RULES:
            return _by_rule(name, examples)
        folds = folds_by_graph(examples.graph, 5, self.run.seed)
        if denied == KIND_LEFT_OUT:
            denied, folds = "", [labelled.kind == kind for kind in np.unique(labelled.kind)]
        return held_out_predictions(self._learner(name, denied), examples, folds)

    def layer_size(self, name: str, version: str) -> Mapping[str, Any]:
        """The pieces and turns of a real model or a layer of it, and its bound."""
        trial = self._trial(name, version)
        return {**trial.size(), "bound_per_s": trial.bound_per_s}

    def layer_accuracy(self, name: str, version: str, model: str) -> Mapping[str, Any]:
        """How well a cost model predicts placements of the pieces."""
        ask(self.run.stop)
        unseen = self._placements_of(name, version)
        if model in _RULES:
            target = _by_rule(model, unseen.examples)
        else:
            target = self._version(version).model(model, self._learner(model, "")).predict(unseen.examples)
        predicted, label, graph = unseen.throughput_of(target), unseen.label, unseen.examples.graph
        return {
            **_measured(unseen, predicted, np.ones(len(predicted), dtype=bool)),
            "correlation_interval": _limits(correlation_interval(predicted, label, graph, self.run.seed)),
        }

    def layer_rate(self, name: str, version: str, cost: str, seed: int) -> Mapping[str, Any]:
        """How fast a model or layer is whose pieces are placed under a cost."""
        weights, student = self._version(version).placers[cost]
        trial = replace(self._trial(name, version), seed=self.run.seed + seed)
        done = self._piece_done(f"{name} placed under {cost}, {version}")
        return {"samples_per_s": trial.samples_per_s(weights, student, self.budget.moves, self.run.stop, done)}

    def _version(self, name: str) -> "Version":
        if name not in self._versions:
            of, samples, run = self.fabric, self.samples, self.run
            if name != VERSIONS[0]:
                of = next_version(of)
                samples = relabelled(samples, of, run.stop, run.progress)
            self._versions[name] = Version(samples, of, tuned_for(self.fabric).setting.weights, run.seed)
        return self._versions[name]

    def _trial(self, name: str, version: str) -> ModelTrial:
        """The same pieces under every version."""
        if name not in self._problems:
            self._problems[name] = problem_of(FabricOptions(name, fabric=FABRIC))
        return ModelTrial(replace(self._problems[name], fabric=self._version(version).fabric), self.run.seed)

    def _placements_of(self, name: str, version: str) -> Labelled:
        """Those of the pieces of a model or layer."""
        key = (name, version)
        if key not in self._unseen:
            done = self._piece_done(f"{name}: pieces placed to be predicted, {version}")
            trial = self._trial(name, version)
            samples = trial.samples(self.budget.placements, done)
            self._unseen[key] = Labelled(samples, trial.problem.fabric, with_encodings=True)
        return self._unseen[key]

    def _piece_done(self, phase: str) -> PieceDone:
        def report(done: int, total: int) -> None:
            self.run.progress(phase, done, total)
            ask(self.run.stop)

        return report

    def _learner(self, name: str, denied: str) -> Learner:
        seed, stop = self.run.seed, self.run.stop
        if name in self._plain_learners.learners:
            return self._plain_learners.learners[name]
        nodes, edges, epochs = denied != "no nodes", denied != "no edges", self.budget.epochs
        if name == "paper":
            paper = PaperSettings(node_embeddings=nodes, edge_embeddings=edges, epochs=epochs)
            return PaperLearner(paper, seed, stop)
        settings = CostSettings(unit_features=nodes, edge_features=edges, epochs=epochs)
        return EnsembleLearner(settings, seed, stop, self._plain_learners.stack)

    @cached_property
    def _plain_learners(self) -> Plain:
        return Plain(self.run.seed)

    def placed(self, number: int) -> Mapping[str, Any]:
        """A graph, an MLP or an MHA, placed under every cost from the same sites."""
        seed = _FIRST_PLACED + 4 * (number // 2) + (1 if number % 2 == 0 else 3)  # kinds of blocks go by the seed
        case = block_case(seed, self.fabric, operator_slots(SLOTS))
        pipeline = case.expansion.pipeline
        simulator = Simulator(pipeline, self.fabric)
        interval, latency, cpu_s = {}, {}, {}
        for name, (weights, student) in self._version(VERSIONS[0]).placers.items():
            annealing = Annealing(
                pipeline, self.fabric, weights, AnnealSettings(self.budget.moves), self.run.stop, student
            )
            started = time.process_time()
            placement = annealing(Chain(self.run.seed)).placement
            cpu_s[name] = time.process_time() - started
            interval[name] = throughput(simulator, placement).interval_slots
            seconds = latency_s(simulator, placement)
            latency[name] = None if seconds is None else seconds / self.fabric.slot_s
        return {"kind": case.block.kind, "interval_slots": interval, "latency_slots": latency, "cpu_s": cpu_s}


@dataclass(frozen=True, eq=False)
class Version:
    """What has learned from samples of one version of the compiler.

    Attributes:
        samples: simulated on ``fabric``.
        fabric: as the version drives it.
        rules: tuned, which the student corrects; the same for all versions.
        seed: of the student.
    """

    samples: Samples
    fabric: Fabric
    rules: RuleWeights
    seed: int
    _models: dict[str, Model] = field(default_factory=dict, init=False, repr=False)

    def model(self, name: str, learner: Learner) -> Model:
        """What a learner, which stands for its name, has learned from all samples."""
        if name not in self._models:
            self._models[name] = learner.fit(self._labelled.examples)
        return self._models[name]

    @cached_property
    def _labelled(self) -> Labelled:
        return Labelled(self.samples, self.fabric, with_encodings=True)

    @cached_property
    def placers(self) -> Mapping[str, tuple[RuleWeights, Student | None]]:
        """Rules, and the student that corrects them, by the name of the cost."""
        examples = student_examples(self.samples, self.fabric)
        student = StudentLearner(seed=self.seed).fit(examples, float(self.rules.array.sum()))
        return {
            "expert rule": (single_rule("expert"), None),
            "mixture": (MIXTURE, None),
            "learned": (self.rules, student),
        }


def _limits(interval: Interval | None) -> list[float] | None:
    """Lower and upper limit as JSON types."""
    return None if interval is None else [interval.low, interval.high]


def _by_rule(rule: str, examples: Examples) -> Floats:
    """What a rule expects of placements, as a target, [S]."""
    return np.asarray(-examples.features[:, FEATURES.index(rule)], dtype=np.float64)


def _measured(labelled: Labelled, predicted: Floats, part: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """The accuracy of ŷ on a part of the placements, as JSON types."""
    graph = labelled.examples.graph
    of = accuracy(predicted[part], labelled.label[part], graph[part], labelled.wirelength[part])
    return {
        "error": of.error,
        "placer_error": of.placer_error,
        "correlation": of.correlation,
        "placer_correlation": of.placer_correlation,
        "placements": of.placements,
    }


def identity() -> dict[str, Any]:
    """What decides what is measured, in addition to the options."""
    return {"simulator": simulator_fingerprint(fabric(FABRIC)), "slots": SLOTS}
