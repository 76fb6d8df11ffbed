"""A model as a cost of placements: what it expects of candidates, and which of them it takes for the fastest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Pipeline, Placement
from hardware.fabrics import Fabric
from policies.fabric.model.contention import CONTENTION, contention_features
from policies.fabric.model.encoding import Encoder
from policies.fabric.model.examples import Examples
from policies.fabric.model.features import FEATURES, Featurizer

Floats = npt.NDArray[np.float64]


class UncertainModel(Protocol):
    """A model that tells how sure it is: :class:`~policies.fabric.model.ridge.Ridge`, which is always, or
    :class:`~policies.fabric.model.ensemble.Ensemble`.

    Attributes:
        needs_encodings: whether it looks at more than features.
    """

    @property
    def needs_encodings(self) -> bool:
        """As above."""

    def mean_and_spread(self, examples: Examples) -> tuple[Floats, Floats]:
        """The expected targets and their standard deviation, [S] each."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What a model expects of placements.

    Attributes:
        interval_slots: slots between two departures, [P].
        spread: standard deviation of their logarithm among the members of an ensemble, [P].
    """

    interval_slots: Floats
    spread: Floats


@dataclass(frozen=True, eq=False)
class LearnedCost:
    """The cost of placements of one pipeline on one fabric.

    Attributes:
        model: that predicts.
        pipeline, fabric: of all placements.
        caution: spreads that are added to the logarithm of the expected slots before placements are ranked.
    """

    model: UncertainModel
    pipeline: Pipeline
    fabric: Fabric
    caution: float = 0.0

    def expected(self, placements: Sequence[Placement]) -> Expected:
        """What the model expects of legal placements."""
        examples, base_slots = self._examples(placements)
        mean, spread = self.model.mean_and_spread(examples)
        return Expected(base_slots * np.exp(-mean), spread)

    def ranked(self, placements: Sequence[Placement]) -> list[int]:
        """The numbers of the placements, the one that is expected to be fastest first; of equal ones as they are."""
        expected = self.expected(placements)
        cost = np.log(expected.interval_slots) + self.caution * expected.spread
        return [int(number) for number in np.argsort(cost, kind="stable")]

    @cached_property
    def _featurizer(self) -> Featurizer:
        return Featurizer(self.pipeline, self.fabric)

    def _examples(self, placements: Sequence[Placement]) -> tuple[Examples, float]:
        featurizer = self._featurizer
        features = np.array([featurizer(each) for each in placements]).reshape(-1, len(FEATURES))
        contention = np.array([contention_features(featurizer, each) for each in placements])
        contention = contention.reshape(-1, len(CONTENTION))
        encodings = tuple(map(Encoder(featurizer), placements)) if self.model.needs_encodings else ()
        count = len(placements)
        examples = Examples(features, np.zeros(count), np.zeros(count, dtype=np.int64), encodings, contention)
        return examples, featurizer.base_slots
