"""The partitioner as a user of RLlib would write it without extending RLlib: what ``learning_speed`` compares with.

One environment step assigns all operators: the observation is the graph, padded; the action MultiDiscrete. Runner,
connectors, distribution, loss and advantages are RLlib's own.
"""

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchMultiCategorical
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dse.partition.constraints.sampler import seeds_of
from policies.partition.features import FEATURES
from policies.partition.network import GraphTensors, PartitionNetwork

NOWHERE = -1
"""An end of an edge that only pads."""


class PartitionEnv(gymnasium.Env):
    """A graph of the store, each reset the next one; one step partitions it.

    ``config``: ``store``, ``max_operators`` and ``max_edges`` that observations are padded to.
    """

    def __init__(self, config):
        self.store, max_operators, max_edges = config["store"], config["max_operators"], config["max_edges"]
        self.chips = self.store[0].problem.chips
        self.observation_space = Dict(
            {
                "features": Box(-np.inf, np.inf, (max_operators, len(FEATURES)), np.float32),
                "edges": Box(NOWHERE, max_operators, (2, max_edges), np.int64),
            }
        )
        self.action_space = MultiDiscrete(np.full(max_operators, self.chips))
        # Made once a graph, as a careful user would.
        self._padded = [self._observation(graph) for graph in self.store.graphs]
        self._visits = config.get("first", 0)
        self._steps = 0

    def _observation(self, graph):
        features = np.zeros(self.observation_space["features"].shape, np.float32)
        features[: len(graph.features)] = graph.features
        edges = np.full(self.observation_space["edges"].shape, NOWHERE, np.int64)
        edges[:, : len(graph.problem.graph.edges)] = graph.problem.graph.edges.T
        return {"features": features, "edges": edges}

    def reset(self, *, seed=None, options=None):
        """Begin with the next graph."""
        self._number = self._visits % len(self.store)
        self._visits += 1
        return self._padded[self._number], {}

    def step(self, action):
        """Repair and price the assignment of the graph's own operators."""
        graph = self.store[self._number]
        drawn = np.asarray(action, dtype=np.int64)[None, : len(graph.problem.graph)]
        repaired = graph.sampler.fix(drawn, seeds_of(0, self._steps, 1))
        self._steps += 1
        reward = float(graph.reward(graph.evaluator.costs(repaired))[0])
        return self._padded[self._number], reward, True, False, {}


class PaddedModule(TorchRLModule, ValueFunctionAPI):
    """The partitioner's network on padded observations, with a value of each.

    ``model_config``: ``settings``, ``chips``.
    """

    def setup(self):
        """Make the network and the critic's head on its embeddings."""
        self.network = PartitionNetwork(self.model_config["settings"])
        self.value = torch.nn.Linear(self.model_config["settings"].width, 1)
        # As RLlib's own catalog does for MultiDiscrete.
        self.action_dist_cls = TorchMultiCategorical.get_partial_dist_cls(input_lens=list(self.action_space.nvec))

    def _union(self, observations):
        """All rows as one graph of B × N operators, which the rows' edges do not leave."""
        features, edges = observations["features"], observations["edges"]
        rows, max_operators, _ = features.shape
        moved = edges + max_operators * torch.arange(rows, device=edges.device)[:, None, None]
        ends = moved.transpose(0, 1)[:, edges[:, 0] != NOWHERE]
        empty = features.new_empty(0)
        return GraphTensors(features.flatten(0, 1), ends, empty, empty, empty, None, self.model_config["chips"])

    def _embedded(self, observations):
        union = self._union(observations)
        return union, self.network.encode([union])[0]

    def _forward(self, batch, **_kwargs):
        union, embedding = self._embedded(batch[Columns.OBS])
        rows = len(batch[Columns.OBS]["features"])
        logits = self.network.logits(embedding, union, None).reshape(rows, -1)
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: embedding.reshape(rows, -1, embedding.shape[1])}

    def _forward_exploration(self, batch, **kwargs):
        with torch.no_grad():
            # Embeddings are for the critic; the runner would keep them with every episode.
            return {Columns.ACTION_DIST_INPUTS: self._forward(batch)[Columns.ACTION_DIST_INPUTS]}

    def compute_values(self, batch, embeddings=None):
        """The value of each row, from the mean embedding of its operators."""
        if embeddings is None:
            observations = batch[Columns.OBS]
            embedding = self._embedded(observations)[1]
            embeddings = embedding.reshape(len(observations["features"]), -1, embedding.shape[1])
        return self.value(embeddings.mean(1)).squeeze(-1)


def stock_config(store, settings, max_operators: int, max_edges: int):
    """RLlib's PPO with its defaults, but for what is the same in both forms."""
    env_config = {"store": store, "max_operators": max_operators, "max_edges": max_edges}
    rows = settings.rollouts * settings.graphs
    return (
        PPOConfig()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .framework("torch")
        .environment(PartitionEnv, env_config=env_config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=rows, batch_mode="complete_episodes")
        .learners(num_learners=0)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=PaddedModule,
                model_config={"settings": settings, "chips": store[0].problem.chips},
            )
        )
        .training(
            train_batch_size_per_learner=rows,
            minibatch_size=max(1, rows // settings.minibatches),
            num_epochs=settings.epochs,
            lr=settings.learning_rate,
            grad_clip=settings.gradient_clip,
            grad_clip_by="global_norm",
        )
    )
