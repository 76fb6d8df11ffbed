"""Samples as examples for models, with what their predictions are judged by."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hardware.fabrics import Fabric
from policies.fabric.data.records import Samples
from policies.fabric.model.contention import CONTENTION, contention_features
from policies.fabric.model.encoding import Encoder
from policies.fabric.model.examples import Examples
from policies.fabric.model.features import FEATURES, Featurizer

Floats = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Samples of one fabric.

    Attributes:
        samples: all of them.
        fabric: that they were placed on.
        with_encodings: whether networks are to learn from them.
        with_slots: whether models know how long operators work on a unit (the paper's performance annotations); without
            it all operators seem to take one slot for a tile.
    """

    samples: Samples
    fabric: Fabric
    with_encodings: bool = False
    with_slots: bool = True

    @cached_property
    def _featurizers(self) -> dict[int, Featurizer]:
        return {
            number: Featurizer(record.pipeline if self.with_slots else record.plain_pipeline, self.fabric)
            for number, record in self.samples.graphs.items()
        }

    @cached_property
    def examples(self) -> Examples:
        """What models see, [S]."""
        samples, featurizers = self.samples.samples, self._featurizers
        features = np.array([featurizers[each.graph](each.placement) for each in samples]).reshape(-1, len(FEATURES))
        interval = np.array([each.interval_slots for each in samples], dtype=np.float64)
        graph = np.array([each.graph for each in samples], dtype=np.int64)
        operators = {number: record.operators for number, record in self.samples.graphs.items()}
        encoders = (
            {number: Encoder(each, operators[number]) for number, each in featurizers.items()}
            if self.with_encodings
            else {}
        )
        encodings = tuple(encoders[each.graph](each.placement) for each in samples) if encoders else ()
        contention = np.array([contention_features(featurizers[each.graph], each.placement) for each in samples])
        contention = contention.reshape(-1, len(CONTENTION))
        return Examples(features, np.log(self._base / interval), graph, encodings, contention)

    @cached_property
    def _base(self) -> Floats:
        """What targets are relative to, [S]."""
        return np.array([self._featurizers[each.graph].base_slots for each in self.samples.samples])

    @cached_property
    def label(self) -> Floats:
        """y: ideal over measured slots, [S]."""
        return np.array([each.throughput for each in self.samples.samples])

    def throughput_of(self, target: Floats) -> Floats:
        """ŷ of predicted targets, [S]."""
        ideal = np.array([each.ideal_slots for each in self.samples.samples])
        return np.asarray(np.exp(target) * ideal / self._base, dtype=np.float64)

    @cached_property
    def wirelength(self) -> Floats:
        """[S]."""
        return np.array([each.wirelength for each in self.samples.samples])

    @cached_property
    def kind(self) -> Strings:
        """Kind of block, [S]."""
        return np.array([self.samples.graphs[each.graph].kind for each in self.samples.samples])
