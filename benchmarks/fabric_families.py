"""Blocks of families that no learned cost of fabrics was trained on.

The learned costs have seen GEMM, MLP, FFN and MHA. These have other operators, other shapes and odd sizes. The classes
take any size. The functions, one for each of thirteen families, return a PyTorch module and example inputs, as ``dse
fabric place FILE:mixer`` takes them, small enough for ``plasticine-8x16``.
"""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Attention whose keys and values have ``groups`` heads, shared by the ``heads`` of queries."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, heads * self.size, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.out = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x, context=None):
        """x[batch, tokens, width]; keys and values of ``context`` where it is given."""
        other = x if context is None else context

        def split(value, heads):
            return value.view(value.shape[0], -1, heads, self.size).transpose(1, 2)

        query = split(self.query(x), self.heads)
        key, value = split(self.key(other), self.groups), split(self.value(other), self.groups)
        shared = self.heads // self.groups
        query = query.reshape(query.shape[0], self.groups, -1, self.size)
        mixed = torch.softmax(query @ key.transpose(-1, -2) * self.size**-0.5, dim=-1) @ value
        mixed = mixed.reshape(mixed.shape[0], self.groups * shared, -1, self.size)
        return self.out(mixed.transpose(1, 2).reshape(x.shape[0], -1, self.heads * self.size))


class Gated(nn.Module):
    """A gated feed-forward network."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Every expert works on all tokens, weighted by a router: the dense form of a mixture."""

    def __init__(self, width: int, inner: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(Gated(width, inner) for _ in range(count))

    def forward(self, x):
        weights = torch.softmax(self.router(x), dim=-1)
        return sum(weights[..., n : n + 1] * expert(x) for n, expert in enumerate(self.experts))


class Layer(nn.Module):
    """A whole layer: attention and feed-forward network, each after a norm and with a residual."""

    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention, self.network = Attention(width, heads, groups), Gated(width, inner)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.network(self.norms[1](x))


class Parallel(Layer):
    """Attention and feed-forward network next to each other, behind one norm."""

    def forward(self, x):
        normed = self.norms[0](x)
        return x + self.attention(normed) + self.network(normed)


class Mixer(nn.Module):
    """Products over tokens, then over features (MLP-Mixer)."""

    def __init__(self, tokens: int, width: int, inner: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.tokens = nn.Sequential(nn.Linear(tokens, inner), nn.GELU(), nn.Linear(inner, tokens))
        self.features = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x):
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.features(self.norms[1](x))


class LowRank(nn.Module):
    """Linear layers, each with a product of two thin ones next to it."""

    def __init__(self, width: int, rank: int, depth: int) -> None:
        super().__init__()
        self.whole = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.thin = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(rank, width, bias=False) for _ in range(depth))

    def forward(self, x):
        for whole, thin, wide in zip(self.whole, self.thin, self.wide, strict=True):
            x = torch.tanh(whole(x) + wide(thin(x)))
        return x


class Towers(nn.Module):
    """Two networks of different depth, whose results are multiplied and scored: retrieval."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.user = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width // 2))
        self.item = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width // 2)
        )

    def forward(self, user, item):
        return torch.softmax(self.user(user) @ self.item(item).transpose(1, 2), dim=-1)


class Recurrent(nn.Module):
    """Steps of a gated recurrent unit, unrolled."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.inputs, self.state = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x, state):
        for _ in range(self.steps):
            (a, b, c), (d, e, f) = self.inputs(x).chunk(3, dim=-1), self.state(state).chunk(3, dim=-1)
            keep = torch.sigmoid(a + d)
            state = keep * state + (1 - keep) * torch.tanh(c + torch.sigmoid(b + e) * f)
        return state


class Crossed(nn.Module):
    """A feature-crossing network (DCN): each layer multiplies its input with the first one."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, first):
        x = first
        for layer in self.layers:
            x = first * layer(x) + x
        return x


class Convolutions(nn.Module):
    """Residual convolutions of an image, each followed by one of single pixels."""

    def __init__(self, channels: int, inner: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, inner, 3, padding=1, bias=False),
                nn.BatchNorm2d(inner),
                nn.ReLU(),
                nn.Conv2d(inner, channels, 1),
            )
            for _ in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = functional.relu(x + block(x))
        return x


class StateSpace(nn.Module):
    """A gated state-space layer in its dual form (Mamba-2): products of all pairs of tokens, damped by distance."""

    def __init__(self, width: int, heads: int, size: int, state: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.gate, self.inputs = (nn.Linear(width, heads * size, bias=False) for _ in range(2))
        self.key, self.query = (nn.Linear(width, state, bias=False) for _ in range(2))
        self.rate, self.out = nn.Linear(width, heads), nn.Linear(heads * size, width, bias=False)

    def forward(self, x):
        batch, tokens, _ = x.shape
        rate = self.rate(x).transpose(1, 2)
        damping = torch.sigmoid(rate[..., :, None] - rate[..., None, :])
        pairs = (self.query(x) @ self.key(x).transpose(1, 2))[:, None] * damping
        values = self.inputs(x).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        mixed = (pairs @ values).transpose(1, 2).reshape(batch, tokens, -1)
        return self.out(mixed * functional.silu(self.gate(x)))


def experts():
    return Experts(96, 160, 4), torch.empty(1, 96, 96)


def grouped_query():
    return Attention(256, 8, 2), torch.empty(1, 160, 256)


def multi_query():
    return Attention(192, 6, 1), torch.empty(1, 197, 192)


def cross_attention():
    return Attention(160, 5, 5), (torch.empty(1, 96, 160), torch.empty(1, 224, 160))


def patches():
    return nn.Sequential(nn.Linear(588, 192), nn.LayerNorm(192), nn.Linear(192, 192)), torch.empty(1, 197, 588)


def gated():
    return nn.Sequential(Gated(160, 416), Gated(160, 416)), torch.empty(1, 160, 160)


def layer():
    return Layer(128, 4, 2, 352), torch.empty(1, 128, 128)


def parallel_layer():
    return Parallel(160, 5, 1, 448), torch.empty(1, 96, 160)


def mixer():
    return Mixer(196, 160, 288), torch.empty(1, 196, 160)


def low_rank():
    return LowRank(224, 32, 3), torch.empty(1, 128, 224)


def towers():
    return Towers(192), (torch.empty(1, 96, 192), torch.empty(1, 160, 192))


def recurrent():
    return Recurrent(96, 3), (torch.empty(1, 96, 96), torch.empty(1, 96, 96))


def crossed():
    return Crossed(224, 4), torch.empty(1, 160, 224)


FAMILIES = (
    experts,
    grouped_query,
    multi_query,
    cross_attention,
    patches,
    gated,
    layer,
    parallel_layer,
    mixer,
    low_rank,
    towers,
    recurrent,
    crossed,
)
"""One function a family."""
