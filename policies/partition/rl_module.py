"""The policy as an RLlib module (new API stack). Its observations name a graph by number; the graphs are in a store."""

from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from dse.partition.problem import Ints
from dse.partition.search.proposals import bottleneck, focused, normals
from hardware.packages import MAX_CHIPS
from policies.partition.distribution import ChipDistribution
from policies.partition.graph_store import GraphStore
from policies.partition.network import GraphTensors, PartitionNetwork, graph_tensors
from policies.partition.settings import LearningSettings

PREVIOUS = "previous_assignment"
"""Column: the assignment that the pass before has drawn, [B, N]."""

BUSY = "busy_share"
"""Column: of that assignment, how busy each chip, and the link behind it, is, over the busiest, [B, 2, max chips].

Zeros where nobody has measured it."""

GRAPH, SEED, PASS = range(3)
"""Columns of an observation: number of the graph in the store, seed of the draw, number of the pass (from 0)."""

OBSERVATION_SPACE = gymnasium.spaces.Box(0, np.iinfo(np.int64).max, (3,), np.int64)

ACTION_SPACE: gymnasium.Space[np.int64] = gymnasium.spaces.Discrete(MAX_CHIPS)
"""Of one operator: how many there are, the graph says."""

DISTRIBUTIONS, ROW = "chip_distributions", "row_in_distribution"


class PartitionModule(TorchRLModule):
    """Chips of all operators of a graph, in one pass or several.

    ``model_config``: ``settings`` (a document of :class:`LearningSettings`), ``store`` (a :class:`GraphStore`) and
    ``seed`` (of the first weights).
    """

    def setup(self) -> None:
        """Make the network, with the same first weights wherever it is made."""
        assert isinstance(self.model_config, dict)
        self.settings = LearningSettings.from_document(self.model_config["settings"])
        self.store: GraphStore = self.model_config["store"]
        self._tensors: dict[int, GraphTensors] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.model_config["seed"]))
            self.network = PartitionNetwork(self.settings)

    def train(self, mode: bool = True) -> "PartitionModule":
        """As in PyTorch; RLlib says it before every step, and each time all layers would be told again."""
        return self if mode == self.training else super().train(mode)

    def tensors(self, number: int) -> GraphTensors:
        """The graph on the network's device."""
        device = next(self.network.parameters()).device
        tensors = self._tensors.get(number)
        if tensors is None or tensors.features.device != device:
            tensors = self._tensors[number] = graph_tensors(self.store[number], self.settings, device)
        return tensors

    def distributions(
        self, observations: Tensor, previous: Tensor | None, busy: Tensor | None
    ) -> dict[int, tuple[Tensor, ChipDistribution, Tensor]]:
        """For every graph among the rows: (its rows, the distributions [D, N, C], which of them each row has).

        Rows of a graph that see the same share one distribution. The graph is encoded once.

        Args:
            observations: [B, 3].
            previous: what the pass before has drawn, or in the first one the anchor ``best``, [B, ≥ N]; None where no
                row sees any.
            busy: what was measured of those, [B, 2, max chips]; None where nothing was.
        """
        numbers = sorted(set(observations[:, GRAPH].tolist()))
        embeddings = self.network.encode([self.tensors(number) for number in numbers])
        distributions = {}
        for number, embedding in zip(numbers, embeddings, strict=True):
            graph = self.tensors(number)
            rows = torch.nonzero(observations[:, GRAPH] == number).squeeze(1)
            informed = observations[rows, PASS] >= (0 if self.settings.anchor == "best" else 1)
            parts = [] if bool(informed.all()) else [self.network.logits(embedding, graph, None)]
            which = torch.zeros_like(rows)
            if bool(informed.any()):
                assert previous is not None
                own = rows[informed]
                seen = previous[own, : len(graph)]
                if busy is not None:
                    # What was measured once, and drawn again by a later pass, is seen in two forms.
                    seen = torch.cat([seen, busy[own].amax((1, 2)).ceil().to(seen).unsqueeze(1)], dim=1)
                distinct, place = torch.unique(seen, dim=0, return_inverse=True)
                which[informed] = place + len(parts)
                row = torch.zeros(len(distinct), dtype=own.dtype, device=own.device)
                row = row.scatter_reduce(0, place, own, "amax")
                parts.append(
                    self.network.logits(
                        embedding, graph, previous[row, : len(graph)], None if busy is None else busy[row]
                    )
                )
            distributions[number] = (rows, ChipDistribution.from_logits(torch.cat(parts)), which)
        return distributions

    def _forward_train(self, batch: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        return {DISTRIBUTIONS: self.distributions(batch[Columns.OBS], batch.get(PREVIOUS), batch.get(BUSY))}

    def _forward_exploration(self, batch: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Draws of one graph's rows: ``actions`` [B, N], the ``chip_distributions`` and the row's place in them."""
        with torch.no_grad():
            (drawn,) = self.distributions(batch[Columns.OBS], batch.get(PREVIOUS), batch.get(BUSY)).items()
            number, (_, distribution, which) = drawn
            seeds = batch[Columns.OBS][:, [SEED, PASS]].cpu().numpy()
            basis = self.store[number].basis(self.settings.correlation_width)
            places = normals(seeds, basis, self.settings.correlation)
            if self.settings.focus > 0:
                places = focused(places, seeds, self.store[number].sequence.work, self.settings.focus, self._hot(batch))
            uniform = torch.special.ndtr(torch.from_numpy(places).double()).to(which.device)
            own = distribution.log_probabilities[which]
            # Every other rollout strays farther, regardless of its batch.
            bold = torch.from_numpy(seeds[:, 0] % 2 == 1).to(own.device)[:, None, None]
            own = torch.where(bold, own / self.settings.temperature, own)
            return {
                Columns.ACTIONS: ChipDistribution.from_logits(own).at(uniform),
                DISTRIBUTIONS: distribution,
                ROW: which,
            }

    def _hot(self, batch: dict[str, Any]) -> Ints | None:
        """The operators of what limits the one partition that all rows correct; None where that was not measured."""
        if BUSY not in batch or not bool(batch[BUSY].any()):
            return None
        graph = self.store[int(batch[Columns.OBS][0, GRAPH])].problem
        return bottleneck(
            graph.graph, batch[PREVIOUS][0].cpu().numpy(), batch[BUSY][0, :, : graph.chips].double().cpu().numpy()
        )

    def _forward_inference(self, batch: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """The likeliest chip of every operator, as :meth:`_forward_exploration` gives draws."""
        with torch.no_grad():
            (drawn,) = self.distributions(batch[Columns.OBS], batch.get(PREVIOUS), batch.get(BUSY)).values()
            _, distribution, which = drawn
            likeliest = distribution.log_probabilities.argmax(-1)[which]
            return {Columns.ACTIONS: likeliest, DISTRIBUTIONS: distribution, ROW: which}


def module_spec(settings: LearningSettings, store: GraphStore, seed: int) -> RLModuleSpec:
    """What RLlib makes the module from."""
    return RLModuleSpec(
        module_class=PartitionModule,
        observation_space=OBSERVATION_SPACE,
        action_space=ACTION_SPACE,
        model_config={"settings": settings.document(), "store": store, "seed": seed},
    )
