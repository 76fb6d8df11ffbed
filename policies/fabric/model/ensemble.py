"""The shipped form of the cost model: several networks, with their mean and their spread."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import network_of
from policies.fabric.model.ridge import Ridge
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import NetworkLearner, NetworkModel, device

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of the same settings with other seeds, on one ridge regression."""

    networks: tuple[NetworkModel, ...]

    def predict(self, examples: Examples) -> Floats:
        """The mean of the members' targets, [S]."""
        return self.mean_and_spread(examples)[0]

    def mean_and_spread(self, examples: Examples) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the members' targets, [S] each; ridge is a member where they are on it."""
        members = [network.predict(examples) for network in self.networks]
        mean = np.mean(members, axis=0)
        if self.networks[0].is_on_ridge:
            members.append(self.networks[0].offset(examples))
        return mean, np.std(members, axis=0)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that was learned, by name."""
        tensors = {
            f"network{number}.{name}": tensor.cpu().numpy()
            for number, model in enumerate(self.networks)
            for name, tensor in model.network.state_dict().items()
        }
        ridge = self.networks[0].ridge
        return tensors | {"ridge.mean": ridge.mean, "ridge.scale": ridge.scale, "ridge.weights": ridge.weights}

    @classmethod
    def of(cls, settings: CostSettings, tensors: Mapping[str, npt.NDArray[Any]]) -> "Ensemble":
        """The ensemble whose :meth:`tensors` these are."""
        ridge = Ridge(tensors["ridge.mean"], tensors["ridge.scale"], tensors["ridge.weights"])
        networks = []
        for number in range(settings.members):
            network = network_of(settings)
            states = {
                name: torch.from_numpy(tensors[f"network{number}.{name}"].copy()) for name in network.state_dict()
            }
            network.load_state_dict(states)
            networks.append(NetworkModel(network.to(device()), ridge, settings.on_ridge))
        return cls(tuple(networks))


@dataclass(frozen=True)
class EnsembleLearner:
    """Trains an :class:`Ensemble`.

    Attributes:
        settings: of all networks.
        seed: of the first one; the others have the next ones.
        stop: called after each pass of each network.
    """

    settings: CostSettings
    seed: int = 0
    stop: StopSignal = never_stop

    def fit(self, examples: Examples) -> Ensemble:
        """The ensemble that the examples teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        learners = [
            NetworkLearner(self.settings, self.seed + number, self.stop) for number in range(self.settings.members)
        ]
        return Ensemble(tuple(learner.fit(examples) for learner in learners))
