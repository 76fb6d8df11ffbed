"""PyTorch modules whose training steps the tests take: each function returns (module, example inputs[, targets])."""

import torch
from torch import nn
from torch.nn import functional


class Perceptron(nn.Module):
    """Two layers and a squared error, as ``tests.parallel.problems.MLP`` has them, with biases where asked for."""

    def __init__(self, biased=True):
        super().__init__()
        self.first = nn.Linear(16, 32, bias=biased)
        self.second = nn.Linear(32, 8, bias=biased)

    def forward(self, x, y):
        return functional.mse_loss(self.second(torch.tanh(self.first(x))), y)


class Attention(nn.Module):
    """Multi-head attention with separate products."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Transformer(nn.Module):
    """An encoder whose words and logits share a table, and the loss of its words."""

    def __init__(self, words=32, width=16, heads=4, inner=32, layers=2, length=8):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.randn(length, width))
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens, labels):
        x = self.words(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Convolutions(nn.Module):
    """Grouped, strided and dilated convolutions, pooling, and a batch normalisation whose statistics are carried.

    Height and width differ where they can, in what is seen and in what is done, so that they are not taken for each
    other; what strides lead to has more than one row, as a stride to a single row would not matter.
    """

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(4, 8, 3, padding=1, groups=2)
        self.norm = nn.BatchNorm2d(8)
        self.strided = nn.Conv2d(8, 8, 3, stride=(2, 1), padding=1, bias=False)
        self.dilated = nn.Conv2d(8, 4, 2, padding=1, dilation=2)
        self.smooth, self.largest = nn.AvgPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1)
        self.mean = nn.AdaptiveAvgPool2d((4, 1))
        self.classes = nn.Linear(24, 5)

    def forward(self, images):
        x = self.largest(torch.relu(self.norm(self.smooth(self.wide(images)))))
        x = torch.sigmoid(self.dilated(functional.pad(self.strided(self.mean(x)), (1, 0, 0, 1))))
        return self.classes(x.flatten(1))


def loss(outputs, targets):
    """Of the module that returns none."""
    return functional.cross_entropy(outputs, targets)


def perceptron():
    return Perceptron(), (torch.randn(64, 16), torch.randn(64, 8))


def transformer():
    return Transformer(), {"tokens": torch.randint(32, (4, 8)), "labels": torch.randint(32, (4, 8))}


def packed():
    """PyTorch's own layers, whose queries, keys and values are one product."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layers = nn.Embedding(32, 16, padding_idx=0), nn.TransformerEncoder(layer, 1)
            self.norm = nn.GroupNorm(2, 8)

        def forward(self, tokens):
            return self.norm(self.layers(self.words(tokens)))[:, ::2].square().mean()

    return Encoder(), (torch.randint(32, (2, 8)),)


def stacked():
    """Attention whose queries, keys and values are one product, parted by a dimension of its own."""

    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs, self.output = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x):
            query, key, value = self.inputs(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.output(mixed.transpose(1, 2).flatten(-2)).square().mean()

    return Stacked(), (torch.randn(2, 8, 16),)


def convolutions():
    return Convolutions(), (torch.randn(2, 4, 16, 8),), torch.randint(5, (2,))


def moved():
    """Selections, parts, turns and joins of a parameter's elements."""

    class Moves(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(6, 4, 3))

        def forward(self, x, rows):
            first, second = self.table.split([2, 4], 0)
            picked = self.table[rows].amax(1) + self.table[:, 1].index_select(0, rows)
            joined = torch.cat([first.flip(0).sum(0), second[1:3].mean(0), second[-1] * x, picked], 0)
            spread = joined.expand(2, *joined.shape).permute(2, 0, 1).reshape(3, -1).var(1)
            return (spread * torch.where(spread > 0.5, 2.0, spread.abs() + 1)).sum() + second.clamp(-0.5, 1).amin(
                0
            ).std()

    return Moves(), {"x": torch.randn(4, 3), "rows": torch.tensor([1, 5, 1])}


def wide(width=1024, samples=16384):
    """Two layers of so many samples that they are split, and parameters gathered where memory is short."""
    layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    return layers, (torch.randn(samples, width),), torch.randint(width, (samples,))
