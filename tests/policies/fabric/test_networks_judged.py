"""How graph networks stand beside models without one."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.fabric_networks import OPEN, PLAIN, Judge, choices
from policies.fabric.model.paper import PaperSettings


class Off:
    """A learner whose predictions are off by a constant."""

    def __init__(self, by):
        self.by = by


def judge(**by):
    graph, label = np.repeat(np.arange(10), 4), np.linspace(0.2, 1.0, 40)
    labelled = SimpleNamespace(
        label=label, throughput_of=np.exp, wirelength=label, examples=SimpleNamespace(graph=graph)
    )
    learners = {
        name: Off(by.get(name.replace("-", "_").replace(" ", "_"), 0.3))
        for name in (*PLAIN, "graph-alone", "graph-alone 1", "graph-alone 2")
    }
    return Judge(labelled, lambda learner: np.log(label) + learner.by, learners)


def test_graph_is_the_mean_of_stack_and_network_and_is_compared_with_the_best_model_without_one():
    judged = judge(perceptrons=0.1, stack=0.2, graph_alone=-0.1)
    assert judged.best == "perceptrons"
    np.testing.assert_allclose(judged.target("graph"), np.log(judged.labelled.label) + 0.05)
    ratio = judged.ratio("graph", judged.best)
    assert ratio.value == pytest.approx(np.expm1(0.05) / np.expm1(0.1))
    assert ratio.low <= ratio.value <= ratio.high < 1


def test_an_ensemble_is_the_mean_of_its_networks():
    judged = judge(stack=0.2, graph_alone=-0.1, graph_alone_1=0.2, graph_alone_2=0.2)
    np.testing.assert_allclose(judged.target("graph-alone, 3 networks"), np.log(judged.labelled.label) + 0.1)
    np.testing.assert_allclose(judged.target("graph, 3 networks"), np.log(judged.labelled.label) + 0.15)


def test_a_sweep_tries_the_default_and_other_settings_that_the_paper_leaves_open():
    tried = choices(20)
    assert tried[0] == PaperSettings(epochs=OPEN["epochs"][0])
    assert len(tried) == 20
    for name, values in OPEN.items():
        assert {getattr(each, name) for each in tried} == set(values), name
