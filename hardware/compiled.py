"""Compiled kernels, kept on disk safely and for every copy of the program.

Numba keeps compiled code by the folder of the function's file and notices a change of that file alone. A change in
another file whose kernels it calls goes unnoticed, and every copy of the program compiles everything again, as each
version of it that is submitted to a cluster: a minute of work. So entry points are kept in the user's cache
(``NUMBA_CACHE_DIR``, where it is set) under a name with a digest of every file they are compiled from; the kernels of
other files that they call are compiled with them. Processes that want the same one at once, as new workers do, wait for
the first of them to compile it.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeVar, overload

import numba
import numpy as np
from numba import njit
from numba.core import types
from numba.core.caching import UserProvidedCacheLocator, UserWideCacheLocator
from numba.core.compiler_lock import global_compiler_lock

from hardware.kernel_compiler import KernelCompiler

ErrorModel = Literal["python", "numpy"]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


class _OneFolder:
    """A place for compiled code that does not depend on where its source lies: names tell versions apart."""

    @classmethod
    def get_suitable_cache_subpath(cls, _file: str) -> str:
        """The folder in the cache."""
        return "dse"


class ProvidedFolder(_OneFolder, UserProvidedCacheLocator):
    """In ``NUMBA_CACHE_DIR``, where that is set."""


class UsersFolder(_OneFolder, UserWideCacheLocator):
    """In the user's cache."""


_LOCATORS = f"{__name__}.ProvidedFolder,{__name__}.UsersFolder,InTreeCacheLocator"
"""Where compiled code is kept: the first of these that can be written."""


def compiled(*modules: ModuleType, error_model: ErrorModel = "python") -> Callable[[Callable[..., Any]], Any]:
    """Decorates an entry point: ``njit``, kept on disk until its own file or one of ``modules`` changes.

    ``error_model``: numba's, of divisions by zero.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        digest = hashlib.sha256()
        for file in (function.__code__.co_filename, *(str(module.__file__) for module in modules)):
            digest.update(Path(file).read_bytes())
        function.__qualname__ += f"-{digest.hexdigest()[:16]}"
        # The setting is read when a function is decorated, and is the user's again for functions of others.
        config: Any = numba.config
        before = config.CACHE_LOCATOR_CLASSES
        config.CACHE_LOCATOR_CLASSES = _LOCATORS
        try:
            return _one_at_a_time(njit(cache=True, error_model=error_model)(function))
        finally:
            config.CACHE_LOCATOR_CLASSES = before

    return decorate


def _one_at_a_time(entry: Any) -> Any:
    """Makes an entry point load or compile itself while no other process does."""
    compile_now = entry.compile
    lock_file = Path(entry.stats.cache_path) / f"{entry.__module__}.{entry.__qualname__}.lock"

    def compile_once(signature: Any) -> Any:
        # Numba's own lock comes first: a thread that compiles a caller holds it, and may want this entry point next.
        with global_compiler_lock, _locked(lock_file):
            return compile_now(signature)

    entry.compile = compile_once
    return entry


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """No other process is in such a context of ``file``, unless the file system has no locks or cannot be written."""
    descriptor = None
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def read_only(array: Array) -> Array:
    """A view of an array that cannot be written.

    Numba compiles an entry point anew for arrays that can be written. One that is given arrays of both kinds is given
    such views of all.
    """
    view = array.view()
    view.flags.writeable = False
    return view


_KERNEL_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
)
"""Options that Numba reads but does not list: no reference counts, and no entry points for Python callers."""

Function = TypeVar("Function", bound=Callable[..., object])


@overload
def kernel(function: Function) -> Function: ...


@overload
def kernel(*, error_model: ErrorModel) -> Callable[[Function], Function]: ...


def kernel(
    function: Function | None = None, *, error_model: ErrorModel = "python"
) -> Function | Callable[[Function], Function]:
    """Compiles a function that allocates nothing, without counting references to the arrays it is given.

    The counting is two atomic operations for every array of every tuple that is passed on, which took two thirds of the
    time of the schedule searches, and six sevenths of that of matrix products. Numba refuses to compile an allocation
    in such a function. Nothing is kept on disk: kernels are compiled with the entry points that call them
    (:func:`compiled`), once for all whole numbers and once for all flags: Numba compiles a function anew for each
    constant it is called with, and LLVM, which inlines kernels, sees the constants all the same.

    ``error_model``: numba's, of divisions by zero.
    """

    def decorate(function: Function) -> Function:
        inner: Function = _for_any_constant(
            njit(cache=False, error_model=error_model, pipeline_class=KernelCompiler, **_KERNEL_OPTIONS)(function)
        )
        return inner

    return decorate if function is None else decorate(function)


def _for_any_constant(inner: Any) -> Any:
    """Makes a kernel compile itself for the types of constants instead of their values."""
    compile_now = inner.compile
    unliteral: Any = types.unliteral

    def compile_for_types(signature: tuple[Any, ...]) -> Any:
        return compile_now(tuple(unliteral(argument) for argument in signature))

    inner.compile = compile_for_types
    return inner
