"""GraphSAGE over linkage groups: the continuous state that the paper leaves to the future (7.2)."""

import itertools

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from policies.parallel.settings import QSettings


class GraphNetwork(nn.Module):
    """Q of splitting one group or leaving it whole, from what all groups are and how they exclude each other.

    h = SAGE(… SAGE(x)) (Hamilton et al., 2017, mean aggregation) over pairs that exclude each other; value and
    advantages are perceptrons of h of the current group, mean h and max h.

    Shapes:
        observations [B, F] → values [B, 1], advantages [B, A].
    """

    def __init__(self, settings: QSettings) -> None:
        super().__init__()
        self._layout, hidden = settings.layout, settings.hidden
        pairs = np.array(settings.edges, dtype=np.int64).reshape(-1, 2)
        both = np.concatenate([pairs, pairs[:, ::-1]]).T
        self.register_buffer("edges", torch.from_numpy(np.ascontiguousarray(both)), persistent=False)
        sizes = [self._layout.channels, *[hidden] * settings.layers]
        self.layers = nn.ModuleList(SAGEConv(*pair) for pair in itertools.pairwise(sizes))
        self.body = nn.Linear(3 * hidden + self._layout.context, hidden)
        self.value, self.advantage = nn.Linear(hidden, 1), nn.Linear(hidden, self._layout.masks)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Values and advantages."""
        layout = self._layout
        split = layout.channels * layout.places
        nodes = seen[:, :split].reshape(len(seen), layout.channels, layout.places).transpose(1, 2)
        hidden = nodes
        for layer in self.layers:
            hidden = torch.relu(layer(hidden, self.edges))
        # The last channel is 1 for the group that is decided.
        current = (hidden * nodes[:, :, -1:]).sum(1)
        context = seen[:, split : split + layout.context]
        body = torch.relu(self.body(torch.cat([current, hidden.mean(1), hidden.amax(1), context], dim=1)))
        return self.value(body), self.advantage(body)
