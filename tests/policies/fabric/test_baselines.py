"""Ridge and trees on functions that they can learn, and measures of accuracy against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fabric.model.examples import Examples
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.study.accuracy import accuracy, placer_regime, spearman, within_graphs
from policies.fabric.study.folds import folds_by_graph, held_out_predictions
from policies.fabric.study.intervals import error_ratio


def examples(count=600, features=4, noise=0.0, seed=0):
    """A quadratic function of random features, twelve placements a graph."""
    random = np.random.default_rng(seed)
    values = random.uniform(-2, 2, (count, features))
    target = 0.5 * values[:, 0] - values[:, 1] * values[:, 2] + 0.3 * values[:, 3] ** 2 + 1.5
    return Examples(values, target + noise * random.normal(size=count), np.arange(count) // 12)


def test_ridge_learns_a_quadratic_function():
    model = RidgeLearner().fit(examples())
    unseen = examples(seed=1)
    assert np.abs(model.predict(unseen) - unseen.target).max() < 0.02


def test_ridge_does_not_depend_on_the_units_of_features():
    plain, unseen = examples(noise=0.3), examples(seed=1)
    scale, shift = np.array([1e3, 1e-3, 5.0, 1.0]), np.array([0.0, 7.0, -3.0, 1e2])
    turned = Examples(plain.features * scale + shift, plain.target, plain.graph)
    seen = Examples(unseen.features * scale + shift, unseen.target, unseen.graph)
    one, other = RidgeLearner().fit(plain), RidgeLearner().fit(turned)
    np.testing.assert_allclose(one.predict(unseen), other.predict(seen), atol=1e-6)


def test_a_feature_that_never_varied_and_one_far_outside_lead_nowhere():
    constant = examples()
    constant.features[:, 3] = 1.0
    model = RidgeLearner().fit(constant)
    far = Examples(np.array([[0.0, 0.0, 0.0, 1.0], [1e9, 0.0, 0.0, 1.0]]), np.zeros(2), np.zeros(2, dtype=np.int64))
    middle, outside = model.predict(far)
    assert abs(outside - middle) < 10.0


def test_noise_shrinks_the_weights():
    """Few and noisy examples choose a large penalty, which one with no choice does not have."""
    noisy = examples(count=60, noise=3.0)
    free, least = RidgeLearner().fit(noisy), RidgeLearner(penalties=(0.1,)).fit(noisy)
    assert np.abs(free.weights[1:]).sum() < 0.5 * np.abs(least.weights[1:]).sum()


def test_trees_refuse_examples_with_fewer_features_than_they_were_fitted_to():
    trees = pytest.importorskip("policies.fabric.model.trees").TreesLearner(iterations=5).fit(examples())
    seen = examples(seed=1)
    fewer = Examples(seen.features[:, : trees.feature.max()], seen.target, seen.graph)
    with pytest.raises(IndexError, match="of the trees is not among"):
        trees.predict(fewer)


def test_trees_learn_the_same_function():
    trees = pytest.importorskip("policies.fabric.model.trees")
    seen, unseen = examples(2400), examples(seed=1)
    error = trees.TreesLearner(iterations=100, learning_rate=0.1).fit(seen).predict(unseen) - unseen.target
    assert error.std() < 0.3 * unseen.target.std()


def test_trees_as_arrays_predict_what_scikit_learn_predicts(monkeypatch):
    trees = pytest.importorskip("policies.fabric.model.trees")
    ensemble = pytest.importorskip("sklearn.ensemble")
    fitted = []

    class Spied(ensemble.HistGradientBoostingRegressor):
        def fit(self, *given):
            fitted.append(self)
            return super().fit(*given)

    monkeypatch.setattr(ensemble, "HistGradientBoostingRegressor", Spied)
    seen = examples(noise=0.3)
    seen.features[:] = np.round(seen.features, 1)  # many examples lie at a threshold
    arrays = trees.TreesLearner(iterations=50).fit(seen)
    np.testing.assert_allclose(
        arrays.predict(seen), fitted[0].predict(seen.features.astype(np.float32)), rtol=1e-12, atol=1e-12
    )


def ranks_by_definition(values):
    """Of each value, how many are smaller, and half of the others that are equal."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values
    ]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_rank_correlation_is_that_of_ranks(pairs):
    one, other = (np.array(each, dtype=float) for each in zip(*pairs, strict=True))
    a, b = (np.array(ranks_by_definition(each.tolist())) for each in (one, other))
    expected = 0.0 if a.std() == 0 or b.std() == 0 else float(np.corrcoef(a, b)[0, 1])
    assert spearman(one, other) == pytest.approx(expected, abs=1e-9)


def test_rank_correlation_within_graphs_ignores_differences_between_them():
    graph = np.repeat([0, 1, 2], 4)
    label = np.arange(12.0) + 1
    predicted = np.concatenate([np.arange(4.0) + 100, np.arange(4.0) + 50, np.arange(4.0)[::-1]])
    assert within_graphs(predicted, label, graph) == pytest.approx(1 / 3)
    assert spearman(predicted, label) < 0


def test_the_placer_regime_is_the_half_with_the_least_wirelength():
    graph = np.array([0, 0, 0, 1, 1])
    assert placer_regime(graph, np.array([3.0, 1.0, 2.0, 9.0, 8.0])).tolist() == [False, True, True, False, True]


def test_accuracy_of_a_perfect_and_of_a_biased_prediction():
    label, graph, wirelength = np.linspace(0.1, 1.0, 12), np.arange(12) // 4, np.arange(12.0)
    perfect = accuracy(label, label, graph, wirelength)
    assert (perfect.error, perfect.correlation, perfect.within) == (0.0, pytest.approx(1.0), pytest.approx(1.0))
    assert accuracy(1.1 * label, label, graph, wirelength).error == pytest.approx(0.1)


def test_the_interval_of_an_error_ratio_covers_equal_models_and_not_unequal_ones():
    random = np.random.default_rng(0)
    graph, label = np.repeat(np.arange(60), 5), random.uniform(0.2, 1.0, 300)
    good, alike, bad = (label * np.exp(spread * random.normal(size=300)) for spread in (0.1, 0.1, 0.2))
    even, uneven = error_ratio(good, alike, label, graph), error_ratio(good, bad, label, graph)
    assert even.low < 1.0 < even.high
    assert uneven.low < uneven.value < uneven.high < 0.8


def test_folds_hold_out_every_example_once_and_graphs_as_a_whole():
    graph = np.repeat(np.arange(13), 5)
    folds = folds_by_graph(graph, 5, 0)
    assert (np.sum(folds, axis=0) == 1).all()
    assert all(not set(graph[fold]) & set(graph[~fold]) for fold in folds)


def test_predictions_of_held_out_examples_do_not_know_their_labels():
    plain = examples(120, noise=1.0)
    folds = folds_by_graph(plain.graph, 5, 0)
    predicted = held_out_predictions(RidgeLearner(), plain, folds)
    changed = Examples(plain.features, np.where(folds[2], 99.0, plain.target), plain.graph)
    np.testing.assert_array_equal(held_out_predictions(RidgeLearner(), changed, folds)[folds[2]], predicted[folds[2]])
