"""A model as a cost of placements: what it expects of candidates, and which of them it takes for the fastest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Pipeline, Placement
from hardware.fabrics import Fabric
from policies.fabric.model.contention import CONTENTION, contention_features
from policies.fabric.model.encoding import Encoder
from policies.fabric.model.ensemble import Ensemble
from policies.fabric.model.examples import Examples
from policies.fabric.model.features import FEATURES, Featurizer

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearnedCost:
    """The cost of placements of one pipeline on one fabric.

    Attributes:
        model: that predicts.
        pipeline, fabric: of all placements.
    """

    model: Ensemble
    pipeline: Pipeline
    fabric: Fabric

    def interval_slots(self, placements: Sequence[Placement]) -> Floats:
        """The slots between two departures that the model expects of legal placements, [P]."""
        examples, base_slots = self._examples(placements)
        return np.asarray(base_slots * np.exp(-self.model.predict(examples)), dtype=np.float64)

    def ranked(self, placements: Sequence[Placement]) -> list[int]:
        """The numbers of the placements, the one that is expected to be fastest first; of equal ones as they are."""
        return [int(number) for number in np.argsort(self.interval_slots(placements), kind="stable")]

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
