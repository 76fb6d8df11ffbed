"""How much better a rollout was than the others of the same graph."""

import numpy as np

from dse.partition.problem import Floats
from policies.partition.settings import AdvantageName

_MIN_DEVIATION = 1e-6


def advantages(rewards: Floats, kind: AdvantageName, anchor_reward: float = np.inf) -> Floats:
    """Advantages of the rollouts of one graph, [R].

    Args:
        rewards: of each rollout, [R].
        kind: ``rank``: (rollouts that are worse − rollouts that are better) / (R − 1), in [−1, 1], regardless of the
            rewards' scale; ``standard``: reward less mean, over the standard deviation. Both have mean 0, and are 0
            where all rewards are alike. ``better``: 1 where the reward is above the anchor's and else 0, less their
            mean.
        anchor_reward: of the partition that was corrected.
    """
    if kind == "better":
        better = rewards > anchor_reward
        return np.asarray(better - better.mean())
    if kind == "standard":
        return np.asarray((rewards - rewards.mean()) / (rewards.std() + _MIN_DEVIATION))
    above = rewards[:, None] > rewards[None, :]
    return np.asarray((above.sum(axis=1) - above.sum(axis=0)) / max(1, len(rewards) - 1))
