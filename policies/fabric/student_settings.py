"""The size of a student, and how it learns. Without torch: chains follow students where that is not installed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dse.fabric.search.student import FEATURES, MAX_WEIGHTS


@dataclass(frozen=True)
class StudentSettings:
    """A student and how it learns.

    Attributes:
        members: networks whose mean it predicts, side by side in its layers.
        width, second: units of the hidden layers of each of them.
        max_gap: log slots by which a placement may be slower than the fastest known one of its graph; slower ones are
            not learned from, since rules alone tell those apart that annealing leaves behind.
        steps: of Adam, on all examples at once.
        learning_rate: at the start; it falls to 0 along a cosine.
        weight_decay: of Adam.
        ranking_weight: of the loss on the order of placements within a graph, in addition to the Huber loss of the log
            slots.
        rank_scale: log slots by which the loss on ranks is stretched.

    Raises:
        ValueError: a value that breaks a rule, or more weights than a student may have.
    """

    members: int = 4
    width: int = 10
    second: int = 4
    max_gap: float = 0.5
    steps: int = 800
    learning_rate: float = 3e-3
    weight_decay: float = 0.1
    ranking_weight: float = 0.5
    rank_scale: float = 0.05

    def __post_init__(self) -> None:
        for name in ("members", "width", "second", "max_gap", "steps", "rank_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be above 0, but got {getattr(self, name)}")
        for name in ("learning_rate", "weight_decay", "ranking_weight"):
            if not 0 <= getattr(self, name) <= 100:
                raise ValueError(f"`0 <= {name} <= 100` must hold, but got {getattr(self, name)}")
        width, second = self.members * self.width, self.members * self.second
        weights = (len(FEATURES) + 1) * width + (width + 1) * second + second + 1
        if weights > MAX_WEIGHTS:
            raise ValueError(f"a student must have at most {MAX_WEIGHTS:,} weights, but has {weights:,}")

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "StudentSettings":
        """The settings that :meth:`document` wrote.

        Raises:
            ValueError: they are none.
        """
        kinds = {field.name: field.type for field in fields(cls)}
        for name, value in document.items():
            if name not in kinds or type(value) is not kinds[name]:
                raise ValueError(f"`{name}` must be a setting of a student, of its type, but got {value!r}")
        return cls(**document)
