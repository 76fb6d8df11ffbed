"""Collectives that a module written for one accelerator of a tensor-parallel group states.

Both leave a tensor as it is. Under the importer they become steps of the trace; anywhere else they do nothing, so that
the module runs on one device as it is.
"""

from typing import TYPE_CHECKING

from dse.graph.trace import StepKind
from dse.importer.torch.recorder import CURRENT

if TYPE_CHECKING:
    import torch


def all_reduce(x: "torch.Tensor", participants: int) -> "torch.Tensor":
    """The sum of ``x`` over the group, behind a layer that is split by rows; the gradient passes through."""
    return _collective("all_reduce", x, participants)


def copy_to_group(x: "torch.Tensor", participants: int) -> "torch.Tensor":
    """``x`` in front of layers that are split by columns; its gradient is summed over the group."""
    return _collective("copy_to_group", x, participants)


def _collective(kind: StepKind, x: "torch.Tensor", participants: int) -> "torch.Tensor":
    if participants < 1:
        raise ValueError(f"participants must be at least 1, but got {participants}")
    recorder = CURRENT.get()
    if participants == 1 or recorder is None:
        return x
    return recorder.collective(kind, x, participants)
