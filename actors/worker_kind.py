"""What workers need of a cluster."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerKind:
    """Workers that need the same: how many, and the CPUs and GPUs of each."""

    count: int
    cpus: float = 1.0
    gpus: float = 0.0

    @property
    def needs(self) -> str:
        """What one of them needs, for people."""
        return " and ".join(f"{amount:g} {name}" for amount, name in ((self.cpus, "CPU"), (self.gpus, "GPU")) if amount)

    def __str__(self) -> str:
        return f"{self.count} need {self.needs} each"
