"""The shipped form of the cost model: several networks, with their mean and their spread."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.baselines import Baselines, BaselinesLearner
from policies.fabric.model.examples import Examples
from policies.fabric.model.network import network_of
from policies.fabric.model.ridge import Ridge
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import NetworkLearner, NetworkModel, device
from policies.fabric.model.trees import Trees

Floats = npt.NDArray[np.float64]

PARTS = MappingProxyType(
    {
        "ridge": ("mean", "scale", "weights"),
        "trees": ("start", "feature", "threshold", "left", "right", "value"),
    }
)
"""What is kept of each of the baselines."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of the same settings with other seeds, on the same baselines."""

    networks: tuple[NetworkModel, ...]

    def predict(self, examples: Examples) -> Floats:
        """The mean of the members' targets, [S]."""
        return self.mean_and_spread(examples)[0]

    def mean_and_spread(self, examples: Examples) -> tuple[Floats, Floats]:
        """Mean of the networks, and standard deviation of these and of the baselines that they correct, [S] each."""
        members = [network.predict(examples) for network in self.networks]
        mean = np.mean(members, axis=0)
        if self.networks[0].is_on_baselines:
            members.extend(self.baselines.members(examples))
        return mean, np.std(members, axis=0)

    @property
    def baselines(self) -> Baselines:
        """Of all networks."""
        return self.networks[0].baselines

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that was learned, by name."""
        tensors = {
            f"network{number}.{name}": tensor.cpu().numpy()
            for number, model in enumerate(self.networks)
            for name, tensor in model.network.state_dict().items()
        }
        for kind, names in PARTS.items():
            part = getattr(self.baselines, kind)
            tensors |= {f"{kind}.{name}": getattr(part, name) for name in names}
        return tensors

    @classmethod
    def of(cls, settings: CostSettings, tensors: Mapping[str, npt.NDArray[Any]]) -> "Ensemble":
        """The ensemble whose :meth:`tensors` these are."""
        parts = {kind: {name: tensors[f"{kind}.{name}"] for name in names} for kind, names in PARTS.items()}
        baselines = Baselines(Ridge(**parts["ridge"]), Trees(**parts["trees"]))
        networks = []
        for number in range(settings.members):
            network = network_of(settings)
            states = {
                name: torch.from_numpy(tensors[f"network{number}.{name}"].copy()) for name in network.state_dict()
            }
            network.load_state_dict(states)
            networks.append(NetworkModel(network.to(device()), baselines, settings.on_baselines))
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
        baselines, offset = BaselinesLearner().fit_for(examples, self.settings.on_baselines)
        return Ensemble(tuple(learner.fit_on(baselines, offset, examples) for learner in learners))
