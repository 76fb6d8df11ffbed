"""``dse fabric train``: samples are collected, tables written, and the cost model fitted and judged."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dse
from dse.run.directory import JOURNAL_FILE
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal
from dse.run.tables import FOLDER
from hardware.fabrics import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, samples_in
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.data.records import Samples
from policies.fabric.data.tables import write_samples
from policies.fabric.model.checkpoint import COST, LABELLED_BY
from policies.fabric.model.ensemble import Ensemble, EnsembleLearner
from policies.fabric.model.ridge import Ridge
from policies.fabric.options import FabricTraining
from policies.fabric.study.accuracy import Accuracy, accuracy
from policies.fabric.study.labelled import Labelled
from policies.learning.checkpoint import BEST, Checkpoint

VALIDATION_EVERY = 10
"""One graph in so many is not learned from."""


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    Attributes:
        placements, graphs: that were learned from.
        validation: accuracy on the other graphs, of the model and of the ridge regression that it corrects.
    """

    placements: int
    graphs: int
    validation: Mapping[str, Accuracy]

    def document(self) -> dict[str, Any]:
        """The outcome as JSON types."""
        return asdict(self)


def train(
    options: FabricTraining,
    folder: Path,
    seed: int,
    executor: Executor,
    progress: ProgressCallback,
    stop: StopSignal,
) -> Trained:
    """Collect into ``folder`` what it has not yet, and fit a model to all of it.

    Raises:
        InputError: an unknown fabric or table, or a folder with samples of another fabric, table or simulator.
        StoppedError: ``stop`` gave a reason; what was collected is kept.
    """
    samples = _collected(options, folder, seed, executor, progress, stop)
    settings = options.network()
    labelled = Labelled(samples, fabric(options.fabric), with_encodings=True, with_slots=settings.with_slots)
    examples = labelled.examples
    is_seen = examples.graph % VALIDATION_EVERY != 0
    progress("networks trained", 0, settings.members)
    model = EnsembleLearner(settings, seed, stop).fit(examples.at(is_seen))
    progress("networks trained", settings.members, settings.members)
    validation = {name: _accuracy(each, labelled, ~is_seen) for name, each in _judged(model).items()}
    graphs = np.unique(examples.graph[is_seen]).tolist()
    trained = Trained(int(is_seen.sum()), len(graphs), validation)
    provenance = {
        "samples": {name: samples.provenance[name] for name in ("fabric", *LABELLED_BY)},
        "graphs": graphs,
        "seed": seed,
        "outcome": trained.document(),
        "dse": dse.__version__,
    }
    COST.save(folder / BEST, Checkpoint(settings, model.tensors(), provenance))
    return trained


def _collected(
    options: FabricTraining,
    folder: Path,
    seed: int,
    executor: Executor,
    progress: ProgressCallback,
    stop: StopSignal,
) -> Samples:
    collector = Collector(fabric(options.fabric), operator_slots(options.slots), RandomAnnealer())
    pieces = [Piece(0, graph, options.placements, seed) for graph in range(options.graphs)]
    with Journal(folder / JOURNAL_FILE) as journal:
        collect(journal, collector, pieces, executor, stop, progress)
        samples = samples_in(journal)
    write_samples(folder / FOLDER, samples)
    return samples


def _judged(model: Ensemble) -> dict[str, Ensemble | Ridge]:
    return {"model": model, "ridge": model.networks[0].ridge}


def _accuracy(model: Ensemble | Ridge, labelled: Labelled, part: Any) -> Accuracy:
    examples = labelled.examples
    target = np.zeros(len(examples))
    target[part] = model.predict(examples.at(part))
    predicted = labelled.throughput_of(target)
    return accuracy(predicted[part], labelled.label[part], examples.graph[part], labelled.wirelength[part])
