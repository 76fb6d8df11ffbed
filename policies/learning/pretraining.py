"""Pretraining: a learner is trained over many environments, and its checkpoints are scored on others.

Two workers, each a plain object: the :class:`Trainer` goes from one checkpoint to the next, the :class:`Validator`
scores them. They share only checkpoints, so they may run in sequence or at the same time on different
machines (:mod:`actors.pretraining`). What a trainer needs to continue is in the :class:`Snapshot` of its last
checkpoint, so a worker that dies, or a run that is interrupted, continues from there.
"""

from dataclasses import dataclass
from typing import Any

from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.version import VERSION
from hardware.inputs import fail, shown
from policies.learning import COMMAND
from policies.learning.actors import NO_ACTORS, LostLearnerError, TrainingActors
from policies.learning.checkpoint import Checkpoint
from policies.learning.curves import CurvePoint
from policies.learning.scores import Score
from policies.learning.state_file import decoded, encoded
from policies.learning.task import LearningTask, Training


@dataclass(frozen=True)
class PretrainingPlan:
    """The plan of a pretraining run.

    Attributes:
        task: what is learned, on what.
        samples: of training in all.
        checkpoints: how many are made, evenly over the samples.
        seed: of first weights, training and validation.
        actors: that the trainer has for itself.
    """

    task: LearningTask[Any]
    samples: int
    checkpoints: int
    seed: int = 0
    actors: TrainingActors = NO_ACTORS

    def document(self) -> dict[str, Any]:
        """The plan as JSON types."""
        return self.task.document() | self._budget()

    @property
    def identity(self) -> dict[str, Any]:
        """What decides all weights and scores.

        Raises:
            InputError: as :attr:`LearningTask.identity`.
        """
        return self.task.identity | self._budget()

    def _budget(self) -> dict[str, Any]:
        budget = {"samples": self.samples, "checkpoints": self.checkpoints, "seed": self.seed}
        return budget | self.actors.document()

    def samples_until(self, number: int) -> int:
        """Samples after which checkpoint ``number`` (from 1 on) is made."""
        return -(-self.samples * number // self.checkpoints)


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint, and what the trainer needs to continue from it.

    Attributes:
        number: of the checkpoint, from 1 on; 0 before the first.
        samples: that were learned from so far.
        checkpoint: the weights; None before the first.
        state: of the training (:mod:`policies.learning.state_file`); empty before the first.
        curve: the iterations since the checkpoint before.
    """

    number: int = 0
    samples: int = 0
    checkpoint: Checkpoint[Any] | None = None
    state: bytes = b""
    curve: tuple[CurvePoint, ...] = ()


_MAX_LOSSES = 3
"""Times that learners may die between two checkpoints."""


class Trainer:
    """Trains by a plan, from one checkpoint to the next."""

    def __init__(self, plan: PretrainingPlan) -> None:
        self.plan = plan
        self.training: Training | None = None
        """Under way, at checkpoint :attr:`_number`."""
        self._number = 0
        """Of the checkpoint that the training is at; −1 between two of them."""

    def advance(self, before: Snapshot, stop: StopSignal = never_stop, progress: ProgressCallback = silent) -> Snapshot:
        """The checkpoint after ``before``, to which this trainer goes first if it is elsewhere.

        Where a learner dies, it goes back to ``before`` and comes to the same.

        Raises:
            StoppedError: ``stop`` gave a reason; what was learned since ``before`` is lost.
            InputError: there is nothing to train on, or learners died again and again.
        """
        reason = ""
        for _ in range(_MAX_LOSSES):
            try:
                return self._advance(before, stop, progress)
            except LostLearnerError as error:
                reason = str(error)
        rule = f"died {_MAX_LOSSES} times before checkpoint {before.number + 1}: {shown(reason)}"
        raise fail(COMMAND, "--learners", str(self.plan.actors.learners), rule)

    def _advance(self, before: Snapshot, stop: StopSignal, progress: ProgressCallback) -> Snapshot:
        training = self._at(before, stop, progress)
        self._number = -1
        number, samples = before.number + 1, before.samples
        curve = []
        while samples < self.plan.samples_until(number):
            iteration = training.iterate(stop)
            samples += iteration.samples
            curve.append(CurvePoint(samples, iteration.scalars))
        self._number = number
        provenance = {"number": number, "samples": samples, "plan": self.plan.document(), "dse": VERSION}
        provenance |= training.provenance()
        checkpoint = Checkpoint(self.plan.task.settings, training.tensors(), provenance)
        return Snapshot(number, samples, checkpoint, encoded(training.state()), tuple(curve))

    def _at(self, before: Snapshot, stop: StopSignal, progress: ProgressCallback) -> Training:
        """The training where ``before`` left it."""
        if self.training is not None and before.number == self._number:
            return self.training
        # A new one: a training need not be able to go back from newer weights to older ones.
        if self.training is not None:
            self.training.close()
        training = self.training = self.plan.task.begin(self.plan.seed, stop, progress, self.plan.actors)
        if before.number:
            training.restore(decoded(before.state))
        return training


class Validator:
    """Scores checkpoints by a plan."""

    def __init__(self, plan: PretrainingPlan) -> None:
        self.plan = plan

    def score(self, snapshot: Snapshot, stop: StopSignal = never_stop) -> Score:
        """The scores of a checkpoint; the same for the same plan and weights.

        Raises:
            StoppedError: ``stop`` gave a reason.
            InputError: there is nothing to validate on.
        """
        assert snapshot.checkpoint is not None
        values = self.plan.task.score(snapshot.checkpoint, self.plan.seed, stop)
        return Score(snapshot.number, snapshot.samples, values)
