"""The learners of ``dse pretrain``, by name, imported when they are used."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from policies.learning.options import PretrainingOptions


@dataclass(frozen=True)
class Learner:
    """A learner before it is imported.

    Attributes:
        summary: one line for people.
        options: where its options are, ``module:class``.
    """

    summary: str
    options: str

    def load(self) -> type[PretrainingOptions]:
        """Its options, from which everything else comes."""
        module, name = self.options.split(":")
        options: type[PretrainingOptions] = getattr(importlib.import_module(module), name)
        return options


LEARNERS: Mapping[str, Learner] = MappingProxyType(
    {
        "partition": Learner(
            "The policy of `dse partition --method rl`, which assigns operators to chips.",
            "policies.partition.options:PartitionPretraining",
        ),
        "pipeline": Learner(
            "The policy of `dse parallel --strategy pipeline --method inference`, which cuts pipelines.",
            "policies.parallel.pipeline.options:PipelinePretraining",
        ),
    }
)
