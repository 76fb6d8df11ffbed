"""Another version of the compiler and its switches: the same placements run otherwise, and a model of old labels errs.

The old model has learned from all graphs but those held out. Under the new version it is used as it is (*before*), is
fitted once more to its old samples together with new ones of a fifth of these graphs (*transferred*), or to new ones of
all of them (*retrained*); *a fifth alone* is a model that has only seen that fifth. All are judged on the graphs that
are held out.

Old samples still teach, since features such as delays and waits are computed for the version that a sample is of. To
correct the old model by a regression of its error on the new samples does no better than to learn from these alone.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.run.progress import ProgressCallback, StopSignal, ask, never_stop, silent
from hardware.fabrics import Fabric
from policies.fabric.data.records import Sample, Samples
from policies.fabric.model.examples import Examples, Learner, Model
from policies.fabric.study.accuracy import accuracy
from policies.fabric.study.folds import folds_by_graph
from policies.fabric.study.intervals import error_ratio
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.study import Row, Study

Floats = npt.NDArray[np.float64]

NEW_SHARE = 0.2
"""Of the graphs, placements of which are simulated under the new version before a model is transferred."""

TABLE = "another version"


def next_version(fabric: Fabric) -> Fabric:
    """A fabric as a later version of its compiler might drive it.

    Changing the flow of a track costs two slots more, a hop one more, and a third of a track's buffer is kept for
    something else.
    """
    return replace(
        fabric,
        name=f"{fabric.name}, next version",
        switch_slots=fabric.switch_slots + 2,
        hop_slots=fabric.hop_slots + 1,
        buffer_flits=max(1, fabric.buffer_flits * 2 // 3),
    )


def relabelled(
    samples: Samples, fabric: Fabric, stop: StopSignal = never_stop, progress: ProgressCallback = silent
) -> Samples:
    """The same placements, labelled on ``fabric``; those in a deadlock there are left out.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    simulators: dict[int, Simulator] = {}
    relabelled_samples: list[Sample] = []
    for number, sample in enumerate(samples.samples):
        if sample.graph not in simulators:
            ask(stop)
            progress("placements simulated under the next version", number, len(samples.samples))
            simulators[sample.graph] = Simulator(samples.graphs[sample.graph].pipeline, fabric)
        interval_slots = throughput(simulators[sample.graph], sample.placement).interval_slots
        if interval_slots is not None:
            relabelled_samples.append(replace(sample, interval_slots=interval_slots))
    progress("placements simulated under the next version", len(samples.samples), len(samples.samples))
    return replace(samples, samples=tuple(relabelled_samples))


def version_rows(study: Study) -> list[Row]:
    """Each learner before and after the change, on the first fold by graph.

    The ratio of a row is its RE over that of the retrained model.
    """
    old, new = _both_versions(study)
    graph = new.examples.graph
    held_out = folds_by_graph(graph, study.folds, study.seed)[0]
    graphs = np.random.default_rng(study.seed).permutation(np.unique(graph[~held_out]))
    few = np.isin(graph, graphs[: max(2, round(NEW_SHARE * len(graphs)))])
    counts = {"before": 0, "a fifth alone": len(np.unique(graph[few]))}
    counts |= {"transferred": counts["a fifth alone"], "retrained": len(graphs)}
    rows = []
    for name, learner in study.learners.items():
        targets = _targets(learner, old.examples, new.examples, few, held_out, study.stop)
        predicted = {how: _held_out_throughput(new, target, held_out) for how, target in targets.items()}
        label, own, wirelength = new.label[held_out], graph[held_out], new.wirelength[held_out]
        for how, values in predicted.items():
            measured = accuracy(values, label, own, wirelength)
            ratio = None if how == "retrained" else error_ratio(values, predicted["retrained"], label, own, study.seed)
            rows.append(Row(TABLE, name, how, measured, ratio=ratio, graphs=counts[how]))
    return rows


def _both_versions(study: Study) -> tuple[Labelled, Labelled]:
    """The same placements under both versions; only those that run under both."""
    labelled = study.labelled
    fabric = next_version(labelled.fabric)
    samples = relabelled(labelled.samples, fabric, study.stop, study.progress)
    runs = {(each.graph, each.round, each.seed) for each in samples.samples}
    common = tuple(each for each in labelled.samples.samples if (each.graph, each.round, each.seed) in runs)
    old = replace(labelled, samples=replace(labelled.samples, samples=common))
    return old, replace(labelled, samples=samples, fabric=fabric)


def _targets(
    learner: Learner,
    old: Examples,
    new: Examples,
    few: npt.NDArray[np.bool_],
    held_out: npt.NDArray[np.bool_],
    stop: StopSignal,
) -> dict[str, Floats]:
    """Targets of the new version that each way predicts for what is held out, [H] each."""
    ask(stop)
    before = learner.fit(old.at(~held_out))
    models: dict[str, Model] = {
        "before": before,
        "a fifth alone": learner.fit(new.at(few)),
        "transferred": learner.fit(old.at(~held_out).followed_by(new.at(few))),
        "retrained": learner.fit(new.at(~held_out)),
    }
    unseen = new.at(held_out)
    return {how: model.predict(unseen) for how, model in models.items()}


def _held_out_throughput(labelled: Labelled, target: Floats, held_out: npt.NDArray[np.bool_]) -> Floats:
    """ŷ of what is held out, [H]."""
    everywhere = np.zeros(len(held_out))
    everywhere[held_out] = target
    return labelled.throughput_of(everywhere)[held_out]
