"""The learned costs of ``dse fabric place``, for the roof to add to those of the engine. Nothing heavy is imported."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from dse.fabric.methods import (
    LEARNED,
    LEARNED_SIMULATED,
    Candidate,
    Search,
    SearchContext,
    by_simulator,
    by_tuned,
    judged,
    refined,
)
from dse.fabric.search.anneal import Annealing
from dse.fabric.setting import ChosenRules
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

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class LearnedFor:
    """A checkpoint, and the fabric that it is to be used on.

    Attributes:
        folder: of a checkpoint, or of the run of `dse fabric train` that it is the best of; None: the one that comes
            along, where it is for the fabric at hand.
        fabric, slots: names or files of the fabric and the table of operator slots at hand.
    """

    folder: Path | None
    fabric: str
    slots: str

    def student(self) -> "TrainedStudent | None":
        """The student; None where the package has none for this fabric. Needs no torch.

        Raises:
            InputError: ``folder`` holds none for this fabric.
        """
        from policies.fabric.student_checkpoint import load_student

        return self._loaded(load_student)

    def ensemble(self) -> "Ensemble | None":
        """The cost model; None where the package has none for this fabric.

        Raises:
            InputError: ``folder`` holds none for this fabric.
        """
        from policies.fabric.model.checkpoint import load_for
        from policies.fabric.model.ensemble import Ensemble

        checkpoint = self._loaded(load_for)
        return None if checkpoint is None else Ensemble.of(checkpoint.settings, checkpoint.tensors)

    def student_for(self, context: SearchContext) -> "TrainedStudent | str":
        """The student; a sentence where there is none, or where the graph is out of its range.

        Raises:
            InputError: as :meth:`student`.
        """
        trained = self.student()
        if trained is None:
            return f"The package has no learned cost for {fabric(self.fabric).name}: the rules were used."
        beyond = trained.out_of_range(context.pipeline, context.fabric)
        if beyond:
            return f"The learned cost has seen no graph like this ({', '.join(beyond)}): the rules were used."
        return trained

    def _loaded(self, load: Callable[[Path, Mapping[str, Any]], Loaded]) -> Loaded | None:
        from policies.fabric.data.collection import provenance_of

        labelled_by = provenance_of(fabric(self.fabric), operator_slots(self.slots))
        if self.folder is not None:
            return load(self.folder, labelled_by)
        try:
            return load(SHIPPED, labelled_by)
        except InputError:
            return None


@dataclass(frozen=True)
class ByLearnedCost:
    """Anneals chains under rules that a student corrects, and chooses the placement that the cost model
    expects to be fastest; the simulator is not asked. What is out of its range is left to the tuned rules.

    Attributes:
        learned: student and cost model.
        caution: spreads of the ensemble that are added to the logarithm of the expected slots.
    """

    learned: LearnedFor
    caution: float = 0.0

    def __call__(self, context: SearchContext) -> list[Candidate]:
        """The chains' placements, the one that is expected to be fastest first.

        Raises:
            InputError: the extra ``learn`` is not installed, or there is no checkpoint for this fabric in the folder.
        """
        ask_for_extra_of(_PLACE, "--cost", LEARNED)
        from policies.fabric.model.cost import LearnedCost

        # Before its range is asked for: a checkpoint that cannot be used is refused for every graph.
        ensemble = self.learned.ensemble()
        trained = self.learned.student_for(context)
        if isinstance(trained, str):
            return _noted(by_tuned(context), trained)
        assert ensemble is not None
        candidates = _followed(context, trained)
        cost = LearnedCost(ensemble, context.pipeline, context.fabric, self.caution)
        return [candidates[number] for number in cost.ranked([each.placement for each in candidates])]


@dataclass(frozen=True)
class ByStudentAndSimulator:
    """Anneals chains under rules that a student corrects, and refines the placement that the simulator finds fastest.
    Where moves are few, or a graph is out of its range, it does what ``--cost simulator`` does.

    Attributes:
        learned: the student.
    """

    learned: LearnedFor

    def __call__(self, context: SearchContext) -> list[Candidate]:
        """The chains' placements, the fastest first.

        Raises:
            InputError: there is no checkpoint for this fabric in the folder.
        """
        trained = self.learned.student_for(context)
        if isinstance(trained, str):
            return _noted(by_simulator(context), trained)
        if context.has_few_moves:
            moves, units = context.settings.moves, len(context.pipeline.units)
            return _noted(by_simulator(context), f"{moves:,} moves are few for {units} units: the rules were used.")
        candidates = judged(context, _followed(context, trained))
        return refined(replace(context, tuned=ChosenRules(trained.rules)), candidates)


def _followed(context: SearchContext, trained: "TrainedStudent") -> list[Candidate]:
    """The placements of chains that follow a student, the one that it expects to be fastest first."""
    rules = trained.rules
    settings = rules.schedule(context.settings)
    annealing = Annealing(context.pipeline, context.fabric, rules.weights, settings, context.stop, trained.student)
    return context.annealed(annealing)


def _noted(candidates: Sequence[Candidate], note: str) -> list[Candidate]:
    return [replace(each, note=f"{note} {each.note}".strip()) for each in candidates]


def learned_costs(learned: LearnedFor, caution: float = 0.0) -> Mapping[str, Search]:
    """The learned costs by name."""
    return MappingProxyType(
        {LEARNED: ByLearnedCost(learned, caution), LEARNED_SIMULATED: ByStudentAndSimulator(learned)}
    )


def weights_digest(checkpoint: Path | None, cost: str) -> str:
    """A digest of what ``cost`` uses of a checkpoint, of the one in the package if None.

    The student's card has a digest of its weights and the rules that it corrects. What cards tell of training and
    placements is no part of it.

    Raises:
        InputError: the extra ``learn``, which ``cost`` needs, is not installed.
    """
    if cost == LEARNED:
        ask_for_extra_of(_PLACE, "--cost", LEARNED)
    from policies.fabric.student_checkpoint import STUDENT
    from policies.learning.checkpoint import CARD_FILE, WEIGHTS_FILE, chosen_folder

    folder = chosen_folder(SHIPPED if checkpoint is None else checkpoint)
    parts = [_used_of(folder / STUDENT / CARD_FILE)]
    if cost == LEARNED:
        weights = folder / WEIGHTS_FILE
        parts += [_used_of(folder / CARD_FILE), weights.read_bytes() if weights.is_file() else b"none"]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return f"sha256:{digest.hexdigest()}"


def _used_of(card: Path) -> bytes:
    """What a card says that a search depends on: all but its provenance, and the rules in that."""
    with suppress(OSError, ValueError, AttributeError):  # a card that is none is refused where it is loaded
        document = json.loads(card.read_bytes())
        rules = document.get("provenance", {}).get("rules")
        return json.dumps(document | {"provenance": {"rules": rules}}, sort_keys=True).encode()
    return b"none"
