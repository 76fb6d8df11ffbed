"""The learner: RLlib's DQN loss over steps that were drawn from the replay."""

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.dqn_learner import DQNLearner
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from policies.learning.rllib.optimizer import FusedAdam
from policies.parallel.module import QModule

_COPIED = "target_copied_at"


class QLearner(DQNTorchLearner):
    """Double DQN with importance weights.

    RLlib's default connectors go through a batch step by step and column by column, which takes longer than the
    network; one of our own does all at once.
    """

    def build(self) -> None:
        """Make the learner."""
        # DQNLearner.build puts its connector behind one of RLlib's default ones, which are not there.
        super(DQNLearner, self).build()
        modules: Any = self.module.values()
        for wrapped in modules:
            module = wrapped.unwrapped()
            assert isinstance(module, QModule)
            module.make_target_networks()
        self.last_update_ts_by_mid = defaultdict(int)

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """As RLlib's."""
        return list(DQNLearner.rl_module_required_apis())

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Adam of all weights."""
        module = self.module[module_id]
        assert isinstance(module, QModule)
        weights = list(module.network.parameters())
        optimizer = FusedAdam(weights)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=weights, lr_or_lr_schedule=config.lr)

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, with the updates after which target networks were last copied."""
        return dict(super().get_state(*args, **kwargs)) | {_COPIED: dict(self.last_update_ts_by_mid)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`get_state` gave."""
        super().set_state(state)
        self.last_update_ts_by_mid.update(state.get(_COPIED, {}))


class StepBatch(ConnectorV2):
    """A batch of steps (:class:`~policies.parallel.replay.Step`).

    It has no ``__init__``: for a class that has one, RLlib looks up the source of every frame on the stack.
    """

    def __call__(self, *, rl_module: Any, episodes: list[Any], **_kwargs: Any) -> dict[str, Any]:
        """The batch of the Q-module, where that is."""
        device = next(rl_module[DEFAULT_MODULE_ID].parameters()).device
        columns = {
            Columns.OBS: np.stack([each.seen for each in episodes]),
            Columns.NEXT_OBS: np.stack([each.behind for each in episodes]),
            Columns.ACTIONS: np.array([each.action for each in episodes], dtype=np.int64),
            Columns.REWARDS: np.array([each.reward for each in episodes], dtype=np.float32),
            Columns.TERMINATEDS: np.array([each.is_last for each in episodes]),
            "weights": np.array([each.weight for each in episodes], dtype=np.float32),
            "n_step": np.array([each.n_step for each in episodes], dtype=np.float32),
        }
        return {DEFAULT_MODULE_ID: {name: torch.from_numpy(values).to(device) for name, values in columns.items()}}
