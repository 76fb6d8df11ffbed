"""The shipped form of the cost model: a stack, and graph networks that share the prediction with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import GraphNetwork
from policies.fabric.model.passes import device
from policies.fabric.model.perceptrons import Perceptrons
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import Stack, StackLearner
from policies.fabric.model.training import NetworkLearner, NetworkModel
from policies.fabric.model.trees import Trees

Floats = npt.NDArray[np.float64]

_KINDS = MappingProxyType({"trees": Trees, "perceptrons": Perceptrons})
"""Members of the stack, all of whose fields are arrays."""

_WEIGHTS = "stack.weights"


SHARE = 0.5
"""Of graph networks in the prediction, where they share it with the stack."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A stack, and networks of the same settings with other seeds.

    Attributes:
        stack: of trees and perceptrons.
        networks: none where the stack predicts alone.
        share: of the networks' mean in the prediction; the stack has the rest.
    """

    stack: Stack
    networks: tuple[NetworkModel, ...] = ()
    share: float = 0.0

    @property
    def needs_encodings(self) -> bool:
        """Whether there are networks, which see whole placements."""
        return bool(self.networks)

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        predicted = np.zeros(len(examples))
        if self.share < 1:
            predicted += (1 - self.share) * self.stack.predict(examples)
        for network in self.networks:
            predicted += self.share / len(self.networks) * network.predict(examples)
        return predicted

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that was learned, by name."""
        tensors = {
            f"network{number}.{name}": tensor.cpu().numpy()
            for number, model in enumerate(self.networks)
            for name, tensor in model.network.state_dict().items()
        }
        for kind in _KINDS:
            part = getattr(self.stack, kind)
            tensors |= {f"{kind}.{each.name}": getattr(part, each.name) for each in fields(part)}
        return tensors | {_WEIGHTS: self.stack.weights}

    @classmethod
    def of(cls, settings: CostSettings, tensors: Mapping[str, npt.NDArray[Any]]) -> "Ensemble":
        """The ensemble whose :meth:`tensors` these are."""
        parts: dict[str, Any] = {
            kind: of(**{each.name: tensors[f"{kind}.{each.name}"] for each in fields(of)})
            for kind, of in _KINDS.items()
        }
        stack = Stack(**parts, weights=tensors[_WEIGHTS])
        networks = []
        for number in range(settings.members):
            network = GraphNetwork(settings)
            states = {
                name: torch.from_numpy(tensors[f"network{number}.{name}"].copy()) for name in network.state_dict()
            }
            network.load_state_dict(states)
            networks.append(NetworkModel(network.to(device())))
        return cls(stack, tuple(networks), _share(settings))


def _share(settings: CostSettings) -> float:
    if not settings.members:
        return 0.0
    return SHARE if settings.with_stack else 1.0


@dataclass(frozen=True)
class EnsembleLearner:
    """Trains an :class:`Ensemble`. The stack is fitted also where networks predict alone: all checkpoints are alike.

    Attributes:
        settings: of all networks.
        seed: of the first one; the others have the next ones.
        stop: called after each pass of each network.
        stack: learner of the stack.
    """

    settings: CostSettings
    seed: int = 0
    stop: StopSignal = field(default=never_stop, compare=False)
    stack: StackLearner = field(default_factory=StackLearner)

    def fit(self, examples: Examples) -> Ensemble:
        """The ensemble that the examples teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        learners = [
            NetworkLearner(self.settings, self.seed + number, self.stop) for number in range(self.settings.members)
        ]
        stack = self.stack.fit(examples) if self.settings.with_stack else self.stack.fit_evenly(examples)
        return Ensemble(stack, tuple(each.fit(examples) for each in learners), _share(self.settings))
