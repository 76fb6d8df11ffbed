"""How many layers of a model have what: what serving keeps and computes differs by it."""

from dataclasses import dataclass

from dse.plan.model import Transformer


@dataclass(frozen=True)
class LayerCounts:
    """Of a model.

    Attributes:
        whole: layers with attention to all tokens.
        near: with attention to a window; a share of all where no layer says which.
        choosing: that choose the tokens which attention sees.
        recurring: with a state of fixed size.
        mixing: with any of these.
        dense: with a plain feed-forward network.
        sparse: with experts.
    """

    whole: float
    near: float
    choosing: int
    recurring: int
    mixing: int
    dense: int
    sparse: int

    @property
    def attending(self) -> float:
        """With attention."""
        return self.whole + self.near


def layer_counts(model: Transformer) -> LayerCounts:
    """Of a model."""
    kinds = model.kinds_of_layers
    attending = sum(kind.attends for kind in kinds)
    near = float(sum(kind.is_windowed for kind in kinds))
    if model.window is not None and not model.layer_kinds:
        near = model.window.share * attending
    return LayerCounts(
        whole=attending - near,
        near=near,
        choosing=sum(kind.attends and kind.indexes for kind in kinds) if model.indexer is not None else 0,
        recurring=sum(kind.recurs for kind in kinds),
        mixing=sum(kind.mixes for kind in kinds),
        dense=sum(kind.network == "dense" for kind in kinds),
        sparse=sum(kind.network == "experts" for kind in kinds),
    )
