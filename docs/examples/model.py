"""A model of your own:  dse codesign docs/examples/model.py:vision_language --out runs/mine

A function returns a PyTorch module and example inputs. No weights are made and nothing is computed: `dse` follows the
shapes. Layers need no particular names; the sixteen equal blocks below are found and priced once.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Self-attention with one product for query, key and value."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x[batch, tokens, width]."""
        batch, tokens, width = x.shape
        q, k, v = self.joint(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Pre-norm attention and a gated feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.gate, self.up = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x[batch, tokens, width]."""
        x = x + self.attention(self.norms[0](x))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class VisionLanguage(nn.Module):
    """Image patches and words through one transformer; predicts the words."""

    def __init__(self, width: int = 1024, heads: int = 16, blocks: int = 16, words: int = 32000) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=16, stride=16)
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """The loss of image[batch, 3, 224, 224] and text[batch, tokens]."""
        seen = self.patches(image).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat([seen, self.words(text)], dim=1))
        logits = self.head(self.norm(x[:, seen.shape[1] :]))
        return F.cross_entropy(logits.flatten(0, 1), text.flatten())


def vision_language() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The module and example inputs; their first dimension is the microbatch, whatever it is here."""
    image, text = torch.empty(1, 3, 224, 224), torch.empty(1, 828, dtype=torch.long)
    return VisionLanguage(), (image, text)
