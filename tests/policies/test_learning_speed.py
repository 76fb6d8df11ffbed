"""The two forms that ``benchmarks/learning_speed.py`` compares do the same work."""

import pytest
import torch
from ray.rllib.core.columns import Columns

from benchmarks.learning_speed import our_form, stock_form
from benchmarks.stock_rllib import PaddedModule, PartitionEnv
from policies.partition.graph_store import GraphStore
from policies.partition.network import graph_tensors
from policies.partition.settings import LearningSettings
from tests.policies.examples import stored

SETTINGS = LearningSettings(layers=2, width=16, head="categorical", prior="none", order="random", graphs=2, rollouts=3)


@pytest.fixture(scope="module")
def store():
    return GraphStore([stored(20, name="one"), stored(24, seed=1, name="other")])


def padding(store):
    graphs = [graph.problem.graph for graph in store.graphs]
    return max(map(len, graphs)) + 2, max(len(graph.edges) for graph in graphs) + 3


@pytest.mark.parametrize("stock", [False, True])
def test_an_iteration_rolls_out_and_learns_from_as_many_samples(store, stock):
    roll_out, learn = stock_form(store, SETTINGS, *padding(store)) if stock else our_form(store, SETTINGS)
    for _ in range(2):
        episodes = roll_out()
        assert len(episodes) == SETTINGS.rollouts * SETTINGS.graphs
        learn(episodes)


def test_padding_changes_nothing_that_the_network_says_of_a_graph(store):
    max_operators, max_edges = padding(store)
    env = PartitionEnv({"store": store, "max_operators": max_operators, "max_edges": max_edges})
    module = PaddedModule(
        observation_space=env.observation_space,
        action_space=env.action_space,
        model_config={"settings": SETTINGS, "chips": env.chips},
    )
    rows = [env.reset()[0] for _ in store.graphs]
    batch = {key: torch.stack([torch.from_numpy(row[key]) for row in rows]) for key in rows[0]}
    with torch.no_grad():
        padded = module.forward_inference({Columns.OBS: batch})[Columns.ACTION_DIST_INPUTS]
        for row, graph in zip(padded, store.graphs, strict=True):
            alone = graph_tensors(graph, SETTINGS, torch.device("cpu"))
            own = module.network.logits(module.network.encode([alone])[0], alone, None)[0]
            torch.testing.assert_close(row.reshape(max_operators, -1)[: len(alone)], own)
