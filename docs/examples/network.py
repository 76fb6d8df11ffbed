"""A network of your own on a wafer:  dse wafer docs/examples/network.py:pictures --out runs/pictures

A function returns a PyTorch module and example inputs. No weights are made and nothing is computed: `dse` follows the
shapes. Every convolution and linear layer below becomes a kernel, named after its module.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two convolutions, the first of which may halve the image, beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x[batch, features, height, width]."""
        beside = self.norms[2](self.shortcut(x))
        x = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(x)) + beside)


class Pictures(nn.Module):
    """Which of ten things a picture shows."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(Block(32, 64, 2), Block(64, 128, 2), Block(128, 256, 2))
        self.classes = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x[batch, 3, height, width]."""
        return self.classes(self.blocks(F.relu(self.stem(x))).mean(dim=(2, 3)))


def pictures() -> tuple[nn.Module, torch.Tensor]:
    """Pictures of 64 × 64."""
    return Pictures(), torch.empty(1, 3, 64, 64)
