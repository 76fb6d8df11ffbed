"""What checkpoints are worth, and which of them is the best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Score:
    """What a checkpoint is worth on the validation environments.

    Attributes:
        number: of the checkpoint.
        samples: that it was trained with.
        values: by the score's name, then by environment: ratios to a baseline of that environment, at least 0; larger
            is better.
    """

    number: int
    samples: int
    values: Mapping[str, Mapping[str, float]]

    def mean(self, *names: str) -> float:
        """The geometric mean over the environments; of several scores the geometric mean of theirs."""
        means = [geometric_mean(list(self.values[name].values())) for name in names]
        return means[0] if len(means) == 1 else geometric_mean(means)

    def document(self) -> dict[str, Any]:
        """The score as JSON types."""
        means = {name: self.mean(name) for name in self.values}
        values = {name: dict(values) for name, values in self.values.items()}
        return {"number": self.number, "samples": self.samples, **values, "means": means}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Score":
        """The score that :meth:`document` wrote."""
        return cls(document["number"], document["samples"], {name: document[name] for name in document["means"]})


def geometric_mean(values: Sequence[float]) -> float:
    """(Π values)^(1/n); 0 where one of them is."""
    return float(np.exp(np.mean(np.log(values)))) if all(values) else 0.0


def selected(scores: Sequence[Score], names: Sequence[str]) -> Score:
    """The best by the mean of the named scores; of equals the earliest."""
    return max(scores, key=lambda score: (score.mean(*names), -score.number))
