"""What a training tells of its iterations: losses, entropy, rewards and infeasible shares, for TensorBoard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import metrics as names
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from policies.partition.event_file import EventFile
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

_ROLLED_OUT = {names.EPISODE_RETURN_MEAN: "reward", "infeasible": "infeasible", "moved": "moved"}
"""The same of the runners'."""


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


class AlgorithmEvents:
    """RLlib's ``on_train_result`` that writes each iteration of an algorithm to a file for TensorBoard.

    Steps are samples. Rewards and shares are RLlib's means over the last groups of rollouts. An algorithm that goes on
    from a checkpoint writes nothing twice.

    Args:
        path: the file.
        passes: steps of the environment that make a sample.
    """

    def __init__(self, path: Path, passes: int) -> None:
        self._path, self._passes = path.absolute(), passes
        self._file: EventFile | None = None

    def __call__(self, *, result: dict[str, Any], **_kwargs: Any) -> None:
        """Write what ``result`` has; it may lack anything after a runner has died."""
        rolled = result.get(names.ENV_RUNNER_RESULTS, {})
        steps = rolled.get(names.NUM_ENV_STEPS_SAMPLED_LIFETIME)
        if steps is None:
            return
        scalars = {name: float(rolled[key]) for key, name in _ROLLED_OUT.items() if key in rolled}
        scalars |= learned_scalars(result.get(names.LEARNER_RESULTS, {}))
        finite = {f"training/{name}": value for name, value in scalars.items() if np.isfinite(value)}
        self._file = self._file or EventFile(self._path)
        self._file.append(int(steps) // self._passes, finite)

    def __getstate__(self) -> dict[str, Any]:
        # Where it is made again, the file is read again: it may have grown since.
        return self.__dict__ | {"_file": None}
