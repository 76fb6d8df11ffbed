"""The Q-network as an RLlib module (new API stack): double, dueling, with −∞ for actions that are not legal.

RLlib's own module subtracts the mean over all advantages, and its dueling head is one of a catalogue of encoders; this
one subtracts the mean over the legal ones, and masks afterwards.
"""

from typing import Any

import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, QNetAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

from policies.parallel.networks import network_of, q_values
from policies.parallel.settings import QSettings

_TARGET = "_target"


class QModule(TorchRLModule, QNetAPI, TargetNetworkAPI, InferenceOnlyAPI):
    """Q-values of all actions.

    ``model_config``: ``settings`` (a document of :class:`QSettings`) and ``seed`` (of the first weights).
    """

    def setup(self) -> None:
        """Make the network, with the same first weights wherever it is made."""
        assert isinstance(self.model_config, dict)
        self.settings = QSettings.from_document(self.model_config["settings"])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.model_config["seed"]))
            self.network = network_of(self.settings)

    def make_target_networks(self) -> None:
        """A copy of the network, which the learner brings up to date now and then."""
        self._target = make_target_network(self.network)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """The network and its copy."""
        return [(self.network, self._target)]

    def get_non_inference_attributes(self) -> list[str]:
        """The copy."""
        return [_TARGET]

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Q-values [B, A] of observations [B, F]; −∞ where an action is not legal."""
        return {QF_PREDS: q_values(self.network, self.settings, batch[Columns.OBS])}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """The same by the copy."""
        return {QF_PREDS: q_values(self._target, self.settings, batch[Columns.OBS])}

    def compute_advantage_distribution(self, batch: dict[str, Any]) -> dict[str, Any]:
        """There is none: values are expectations."""
        raise NotImplementedError

    def _forward_train(self, batch: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """What RLlib's DQN loss needs: Q of this step, and both networks' of the next."""
        behind = {Columns.OBS: batch[Columns.NEXT_OBS]}
        output = {QF_PREDS: self.compute_q_values(batch)[QF_PREDS]}
        # RLlib's module goes through both steps at once, with gradients that only this one needs.
        with torch.no_grad():
            output[QF_TARGET_NEXT_PREDS] = self.forward_target(behind)[QF_PREDS]
            output[QF_NEXT_PREDS] = self.compute_q_values(behind)[QF_PREDS]
        return output

    def _forward_inference(self, batch: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """The best actions, [B]."""
        with torch.no_grad():
            return {Columns.ACTIONS: self.compute_q_values(batch)[QF_PREDS].argmax(1)}

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The same: the runner draws the random actions (:class:`policies.parallel.runner.EpisodeRunner`)."""
        return self._forward_inference(batch, **kwargs)
