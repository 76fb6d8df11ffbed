"""Everything that can be chosen about the network of a learned cost model, and how it learns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from dse.run.options import STRICT

_MAX_COUNT = 10_000


@dataclass(frozen=True)
class CostSettings:
    """The learned cost model.

    Attributes:
        layers, width: of message passing.
        members: networks with other seeds, whose mean is the prediction; none: the stack alone predicts.
        with_stack: whether networks share the prediction with the stack of boosted trees and perceptrons.
        hand_features: whether networks see features of hand and contention at the readout.
        unit_features, edge_features: whether networks see what units are, and what nets, routes and links carry (the
            paper's node and edge embeddings).
        with_slots: whether the model knows how long operators work on a unit (the paper's performance annotations).
        epochs: passes over the samples.
        graphs_in_batch: whose samples are learned from together.
        learning_rate: of Adam at the start; it falls to 0 along a cosine.
        weight_decay: of Adam.
        ranking_weight: of the loss on the order of placements within a graph, in addition to the squared error of the
            log throughput.

    Raises:
        ValueError: a value outside its range.
    """

    layers: int = 2
    width: int = 16
    members: int = 1
    with_stack: bool = True
    hand_features: bool = True
    unit_features: bool = True
    edge_features: bool = True
    with_slots: bool = True
    epochs: int = 40
    graphs_in_batch: int = 12
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    ranking_weight: float = 0.1

    def __post_init__(self) -> None:
        for name in ("layers", "width", "members", "epochs", "graphs_in_batch"):
            least = 0 if name == "members" and self.with_stack else 1
            if not least <= getattr(self, name) <= _MAX_COUNT:
                raise ValueError(f"`{least} <= {name} <= {_MAX_COUNT}` must hold, but got {getattr(self, name)}")
        for name in ("learning_rate", "weight_decay", "ranking_weight"):
            if not 0 <= getattr(self, name) <= 100:
                raise ValueError(f"`0 <= {name} <= 100` must hold, but got {getattr(self, name)}")

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "CostSettings":
        """The settings that :meth:`document` wrote.

        Raises:
            ValueError: they are none.
        """
        try:
            _Model.model_validate(dict(document))
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"`{first['loc'][0]}`: {first['msg']}") from error
        return cls(**document)


_FIELDS: dict[str, Any] = {field.name: (field.type, ...) for field in fields(CostSettings)}

_Model: type[BaseModel] = create_model("CostSettings", __config__=STRICT, **_FIELDS)
