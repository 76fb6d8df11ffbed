"""Intervals of rank correlations: they hold the estimate, narrow with graphs, and are not given with too few."""

import numpy as np
import pytest

from policies.fabric.study.accuracy import spearman
from policies.fabric.study.intervals import MIN_GRAPHS, correlation_interval


def noisy(graphs, placements, seed=0):
    """Labels, predictions of them with noise, and the graph of each."""
    generator = np.random.default_rng(seed)
    label = generator.random(graphs * placements)
    return label + 0.2 * generator.standard_normal(len(label)), label, np.repeat(np.arange(graphs), placements)


def test_an_interval_holds_the_estimate_and_narrows_with_graphs():
    widths = []
    for graphs in (8, 80):
        predicted, label, graph = noisy(graphs, 5)
        low, high = correlation_interval(predicted, label, graph, seed=1)
        assert -1 <= low < spearman(predicted, label) < high <= 1
        assert [low, high] == correlation_interval(predicted, label, graph, seed=1)
        widths.append(high - low)
    assert widths[1] < widths[0] / 2


def test_graphs_are_drawn_whole():
    """Of copies of one placement a graph, there is no more to learn than of one placement."""
    predicted, label, graph = noisy(20, 1)
    one = correlation_interval(predicted, label, graph, seed=1)
    copies = correlation_interval(np.repeat(predicted, 9), np.repeat(label, 9), np.repeat(graph, 9), seed=1)
    assert copies == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize(("graphs", "placements"), [(MIN_GRAPHS - 1, 50), (MIN_GRAPHS, 3)])
def test_few_graphs_or_placements_give_no_interval(graphs, placements):
    assert correlation_interval(*noisy(graphs, placements), seed=1) is None
