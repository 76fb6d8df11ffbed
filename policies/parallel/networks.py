"""The Q-network: a dueling head over places, with masks that are applied after the dueling mean."""

import itertools

import torch
from torch import Tensor, nn

from policies.parallel.settings import QSettings


class PlaceNetwork(nn.Module):
    """The same network for every place, which also sees the context and the mean and maximum over all places.

    h_i = f(x_i, context); A_i = g(h_i, mean h, max h); V = v(mean h, max h, context). What it learns about one place
    it knows of all, whatever their number.

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
        hidden = self.body(torch.relu(self.place(places) + self.context(context).unsqueeze(1)))
        pooled = torch.cat([hidden.mean(1), hidden.amax(1)], dim=1)
        advantages = self.head(torch.relu(hidden + self.common(pooled).unsqueeze(1))).squeeze(2)
        return self.value(torch.cat([pooled, context], dim=1)), advantages


def q_values(network: nn.Module, settings: QSettings, seen: Tensor) -> Tensor:
    """Q-values [B, A] of observations [B, F]: V + A − mean A over the legal actions, and −∞ for the others."""
    value, advantages = network(seen)
    legal = seen[:, seen.shape[1] - settings.layout.places :] > 0
    if settings.dueling:
        count = legal.sum(1, keepdim=True).clamp(min=1)
        advantages = advantages - (advantages * legal).sum(1, keepdim=True) / count + value
    values: Tensor = advantages.masked_fill(~legal, -torch.inf)
    return values


def _perceptron(sizes: list[int], *, ends_active: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if ends_active else layers[:-1]))
