"""Compiled kernels that call kernels of other files, kept on disk safely.

Numba keeps compiled code on disk by the time stamp of the function's own file; a change in another file whose kernels
it calls goes unnoticed, and the old code runs. So only entry points are kept, under a name that carries a digest of
every file they are compiled from; the kernels they call are compiled with them.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit


def compiled(*modules: ModuleType) -> Callable[[Callable[..., Any]], Any]:
    """Decorates an entry point: ``njit``, kept on disk until its own file or one of ``modules`` changes."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"-{digest.hexdigest()[:16]}"
        return njit(cache=True, error_model="numpy")(function)

    return decorate
