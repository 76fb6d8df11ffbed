"""Tables of models that lack a kind of block, or performance annotations: beside the same models that lack neither."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, samples_in
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.data.tables import write_samples
from policies.fabric.evaluate import evaluate, row_document
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.options import FabricEvaluation
from policies.fabric.study.labelled import Labelled
from policies.fabric.study.study import Study
from tests.extras import needs
from tests.policies.fabric.quick_graphs import QUICK_GRAPHS

pytestmark = needs("sklearn")

FABRIC = fabric("plasticine-8x16")


class Counted:
    """Ridge regression that counts its fits."""

    def __init__(self):
        self.fits = 0

    def fit(self, examples):
        self.fits += 1
        return RidgeLearner().fit(examples)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    collector = Collector(FABRIC, operator_slots(), RandomAnnealer(max_moves=50))
    with Journal(tmp_path_factory.mktemp("study") / "journal.jsonl") as journal:
        collect(journal, collector, [Piece(0, graph, 2, seed=0) for graph in QUICK_GRAPHS], InProcessExecutor())
        return samples_in(journal)


@pytest.fixture
def learner():
    return Counted()


@pytest.fixture
def study(samples, learner):
    return Study(Labelled(samples, FABRIC), {"ridge": learner})


def test_predictions_of_a_model_that_options_do_not_concern_are_taken(samples, tmp_path):
    """Ridge regression has no epochs, and no features of units."""
    write_samples(tmp_path / "tables", samples)
    options = FabricEvaluation(samples=str(tmp_path), model=("ridge",))
    with Journal(tmp_path / "journal.jsonl") as journal:
        for other, fits in (
            ({}, 5),
            ({}, 5),
            ({"epochs": 9}, 5),
            ({"deny": ("units",)}, 5),
            ({"deny": ("slots",)}, 10),
        ):
            evaluate(replace(options, **other), 0, never_stop, journal)
            assert len(journal) == fits, other


def test_predictions_of_a_learner_of_another_identity_are_not_taken(samples, tmp_path, monkeypatch):
    """The same examples and the same name, with other penalties of the ridge regression."""
    write_samples(tmp_path / "tables", samples)
    options = FabricEvaluation(samples=str(tmp_path), model=("ridge",))
    with Journal(tmp_path / "journal.jsonl") as journal:
        found = []
        for penalty, fits in ((1e-3, 5), (1e3, 10), (1e-3, 10)):
            own = {"ridge": RidgeLearner((penalty,))}
            monkeypatch.setattr("policies.fabric.evaluate._learners", lambda *_, own=own: own)
            found.append([row_document(each) for each in evaluate(options, 0, never_stop, journal)])
            assert len(journal) == fits
    assert found[0] == found[2] != found[1]


def test_a_kind_left_out_is_compared_with_the_model_that_has_learned_from_it(study, learner):
    errors = {row.part: row.accuracy.error for row in study.main_rows() if row.table == "by kind of block"}
    assert learner.fits == 5
    rows = study.left_out_rows()
    assert learner.fits == 5 + len(rows)  # nothing of the main table is learned again
    assert {row.part for row in rows} == set(errors)
    for row in rows:
        assert row.ratio.value == pytest.approx(row.accuracy.error / errors[row.part])
        assert row.ratio.low <= row.ratio.value <= row.ratio.high
    record = study.labelled.samples.graphs
    kind_of = [record[graph].kind for graph in {each.graph for each in study.labelled.samples.samples}]
    assert {row.part: row.graphs for row in rows} == {
        kind: sum(each != kind for each in kind_of) for kind in dict.fromkeys(kind_of)
    }


def test_what_annotations_are_worth_is_measured_on_the_same_folds(study, samples, learner):
    told, untold = study.annotation_rows()
    assert learner.fits == 10
    alone = Study(Labelled(samples, FABRIC, with_slots=False), {"ridge": RidgeLearner()})
    assert [row.part for row in (told, untold)] == ["with annotations", "without"]
    assert told.accuracy == next(row.accuracy for row in study.main_rows() if row.model == "ridge" and not row.part)
    assert untold.accuracy == next(row.accuracy for row in alone.main_rows() if row.model == "ridge" and not row.part)
    assert untold.accuracy.error != told.accuracy.error
    assert told.ratio is None
    assert untold.ratio.value == pytest.approx(untold.accuracy.error / told.accuracy.error)


def test_a_single_kind_of_block_cannot_be_left_out(study, samples):
    kind = samples.graphs[QUICK_GRAPHS[0]].kind
    one = tuple(each for each in samples.samples if samples.graphs[each.graph].kind == kind)
    assert Study(Labelled(replace(samples, samples=one), FABRIC), study.learners).left_out_rows() == []
    assert np.unique(study.labelled.kind).size > 1
