"""Versions of what an answer may depend on: this package, Python and the solver libraries."""

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path

from dse.version import VERSION

COMMIT, COMMIT_DIGITS = "commit", 9
"""The name of a commit among versions, and as many of its digits as are written."""

LIBRARIES = ("numpy", "numba", "ortools", "pyscipopt", "ray", "rustworkx")


def versions() -> dict[str, str]:
    """Versions by name, with the commit of a checkout; a library that is not installed is left out."""
    commit = git_revision()
    own = {"dse": VERSION} if commit is None else {"dse": VERSION, COMMIT: commit[:COMMIT_DIGITS]}
    return {**own, "python": platform.python_version(), **_libraries()}


@cache
def _libraries() -> dict[str, str]:
    """Read once per process: to find the metadata of a library takes milliseconds."""
    installed = {}
    for library in LIBRARIES:
        try:
            installed[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


@cache
def git_revision() -> str | None:
    """The commit of the checkout that the code runs from; None where it was installed, in whatever repository."""
    checkout = Path(__file__).resolve().parents[2]
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "--show-toplevel", "HEAD"],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    folder, commit = answer.stdout.splitlines()
    return commit if Path(folder).resolve() == checkout else None
