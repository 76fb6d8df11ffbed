"""How many Ray actors one training has for itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingActors:
    """The Ray actors of one training; without any, it runs in its own process alone.

    Attributes:
        runners: that make episodes; their number alone changes no weight.
        learners: that update the weights, each from its share of the episodes. Sums of their gradients are rounded in
            another order than those of one learner.
        gpus: whether every learner has a CUDA device for itself, instead of a CPU.
    """

    runners: int = 0
    learners: int = 0
    gpus: bool = False

    @property
    def cpus(self) -> int:
        """That they need in all."""
        return self.runners + (0 if self.gpus else self.learners)

    def document(self) -> dict[str, int | bool]:
        """What decides weights, as JSON types; nothing where the trainer learns itself."""
        return {"learners": self.learners, "gpus": self.gpus} if self.learners else {}


NO_ACTORS = TrainingActors()


class LostLearnerError(RuntimeError):
    """A learner has died, and with it what it had learned since the last checkpoint."""
