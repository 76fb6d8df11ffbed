"""Any profile by its content: what it is, and its columns."""

import io

from dse.importer.profile.json_stream import JsonStream
from dse.importer.profile.kineto import KinetoEvents, kineto_profile
from dse.importer.profile.opened import opened
from dse.importer.profile.profile import Profile
from hardware.inputs import fail

_LISTS = ("traceEvents",)


def read_profile(path: str) -> Profile:
    """The profile in a file.

    Raises:
        InputError: it cannot be read, is not a profile of a known form, or is damaged.
    """
    with opened(path) as stream:
        if stream.peek(64).lstrip()[:1] in (b"{", b"["):
            return _json_profile(stream, path)
    raise fail(path, "", "", "is not a profile of a known form")


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
