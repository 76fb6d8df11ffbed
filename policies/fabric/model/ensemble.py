"""The shipped form of the cost model: a stack, and networks that correct it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import network_of
from policies.fabric.model.perceptrons import Perceptrons
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import Stack, StackLearner
from policies.fabric.model.training import NetworkLearner, NetworkModel, device
from policies.fabric.model.trees import Trees

Floats = npt.NDArray[np.float64]

_KINDS = MappingProxyType({"trees": Trees, "perceptrons": Perceptrons})
"""Members of the stack, all of whose fields are arrays."""

_WEIGHTS = "stack.weights"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A stack and networks of the same settings with other seeds that correct it; without networks the stack alone."""

    stack: Stack
    networks: tuple[NetworkModel, ...]

    @property
    def needs_encodings(self) -> bool:
        """Whether there are networks, which see whole placements."""
        return bool(self.networks)

    def predict(self, examples: Examples) -> Floats:
        """The mean of the networks' targets, or without networks the stack's, [S]."""
        answers = [network.predict(examples) for network in self.networks]
        return np.mean(answers, axis=0) if answers else self.stack.predict(examples)

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
            network = network_of(settings)
            states = {
                name: torch.from_numpy(tensors[f"network{number}.{name}"].copy()) for name in network.state_dict()
            }
            network.load_state_dict(states)
            networks.append(NetworkModel(network.to(device()), stack, settings.on_stack))
        return cls(stack, tuple(networks))


@dataclass(frozen=True)
class EnsembleLearner:
    """Trains an :class:`Ensemble`.

    Attributes:
        settings: of all networks.
        seed: of the first one; the others have the next ones.
        stop: called after each pass of each network.
        stack: learner of what the networks correct.
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
        stack, offset = self.stack.fit_for(examples, self.settings.on_stack)
        return Ensemble(stack, tuple(learner.fit_on(stack, offset, examples) for learner in learners))
