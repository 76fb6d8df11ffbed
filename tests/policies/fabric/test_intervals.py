"""Intervals of rank correlations: they hold the estimate, narrow with graphs, and are not given with too few."""

from dataclasses import astuple

import numpy as np
import pytest

from policies.fabric.study.accuracy import spearman
from policies.fabric.study.intervals import MIN_GRAPHS, Interval, correlation_interval, error_ratio, mean_interval


def noisy(graphs, placements, seed=0):
    """Labels, predictions of them with noise, and the graph of each."""
    generator = np.random.default_rng(seed)
    label = generator.random(graphs * placements)
    return label + 0.2 * generator.standard_normal(len(label)), label, np.repeat(np.arange(graphs), placements)


def test_an_interval_holds_the_estimate_and_narrows_with_graphs():
    widths = []
    for graphs in (8, 80):
        predicted, label, graph = noisy(graphs, 5)
        of = correlation_interval(predicted, label, graph, seed=1)
        assert -1 <= of.low < of.value == spearman(predicted, label) < of.high <= 1
        assert of == correlation_interval(predicted, label, graph, seed=1)
        widths.append(of.high - of.low)
    assert widths[1] < widths[0] / 2


def test_graphs_are_drawn_whole():
    """Of copies of one placement a graph, there is no more to learn than of one placement."""
    predicted, label, graph = noisy(20, 1)
    one = correlation_interval(predicted, label, graph, seed=1)
    copies = correlation_interval(np.repeat(predicted, 9), np.repeat(label, 9), np.repeat(graph, 9), seed=1)
    assert astuple(copies) == pytest.approx(astuple(one), abs=1e-9)


@pytest.mark.parametrize(("graphs", "placements"), [(MIN_GRAPHS - 1, 50), (MIN_GRAPHS, 3)])
def test_few_graphs_or_placements_give_no_interval(graphs, placements):
    assert correlation_interval(*noisy(graphs, placements), seed=1) is None


def test_a_mean_has_the_interval_of_means_that_are_drawn_from_its_values():
    values = np.random.default_rng(0).standard_normal(30)
    drawn = np.random.default_rng(4).choice(values, size=(2000, 30)).mean(axis=1)
    low, high = np.quantile(drawn, (0.05, 0.95))
    assert mean_interval(values, seed=4) == Interval(values.mean(), low, high)


def test_a_ratio_of_errors_of_one_placement_a_graph_is_a_ratio_of_means():
    predicted, label, graph = noisy(30, 1)
    label = label + 0.5
    ratio = error_ratio(predicted, label + 1, label, graph, seed=4)
    own, others = np.abs(predicted - label) / label, 1 / label
    drawn = np.random.default_rng(4).integers(30, size=(2000, 30))
    low, high = np.quantile(own[drawn].mean(axis=1) / others[drawn].mean(axis=1), (0.05, 0.95))
    assert astuple(ratio) == pytest.approx((own.mean() / others.mean(), low, high))
