"""Building blocks of networks in any width and depth as dataflow graphs: GEMM, MLP, FFN and MHA.

The blocks on which Guha et al. train ("Learned Cost Model for Placement on Reconfigurable Dataflow Hardware", section
IV-A: "with various width and depth"). The paper gives no sizes; those of :class:`BlockSizes` are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from dse.graph import differentiable as nn
from dse.graph.dataflow.compose import chained, side_by_side
from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.graph.dataflow.recorded import forward_dataflow, output_names, training_dataflow
from dse.graph.tape import Tape, Tensor
from dse.models.block import Half, record_half
from dse.models.hyperparameters import Hyperparameters
from dse.models.model_slice import ModelSlice
from dse.models.recipe import TrainingRecipe

BlockKind = Literal["gemm", "mlp", "ffn", "mha"]
"""``gemm``: linear layers without bias, one behind the other. ``mlp``: with a bias and relu behind each. ``ffn`` and
``mha``: the feed-forward and the attention half of a transformer block, with layer norm in front and residual addition.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of one kind.

    Attributes:
        kind: what it is made of.
        tokens: rows of its input.
        width: columns of its input.
        inner: columns between two layers of a GEMM or an MLP, and inside an FFN; MHA has none.
        heads: of MHA, which must divide ``width``.
        depth: layers one behind the other.
        copies: of the whole, side by side, with inputs of their own.

    Raises:
        ValueError: a size below 1, or heads that do not divide the width.
    """

    kind: BlockKind
    tokens: int
    width: int
    inner: int
    heads: int = 1
    depth: int = 1
    copies: int = 1

    def __post_init__(self) -> None:
        for size in ("tokens", "width", "inner", "heads", "depth", "copies"):
            if getattr(self, size) < 1:
                raise ValueError(f"{size} must be at least 1, but got {getattr(self, size)}")
        if self.width % self.heads:
            raise ValueError(f"heads must divide width, but got heads={self.heads} and width={self.width}")

    @property
    def name(self) -> str:
        """The kind with its sizes."""
        inner = f"{self.heads}heads" if self.kind == "mha" else f"{self.inner}"
        return f"{self.kind}-{self.tokens}x{self.width}x{inner}-{self.depth}deep-{self.copies}"


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """What random blocks are drawn from: smallest and largest, multiples of ``step`` where these are columns or rows.

    A block's ``inner`` is ``width`` times a whole number of ``ratio``; a head of MHA has ``step`` columns.
    """

    step: int = 64
    tokens: tuple[int, int] = (64, 512)
    width: tuple[int, int] = (64, 1024)
    ratio: tuple[int, int] = (1, 4)
    depth: tuple[int, int] = (1, 4)
    copies: tuple[int, int] = (1, 4)


def random_block(kind: BlockKind, seed: int, sizes: BlockSizes | None = None) -> Block:
    """A block of one kind; the same for the same seed, and independent of the other kinds' blocks."""
    sizes = sizes or BlockSizes()
    generator = np.random.default_rng([seed, get_args(BlockKind).index(kind)])

    def drawn(low: int, high: int) -> int:
        return int(generator.integers(low, high, endpoint=True))

    def multiple(low: int, high: int) -> int:
        return sizes.step * drawn(-(-low // sizes.step), high // sizes.step)

    tokens, width = multiple(*sizes.tokens), multiple(*sizes.width)
    ratio, depth, copies = (drawn(*each) for each in (sizes.ratio, sizes.depth, sizes.copies))
    return Block(kind, tokens, width, ratio * width, width // sizes.step, depth, copies)


def block_graph(block: Block, graph_pass: GraphPass) -> DataflowGraph:
    """The graph of a block; names begin with ``copy`` and ``layer`` where there are several."""
    copy = _copy(replace(block, copies=1), graph_pass)
    if block.copies == 1:
        return copy
    return side_by_side(block.name, [(f"copy{number}", copy) for number in range(block.copies)])


@lru_cache(maxsize=16)  # callers ask for ever fewer copies of one block until they fit
def _copy(block: Block, graph_pass: GraphPass) -> DataflowGraph:
    """The graph of a block of one copy."""
    kinds = [_layer(block, number, graph_pass) for number in range(min(2, block.depth))]  # every other one is alike
    if block.depth == 1:
        return kinds[0]
    return chained(block.name, [(f"layer{number}", kinds[number % 2]) for number in range(block.depth)])


def _layer(block: Block, number: int, graph_pass: GraphPass) -> DataflowGraph:
    tape = Tape(TrainingRecipe().element_bytes, weight_gradients=True)
    result = _half(block, tape, _HALVES[block.kind]) if block.kind in _HALVES else _linear(block, tape, number)
    build = forward_dataflow if graph_pass == "forward" else training_dataflow
    return build(block.name, tape, output_names([result]))


_HALVES: Mapping[BlockKind, Half] = {"ffn": "feed_forward", "mha": "attention"}


def _half(block: Block, tape: Tape, half: Half) -> Tensor:
    model = Hyperparameters(
        name=block.kind,
        layers=1,
        hidden=block.width,
        heads=block.heads,
        feed_forward=block.inner,
        vocabulary=1,
        sequence=block.tokens,
    )
    part = ModelSlice(model, 1, 1, TrainingRecipe(fuse=False))
    return record_half(part, tape, half, tape.source("input", part.hidden_elements))


def _linear(block: Block, tape: Tape, number: int) -> Tensor:
    """One layer of a GEMM or an MLP: from ``width`` to ``inner``, the next one back."""
    inputs, outputs = (block.width, block.inner) if number % 2 == 0 else (block.inner, block.width)
    source = tape.source("input", block.tokens * inputs)
    shape = nn.LinearShape(block.tokens, block.tokens, inputs, outputs, bias=block.kind == "mlp")
    result = nn.linear(tape, "linear", source, shape)
    return nn.nonlinearity(tape, "relu", "relu", result) if block.kind == "mlp" else result
