"""Who meets whom in graphs, and sums over those that each node meets: what messages of networks are made of."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

_LIMIT = 12.0
"""Logarithms are cut at it before they are summed, and at minus it."""


@dataclass(frozen=True, eq=False)
class Incidence:
    """Nodes of one kind, and those of another kind that each of them meets.

    A sum over them is a product of a sparse matrix and the other kind's states. Whatever goes along an edge is never
    stored, which is most of the time and memory of messages between a hundred nets and the thousand links they pass.

    Attributes:
        row, column: node of either kind, for every meeting, [C].
        rows, columns: how many nodes of each kind there are.
    """

    row: Tensor
    column: Tensor
    rows: int
    columns: int

    def sum(self, values: Tensor) -> Tensor:
        """Σ of the values of the nodes that each node of the first kind meets, [columns, ·] to [rows, ·]."""
        apply: Callable[..., Tensor] = _Sum.apply  # PyTorch states no types of it
        return apply(values, self._matrix, self.turned._matrix)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of the same, 0 where a node meets none."""
        return self.sum(values) / self._many

    def max(self, values: Tensor) -> Tensor:
        """The maximum of the same, 0 where a node meets none."""
        met = values.index_select(0, self.column)
        where = self.row.unsqueeze(1).expand_as(met)
        return values.new_zeros(self.rows, values.shape[1]).scatter_reduce(0, where, met, "amax", include_self=False)

    def log_sum(self, values: Tensor) -> Tensor:
        """Log (1 + Σ exp) of the same: of logarithms of loads that of their sum, of values far apart the largest."""
        return torch.log1p(self.sum(torch.exp(nn.functional.hardtanh(values, -_LIMIT, _LIMIT))))

    @cached_property
    def turned(self) -> "Incidence":
        """The same meetings, of the second kind with the first."""
        turned = Incidence(self.column, self.row, self.columns, self.rows)
        turned.__dict__["turned"] = self
        return turned

    @cached_property
    def _matrix(self) -> Tensor:
        order = torch.argsort(self.row, stable=True)
        first = torch.zeros(self.rows + 1, dtype=torch.int64, device=self.row.device)
        first[1:] = torch.bincount(self.row, minlength=self.rows).cumsum(0)
        ones = torch.ones(len(self.row), device=self.row.device)
        with warnings.catch_warnings():  # PyTorch calls matrices of this layout a beta
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
            return torch.sparse_csr_tensor(
                first, self.column[order], ones, (self.rows, self.columns), check_invariants=False
            )

    @cached_property
    def _many(self) -> Tensor:
        return torch.bincount(self.row, minlength=self.rows).clamp(min=1).unsqueeze(1).float()


class _Sum(torch.autograd.Function):
    """The product of a sparse matrix and states, with the transposed matrix for its gradient."""

    @staticmethod
    def forward(context: Any, values: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        context.transposed = transposed
        return matrix @ values

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return context.transposed @ gradient.contiguous(), None, None


def largest(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """The largest of the values of each owner, [count]; no gradient goes through it."""
    least = values.new_full((count,), -1e4)
    return least.scatter_reduce(0, owner, values.detach(), "amax", include_self=True)


def soft_maximum(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Log Σ exp of the values of each owner, [count]."""
    above = largest(values, owner, count)
    total = values.new_zeros(count).index_add(0, owner, torch.exp(values - above[owner]))
    return above + torch.log(total)
