"""Versions of what an answer may depend on: this package, Python and the solver libraries."""

import importlib.metadata
import platform

import dse

LIBRARIES = ("numpy", "numba", "ortools", "pyscipopt", "ray", "rustworkx")


def versions() -> dict[str, str]:
    """Versions by name; a library that is not installed is left out."""
    installed = {"dse": dse.__version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            installed[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
