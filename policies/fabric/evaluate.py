"""``dse fabric evaluate``: the accuracy tables of models on samples that were collected."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.methods import LEARNED
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, silent
from dse.run.tables import FOLDER
from hardware.fabric_specs import fabric
from hardware.inputs import fail
from policies.fabric.data.collection import kinds_of
from policies.fabric.data.records import Samples
from policies.fabric.data.tables import read_samples, samples_digest
from policies.fabric.labelled_by import LABELLED_BY
from policies.fabric.methods import weights_digest
from policies.fabric.model.checkpoint import load_for
from policies.fabric.model.ensemble import Ensemble, EnsembleLearner
from policies.fabric.model.examples import Examples, Learner, Model
from policies.fabric.model.paper import PaperLearner, PaperSettings
from policies.fabric.options import FabricEvaluation, NetworkOptions
from policies.fabric.study.fits import journalled
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.learners import Plain
from policies.fabric.study.study import TABLES, Row, Study
from policies.fabric.study.versions import version_rows

Floats = npt.NDArray[np.float64]

DEFAULT_MODELS = ("ridge", "trees", "trees-all", "stack")

GRAPHS = ("graph", "graph-alone")
"""Models with graph networks."""

_TABLES = {**TABLES, "versions": version_rows}


@dataclass(frozen=True)
class _Trained:
    """A model that has learned already."""

    model: Model

    def fit(self, examples: Examples) -> Model:
        """The model as it is."""
        return self.model


def inputs_of(options: FabricEvaluation) -> Mapping[str, str | None]:
    """Digests of the samples, and of the checkpoint if there is one: a run that they decide continues with no others.

    Raises:
        InputError: no samples.
    """
    weights = None if options.checkpoint is None else weights_digest(Path(options.checkpoint), LEARNED)
    return {"samples": samples_digest(Path(options.samples) / FOLDER), "checkpoint": weights}


def evaluate(
    options: FabricEvaluation,
    seed: int,
    stop: StopSignal,
    journal: Journal | None = None,
    progress: ProgressCallback = silent,
) -> list[Row]:
    """The rows of the tables that the options ask for.

    With a journal, what a fitted model predicts is kept there, and the model is not fitted again.

    Raises:
        InputError: no samples; a checkpoint of other features, another fabric, simulator or table of slots, or
            together with options of training.
        StoppedError: ``stop`` gave a reason.
    """
    if options.checkpoint is not None:
        _require_as_trained(options)
    samples = read_samples(Path(options.samples) / FOLDER)
    _require_present(options, samples)
    if options.checkpoint is not None:
        return _checkpoint_rows(options, samples, seed, stop)
    with_slots = "slots" not in options.deny
    if not with_slots and "annotations" in options.table:
        raise fail(
            options.command(), "--table", "annotations", "compares models with and without slots; omit --deny slots"
        )
    learners = _learners(options, seed, stop)
    labelled = Labelled(samples, fabric(options.fabric), _needs_encodings(learners), with_slots)
    learners = journalled(learners, journal)
    study = Study(labelled, learners, seed=seed, stop=stop, progress=progress)
    return [row for name in options.table or ("main",) for row in _TABLES[name](study)]


def _require_as_trained(options: FabricEvaluation) -> None:
    """Refuse what decides how models are trained, and tables for which some are, with a checkpoint."""
    rule = "must not be given with --checkpoint, which evaluates the model as it was trained, in table main only"
    default = FabricEvaluation()
    for name in (*(field.name for field in fields(NetworkOptions)), "model"):
        value = getattr(options, name)
        if value != getattr(default, name):
            raise fail(options.command(), f"--{name}", value[0] if isinstance(value, tuple) else value, rule)
    for table in options.table:
        if table != "main":
            raise fail(options.command(), "--table", table, rule)


def _require_present(options: FabricEvaluation, samples: Samples) -> None:
    """Refuse samples that today's simulator of the fabric would label otherwise."""
    chosen = fabric(options.fabric)
    present = simulator_fingerprint(chosen)
    stated = samples.provenance.get("simulator")
    if stated != present:
        of = samples.provenance.get("fabric")
        rule = (
            f"must be {present} for --fabric {chosen.name}, but the samples are from another fabric or simulator ({of})"
        )
        raise fail(options.samples, "simulator", stated, rule)


def _learners(options: FabricEvaluation, seed: int, stop: StopSignal) -> Mapping[str, Learner]:
    plain = Plain(seed)
    graphs = {name: EnsembleLearner(options.settings_of(name), seed, stop, plain.stack) for name in GRAPHS}
    paper = PaperSettings(node_embeddings="units" not in options.deny, edge_embeddings="edges" not in options.deny)
    learners: Mapping[str, Learner] = {**plain.learners, **graphs, "paper": PaperLearner(paper, seed, stop)}
    return {name: learners[name] for name in dict.fromkeys(options.model or DEFAULT_MODELS)}


def _needs_encodings(learners: Mapping[str, Learner]) -> bool:
    return any(isinstance(learner, EnsembleLearner | PaperLearner) for learner in learners.values())


def _checkpoint_rows(options: FabricEvaluation, samples: Samples, seed: int, stop: StopSignal) -> list[Row]:
    """A trained model on the graphs held out from its training, compared with rules and its own ridge regression."""
    assert options.checkpoint is not None
    labelled_by = {name: samples.provenance.get(name) for name in LABELLED_BY}
    checkpoint = load_for(Path(options.checkpoint), labelled_by)
    kinds, known = kinds_of(samples.provenance), kinds_of(checkpoint.provenance)
    if kinds != known:
        rule = (
            f"must be {', '.join(known)}, as in training: numbers of others do not say which graphs were learned from"
        )
        raise fail(options.samples, "kinds", ", ".join(kinds), rule)
    learned_from = set(checkpoint.provenance.get("graphs", ()))
    unseen = tuple(sample for sample in samples.samples if sample.graph not in learned_from)
    if not unseen:
        raise fail(
            options.checkpoint,
            "provenance.graphs",
            "",
            f"the model was trained on all graphs of {options.samples}, so none is left to evaluate it on",
        )
    model = Ensemble.of(checkpoint.settings, checkpoint.tensors)
    labelled = Labelled(replace(samples, samples=unseen), fabric(options.fabric), True, checkpoint.settings.with_slots)
    members = model.stack.models
    learners: dict[str, Learner] = {f"{name} of the checkpoint": _Trained(each) for name, each in members.items()}
    baselines = tuple(learners)[:1]
    learners["checkpoint"] = _Trained(model)
    study = Study(labelled, learners, baselines=baselines, folds=1, seed=seed, stop=stop)
    return study.main_rows()


def row_document(row: Row) -> dict[str, object]:
    """A row as JSON types; what is undefined is null."""
    measured = row.accuracy
    return {
        "table": row.table,
        "model": row.model,
        "part": row.part,
        "error": None if row.ranks_only else measured.error,
        "placer_error": None if row.ranks_only else measured.placer_error,
        "correlation": measured.correlation,
        "placer_correlation": measured.placer_correlation,
        "within": measured.within,
        "error_ratio": row.ratio and [row.ratio.value, row.ratio.low, row.ratio.high],
        "placements": measured.placements,
        "graphs": row.graphs,
    }
