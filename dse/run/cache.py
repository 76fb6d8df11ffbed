"""Where results of long work are stored between runs of one user. Everything there can be deleted at any time."""

import hashlib
import os
from functools import cache
from pathlib import Path
from types import ModuleType


def cache_directory(kind: str) -> Path:
    """The folder for one ``kind`` of entries (it may not exist yet).

    ``$DSE_CACHE_DIR`` if that is set, else ``dse`` in ``$XDG_CACHE_HOME`` (XDG Base Directory Specification), which is
    ``~/.cache`` by default.
    """
    chosen = os.environ.get("DSE_CACHE_DIR")
    if chosen:
        return Path(chosen) / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dse" / kind


@cache
def source_digest(*packages: ModuleType) -> str:
    """SHA-256 of every Python and YAML file of ``packages``, part of the names of entries that depend on code.

    All of this project takes about 25 ms, once in a process: it runs what it has loaded, whatever becomes of the files.
    """
    digest = hashlib.sha256()
    for package in packages:
        for folder in package.__path__:
            for path in sorted(Path(folder).rglob("*")):
                if path.suffix in (".py", ".yaml"):
                    digest.update(path.read_bytes())
    return digest.hexdigest()
