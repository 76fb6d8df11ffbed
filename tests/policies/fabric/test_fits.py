"""Fits of a study are paid for once: predictions in a journal, and members of several models in memory."""

from dataclasses import replace
from threading import Event

import numpy as np
import pytest

pytest.importorskip("torch")

from dse.run.journal import Journal
from dse.run.progress import never_stop
from hardware.inputs import InputError
from policies.fabric.model.checkpoint import COST
from policies.fabric.model.ensemble import EnsembleLearner
from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import MEMBERS, StackLearner
from policies.fabric.model.trees import TreesLearner
from policies.fabric.study.fits import Journalled, Remembered, fingerprint, identity, journalled
from policies.fabric.study.folds import folds_by_graph, held_out_predictions
from policies.fabric.study.learners import Plain
from tests.extras import needs
from tests.policies.fabric.test_baselines import examples

pytestmark = needs("sklearn")


class Counted:
    """A learner that counts its fits."""

    def __init__(self, learner):
        self.learner, self.fits = learner, 0

    def fit(self, seen):
        self.fits += 1
        return self.learner.fit(seen)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_a_prediction_is_read_again_to_the_last_bit_and_nothing_is_fitted(path):
    every, counted = examples(count=120, noise=0.3), Counted(RidgeLearner())
    folds = folds_by_graph(every.graph, 3, 0)
    expected = held_out_predictions(RidgeLearner(), every, folds)
    with Journal(path) as journal:
        first = held_out_predictions(Journalled("ridge", counted, journal), every, folds[:2])
    assert counted.fits == 2
    with Journal(path) as journal:  # the third fold is all that is missing
        whole = held_out_predictions(Journalled("ridge", counted, journal), every, folds)
    assert counted.fits == 3
    np.testing.assert_array_equal(whole, expected)
    np.testing.assert_array_equal(first[folds[1]], expected[folds[1]])


def test_other_examples_and_other_learners_have_entries_of_their_own(path):
    every, counted = examples(count=60), Counted(RidgeLearner())
    others = [
        replace(every, target=every.target + 1),
        replace(every, graph=every.graph + 1),
        replace(every, features=every.features * 2),
        replace(every, contention=every.features),
    ]
    with Journal(path) as journal:
        for seen in (every, *others):
            Journalled("ridge", counted, journal).fit(seen).predict(every)
        Journalled("another", counted, journal).fit(every).predict(every)
        Journalled("ridge", counted, journal).fit(every).predict(others[2])
    assert counted.fits == len(others) + 3
    assert len({fingerprint(each) for each in (every, *others)}) == len(others) + 1


def learners(seed=0, settings=None, stop=never_stop, **changes):
    plain = Plain(seed)
    stack = replace(plain.stack, perceptrons=Remembered(PerceptronsLearner(seed=seed, **changes)))
    return {**plain.learners, "stack": stack, "graph": EnsembleLearner(settings or CostSettings(), seed, stop, stack)}


def test_what_is_journalled_of_a_learner_goes_by_all_of_its_settings_and_by_the_features(monkeypatch):
    first = {name: identity(learner) for name, learner in learners().items()}
    assert len(set(first.values())) == len(first)
    assert {name: identity(each) for name, each in learners(stop=lambda: "time limit").items()} == first

    def changed(**changes):
        return {name for name, each in learners(**changes).items() if identity(each) != first[name]}

    assert changed(seed=1) == {"trees", "trees-all", "perceptrons", "stack", "graph"}
    assert changed(width=50) == {"stack", "graph"}
    assert changed(settings=CostSettings(epochs=3)) == {"graph"}
    assert identity(RidgeLearner(penalties=(1.0,))) != first["ridge"]
    monkeypatch.setattr("policies.fabric.study.fits.COST", replace(COST, features=COST.features[1:]))
    assert changed() == set(first)


def test_a_learner_that_holds_what_cannot_be_stated_is_refused():
    with pytest.raises(TypeError, match="Event decides nothing"):
        identity(TreesLearner(seed=Event()))


def test_learners_of_other_settings_have_entries_of_their_own(path):
    every = examples(count=60)
    with Journal(path) as journal:
        for penalties in ((1.0,), (2.0,), (1.0,)):
            model = journalled({"ridge": RidgeLearner(penalties)}, journal)["ridge"].fit(every)
            np.testing.assert_array_equal(model.predict(every), RidgeLearner(penalties).fit(every).predict(every))
        assert len(journal) == 2


def test_what_is_predicted_does_not_depend_on_labels(path):
    every, counted = examples(count=60), Counted(RidgeLearner())
    with Journal(path) as journal:
        model = Journalled("ridge", counted, journal).fit(every)
        model.predict(every)
        model.predict(replace(every, target=every.target + 1))
        assert len(journal) == 1


@pytest.mark.parametrize("entry", ["slots", [0.5], [[0.5], 1]])
def test_an_entry_that_is_no_prediction_is_refused_with_its_line(path, entry):
    every = examples(count=60)
    key = f"ridge/{fingerprint(every)}/{fingerprint(every, with_target=False)}"
    with Journal(path) as journal:
        journal.append(key, entry)
        with pytest.raises(InputError, match="line 1"):
            Journalled("ridge", RidgeLearner(), journal).fit(every).predict(every)


def test_a_stack_shares_its_members_with_models_that_are_fitted_to_the_same_examples():
    every = examples(count=90, noise=0.2)
    plain = StackLearner(trees=TreesLearner(iterations=5), perceptrons=PerceptronsLearner(members=2, steps=10))
    trees, perceptrons = Counted(plain.trees), Counted(plain.perceptrons)
    shared = replace(plain, trees=Remembered(trees), perceptrons=Remembered(perceptrons))
    alone = shared.trees.fit(every.on_all_features)
    stack = shared.fit(every)
    assert stack.trees is alone
    assert (trees.fits, perceptrons.fits) == (4, 4)  # one for all examples, and one for each part held out
    np.testing.assert_array_equal(shared.fit(every).predict(every), plain.fit(every).predict(every))
    shared.fit_evenly(every)
    assert (trees.fits, perceptrons.fits) == (4, 4)
    assert {*MEMBERS} == {"trees", "perceptrons"}
