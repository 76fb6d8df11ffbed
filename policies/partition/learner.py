"""The learner: clipped PPO for every operator and imitation of each graph's elite.

Source of the PPO term: Schulman et al., "Proximal policy optimization algorithms", 2017, equation 7. An assignment is
one action for each operator, and the ratio of two policies' probabilities of a whole assignment is a product of
hundreds of factors: clipped as a whole it is hardly ever inside the clip range. So every operator has its own ratio;
the joint one is there to compare with.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from torch import Tensor

from policies.learning.rllib.learner_settings import with_learner
from policies.learning.rllib.optimizer import FusedAdam
from policies.partition.distribution import ChipDistribution
from policies.partition.elites import EliteBuffer
from policies.partition.graph_store import GraphStore
from policies.partition.rl_module import BUSY, DISTRIBUTIONS, GRAPH, PREVIOUS
from policies.partition.runner import ADVANTAGE, COST, REPAIRED
from policies.partition.settings import LearningSettings

ELITES = "elites"

_NORM = "gradients_default_optimizer_global_norm"
"""What RLlib calls the norm of all gradients in its metrics."""

_SMALL_NORM = 1e-6
"""What RLlib adds to it before it divides by it."""

_MAX_LOG_RATIO = 20.0
"""Logarithm of a ratio at most. The repaired chip can be one that the policy gave no probability at all; its ratio
would overflow, and the gradient not be a number even where clipping leaves it out."""


class PartitionLearner(PPOTorchLearner):
    """Learns from groups of rollouts.

    Of several learners each learns from its own rollouts, and all hold the same elites: those of all rollouts.

    ``config.env_config``: ``settings`` and ``store``, as for the runner.
    """

    def build(self) -> None:
        """Make what is held for every graph, and what makes batches of episodes."""
        given = self.config.env_config
        self.settings = LearningSettings.from_document(given["settings"])
        self.store: GraphStore = given["store"]
        self.elites = EliteBuffer(self.settings.elites)
        config = self.config
        self.batches = GroupBatch()
        self.config = with_learner(config.copy(copy_frozen=False), learner_connector=lambda *_spaces: self.batches)
        super().build()
        # It is sent with checkpoints, without what this learner holds.
        self.config = config
        # Elites are exchanged as objects, which on the group of the gradients would go through its GPUs.
        others = torch.distributed.new_group(backend="gloo") if self.distributed else None
        self.batches.hold(self.store, self.elites, others)

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """None: there is no critic."""
        return []

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Adam of all weights."""
        weights = self.get_parameters(self.module[module_id])
        self.register_optimizer(
            module_id=module_id,
            optimizer=FusedAdam(weights),
            params=weights,
            lr_or_lr_schedule=config.lr,
        )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """Loss of one minibatch: each graph's terms, weighted by its rows.

        Args:
            module_id: whose loss it is.
            config: not used: everything is in the settings.
            batch: rows of rollouts (:class:`GroupBatch`).
            fwd_out: the distributions of each graph among the rows.
        """
        rows = len(batch[Columns.OBS])
        total: Tensor = batch[ADVANTAGE].new_zeros(())
        logged: dict[str, Tensor] = {}
        for number, (own, distribution, which) in fwd_out[DISTRIBUTIONS].items():
            terms = self._terms(number, own, distribution, which, batch)
            share = len(own) / rows
            total = total + share * self._weighted(terms)
            for name, term in terms.items():
                logged[name] = logged.get(name, total.new_zeros(())) + share * term.detach()
        self.metrics.log_dict(logged, key=module_id, window=1)
        return total

    def _terms(
        self, number: int, rows: Tensor, distribution: ChipDistribution, which: Tensor, batch: dict[str, Any]
    ) -> dict[str, Tensor]:
        """The terms of one graph, each a mean over its operators; ``rows``: the graph's, in the batch."""
        graph = self.store[number]
        count = len(graph.problem.graph)
        old = batch[Columns.ACTION_LOGP][rows, :count]
        new = ChipDistribution(distribution.log_probabilities[which]).log_probability(
            batch[Columns.ACTIONS][rows, :count]
        )
        gain = batch[ADVANTAGE][rows].unsqueeze(1)
        if self.settings.advantage == "better":
            gain = gain * (batch[Columns.ACTIONS][rows, :count] != batch[PREVIOUS][rows, :count])
        terms = {
            "policy_loss": clipped_loss(new, old, gain, self.settings.clip, joint=self.settings.ratio == "joint"),
            "entropy": distribution.entropy().mean(),
            "mean_kl_loss": (old - new).detach().mean(),
        }
        shares = self.elites.shares(graph.name, graph.problem.chips) if self.settings.imitation_weight > 0 else None
        if shares is not None:
            target = torch.from_numpy(shares).to(new.device)
            terms["imitation_loss"] = -(target * distribution.log_probabilities).sum(-1).mean()
        return terms

    def _weighted(self, terms: dict[str, Tensor]) -> Tensor:
        loss = self.settings.policy_weight * terms["policy_loss"] - self.settings.entropy_weight * terms["entropy"]
        if "imitation_loss" in terms:
            loss = loss + self.settings.imitation_weight * terms["imitation_loss"]
        return loss

    def postprocess_gradients(self, gradients_dict: dict[Any, Any]) -> dict[Any, Any]:
        """Clip by the norm of all gradients, as RLlib does, but not weight by weight: there are many small ones."""
        gradients = [gradient for gradient in gradients_dict.values() if gradient is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        self._finite = bool(torch.isfinite(norm))
        if not self._finite:
            return dict(super().postprocess_gradients(gradients_dict))
        limit = self.settings.gradient_clip
        scale = limit / torch.clamp(norm + _SMALL_NORM, min=limit)
        for gradient in gradients:
            gradient.mul_(scale)
        self.metrics.log_value((DEFAULT_MODULE_ID, _NORM), norm, window=1)
        return gradients_dict

    def apply_gradients(self, gradients_dict: dict[Any, Any]) -> None:
        """One step; RLlib's, which asks every weight twice whether its gradient is a number, only where one is not."""
        if not self._finite:
            super().apply_gradients(gradients_dict)
            return
        for reference, gradient in gradients_dict.items():
            reference.grad = gradient  # with PyTorch, RLlib's reference to a weight is the weight
        for _, optimizer in self.get_optimizers_for_module(DEFAULT_MODULE_ID):
            optimizer.step()

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, with the elite of every graph."""
        return dict(super().get_state(*args, **kwargs)) | {ELITES: self.elites.state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`get_state` gave."""
        super().set_state(state)
        if ELITES in state:
            self.elites.restore(state[ELITES])


def clipped_loss(new: Tensor, old: Tensor, gain: Tensor, clip: float, *, joint: bool) -> Tensor:
    """−mean min(r A, clip(r, 1 − ε, 1 + ε) A).

    Args:
        new: log p of each operator's chip under the policy, [B, N].
        old: the same under the policy that drew it.
        gain: advantages A, [B, 1].
        clip: ε.
        joint: r of the whole assignment, the product over its operators, instead of each operator's own.
    """
    difference = (new - old).sum(1, keepdim=True) if joint else new - old
    ratio = difference.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    return -torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()


class GroupBatch(ConnectorV2):
    """Makes a batch of episodes, one row for each pass of each rollout, and takes the elite from them.

    Operators are padded to the largest graph's; what is padded is never read.

    It has no ``__init__``: for a class that has one, RLlib looks up the source of every frame on the stack, which took
    most of the time of fine-tuning on a small graph.
    """

    _store: GraphStore
    _elites: EliteBuffer
    _learners: Any

    def hold(self, store: GraphStore, elites: EliteBuffer, learners: Any = None) -> None:
        """Take graphs and elites; ``learners``: the process group of all learners, None where there is one."""
        self._store, self._elites, self._learners = store, elites, learners

    def __call__(self, *, rl_module: Any, episodes: list[Any], **_kwargs: Any) -> dict[str, Any]:
        """The batch of the policy's module, of single-agent ``episodes``, where that module is."""
        device = next(rl_module[DEFAULT_MODULE_ID].parameters()).device
        self._take(episodes)
        columns: dict[str, list[Any]] = {Columns.OBS: [], Columns.ACTIONS: []}
        columns |= {name: [] for name in (Columns.ACTION_LOGP, PREVIOUS, BUSY, ADVANTAGE)}
        for episode in episodes:
            columns[Columns.OBS].extend(episode.get_observations(slice(0, len(episode))))
            columns[Columns.ACTIONS].extend(episode.get_actions())
            for name in (Columns.ACTION_LOGP, PREVIOUS, BUSY, ADVANTAGE):
                columns[name].extend(episode.get_extra_model_outputs(name))
        return {DEFAULT_MODULE_ID: {name: _tensor(values, device) for name, values in columns.items()}}

    def _take(self, episodes: Sequence[SingleAgentEpisode]) -> None:
        by_graph: dict[int, list[SingleAgentEpisode]] = {}
        for episode in episodes:
            by_graph.setdefault(int(episode.get_observations(0)[GRAPH]), []).append(episode)
        elites = EliteBuffer(self._elites.size)
        for number, own in by_graph.items():
            chips = np.stack([episode.get_extra_model_outputs(REPAIRED, -1) for episode in own])
            costs = np.array([episode.get_extra_model_outputs(COST, -1) for episode in own], dtype=np.float64)
            elites.add(self._store[number].name, chips, costs)
        for state in self._of_all_learners(elites.state()):
            self._elites.merge(state)

    def _of_all_learners(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """The states of all learners, in the order of their ranks."""
        if self._learners is None:
            return [state]
        states: list[dict[str, Any]] = [{}] * torch.distributed.get_world_size(self._learners)
        torch.distributed.all_gather_object(states, state, group=self._learners)
        return states


def _tensor(values: list[Any], device: torch.device) -> Tensor:
    """Rows [B] or [B, 2, chips] or, padded with zeros, [B, most]."""
    rows = [np.asarray(value) for value in values]
    if rows[0].ndim != 1:
        return torch.from_numpy(np.stack(rows)).to(device)
    padded = np.zeros((len(rows), max(len(row) for row in rows)), dtype=rows[0].dtype)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return torch.from_numpy(padded).to(device)
