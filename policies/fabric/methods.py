"""The learned cost of ``dse fabric place``, for the roof to add to those of the engine. Nothing heavy is imported."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dse.fabric.methods import LEARNED, Candidate, Search, SearchContext, by_tuned
from dse.fabric.search.anneal import Annealing
from hardware.fabrics import fabric
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric.options import ask_for_extra_of

if TYPE_CHECKING:
    from policies.fabric.model.ensemble import Ensemble
    from policies.fabric.student_checkpoint import TrainedStudent

SHIPPED = Path(__file__).parent / "shipped"
"""The checkpoint in the package."""

_PLACE = "dse fabric place"


@dataclass(frozen=True)
class ByLearnedCost:
    """Anneals chains under rules that a student corrects, and chooses the placement that the cost model
    expects to be fastest; the simulator is not asked. What is out of its range is left to the tuned rules.

    Attributes:
        folder: of a checkpoint, or of the run of `dse fabric train` that it is the best of; None: the one that comes
            along, where it is for the fabric at hand.
        fabric, slots: names or files of the fabric and the table of operator slots at hand.
        caution: spreads of the ensemble that are added to the logarithm of the expected slots.
    """

    folder: Path | None
    fabric: str
    slots: str
    caution: float = 0.0

    def __call__(self, context: SearchContext) -> list[Candidate]:
        """The chains' placements, the one that is expected to be fastest first.

        Raises:
            InputError: the extra ``learn`` is not installed, or ``folder`` holds no checkpoint for this fabric.
        """
        ask_for_extra_of(_PLACE, "--cost", LEARNED)
        learned = self._learned()
        if isinstance(learned, str):
            return _left_to_rules(context, learned)
        trained, ensemble = learned
        beyond = trained.out_of_range(context.pipeline, context.fabric)
        if beyond:
            return _left_to_rules(
                context, f"The learned cost has seen no graph like this ({', '.join(beyond)}): the rules were used."
            )
        return self._placed(context, trained, ensemble)

    def _learned(self) -> "tuple[TrainedStudent, Ensemble] | str":
        """Student and ensemble; a sentence where the package has none for this fabric."""
        from policies.fabric.data.collection import provenance_of
        from policies.fabric.model.checkpoint import load_for
        from policies.fabric.model.ensemble import Ensemble
        from policies.fabric.student_checkpoint import load_student

        here = fabric(self.fabric)
        labelled_by = provenance_of(here, operator_slots(self.slots))
        folder = SHIPPED if self.folder is None else self.folder
        try:
            checkpoint = load_for(folder, labelled_by)
            trained = load_student(folder, labelled_by)
        except InputError:
            if self.folder is not None:
                raise
            return f"The package has no learned cost for {here.name}: the rules were used."
        return trained, Ensemble.of(checkpoint.settings, checkpoint.tensors)

    def _placed(self, context: SearchContext, trained: "TrainedStudent", ensemble: "Ensemble") -> list[Candidate]:
        from policies.fabric.model.cost import LearnedCost

        settings = trained.rules.schedule(context.settings)
        annealing = Annealing(
            context.pipeline, context.fabric, trained.rules.weights, settings, context.stop, trained.student
        )
        candidates = context.annealed(annealing)
        cost = LearnedCost(ensemble, context.pipeline, context.fabric, self.caution)
        return [candidates[number] for number in cost.ranked([each.placement for each in candidates])]


def _left_to_rules(context: SearchContext, note: str) -> list[Candidate]:
    return [replace(each, note=f"{note} {each.note}".strip()) for each in by_tuned(context)]


def learned_costs(checkpoint: Path | None, fabric: str, slots: str, caution: float = 0.0) -> Mapping[str, Search]:
    """The learned costs by name, for a fabric and a table of operator slots, with the weights in ``checkpoint``."""
    return MappingProxyType({LEARNED: ByLearnedCost(checkpoint, fabric, slots, caution)})


def weights_digest(checkpoint: Path | None) -> str:
    """A digest of the cards of student and cost model, which have digests of the weights; of the shipped ones if None.

    Raises:
        InputError: the extra ``learn`` is not installed.
    """
    ask_for_extra_of(_PLACE, "--checkpoint", str(checkpoint or ""))
    from policies.fabric.student_checkpoint import STUDENT
    from policies.learning.checkpoint import CARD_FILE, chosen_folder

    folder = chosen_folder(SHIPPED if checkpoint is None else checkpoint)
    digest = hashlib.sha256()
    for card in (folder / CARD_FILE, folder / STUDENT / CARD_FILE):
        digest.update(card.read_bytes() if card.is_file() else b"none")
    return f"sha256:{digest.hexdigest()}"
