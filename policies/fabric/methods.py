"""The learned costs of ``dse fabric place``, for the roof to add to those of the engine. Nothing heavy is imported."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from dse.fabric.methods import (
    LEARNED,
    LEARNED_SIMULATED,
    SIMULATOR,
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
from hardware.documents import read_document
from hardware.fabric_specs import fabric
from hardware.inputs import fail
from hardware.operator_slots import operator_slots
from policies.fabric.options import ask_for_extra_of

if TYPE_CHECKING:
    from policies.fabric.model.ensemble import Ensemble
    from policies.fabric.placing import Placing
    from policies.fabric.student_checkpoint import TrainedStudent

SHIPPED = Path(__file__).parent / "shipped"
"""The checkpoint in the package."""

_PLACE = "dse fabric place"

_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "base": "slots of the slowest unit",
        "ideal": "work of compute units relative to these slots",
        "bound": "bound relative to these slots",
        "ports": "load of memory units relative to these slots",
        "units": "number of units",
        "nets": "number of nets",
        "stages": "stages on the longest path",
    }
)
"""What the features of a graph are that the student's range is of (:data:`dse.fabric.search.student.CONSTANTS`)."""

_FEW_MOVES = "There are too few moves for this number of units, so the rules were used instead of the learned cost."

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class LearnedFor:
    """A checkpoint, and the fabric that it is to be used on.

    Attributes:
        folder: of a checkpoint, or of the run of `dse fabric train` that it is the best of; None: the one in the
            package, where it is for the fabric at hand.
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
            return f"The package has no learned cost for {fabric(self.fabric).name}, so the rules were used."
        beyond = [_FEATURES[name] for name in trained.out_of_range(context.pipeline, context.fabric)]
        if beyond:
            return f"This graph is outside the range of the learned cost ({', '.join(beyond)}), so the rules were used."
        return trained

    def placing(self) -> "Placing | None":
        """How the student placed unseen graphs at the end of its training; None where its card does not say so.

        Raises:
            InputError: the card says something else there.
        """
        from policies.fabric.placing import Placing
        from policies.fabric.student_checkpoint import STUDENT
        from policies.learning.checkpoint import CARD_FILE, chosen_folder

        file = chosen_folder(SHIPPED if self.folder is None else self.folder) / STUDENT / CARD_FILE
        outcome = read_document(file)["provenance"].get("outcome")
        placed = outcome.get("placing") if isinstance(outcome, dict) else None
        try:
            return None if placed is None else Placing.from_document(placed)
        except (KeyError, TypeError, ValueError) as error:
            rule = "must be as dse fabric train writes it: graphs, and gain with value, low and high"
            raise fail(file, "provenance.outcome.placing", placed, rule) from error

    def objection(self) -> str:
        """Why chains do not follow the student unless that is requested, as a sentence; empty if there is no reason.

        Raises:
            InputError: as :meth:`student` and :meth:`placing`.
        """
        placed = None if self.student() is None else self.placing()
        if placed is None or not placed.is_worse:
            return ""
        return (
            f"{placed.verdict} Chains therefore followed the rules; --cost {LEARNED_SIMULATED} makes them follow the "
            "student."
        )

    def _loaded(self, load: Callable[[Path, Mapping[str, Any]], Loaded]) -> Loaded | None:
        from policies.fabric.data.collection import provenance_of

        labelled_by = provenance_of(fabric(self.fabric), operator_slots(self.slots))
        if self.folder is None and not _is_shipped_for(labelled_by):
            return None
        return load(SHIPPED if self.folder is None else self.folder, labelled_by)


def _is_shipped_for(labelled_by: Mapping[str, Any]) -> bool:
    """Whether the checkpoint in the package holds for these labels, or is damaged, which whoever loads it says."""
    from policies.fabric.labelled_by import is_labelled_by
    from policies.fabric.student_checkpoint import STUDENT
    from policies.learning.checkpoint import CARD_FILE

    card = read_document(SHIPPED / STUDENT / CARD_FILE)
    provenance = card.get("provenance") if isinstance(card, dict) else None
    return not isinstance(provenance, dict) or is_labelled_by(provenance, labelled_by)


@dataclass(frozen=True)
class ByLearnedCost:
    """Anneals chains under rules that a student corrects, and chooses the placement that the cost model
    expects to be fastest; the simulator is not asked. What is out of its range is left to the tuned rules.

    Attributes:
        learned: student and cost model.
    """

    learned: LearnedFor

    def __call__(self, context: SearchContext) -> list[Candidate]:
        """The chains' placements, the one that is expected to be fastest first.

        Raises:
            InputError: the extra ``learn`` is not installed, or there is no checkpoint for this fabric in the folder.
        """
        ask_for_extra_of(_PLACE, "--cost", LEARNED)
        from policies.fabric.model.cost import LearnedCost

        # Before its range is requested: a checkpoint that cannot be used is refused for every graph.
        ensemble = self.learned.ensemble()
        trained = self.learned.student_for(context)
        if isinstance(trained, str):
            return _noted(by_tuned(context), trained)
        assert ensemble is not None
        candidates = _followed(context, trained)
        cost = LearnedCost(ensemble, context.pipeline, context.fabric)
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
            return _noted(by_simulator(context), _FEW_MOVES)
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


def default_costs(learned: LearnedFor) -> Mapping[str, Search]:
    """The default cost if neither a cost nor rules are given by name; the simulator's note says
    why the student was passed over.

    Raises:
        InputError: as :meth:`LearnedFor.objection`.
    """
    objection = learned.objection()

    def by_simulator_instead(context: SearchContext) -> list[Candidate]:
        return _noted(by_simulator(context), objection)

    return MappingProxyType({SIMULATOR: by_simulator_instead} if objection else {})


def learned_costs(learned: LearnedFor) -> Mapping[str, Search]:
    """The learned costs by name."""
    return MappingProxyType({LEARNED: ByLearnedCost(learned), LEARNED_SIMULATED: ByStudentAndSimulator(learned)})


def weights_digest(checkpoint: Path | None, cost: str) -> str:
    """A digest of what ``cost`` uses of a checkpoint, of the one in the package if None.

    What the cards say of training and of placements is not part of it.

    Raises:
        InputError: the extra ``learn``, which ``cost`` needs, is not installed.
    """
    if cost == LEARNED:
        ask_for_extra_of(_PLACE, "--cost", LEARNED)
    from policies.fabric.student_checkpoint import STUDENT
    from policies.learning.checkpoint import CARD_FILE, WEIGHTS_FILE, chosen_folder

    folder = chosen_folder(SHIPPED if checkpoint is None else checkpoint)
    parts = [_deciding(folder / STUDENT / CARD_FILE)]
    if cost == LEARNED:
        parts += [_deciding(folder / CARD_FILE), _content(folder / WEIGHTS_FILE)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return f"sha256:{digest.hexdigest()}"


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b"none"


def _deciding(card: Path) -> bytes:
    """What of a card decides what its model does; all of one that is damaged."""
    content = _content(card)
    try:
        document = json.loads(content)
        of_model = {key: document[key] for key in ("schema", "settings", "features", "sha256")}
        of_model["rules"] = document["provenance"].get("rules")
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    return json.dumps(of_model, sort_keys=True).encode()
