"""A new version of the compiler: labels of the same placements, and models that are carried over to them."""

import numpy as np
import pytest

from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, samples_in
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.study import Study
from policies.fabric.study.versions import next_version, relabelled, version_rows
from tests.policies.fabric.quick_graphs import QUICK_GRAPHS

FABRIC = fabric("plasticine-8x16")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    collector = Collector(FABRIC, operator_slots(), RandomAnnealer(max_moves=50))
    with Journal(tmp_path_factory.mktemp("versions") / "journal.jsonl") as journal:
        collect(journal, collector, [Piece(0, graph, 2, seed=0) for graph in QUICK_GRAPHS[:5]], InProcessExecutor())
        return samples_in(journal)


@pytest.fixture(scope="module")
def again(samples):
    """Labelled once more under the same version, and the progress of that."""
    seen = []
    return relabelled(samples, FABRIC, progress=lambda phase, done, total: seen.append((done, total))), seen


@pytest.fixture(scope="module")
def new(samples):
    """Labelled under the next version."""
    return relabelled(samples, next_version(FABRIC))


class Recorder:
    """Learns as ridge regression does, and keeps the examples that it was given."""

    def __init__(self):
        self.learned = []

    def fit(self, examples):
        """As ridge regression."""
        self.learned.append(examples)
        return RidgeLearner().fit(examples)


@pytest.fixture(scope="module")
def studied(samples):
    """The rows of a model before and after a change of version, and the examples that it was given."""
    recorder = Recorder()
    return version_rows(Study(Labelled(samples, FABRIC), {"ridge": recorder})), recorder.learned


def intervals(samples):
    return [sample.interval_slots for sample in samples.samples]


def test_labels_change_with_the_version_alone(samples, again, new):
    assert intervals(again[0]) == intervals(samples)
    assert len(new.samples) == len(samples.samples)
    assert [each.placement for each in new.samples] == [each.placement for each in samples.samples]
    assert np.mean(intervals(new)) > np.mean(intervals(samples))  # longer delays and less room


def test_simulations_of_the_new_version_are_counted_graph_by_graph(again):
    assert again[1] == [(done, 10) for done in (0, 2, 4, 6, 8, 10)]


def test_placements_that_no_longer_run_are_left_out(samples, monkeypatch):
    from policies.fabric.study import versions

    measured = iter(range(len(samples.samples)))

    def every_other(simulator, placement):
        return type("Measured", (), {"interval_slots": None if next(measured) % 2 else 7.0})

    monkeypatch.setattr(versions, "throughput", every_other)
    kept = relabelled(samples, FABRIC)
    assert [each.seed for each in kept.samples] == [each.seed for each in samples.samples[::2]]
    assert set(intervals(kept)) == {7.0}


def test_a_transferred_model_learns_from_old_samples_of_all_graphs_and_new_ones_of_a_few(samples, new, studied):
    old_target = Labelled(samples, FABRIC).examples.target
    new_target = Labelled(new, next_version(FABRIC)).examples.target
    before, few, both, everything = studied[1]
    size = len(before)
    assert (both.features[:size] == before.features).all()
    assert (both.features[size:] == few.features).all()
    assert (both.target == np.concatenate((before.target, few.target))).all()
    assert (both.graph == np.concatenate((before.graph, few.graph))).all()
    assert np.isin(before.target, old_target).all()
    assert np.isin(few.target, new_target).all()
    assert len(few) < len(everything) == size


def test_rows_are_of_the_held_out_fold_and_of_the_labels_that_each_way_has_seen(studied):
    rows = {row.part: row for row in studied[0]}
    assert {name: row.graphs for name, row in rows.items()} == {
        "before": 0,
        "a fifth alone": 2,
        "transferred": 2,
        "retrained": 4,
    }
    assert all(row.accuracy.placements == 2 for row in rows.values())
    assert rows["retrained"].ratio is None
    assert rows["before"].ratio.value == pytest.approx(rows["before"].accuracy.error / rows["retrained"].accuracy.error)
