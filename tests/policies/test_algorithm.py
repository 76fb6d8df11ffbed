"""The RLlib algorithm as a whole: training over several graphs, checkpoints, resuming."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from hardware.inputs import InputError
from policies.partition.config import config_of
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.runner import PartitionRunner
from policies.partition.settings import LearningSettings
from tests.policies.examples import problem, stored

SETTINGS = LearningSettings(layers=2, width=16, prior="none", rollouts=6, graphs=2, minibatches=2, epochs=2, passes=2)


pytestmark = pytest.mark.usefixtures("quiet_home")


@pytest.fixture
def store(tmp_path):
    graphs = [stored(24, 4, 0, "first"), stored(9, 3, 1, "second"), stored(15, 5, 2, "third")]
    return GraphStore(graphs).save(tmp_path / "graphs.json")


def weights(algorithm):
    return algorithm.get_module().get_state()


def test_a_store_comes_back_from_its_file(store):
    back = pickle.loads(pickle.dumps(store))
    assert [graph.name for graph in back.graphs] == ["first", "second", "third"]
    for here, there in zip(store.graphs, back.graphs, strict=True):
        np.testing.assert_array_equal(here.features, there.features)
        chips = here.sampler.sample(np.arange(4, dtype=np.uint64))
        np.testing.assert_array_equal(here.evaluator.costs(chips), there.evaluator.costs(chips))
    sent = pickle.loads(pickle.dumps(GraphStore(store.graphs)))
    assert sent.path is None
    assert [graph.document() for graph in sent.graphs] == [graph.document() for graph in store.graphs]


@pytest.mark.ray_interface
@pytest.mark.usefixtures("ray_executor")
def test_training_goes_on_where_its_checkpoint_ended(store, tmp_path):
    algorithm = config_of(SETTINGS, store, seed=5).build_algo()
    for _ in range(2):
        told = algorithm.train()
    assert told["env_runners"]["num_env_steps_sampled_lifetime"] == 2 * 2 * 6 * 2
    assert 0 < told["env_runners"]["episode_return_mean"] <= 1
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.train()
    expected = weights(algorithm)
    algorithm.stop()

    resumed = Algorithm.from_checkpoint(path)
    (held,) = resumed.learner_group.foreach_learner(lambda learner: learner.elites.chips("first"))
    assert held.get() is not None
    before = weights(resumed)
    resumed.train()
    for name, weight in weights(resumed).items():
        np.testing.assert_array_equal(weight, expected[name])
    assert any((weights(resumed)[name] != before[name]).any() for name in before)
    resumed.stop()


@pytest.mark.ray_interface
@pytest.mark.usefixtures("ray_executor")
def test_no_graph_is_in_a_checkpoint(store, tmp_path):
    algorithm = config_of(SETTINGS, store).build_algo()
    algorithm.train()
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert files
    latencies = store[0].problem.graph.latency_s.tobytes()
    for path in files:
        content = path.read_bytes()
        assert latencies not in content
        assert b"PartitionGraph" not in content


def test_a_store_can_price_with_the_simulator(tmp_path):
    plain = problem(24, 36)
    graph = replace(plain.graph, flops=np.full(24, 1e6), moved_bytes=np.full(24, 1e4))
    store = GraphStore([StoredGraph.of(replace(plain, graph=graph), "mcm-36")]).save(tmp_path / "graphs.json")
    back = GraphStore.open(store.path)
    chips = store[0].sampler.sample(np.arange(4, dtype=np.uint64))
    costs = store[0].evaluator.costs(chips)
    np.testing.assert_array_equal(back[0].evaluator.costs(chips), costs)
    assert (costs != StoredGraph.of(store[0].problem).evaluator.costs(chips)).all()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "JSON"),
        ("[]", "schema"),
        ('{"schema": "dse.graph/1"}', "schema"),
        ('{"schema": "dse.partition-graphs/1"}', "graphs"),
        ('{"schema": "dse.partition-graphs/1", "graphs": [{"chips": 3}]}', "objects of"),
    ],
)
def test_broken_stores_are_one_line(tmp_path, text, rule):
    path = tmp_path / "graphs.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rule):
        GraphStore.open(path)
    with pytest.raises(InputError, match="cannot be read"):
        GraphStore.open(tmp_path / "none.json")


def test_a_restarted_runner_continues_with_the_next_seeds(store):
    config = config_of(SETTINGS, store, seed=5, env_runners=2)
    went, fresh = (PartitionRunner(config=config, worker_index=2, num_workers=2) for _ in range(2))
    for _ in range(3):
        went.sample()
    # Both runners made three groups of six rollouts in two passes.
    fresh.set_state({"num_env_steps_sampled_lifetime": 2 * 3 * 6 * 2})
    for here, there in zip(went.sample(), fresh.sample(), strict=True):
        np.testing.assert_array_equal(here.get_observations(0), there.get_observations(0))
        np.testing.assert_array_equal(here.get_actions(-1), there.get_actions(-1))


@pytest.mark.ray_interface
@pytest.mark.slow
@pytest.mark.usefixtures("ray_executor")
def test_remote_runners_use_all_graphs_and_the_trained_weights(store):
    config = config_of(SETTINGS, store, env_runners=1)
    algorithm = config.env_runners(num_cpus_per_env_runner=0).build_algo()
    before = weights(algorithm)
    algorithm.train()
    algorithm.train()
    assert any((weights(algorithm)[name] != before[name]).any() for name in before)
    best = algorithm.env_runner_group.foreach_env_runner(lambda runner: dict(runner.best), local_env_runner=False)
    assert set(best[0]) == {"first", "second", "third"}
    (own,) = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.module.get_state(), local_env_runner=False
    )
    for name, weight in weights(algorithm).items():
        assert torch.equal(torch.as_tensor(own[name]), torch.as_tensor(weight))
    algorithm.stop()
