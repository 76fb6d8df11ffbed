"""What a training tells of its iterations: losses, entropy, rewards and infeasible shares, for TensorBoard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from policies.partition.runner import COST

_LEARNED = {
    "total_loss": "loss",
    "policy_loss": "policy_loss",
    "imitation_loss": "imitation_loss",
    "entropy": "entropy",
    "mean_kl_loss": "divergence",
    "gradients_default_optimizer_global_norm": "gradient_norm",
}
"""What is kept of the learner's metrics, and what it is called here."""


@dataclass(frozen=True)
class CurvePoint:
    """One iteration of a training.

    Attributes:
        samples: evaluations until its end.
        scalars: by name, all finite: ``reward`` (the mean throughput of its rollouts over the simple bound's) and
            ``best_reward``; ``infeasible``, the share of its rollouts that cannot run; of its last minibatch ``loss``
            and its terms ``policy_loss``, ``imitation_loss`` and ``entropy`` (nats an operator), ``divergence`` from
            the policy that drew, and the gradient's norm before clipping.
    """

    samples: int
    scalars: Mapping[str, float]


def curve_point(samples: int, episodes: Sequence[SingleAgentEpisode], told: Mapping[str, Any]) -> CurvePoint:
    """The iteration that learned from ``episodes``; ``told``: what the learner's update returned."""
    rewards = np.array([episode.get_return() for episode in episodes], dtype=np.float64)
    costs = np.array([episode.get_extra_model_outputs(COST, -1) for episode in episodes], dtype=np.float64)
    scalars = {
        "reward": float(rewards.mean()),
        "best_reward": float(rewards.max()),
        "infeasible": float(np.isinf(costs).mean()),
    }
    return CurvePoint(samples, scalars | learned_scalars(MetricsLogger.peek_results(dict(told))))


def learned_scalars(told: Mapping[str, Any]) -> dict[str, float]:
    """What is kept of the learner's metrics by module; those that are not finite, or not there, are left out."""
    own = told.get(DEFAULT_MODULE_ID, {})
    found = {name: float(own[key]) for key, name in _LEARNED.items() if key in own}
    return {name: value for name, value in found.items() if np.isfinite(value)}
