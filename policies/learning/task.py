"""What a learner brings to the kit: its task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy.typing as npt

from dse.run.progress import ProgressCallback, StopSignal
from policies.learning.actors import TrainingActors
from policies.learning.checkpoint import Checkpoint, CheckpointFormat, Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Iteration:
    """One update of the weights, or several that belong together.

    Attributes:
        samples: that it learned from.
        scalars: what the curves get of it, by name, all finite.
    """

    samples: int
    scalars: Mapping[str, float]


class Training(Protocol):
    """A training under way. It is a pure function of the task, the seed, the number of learners and the iterations
    made.
    """

    def iterate(self, stop: StopSignal) -> Iteration:
        """Learn a little further.

        Raises:
            StoppedError: ``stop`` gave a reason.
            LostLearnerError: a learner in a process of its own has died.
        """

    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """The weights by name."""

    def state(self) -> Any:
        """Everything that going on needs: a tree of arrays and data (:mod:`policies.learning.state_file`)."""

    def restore(self, state: Any) -> None:
        """Continue from what :meth:`state` gave, in a training that has not iterated yet."""

    def provenance(self) -> Mapping[str, Any]:
        """What the card of a checkpoint says of this training in addition to its plan; JSON types."""

    def close(self) -> None:
        """End the actors that it has; it is of no more use."""


@dataclass(frozen=True)
class LearningTask(ABC, Generic[S]):
    """What is learned, on which environments, and how it is scored on others.

    A subclass is a frozen dataclass that can be pickled: workers get copies. A trainer calls :meth:`begin`, as often as
    one is started, and a validator :meth:`score`. Both depend on their arguments alone, so that a run that was
    interrupted, or is spread over several machines, comes to the same weights and scores.

    Attributes:
        settings: of the network and how it learns; a frozen dataclass.
        checkpoint_format: of its checkpoints.
        score_title: what a score is, for people: what is divided by what.
        criteria: the scores by whose mean the best checkpoint may be chosen, by a name for people.
        swept: values that a sweep tries where nobody says, by their names in the settings.
        references: choices of some swept settings that a sweep tries to compare with, by a name for people.
    """

    settings: S

    checkpoint_format: ClassVar[CheckpointFormat[Any]]
    score_title: ClassVar[str]
    criteria: ClassVar[Mapping[str, tuple[str, ...]]]
    swept: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    references: ClassVar[Mapping[str, Mapping[str, float]]] = {}

    def document(self) -> dict[str, Any]:
        """The task as JSON types."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @property
    def identity(self) -> dict[str, Any]:
        """What decides all weights and scores except plan and seed: the task, and the present content of its inputs.

        Raises:
            InputError: an input is missing, or breaks a rule.
        """
        return self.document()

    @property
    @abstractmethod
    def samples_per_iteration(self) -> int:
        """Samples that an iteration of training learns from."""

    @property
    @abstractmethod
    def validation_names(self) -> tuple[str, ...]:
        """The validation environments; those that turn out to be unusable have no score."""

    def optimiser_steps(self, iterations: int) -> int:
        """Steps of the optimiser in ``iterations`` of training."""
        return iterations

    @abstractmethod
    def begin(self, seed: int, stop: StopSignal, progress: ProgressCallback, actors: TrainingActors) -> Training:
        """A training from its beginning.

        Args:
            seed: of first weights and training.
            stop: is checked while environments are prepared.
            progress: of the preparation.
            actors: that the training has for itself.

        Raises:
            StoppedError: ``stop`` gave a reason while environments were prepared.
            InputError: there is nothing to train on.
        """

    @abstractmethod
    def score(self, checkpoint: Checkpoint[S], seed: int, stop: StopSignal) -> Mapping[str, Mapping[str, float]]:
        """What a checkpoint is worth: :attr:`~policies.learning.scores.Score.values`.

        Raises:
            StoppedError: ``stop`` gave a reason.
            InputError: there is nothing to validate on.
        """
