"""Q-networks: a dueling head over places, or over a vector. Masks are applied by the module, after the dueling mean."""

import itertools

import torch
from torch import Tensor, nn

from policies.parallel.settings import QSettings


class PlaceNetwork(nn.Module):
    """The same network for every place, which also sees the context and the mean and maximum over all places.

    h_i = f(x_i, context); A_i = g(h_i, mean h, max h); V = v(mean h, max h, context). What it learns about one place
    it knows of all, regardless of their number.

    Shapes:
        observations [B, F] → values [B, 1], advantages [B, P].
    """

    def __init__(self, settings: QSettings) -> None:
        super().__init__()
        layout, hidden = settings.layout, settings.hidden
        self._layout = layout
        self.context = nn.Linear(layout.context, hidden)
        self.place = nn.Linear(layout.channels, hidden)
        self.body = _perceptron([hidden] * settings.layers, ends_active=True)
        self.common = nn.Linear(2 * hidden, hidden)
        self.head = _perceptron([hidden, hidden, 1])
        self.value = _perceptron([2 * hidden + layout.context, hidden, 1])

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Values and advantages."""
        layout = self._layout
        split = layout.channels * layout.places
        places = seen[:, :split].reshape(len(seen), layout.channels, layout.places).transpose(1, 2)
        context = seen[:, split : split + layout.context]
        # In place: arrays of all places are large enough that their allocation takes as long as what is done to them.
        hidden = self.body(self.place(places).add_(self.context(context).unsqueeze(1)).relu_())
        pooled = torch.cat([hidden.mean(1), hidden.amax(1)], dim=1)
        advantages = self.head((hidden + self.common(pooled).unsqueeze(1)).relu_()).squeeze(2)
        return self.value(torch.cat([pooled, context], dim=1)), advantages


class VectorNetwork(nn.Module):
    """A perceptron of the whole observation.

    Shapes:
        observations [B, F] → values [B, 1], advantages [B, A].
    """

    def __init__(self, settings: QSettings) -> None:
        super().__init__()
        layout, hidden = settings.layout, settings.hidden
        self._inputs = layout.size - layout.masks
        self.body = _perceptron([self._inputs, *[hidden] * settings.layers], ends_active=True)
        self.value, self.advantage = nn.Linear(hidden, 1), nn.Linear(hidden, layout.masks)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Values and advantages."""
        hidden = self.body(seen[:, : self._inputs])
        return self.value(hidden), self.advantage(hidden)


def network_of(settings: QSettings) -> nn.Module:
    """The network of ``settings``."""
    return PlaceNetwork(settings) if settings.network == "places" else VectorNetwork(settings)


def q_values(network: nn.Module, settings: QSettings, seen: Tensor) -> Tensor:
    """Q-values [B, A] of observations [B, F]: V + A − mean A over the legal actions, and −∞ for the others."""
    value, advantages = network(seen)
    legal = seen[:, seen.shape[1] - settings.layout.masks :] > 0
    mean = (advantages * legal).sum(1, keepdim=True) / legal.sum(1, keepdim=True).clamp(min=1)
    values: Tensor = (advantages - mean + value).masked_fill(~legal, -torch.inf)
    return values


def _perceptron(sizes: list[int], *, ends_active: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*(layers if ends_active else layers[:-1]))
