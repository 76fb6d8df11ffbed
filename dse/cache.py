"""Where results of long work are kept between runs of the same user. Everything there can be deleted at any time."""

import os
from pathlib import Path


def cache_directory(kind: str) -> Path:
    """The folder for one ``kind`` of entries (it may not exist yet).

    ``$DSE_CACHE_DIR`` if that is set, else ``dse`` in ``$XDG_CACHE_HOME`` (XDG Base Directory Specification), which is
    ``~/.cache`` by default.
    """
    chosen = os.environ.get("DSE_CACHE_DIR")
    if chosen:
        return Path(chosen) / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dse" / kind
