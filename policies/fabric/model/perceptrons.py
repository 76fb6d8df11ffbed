"""Multilayer perceptrons on the features of a placement: small networks that see no graph, members of ensembles."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from policies.fabric.model.examples import Examples
from policies.fabric.model.ridge import standardised
from policies.fabric.model.threads import one_thread

Floats = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]

_CHUNK = 1024
"""Placements that are predicted together."""


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """The mean of M perceptrons with two hidden layers, x · sigmoid(x) after each, on hand and contention features.

    Attributes:
        mean, scale: by which features are standardised, [F].
        centre, spread: of the targets that were learned from, [1].
        first, first_bias: [M, F, H] and [M, 1, H].
        second, second_bias: [M, H, J] and [M, 1, J].
        last, last_bias: [M, J, 1] and [M, 1, 1].
    """

    mean: Floats
    scale: Floats
    centre: Floats
    spread: Floats
    first: Float32
    first_bias: Float32
    second: Float32
    second_bias: Float32
    last: Float32
    last_bias: Float32

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        features = standardised(examples.described, self.mean, self.scale).astype(np.float32)
        chunks = [self._mean(features[start : start + _CHUNK]) for start in range(0, len(features), _CHUNK)]
        answers = np.concatenate(chunks) if chunks else np.zeros(0)
        return np.asarray(self.centre[0] + self.spread[0] * answers, dtype=np.float64)

    def _mean(self, features: Float32) -> Floats:
        hidden = _swish(features @ self.first + self.first_bias)
        hidden = _swish(hidden @ self.second + self.second_bias)
        return np.asarray((hidden @ self.last + self.last_bias).mean(axis=0)[:, 0], dtype=np.float64)


def _swish(values: Float32) -> Float32:
    return np.asarray(values / (1 + np.exp(-values)), dtype=np.float32)


LAYERS = tuple(field.name for field in fields(Perceptrons))[4:]
"""Names of the weights."""


@dataclass(frozen=True)
class PerceptronsLearner:
    """Fits :class:`Perceptrons` to the log throughput, all side by side.

    Attributes:
        members: perceptrons, which differ in their first weights.
        width, second: units of their hidden layers.
        steps: of Adam.
        batch: examples of a step, at random.
        learning_rate: at the start; it falls to 0 along a cosine.
        weight_decay: of Adam.
        seed: of first weights and batches.
    """

    members: int = 8
    width: int = 48
    second: int = 24
    steps: int = 2400
    batch: int = 512
    learning_rate: float = 5e-3
    weight_decay: float = 0.05
    seed: int = 0

    def shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        """Those of the weights, by name."""
        members, width, second = self.members, self.width, self.second
        return {
            "first": (members, features, width),
            "first_bias": (members, 1, width),
            "second": (members, width, second),
            "second_bias": (members, 1, second),
            "last": (members, second, 1),
            "last_bias": (members, 1, 1),
        }

    def fit(self, examples: Examples) -> Perceptrons:
        """The perceptrons that the examples teach."""
        described = examples.described
        mean, scale = described.mean(axis=0), described.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        centre, spread = examples.target.mean(), max(float(examples.target.std()), 1e-9)
        target = torch.from_numpy(((examples.target - centre) / spread).astype(np.float32))
        inputs = torch.from_numpy(standardised(described, mean, scale).astype(np.float32))
        with one_thread():
            weights = self._learned(inputs, target)
        arrays = {name: tensor.detach().numpy() for name, tensor in weights.items()}
        return Perceptrons(mean, scale, np.array([centre]), np.array([spread]), **arrays)

    def _learned(self, inputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        weights = {
            name: torch.zeros(shape)
            if name.endswith("bias")
            else torch.randn(shape, generator=generator) / shape[1] ** 0.5
            for name, shape in self.shapes(inputs.shape[1]).items()
        }
        for tensor in weights.values():
            tensor.requires_grad_()
        optimiser = AdamW(weights.values(), lr=self.learning_rate, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        for _ in range(self.steps):
            drawn = torch.randint(len(target), (min(self.batch, len(target)),), generator=generator)
            answers = _answers(weights, inputs[drawn].expand(self.members, -1, -1))
            error = nn.functional.huber_loss(answers, target[drawn].expand(self.members, -1), delta=0.5)
            optimiser.zero_grad()
            torch.autograd.backward(error)
            optimiser.step()
            schedule.step()
        return weights


def _answers(weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    """What each perceptron answers, [M, B]."""
    hidden = nn.functional.silu(torch.baddbmm(weights["first_bias"], inputs, weights["first"]))
    hidden = nn.functional.silu(torch.baddbmm(weights["second_bias"], hidden, weights["second"]))
    return torch.baddbmm(weights["last_bias"], hidden, weights["last"]).squeeze(2)
