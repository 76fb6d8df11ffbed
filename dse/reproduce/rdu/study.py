"""What the parts are made from: accuracy of cost models on graphs held out from training, and placements by them.

Cost models come from a floor above; this module knows them by name only. Whatever was measured is in the journal of the
run and is not measured again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from dse.reproduce.trials import required_journal
from dse.run.options import STRICT
from dse.run.run import Run

Kind = TypeVar("Kind", bound=BaseModel)


class Measured(BaseModel):
    """Accuracy on placements that were held out.

    Attributes:
        error, placer_error: mean relative error of the throughput; of all placements, and among the half of each
            graph's placements with the least wirelength. None for what only ranks.
        correlation, placer_correlation: Spearman's, likewise.
        placements: how many.
    """

    model_config = STRICT

    error: float | None
    placer_error: float | None
    correlation: float
    placer_correlation: float
    placements: int


class ModelAccuracy(BaseModel):
    """Of a cost model, in folds by graph.

    Attributes:
        whole: on all placements.
        by_kind: on those of each kind of block.
        cpu_s: CPU seconds of all fits and predictions.
    """

    model_config = STRICT

    whole: Measured
    by_kind: dict[str, Measured]
    cpu_s: float


class ErrorRatio(BaseModel):
    """The relative error of a cost model over that of another one, with its 90 % interval over graphs."""

    model_config = STRICT

    value: float
    low: float
    high: float


class PlacedGraph(BaseModel):
    """A graph of ``kind`` placed by every cost, each with as many moves: simulated slots, and CPU seconds.

    Attributes:
        kind: of block.
        interval_slots, latency_slots: between two samples, and of the first one, by cost; None in a deadlock.
        cpu_s: of annealing, by cost.
    """

    model_config = STRICT

    kind: str
    interval_slots: dict[str, float | None]
    latency_slots: dict[str, float | None]
    cpu_s: dict[str, float]


VERSIONS = ("past", "present")
"""Of the compiler: today's, and one with other delays and buffers (:mod:`policies.fabric.study.versions`)."""


class LayerSize(BaseModel):
    """A real model or a layer of one, cut into pieces that are on the fabric in turn, under a version.

    Attributes:
        pieces, turns: how many.
        bound_per_s: samples per second of a batch through all turns that no placement of these pieces exceeds.
    """

    model_config = STRICT

    pieces: int
    turns: int
    bound_per_s: float


class LayerAccuracy(Measured):
    """Of a cost model on placements of the pieces by annealers with random rules; it has learned from samples of the
    same version, and has seen none of them.

    Attributes:
        correlation_interval: lower and upper limit of 90 %, from a bootstrap over pieces; None with too few pieces or
            placements.
    """

    correlation_interval: list[float] | None


class LayerRate(BaseModel):
    """Samples per second of a batch through all turns, with one chain for each piece; 0 in a deadlock."""

    model_config = STRICT

    samples_per_s: float


@dataclass(frozen=True)
class ModelLayer:
    """All that is measured of a layer or a model under a version.

    Attributes:
        size: of it.
        accuracy: by cost model.
        samples_per_s: by the cost under which the pieces were placed, for every seed.
    """

    size: LayerSize
    accuracy: dict[str, LayerAccuracy]
    samples_per_s: dict[str, list[float]]


class Effort(BaseModel):
    """What the samples took.

    Attributes:
        graphs, placements: collected; of these ``followed`` by annealers that followed a model.
        cpu_s: CPU seconds in this process to collect them.
    """

    model_config = STRICT

    graphs: int
    placements: int
    followed: int
    cpu_s: float


@dataclass(frozen=True)
class Budget:
    """How much is tried.

    Attributes:
        graphs: whose placements are collected.
        placements: of each graph.
        epochs: passes of networks over the samples.
        placed: graphs that each cost places.
        moves: of each of these placements.
        seeds: with which the pieces of models are placed.
    """

    graphs: int
    placements: int
    epochs: int
    placed: int
    moves: int
    seeds: int


class Laboratory(Protocol):
    """Measures cost models; every answer is in JSON types."""

    def effort(self) -> Mapping[str, Any]:
        """An :class:`Effort`; the samples are collected first."""

    def accuracy(self, model: str) -> Mapping[str, Any]:
        """A :class:`ModelAccuracy`."""

    def error_ratio(self, model: str, rival: str) -> Mapping[str, Any]:
        """An :class:`ErrorRatio`: of one cost model over another one, on the same placements."""

    def placed(self, number: int) -> Mapping[str, Any]:
        """A :class:`PlacedGraph`: the one of this number."""

    def layer_size(self, name: str, version: str) -> Mapping[str, Any]:
        """A :class:`LayerSize`: of the layer or model ``name``."""

    def layer_accuracy(self, name: str, version: str, model: str) -> Mapping[str, Any]:
        """A :class:`LayerAccuracy`: of a cost model on the layer or model ``name``."""

    def layer_rate(self, name: str, version: str, cost: str, seed: int) -> Mapping[str, Any]:
        """A :class:`LayerRate`: of the layer or model ``name`` placed under a cost, with the seed of this number."""


@dataclass(frozen=True)
class Learned:
    """The learned cost models, which come from outside.

    Attributes:
        open: a laboratory for a budget and a run.
        identity: what decides what they find, as JSON types.
    """

    open: Callable[[Budget, Run], Laboratory]
    identity: Callable[[], Any]


@dataclass(frozen=True)
class Study:
    """All that is measured in a run.

    Attributes:
        budget: of it.
        run: its means, with a journal.
        laboratory: that measures.
    """

    budget: Budget
    run: Run
    laboratory: Laboratory

    def effort(self) -> Effort:
        """What the samples took."""
        return self._journalled("effort", Effort, self.laboratory.effort)

    def accuracy(self, model: str) -> ModelAccuracy:
        """Of a cost model; the samples are collected first."""
        self.effort()
        return self._journalled(f"accuracy of {model}", ModelAccuracy, lambda: self.laboratory.accuracy(model))

    def error_ratio(self, model: str, rival: str) -> ErrorRatio:
        """Of two cost models; the samples are collected first."""
        self.effort()
        key = f"error of {model} over {rival}"
        return self._journalled(key, ErrorRatio, lambda: self.laboratory.error_ratio(model, rival))

    def placed(self) -> list[PlacedGraph]:
        """All graphs that are placed."""
        self.effort()
        graphs = []
        for number in range(self.budget.placed):
            key = f"placed graph {number}"
            graphs.append(self._journalled(key, PlacedGraph, partial(self.laboratory.placed, number)))
            self.run.progress("graphs placed with every cost", number + 1, self.budget.placed)
        return graphs

    def layer(self, name: str, version: str, models: Sequence[str], costs: Sequence[str]) -> ModelLayer:
        """A layer or model; the samples are collected first, and each figure is an entry of the journal."""
        self.effort()
        laboratory, seeds = self.laboratory, range(self.budget.seeds)
        steps, total = count(1), 1 + len(models) + len(costs) * len(seeds)

        def measured(what: str, kind: type[Kind], measure: Callable[[], Mapping[str, Any]]) -> Kind:
            entry = self._journalled(f"layer {name}, {version}, {what}", kind, measure)
            self.run.progress(f"figures of {name}, {version}", next(steps), total)
            return entry

        def rate(cost: str, seed: int) -> float:
            measure = partial(laboratory.layer_rate, name, version, cost, seed)
            return measured(f"under {cost}, seed {seed}", LayerRate, measure).samples_per_s

        size = measured("size", LayerSize, partial(laboratory.layer_size, name, version))
        accuracy = {}
        for model in models:
            measure = partial(laboratory.layer_accuracy, name, version, model)
            accuracy[model] = measured(f"accuracy of {model}", LayerAccuracy, measure)
        return ModelLayer(size, accuracy, {cost: [rate(cost, seed) for seed in seeds] for cost in costs})

    def _journalled(self, key: str, kind: type[Kind], measure: Callable[[], Mapping[str, Any]]) -> Kind:
        journal = required_journal(self.run)
        if key not in journal:
            journal.append(key, measure())
        try:
            return kind.model_validate(journal[key])
        except ValidationError as error:
            raise journal.damaged(key, error) from error
