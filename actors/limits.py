"""What an item may cost before it is given up, for maps over actors and for sweeps through Tune."""

from dataclasses import dataclass

COMPILES_S = 300.0
"""Beyond its limit what a process may take over its first work, amid which it may compile its kernels."""

TOGETHER_S = 30.0
"""Beyond the limit of one what several items may take, of which each is short."""


@dataclass(frozen=True)
class Limits:
    """What an item may cost before it is given up.

    Attributes:
        deaths: worker processes that may die under it.
        timeout_s: seconds that it may run, by the wall clock; None for ever.
        compiles_s: more seconds for the first call of a process, which may have to compile its kernels.
    """

    deaths: int = 5
    timeout_s: float | None = None
    compiles_s: float = COMPILES_S

    def of_a_call(self, items: int, *, warm: bool) -> float:
        """Seconds that so many items may run; those of a call that is ended are retried one by one."""
        assert self.timeout_s is not None
        return self.timeout_s + (TOGETHER_S if items > 1 else 0.0) + (0.0 if warm else self.compiles_s)
