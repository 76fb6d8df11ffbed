"""An indexer on one rank as docs/method/plan.md defines it, in plain numbers, for :mod:`dse.plan.check_layers`.

It shares no code with :mod:`dse.plan.indexed_attention` and :mod:`dse.plan.attention_forms`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dse.plan.check_kernels import CoreShape, Scan, VectorPass
from dse.plan.model_parts import Indexer, LatentAttention


class IndexerShape(NamedTuple):
    """The sizes of a model's indexer and latent attention; tokens of a microbatch, width of the stream, tokens of one
    sample.
    """

    sizes: Indexer
    latent: LatentAttention
    tokens: float
    hidden: float
    sequence: int

    @property
    def chosen(self) -> float:
        """Tokens that a token attends to on average: the first ones see fewer."""
        limit = min(self.sizes.chosen, self.sequence)
        return (limit * (limit + 1) / 2 + (self.sequence - limit) * limit) / self.sequence

    def core(self, own: CoreShape) -> CoreShape:
        """How attention works: in its ``own`` widths on all tokens, or on chosen ones in those of the latent tensor."""
        every, rank = (self.sequence + 1) / 2, float(self.latent.key_value_rank)
        absorbed = CoreShape(rank + self.latent.rotary_width, rank, 1, self.chosen, is_absorbed=True)
        if every * (own.wide + own.deep) <= self.chosen * (absorbed.wide + absorbed.deep):
            return own
        return absorbed

    def scans(self, tokens: float, heads: float, wide: float) -> tuple[Scan, Scan]:
        """Of a forward pass, index scores and attention's scores of chosen tokens; of a backward pass, gradients.

        ``tokens`` are those of a rank whose attention has ``heads`` of queries that are ``wide``.
        """
        n, d, every = float(self.sizes.heads), float(self.sizes.head_width), (self.sequence + 1) / 2
        scores, target = (n, every, d, tokens), (heads, self.chosen, wide, tokens)
        there = Scan([scores, target], 8 * tokens * every, 3 * tokens * n * every, 0.0)
        return there, Scan([(n, self.chosen, d, 2 * tokens)], 0.0, 3 * tokens * n * self.chosen, 0.0)


def index_products(shape: IndexerShape) -> Iterator[tuple[str, float, float, float, float, bool]]:
    """(group, m, n, k, how many, whether in the plan's precision) of queries, keys and weights of heads."""
    sizes, tokens = shape.sizes, shape.tokens
    width = float(sizes.heads * sizes.head_width)
    yield "index queries", tokens, width, float(shape.latent.query_rank), 1.0, True
    yield "index in", tokens, float(sizes.head_width), shape.hidden, 1.0, True
    yield "index weights", tokens, float(sizes.heads), shape.hidden, 1.0, False


def index_passes(shape: IndexerShape, turns: bool) -> Iterator[VectorPass]:
    """The norm of keys, and rotations of queries and keys."""
    sizes, tokens = shape.sizes, shape.tokens
    yield VectorPass(tokens * sizes.head_width, sizes.head_width, 4, 6, ("layer_norm",), ("layer_norm_backward",))
    if turns:
        turned = tokens * (sizes.heads + 1) * shape.latent.rotary_width
        yield VectorPass(turned, 1, 4, 4, ("rotary",), ("rotary_backward",))


def kept_bytes(shape: IndexerShape) -> float:
    """Bytes that a layer keeps of it: what its products make; of each chosen token its place and a gradient."""
    sizes = shape.sizes
    made = sizes.heads * (sizes.head_width + 1) + sizes.head_width
    return shape.tokens * (2 * made + 6 * min(sizes.chosen, shape.sequence))
