"""How the inner loops of the searches are compiled."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from numba import njit

_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
)
"""Options that Numba reads but does not list: no reference counts, and no entry points for Python callers."""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compiles a function that allocates nothing, without counting references to the arrays it is given.

    The counting is two atomic operations for every array of every tuple that is passed on, which took two thirds of the
    time of the searches. Numba refuses to compile an allocation in such a function. Nothing is kept on
    disk: kernels are compiled with the entry points that call them (:func:`hardware.compiled.compiled`).
    """
    compiled: Function = njit(cache=False, **_OPTIONS)(function)
    return compiled
