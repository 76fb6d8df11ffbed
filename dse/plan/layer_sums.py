"""What one layer costs a rank, and sums of such costs on the way there; all arrays have shape [P]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dse.plan.plan_arrays import Floats


@dataclass
class LayerWork:
    """Seconds of one layer by cause and pass (``forward``, ``backward``), what it keeps, its parameters.

    ``tensor`` and ``context`` are what of these collectives is not hidden. ``recompute`` are the seconds of making the
    layer again where that is done, ``kept_bytes`` the activations of a microbatch that it then keeps, ``whole_bytes``
    those of a layer that is not made again. ``sent`` are the seconds of the collectives of each axis, hidden or not, by
    pass, and ``sent_again`` those of making the layer again. ``parameters`` are those of a rank that data-parallel
    replicas share, ``expert_parameters`` those of its experts.
    """

    linear: tuple[Floats, Floats]
    attention: tuple[Floats, Floats]
    vector: tuple[Floats, Floats]
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    expert: tuple[Floats, Floats]
    recompute: Floats
    kept_bytes: Floats
    whole_bytes: Floats
    sent: Mapping[str, tuple[Floats, Floats]]
    sent_again: Mapping[str, Floats]
    parameters: Floats
    expert_parameters: Floats

    @cached_property
    def forward(self) -> Floats:
        """A forward pass."""
        return sum((part[0] for part in self._parts), start=np.zeros_like(self.recompute))

    @cached_property
    def backward(self) -> Floats:
        """A backward pass, without what it makes again."""
        return sum((part[1] for part in self._parts), start=np.zeros_like(self.recompute))

    @property
    def _parts(self) -> tuple[tuple[Floats, Floats], ...]:
        return self.linear, self.attention, self.vector, self.tensor, self.context, self.expert


@dataclass
class WorkSum:
    """Work that adds up: seconds of products and of vector work, by pass; kept bytes."""

    linear: list[Floats] = field(default_factory=list)
    linear_back: list[Floats] = field(default_factory=list)
    vector: list[Floats] = field(default_factory=list)
    vector_back: list[Floats] = field(default_factory=list)
    kept: list[Floats] = field(default_factory=list)


def total_of(terms: list[Floats]) -> Floats:
    """The sum of arrays, in their order."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
