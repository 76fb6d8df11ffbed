"""What tensors hold that depend on no input and no weight (position numbers, masks): a module may branch on them.

Small ones are computed as they are made, larger ones when their values are needed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dse.importer.torch.arguments import replaced, tensors_in

if TYPE_CHECKING:
    import torch

MAX_SMALL_ELEMENTS = 2**18
"""Constants up to this size are computed at once."""

MAX_ELEMENTS = 2**23
"""Constants up to this size are computed where they are needed; of larger ones only the shape is known."""

NOT_COMPUTABLE = (RuntimeError, NotImplementedError)
"""What PyTorch raises where it cannot compute on the CPU what has a shape on the meta device."""


class Constant:
    """The values of one tensor: there already, or made by ``make`` when they are first needed."""

    def __init__(self, values: "torch.Tensor | None" = None, make: "Callable[[], torch.Tensor] | None" = None) -> None:
        self._values, self._make = values, make

    @property
    def is_computed(self) -> bool:
        """Whether the values are there."""
        return self._values is not None

    def values(self) -> "torch.Tensor":
        """The values, on the CPU.

        Raises:
            RuntimeError, NotImplementedError: PyTorch cannot compute them.
        """
        if self._values is None:
            assert self._make is not None
            self._values, self._make = self._make(), None
        return self._values

    def as_type(self, dtype: "torch.dtype") -> "Constant":
        """The same values as another type."""
        if self._values is not None:
            return Constant(self._values.to(dtype))
        return Constant(make=lambda: self.values().to(dtype))


def constants_of(
    torch: Any,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    read: Sequence[Constant | None],
    outputs: "Sequence[torch.Tensor]",
) -> Sequence[Constant]:
    """What the outputs of an operator hold; nothing where that is not known.

    Args:
        torch: the library.
        function: the operator.
        args: its arguments, with tensors on the meta device.
        kwargs: those by name.
        read: what the tensors among the arguments hold, in order; None where that is not known.
        outputs: what it returned on the meta device.
    """
    elements = sum(tensor.numel() for tensor in outputs)
    if elements > MAX_ELEMENTS or torch.Tag.nondeterministic_seeded in function.tags:
        return ()
    operands = [constant for constant in read if constant is not None]
    if len(operands) < len(read) or not (operands or "device" in kwargs):
        return ()
    kwargs = {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else kwargs

    def run() -> Iterator[Any]:
        values = iter([constant.values() for constant in operands])
        return tensors_in(torch, function(*replaced(torch, args, values), **replaced(torch, kwargs, values)))

    if elements <= MAX_SMALL_ELEMENTS and all(constant.is_computed for constant in operands):
        try:
            return [Constant(values) for values in run()]
        except NOT_COMPUTABLE:
            return ()
    answer = cache(lambda: tuple(run()))
    return [Constant(make=lambda place=place: answer()[place]) for place in range(len(outputs))]  # type: ignore[misc]
