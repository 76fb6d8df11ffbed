"""What one layer costs a rank, and sums of such costs on the way there; all arrays have shape [P]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dse.plan.plan_arrays import Floats


@dataclass
class LayerWork:
    """Seconds of one layer by cause and pass (``forward``, ``backward``), what it keeps, its parameters.

    ``tensor`` and ``context`` are what of these collectives is not hidden, ``launch`` what the host takes to launch a
    pass beyond all else. ``recompute`` are the seconds of making the
    layer again where that is done, ``saved_bytes`` the activations of a microbatch that it then keeps, ``remade_bytes``
    those that exist temporarily during recomputation, ``whole_bytes`` those of a layer that is not. ``sent`` are
    the seconds of the collectives of each axis, hidden or not, by pass, and ``sent_again`` those of making the layer
    again. ``weight_gradients`` are the seconds of a backward pass that no other stage waits for: products that yield
    gradients of weights. ``state_bytes`` are those of states that a scan has in memory while it works. ``parameters``
    are those of a rank that data-parallel replicas share, ``expert_parameters`` those of its experts.
    """

    linear: tuple[Floats, Floats]
    attention: tuple[Floats, Floats]
    vector: tuple[Floats, Floats]
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    expert: tuple[Floats, Floats]
    launch: tuple[Floats, Floats]
    recompute: Floats
    saved_bytes: Floats
    remade_bytes: Floats
    whole_bytes: Floats
    sent: Mapping[str, tuple[Floats, Floats]]
    sent_again: Mapping[str, Floats]
    weight_gradients: Floats
    state_bytes: Floats
    parameters: Floats
    expert_parameters: Floats

    @cached_property
    def forward(self) -> Floats:
        """A forward pass."""
        return sum((part[0] for part in self._parts), start=np.zeros_like(self.recompute))

    @cached_property
    def backward(self) -> Floats:
        """A backward pass, without recomputation."""
        return sum((part[1] for part in self._parts), start=np.zeros_like(self.recompute))

    @property
    def _parts(self) -> tuple[tuple[Floats, Floats], ...]:
        return self.linear, self.attention, self.vector, self.tensor, self.context, self.expert, self.launch


class Parts(NamedTuple):
    """Modules (:mod:`dse.plan.recomputation`) that an operator is in.

    ``input_of`` are others that make its input again, ``otherwise`` those that do so where no module repeats it.
    """

    within: int = 0
    input_of: int = 0
    otherwise: int = 0

    @property
    def of_cast(self) -> "Parts":
        """Of the cast of its input to 8 bits."""
        return Parts(self.within | self.input_of, 0, self.otherwise)


NO_PARTS = Parts()


class Repeated(NamedTuple):
    """Seconds of a forward pass that a backward pass repeats: once for each of ``modules`` that is recomputed.

    Where none of these is, once if one of ``otherwise`` is.
    """

    modules: int
    seconds: Floats
    is_product: bool = False
    otherwise: int = 0


class Dropped(NamedTuple):
    """Bytes that are not stored if one of ``modules`` is recomputed: so many for each of ``elements``."""

    modules: int
    elements: Floats
    factor: float = 1.0


@dataclass
class WorkSum:
    """Work that adds up: seconds of products and of vector work, and kernels, by pass; kept bytes; what is repeated."""

    linear: list[Floats] = field(default_factory=list)
    linear_back: list[Floats] = field(default_factory=list)
    weight_gradients: list[Floats] = field(default_factory=list)
    vector: list[Floats] = field(default_factory=list)
    vector_back: list[Floats] = field(default_factory=list)
    launches: Floats | float = 0.0
    launches_back: Floats | float = 0.0
    saved: list[Floats] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def keep(self, size_bytes: Floats, dropped_by: int = 0) -> None:
        """Store so many bytes; ``dropped_by`` are the modules that drop them if they are recomputed."""
        self.saved.append(size_bytes)
        self.drop(size_bytes, dropped_by)

    def drop(self, elements: Floats, modules: int, bytes_each: float = 1.0) -> None:
        """Say of elements that are kept which modules drop them."""
        if modules:
            self.dropped.append(Dropped(modules, elements, bytes_each))

    def repeat(self, modules: int, seconds: Floats, is_product: bool = False, otherwise: int = 0) -> None:
        """Say which modules repeat seconds of the forward pass."""
        if modules | otherwise:
            self.repeated.append(Repeated(modules, seconds, is_product, otherwise))


def total_of(terms: list[Floats]) -> Floats:
    """The sum of arrays, in their order."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
