"""Any profile by its content: what it is, and its columns."""

import io
import shutil
import tempfile
from pathlib import Path

from dse.importer.profile.json_stream import JsonStream
from dse.importer.profile.kineto import KinetoEvents, kineto_profile
from dse.importer.profile.nsight import MAGIC, nsight_profile
from dse.importer.profile.opened import opened
from dse.importer.profile.profile import Profile
from hardware.input_files import located
from hardware.inputs import fail

_LISTS = ("traceEvents",)


def read_profile(path: str) -> Profile:
    """The profile in a file.

    Raises:
        InputError: it cannot be read, is not a profile of a known form, or is damaged.
    """
    with opened(path) as stream:
        head = stream.peek(64)
        if head.startswith(MAGIC):
            return _database_profile(stream, path)
        if head.lstrip()[:1] in (b"{", b"["):
            return _json_profile(stream, path)
    raise fail(path, "", "", "is not a profile of a known form")


def _database_profile(stream: io.BufferedReader, path: str) -> Profile:
    """SQLite reads files only: what is compressed is decompressed into a temporary one."""
    if located(path).open("rb").read(len(MAGIC)) == MAGIC:
        return nsight_profile(path, located(path))
    with tempfile.TemporaryDirectory(prefix="dse-") as folder:
        database = Path(folder) / "profile.sqlite"
        with database.open("wb") as file:
            shutil.copyfileobj(stream, file, 2**20)
        return nsight_profile(path, database)


def _json_profile(stream: io.BufferedReader, path: str) -> Profile:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace")
    document = JsonStream(text, path)
    kept = None
    for _name, entries in document.lists(_LISTS):
        kept = KinetoEvents(path)
        kept.read(entries)
    if kept is None:
        known = ", ".join(document.header) or "none"
        raise fail(path, "traceEvents", "", f"the key is missing: not a profile of PyTorch; keys: {known}")
    return kineto_profile(kept, document.header)
