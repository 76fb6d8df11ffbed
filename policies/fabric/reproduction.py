"""The learned cost models for ``dse reproduce rdu``; torch is imported when something is measured, not for its help."""

from typing import Any

from dse.reproduce.rdu.study import Budget, Laboratory, Learned
from dse.run.run import Run


def learned() -> Learned:
    """The learned cost models for :func:`dse.reproduce.rdu.parts.paper`."""
    return Learned(_opened, _identity)


def _opened(budget: Budget, run: Run) -> Laboratory:
    from policies.fabric.laboratory import FabricLaboratory

    return FabricLaboratory(budget, run)


def _identity() -> dict[str, Any]:
    from policies.fabric.laboratory import identity

    return identity()
