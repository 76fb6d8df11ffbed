"""The shipped form of the cost model: a stack, and graph networks that share the prediction with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dse.run.progress import StopSignal, never_stop
from policies.fabric.model.examples import Examples, parts_by_graph
from policies.fabric.model.network import GraphNetwork
from policies.fabric.model.passes import device
from policies.fabric.model.perceptrons import Perceptrons
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import FOLDS, Stack, StackLearner, convex_weights
from policies.fabric.model.training import NetworkLearner, NetworkModel
from policies.fabric.model.trees import Trees

Floats = npt.NDArray[np.float64]

_KINDS = MappingProxyType({"trees": Trees, "perceptrons": Perceptrons})
"""Members of the stack, all of whose fields are arrays."""

_WEIGHTS, _SHARE = "stack.weights", "networks.share"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A stack, and networks of the same settings with other seeds.

    Attributes:
        stack: of trees and perceptrons.
        networks: none where the stack predicts alone.
        share: weight of the networks' mean, [1]; the stack has the rest.
    """

    stack: Stack
    networks: tuple[NetworkModel, ...]
    share: Floats

    @property
    def needs_encodings(self) -> bool:
        """Whether there are networks, which see whole placements."""
        return bool(self.networks)

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        share = float(self.share[0])
        stack = self.stack.predict(examples) if share < 1 else np.zeros(len(examples))
        if not self.networks:
            return stack
        networks = np.mean([network.predict(examples) for network in self.networks], axis=0)
        return np.asarray((1 - share) * stack + share * networks, dtype=np.float64)

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
        return tensors | {_WEIGHTS: self.stack.weights} | ({_SHARE: self.share} if self.networks else {})

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
        return cls(stack, tuple(networks), tensors[_SHARE] if networks else np.zeros(1))


@dataclass(frozen=True)
class EnsembleLearner:
    """Trains an :class:`Ensemble`.

    The share of the networks is what minimises the squared error on a third of the graphs, which neither the members of
    the stack nor one more network that is trained for it have seen. Networks without the stack predict alone; the stack
    is fitted all the same, so that all checkpoints are alike.

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
        networks = tuple(self._learner(number).fit(examples) for number in range(self.settings.members))
        if not self.settings.with_stack:
            return Ensemble(self.stack.fit_evenly(examples), networks, np.ones(1))
        stack, others = self.stack.fit_and_hold_out(examples)
        return Ensemble(stack, networks, self._share(examples, others) if networks else np.zeros(1))

    def _learner(self, number: int) -> NetworkLearner:
        return NetworkLearner(self.settings, self.seed + number, self.stop)

    def _share(self, examples: Examples, others: Floats) -> Floats:
        """Of networks beside what others than the stack's members say of examples that they have not seen, [S]."""
        parts = parts_by_graph(examples.graph, FOLDS)
        if not parts:
            return np.full(1, 0.5)
        held_out = parts[0]
        network = self._learner(self.settings.members).fit(examples.at(~held_out))
        predictions = np.array([network.predict(examples.at(held_out)), others[held_out]])
        return convex_weights(predictions, examples.target[held_out])[:1]
