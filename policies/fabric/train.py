"""``dse fabric train``: samples are collected, tables written, and the cost model fitted, judged and tried out."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.fabric.setting import tuned_for
from dse.results.result import digest
from dse.run.directory import JOURNAL_FILE
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal
from dse.run.tables import FOLDER
from dse.version import VERSION
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.data.distribution import ALL_KINDS
from policies.fabric.data.records import Samples
from policies.fabric.data.rounds import Rounds
from policies.fabric.data.tables import samples_digest, write_samples
from policies.fabric.labelled_by import LABELLED_BY
from policies.fabric.model.checkpoint import COST
from policies.fabric.model.ensemble import Ensemble, EnsembleLearner
from policies.fabric.model.examples import Model
from policies.fabric.model.settings import CostSettings
from policies.fabric.options import FabricTraining
from policies.fabric.placing import Placing, placing
from policies.fabric.student import StudentLearner, student_examples
from policies.fabric.student_checkpoint import STUDENT, STUDENTS, TrainedStudent, load_student, save_student
from policies.fabric.student_settings import StudentSettings
from policies.fabric.study.accuracy import Accuracy, accuracy
from policies.fabric.study.fits import identity
from policies.fabric.study.labelled import Labelled
from policies.learning.checkpoint import BEST, Checkpoint

VALIDATION_EVERY = 11
"""One pair of graphs in so many is held out from training; a pair has a graph of the first and one of a later round.

It shares no factor with the four pairs after which kinds of blocks repeat, nor with the default number of rounds, so
that all kinds and rounds are among them.
"""


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    Attributes:
        placements, graphs: that were learned from.
        validation: accuracy on the other graphs, of the model and of the members of its stack.
        placing: of other graphs, by the student, compared with the rules that it corrects; None before they are placed.
    """

    placements: int
    graphs: int
    validation: Mapping[str, Accuracy]
    placing: Placing | None = None

    def document(self) -> dict[str, Any]:
        """The outcome as JSON types."""
        document = asdict(self)
        if self.placing is not None:
            document["placing"]["verdict"] = self.placing.verdict
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Trained":
        """The outcome that :meth:`document` wrote."""
        validation = {name: Accuracy(**each) for name, each in document["validation"].items()}
        placed = document["placing"]
        placing = None if placed is None else Placing.from_document(placed)
        return cls(document["placements"], document["graphs"], validation, placing)


def inputs_of(options: FabricTraining) -> Mapping[str, str]:
    """Digests of what labels depend on, as the files state it, wherever they are.

    Raises:
        InputError: an unknown fabric or table.
    """
    labelled_by = provenance_of(fabric(options.fabric), operator_slots(options.slots))
    names = ("fabric_and_simulator", "slots")
    return {name: labelled_by[key] for name, key in zip(names, LABELLED_BY, strict=True)}


def train(
    options: FabricTraining,
    folder: Path,
    seed: int,
    executor: Executor,
    progress: ProgressCallback,
    stop: StopSignal,
) -> Trained:
    """Collect into ``folder`` what it has not yet, and fit a model to all of it.

    The model is written as soon as it is fitted, so that a run that is stopped while unseen graphs are placed continues
    with placing them.

    Raises:
        InputError: an unknown fabric or table, or a folder with samples of another fabric, table or simulator.
        StoppedError: ``stop`` gave a reason; what was collected is kept, and so is a model that was fitted.
    """
    here = fabric(options.fabric)  # read once: its file may be edited or moved meanwhile
    samples = _collected(options, here, folder, seed, executor, progress, stop)
    best, settings = folder / BEST, options.network()
    model, student = EnsembleLearner(settings, seed, stop), StudentLearner(StudentSettings(), seed, stop)
    fit = digest([samples_digest(folder / FOLDER), identity(model), identity(student)])
    trained = _outcome_of(best, fit)
    if trained is None:
        trained = _fitted(samples, settings, here, best, seed, fit, progress, stop)
    if trained.placing is None:
        numbers = np.unique([sample.graph for sample in samples.samples])
        unseen = [samples.graphs[number].pipeline for number in numbers[~_is_seen(numbers)].tolist()]
        placer = load_student(best, samples.provenance)
        trained = replace(trained, placing=placing(placer, unseen, here, seed, stop, progress))
        _note(best, trained)
    return trained


def _is_seen(graph: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether graphs of these numbers are learned from."""
    return np.asarray(graph // 2 % VALIDATION_EVERY != 0, dtype=np.bool_)


def _fitted(
    samples: Samples,
    settings: CostSettings,
    here: Fabric,
    best: Path,
    seed: int,
    fit: str,
    progress: ProgressCallback,
    stop: StopSignal,
) -> Trained:
    """Fit and write model and student; ``fit`` is the digest of all that they depend on."""
    labelled = Labelled(samples, here, with_encodings=True, with_slots=settings.with_slots)
    examples = labelled.examples
    is_seen = _is_seen(examples.graph)
    fitted = ("networks trained", settings.members) if settings.members else ("models fitted", 1)
    progress(fitted[0], 0, fitted[1])
    model = EnsembleLearner(settings, seed, stop).fit(examples.at(is_seen))
    progress(fitted[0], fitted[1], fitted[1])
    validation = {name: _accuracy(each, labelled, ~is_seen) for name, each in _judged(model).items()}
    graphs = np.unique(examples.graph[is_seen]).tolist()
    student = _taught(samples, graphs, here, seed, stop)
    trained = Trained(int(is_seen.sum()), len(graphs), validation)
    provenance = {
        "samples": {name: samples.provenance[name] for name in ("fabric", *LABELLED_BY)},
        "kinds": list(ALL_KINDS.kinds),
        "graphs": graphs,
        "seed": seed,
        "fit": fit,
        "outcome": trained.document(),
        "dse": VERSION,
    }
    save_student(best, StudentSettings(), student, provenance)
    COST.save(best, Checkpoint(settings, model.tensors(), provenance))  # last: where it is, the student is
    return trained


def _outcome_of(best: Path, fit: str) -> Trained | None:
    """The outcome of the fit whose model and student are in ``best``; None where they are of another one, or not whole.

    That of a run that was stopped has no placements.
    """
    with suppress(InputError, AttributeError, KeyError, TypeError):  # a card may say anything
        cards = [COST.load(best).provenance, STUDENTS.load(best / STUDENT).provenance]
        if all(card.get("fit") == fit for card in cards):
            return Trained.from_document(cards[0]["outcome"])
    return None


def _note(best: Path, trained: Trained) -> None:
    """Write the outcome into the cards of student and model."""
    outcome = {"outcome": trained.document()}
    STUDENTS.annotate(best / STUDENT, outcome)
    COST.annotate(best, outcome)


def _collected(
    options: FabricTraining,
    here: Fabric,
    folder: Path,
    seed: int,
    executor: Executor,
    progress: ProgressCallback,
    stop: StopSignal,
) -> Samples:
    slots, graphs, placements = operator_slots(options.slots), options.graphs, options.placements
    rounds = Rounds(here, slots, graphs, placements, options.rounds, seed, ALL_KINDS)
    with Journal(folder / JOURNAL_FILE) as journal:
        samples = rounds.collect(journal, executor, progress, stop)
    write_samples(folder / FOLDER, samples)
    return samples


def _taught(samples: Samples, graphs: Sequence[int], fabric: Fabric, seed: int, stop: StopSignal) -> TrainedStudent:
    """A student of the placements of these graphs."""
    examples = student_examples(samples, fabric)
    examples = examples.at(np.isin(examples.graph, graphs))
    rules = tuned_for(fabric).setting
    student = StudentLearner(StudentSettings(), seed, stop).fit(examples, float(rules.weights.array.sum()))
    return TrainedStudent.of(student, rules, examples)


def _judged(model: Ensemble) -> Mapping[str, Model]:
    return {"model": model, **model.stack.models}


def _accuracy(model: Model, labelled: Labelled, part: Any) -> Accuracy:
    examples = labelled.examples
    target = np.zeros(len(examples))
    target[part] = model.predict(examples.at(part))
    predicted = labelled.throughput_of(target)
    return accuracy(predicted[part], labelled.label[part], examples.graph[part], labelled.wirelength[part])
