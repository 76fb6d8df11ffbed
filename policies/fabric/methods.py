"""The learned cost of ``dse fabric place``, for the roof to add to those of the engine. Nothing heavy is imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dse.fabric.methods import Candidate, Search, SearchContext, by_rules
from policies.fabric.options import ask_for_extra_of


@dataclass(frozen=True)
class ByLearnedCost:
    """Anneals chains under the mixture of rules, and chooses the placement that a learned cost model expects to be
    fastest; the simulator is not asked.

    Attributes:
        folder: of a checkpoint, or of the run of `dse fabric train` that it is the best of.
        labelled_by: what labels on the fabric at hand would depend on
            (:data:`policies.fabric.model.checkpoint.LABELLED_BY`).
        caution: spreads of the ensemble that are added to the logarithm of the expected slots.
    """

    folder: Path
    labelled_by: Mapping[str, str]
    caution: float = 0.0

    def __call__(self, context: SearchContext) -> list[Candidate]:
        """The chains' placements, the one that is expected to be fastest first.

        Raises:
            InputError: the extra ``learn`` is not installed, there is no checkpoint, or it is for another fabric.
        """
        ask_for_extra_of("dse fabric place", "--cost", "learned")
        from policies.fabric.model.checkpoint import load_for
        from policies.fabric.model.cost import LearnedCost
        from policies.fabric.model.ensemble import Ensemble

        checkpoint = load_for(self.folder, self.labelled_by)
        model = Ensemble.of(checkpoint.settings, checkpoint.tensors)
        candidates = by_rules(context)
        cost = LearnedCost(model, context.pipeline, context.fabric, self.caution)
        return [candidates[number] for number in cost.ranked([each.placement for each in candidates])]


def learned_costs(folder: Path, labelled_by: Mapping[str, str]) -> Mapping[str, Search]:
    """The learned costs by name, with the weights in ``folder``."""
    return MappingProxyType({"learned": ByLearnedCost(folder, labelled_by)})
