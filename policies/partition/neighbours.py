"""Means over the neighbours of every operator, in one pass over the edges, and their gradients in another.

A graph's edges never change, so what a pass needs of them is sorted once. Gathering a row for each edge and scattering
the rows again, as a message-passing layer does, takes about five times as long on graphs of some hundred operators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class _Bags:
    """What each operator adds up: the rows ``row[first[i] : first[i + 1]]``, with a weight each.

    Attributes:
        row: numbers of operators, [E].
        weight: of each, [E].
        first: of every operator, [N].
    """

    row: Tensor
    weight: Tensor
    first: Tensor

    @classmethod
    def of(cls, receiver: Tensor, sender: Tensor, weight: Tensor, count: int) -> "_Bags":
        """Those in which operator ``receiver[e]`` adds up ``sender[e]``, for every e."""
        order = torch.argsort(receiver, stable=True)
        many = torch.bincount(receiver, minlength=count)
        return cls(sender[order], weight[order], many.cumsum(0) - many)

    @classmethod
    def joined(cls, parts: Sequence["_Bags"]) -> "_Bags":
        """Those of several graphs, whose operators are numbered one graph after the other."""
        rows, firsts, operators, edges = [], [], 0, 0
        for part in parts:
            rows.append(part.row + operators)
            firsts.append(part.first + edges)
            operators += len(part.first)
            edges += len(part.row)
        return cls(torch.cat(rows), torch.cat([part.weight for part in parts]), torch.cat(firsts))

    def sums(self, values: Tensor) -> Tensor:
        """The weighted sums of the rows of ``values``, [N, K]."""
        return functional.embedding_bag(self.row, values, self.first, mode="sum", per_sample_weights=self.weight)


class _Sums(torch.autograd.Function):
    """:meth:`_Bags.sums`, whose gradient goes the other way along the edges."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, forth: _Bags, back: _Bags) -> Tensor:
        ctx.back = back
        return forth.sums(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back.sums(gradients[0].contiguous()), None, None


@dataclass(frozen=True)
class Means:
    """The mean over the neighbours of one kind, producers or consumers, of every operator.

    Attributes:
        forth: from neighbours to the operator.
        back: from the operator to whose neighbour it is, with the same weights: for gradients.
    """

    forth: _Bags
    back: _Bags

    @classmethod
    def of(cls, receiver: Tensor, sender: Tensor, count: int, like: Tensor) -> "Means":
        """The mean over ``sender[e]`` at ``receiver[e]``, for every edge e; 0 where there is none.

        Args:
            receiver: numbers of operators, [E].
            sender: the same, [E].
            count: N.
            like: a tensor of the type of the values.
        """
        weight = (1.0 / torch.bincount(receiver, minlength=count).clamp(min=1))[receiver].to(like)
        return cls(_Bags.of(receiver, sender, weight, count), _Bags.of(sender, receiver, weight, count))

    @classmethod
    def joined(cls, parts: Sequence["Means"]) -> "Means":
        """Those of several graphs, whose operators are numbered one graph after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(_Bags.joined([part.forth for part in parts]), _Bags.joined([part.back for part in parts]))

    def __call__(self, values: Tensor) -> Tensor:
        """The means of ``values`` [N, K]."""
        means: Tensor = _Sums.apply(values, self.forth, self.back)  # type: ignore[no-untyped-call]
        return means
