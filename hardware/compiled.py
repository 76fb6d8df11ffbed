"""Compiled kernels: Numba's ``njit`` with a cache that notices every change.

Numba stores machine code with a digest of the function's own file. It does not notice a change in another file whose
functions were compiled with it or whose constants it froze. Therefore the cache folder is named by a digest of all
kernel sources: a change in one of them makes a new folder, and nothing in an old one is read again.

Entry points (:func:`compiled`) are called from Python and are cached; they run without the interpreter's lock. Kernels
(:func:`kernel`) are called from compiled code only, and are compiled with the entry points that call them.
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numba
import numpy as np
from numba import njit
from numba.extending import register_jitable

ErrorModel = Literal["python", "numpy"]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])
Function = TypeVar("Function", bound=Callable[..., object])

_PACKAGES = ("hardware", "dse", "policies")
_USES_NUMBA = (b"from hardware.compiled import ", b"from numba import ")
_IMPORT = re.compile(rb"^from ((?:hardware|dse|policies)[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_decorating = threading.Lock()


def kernel_sources(root: Path) -> Iterator[Path]:
    """The files below ``root`` that compiled code depends on, sorted.

    These are the files that use Numba, and the files of this project that they import: kernels freeze the constants
    they take from there.
    """
    sources = set()
    for package in _PACKAGES:
        for file in (root / package).rglob("*.py"):
            text = file.read_bytes()
            if any(marker in text for marker in _USES_NUMBA):
                sources.add(file)
                for module, names in _IMPORT.findall(text):
                    folder = root.joinpath(*module.decode().split("."))
                    imported = (folder / name for name in re.findall(r"\w+", names.decode()))
                    sources |= {path.with_suffix(".py") for path in (folder, *imported)}
    return (file for file in sorted(sources) if file.is_file())


@cache
def _sources_digest() -> str:
    """A digest of all kernel sources next to this file, wherever they lie."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in kernel_sources(root):
        digest.update(f"{file.relative_to(root).as_posix()}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder(user_folder: str) -> Path | None:
    """Where entry points are cached; None if nothing can be written there.

    A folder in the one that the user has set for Numba (``NUMBA_CACHE_DIR``), or else in the user's cache.
    """
    parent = Path(user_folder or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dse" / "kernels")
    folder = parent / f"dse-{_sources_digest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _cached(function: Callable[..., Any], error_model: ErrorModel) -> Any:
    # Numba reads the setting when it decorates a function. It is the user's own for functions of other packages.
    settings: Any = numba.config
    with _decorating:
        user_folder = settings.CACHE_DIR
        folder = _cache_folder(user_folder)
        settings.CACHE_DIR = str(folder or user_folder)
        try:
            return njit(cache=folder is not None, error_model=error_model, nogil=True)(function)
        finally:
            settings.CACHE_DIR = user_folder


@overload
def compiled(function: Callable[..., Any]) -> Any: ...


@overload
def compiled(*, error_model: ErrorModel) -> Callable[[Callable[..., Any]], Any]: ...


def compiled(function: Callable[..., Any] | None = None, *, error_model: ErrorModel = "python") -> Any:
    """Decorates an entry point: ``njit``, cached on disk until a kernel source changes.

    Where no cache can be written, each process compiles what it calls.

    ``error_model``: Numba's, of divisions by zero.
    """
    return partial(_cached, error_model=error_model) if function is None else _cached(function, error_model)


@overload
def kernel(function: Function) -> Function: ...


@overload
def kernel(*, error_model: ErrorModel) -> Callable[[Function], Function]: ...


def kernel(
    function: Function | None = None, *, error_model: ErrorModel = "python"
) -> Function | Callable[[Function], Function]:
    """Decorates a function that allocates nothing and is called from compiled code; Python runs it uncompiled.

    References to the arrays it is given are not counted. The counting is two atomic operations for every array of every
    tuple that is passed on: with it, a move of the placer on a fabric takes 60 to 160 µs of CPU time, not 6 to 14, and
    its compilation two to four times as long. With Numba's own inlining (``inline="always"``) instead, compiling one
    move did not end within 400 s (17 s so). Numba refuses to compile an allocation in such a function. The option,
    ``_nrt``, is the one that Numba's documentation of ``register_jitable`` gives as its example.

    ``error_model``: Numba's, of divisions by zero.
    """
    decorate: Callable[[Function], Function] = register_jitable(
        error_model=error_model, forceinline=True, no_cfunc_wrapper=True, _nrt=False
    )
    return decorate if function is None else decorate(function)


def read_only(array: Array) -> Array:
    """A view of an array that cannot be written.

    Numba compiles an entry point again for arrays that can be written. One that is given arrays of both kinds is given
    such views of all.
    """
    view = array.view()
    view.flags.writeable = False
    return view
