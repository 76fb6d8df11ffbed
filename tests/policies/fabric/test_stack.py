"""Stacks: weights against all weights of a grid, what is held out, and perceptrons."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from policies.fabric.model.examples import Examples, OnAllFeatures
from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.stack import MEMBERS, StackLearner, convex_weights
from policies.fabric.model.trees import TreesLearner
from tests.policies.fabric.test_baselines import examples

GRID = [weights for weights in product(np.linspace(0, 1, 11), repeat=3) if abs(sum(weights) - 1) < 1e-9]

FAST = StackLearner(TreesLearner(iterations=10), PerceptronsLearner(steps=20))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(3, 30), st.floats(0.01, 3.0))
def test_no_weights_of_a_grid_are_better(seed, count, noise):
    random = np.random.default_rng(seed)
    target = random.normal(size=count)
    predictions = target * random.uniform(-1, 2, (3, 1)) + noise * random.normal(size=(3, count))
    weights = convex_weights(predictions, target)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0)
    error = np.square(weights @ predictions - target).sum()
    assert error <= min(np.square(np.array(other) @ predictions - target).sum() for other in GRID) * (1 + 1e-9)


def test_members_that_are_equal_and_one_that_is_perfect():
    target = np.linspace(-1, 1, 9)
    noisy = target + np.tile((0.5, -0.5, 0.1), 3)
    assert convex_weights(np.array([noisy, target, noisy]), target) == pytest.approx([0, 1, 0])
    assert convex_weights(np.array([noisy, noisy]), target).sum() == pytest.approx(1.0)


def test_what_is_held_out_has_not_seen_the_graph_that_it_predicts():
    """But for the weights, of which there are two for all examples."""
    plain = examples(count=120)
    changed = Examples(plain.features, np.where(plain.graph == 3, 100.0, plain.target), plain.graph)
    own = plain.graph == 3
    members = [
        np.array([held_out(learner, each) for each in (plain, changed)]) for learner in (FAST.trees, FAST.perceptrons)
    ]
    for before, after in members:
        np.testing.assert_array_equal(before[own], after[own])
        assert not np.allclose(before[~own], after[~own])


def held_out(learner, given_examples):
    from policies.fabric.model.stack import _held_out

    return _held_out(learner, given_examples)


def test_a_stack_is_the_weighted_mean_of_its_members_and_no_worse_held_out_than_any_of_them():
    seen, unseen = examples(count=240, noise=0.3), examples(seed=1)
    stack, others = FAST.fit_and_hold_out(seen)
    members = stack.members(unseen)
    np.testing.assert_allclose(stack.predict(unseen), stack.weights @ members)
    assert len(members) == len(stack.weights) == len(MEMBERS)
    for learner in (FAST.trees, FAST.perceptrons):
        alone = held_out(learner, seen)
        assert np.square(others - seen.target).sum() <= np.square(alone - seen.target).sum() + 1e-9


def test_members_of_a_single_graph_have_equal_weights():
    seen = examples(count=60)
    single = Examples(seen.features, seen.target, np.zeros(60, dtype=np.int64))
    stack, own = FAST.fit_and_hold_out(single)
    assert stack.weights == pytest.approx([1 / 2] * 2)
    np.testing.assert_array_equal(own, stack.predict(single))


def test_perceptrons_learn_a_quadratic_function():
    seen, unseen = examples(2400), examples(seed=1)
    error = PerceptronsLearner(members=2, steps=400).fit(seen).predict(unseen) - unseen.target
    assert error.std() < 0.2 * unseen.target.std()


def test_perceptrons_follow_from_the_seed_and_see_contention():
    plain = examples(count=120)
    random = np.random.default_rng(0)
    wider = Examples(plain.features, plain.target, plain.graph, (), random.normal(size=(120, 2)))
    learner = PerceptronsLearner(members=2, steps=10)
    one, other = learner.fit(wider).predict(wider), learner.fit(wider).predict(wider)
    np.testing.assert_array_equal(one, other)
    blind = Examples(plain.features, plain.target, plain.graph, (), np.zeros((120, 2)))
    assert not np.array_equal(learner.fit(wider).predict(blind), one)


def test_trees_on_all_features_see_contention():
    plain = examples(count=240)
    shown = Examples(np.zeros((240, 1)), plain.target, plain.graph, (), plain.target[:, None])
    blind, seeing = TreesLearner(iterations=20), OnAllFeatures(TreesLearner(iterations=20))
    errors = [np.abs(each.fit(shown).predict(shown) - shown.target).mean() for each in (blind, seeing)]
    assert errors[1] < 0.5 * errors[0]


def test_all_members_of_a_stack_see_contention():
    plain = examples(count=240)
    shown = Examples(np.zeros((240, 1)), plain.target, plain.graph, (), plain.target[:, None])
    stack = StackLearner(TreesLearner(iterations=20), PerceptronsLearner(members=2, steps=200)).fit(shown)
    assert {*stack.models} == {*MEMBERS}
    for predicted, model in zip(stack.members(shown), stack.models.values(), strict=True):
        np.testing.assert_array_equal(predicted, model.predict(shown))
        assert np.abs(predicted - shown.target).mean() < 0.5 * np.abs(shown.target - shown.target.mean()).mean()
