"""The curves of the partitioner's training: losses, entropy, rewards and infeasible shares."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import metrics as names
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from policies.learning.rllib.curves import AlgorithmCurves, learned_scalars
from policies.partition.runner import COST

_LEARNED = {
    "total_loss": "loss",
    "policy_loss": "policy_loss",
    "imitation_loss": "imitation_loss",
    "entropy": "entropy",
    "mean_kl_loss": "divergence",
    "gradients_default_optimizer_global_norm": "gradient_norm",
}

_SAMPLED = {names.EPISODE_RETURN_MEAN: "reward", "infeasible": "infeasible", "moved": "moved"}


def iteration_scalars(episodes: Sequence[SingleAgentEpisode], results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The curves' scalars of the iteration that learned from ``episodes``; ``results``: the learners', one each.

    ``reward`` (the mean throughput of its rollouts over the simple bound's) and ``best_reward``; ``infeasible``, the
    share of its rollouts that cannot run; of its last minibatch ``loss`` and its terms ``policy_loss``,
    ``imitation_loss`` and ``entropy`` (nats an operator), ``divergence`` from the policy that drew, and the gradient's
    norm before clipping. Of several learners, which have a share of the minibatch each, their mean.
    """
    rewards = np.array([episode.get_return() for episode in episodes], dtype=np.float64)
    costs = np.array([episode.get_extra_model_outputs(COST, -1) for episode in episodes], dtype=np.float64)
    scalars = {
        "reward": float(rewards.mean()),
        "best_reward": float(rewards.max()),
        "infeasible": float(np.isinf(costs).mean()),
    }
    learned = [learned_scalars(MetricsLogger.peek_results(dict(each)), _LEARNED) for each in results]
    return scalars | {name: float(np.mean([each[name] for each in learned if name in each])) for name in learned[0]}


def algorithm_curves(folder: Path, passes: int) -> AlgorithmCurves:
    """The callback that writes the iterations of the RLlib algorithm into ``folder``; a sample has ``passes`` steps."""
    return AlgorithmCurves(folder, _SAMPLED, _LEARNED, passes)
