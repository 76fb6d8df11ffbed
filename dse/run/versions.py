"""Versions of what an answer may depend on: this package, Python and the solver libraries."""

import importlib.metadata
import platform
from functools import cache

from dse.version import VERSION

LIBRARIES = ("numpy", "numba", "ortools", "pyscipopt", "ray", "rustworkx")


def versions() -> dict[str, str]:
    """Versions by name; a library that is not installed is left out."""
    return {"dse": VERSION, "python": platform.python_version(), **_libraries()}


@cache
def _libraries() -> dict[str, str]:
    """Read once a process: to find the metadata of a library takes milliseconds."""
    installed = {}
    for library in LIBRARIES:
        try:
            installed[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
