"""Any profile by its content: what it is, and its columns."""

import io
import shutil
import tempfile
from pathlib import Path

from dse.importer.profile.chakra import chakra_profile, is_chakra
from dse.importer.profile.execution_trace import ExecutionTrace
from dse.importer.profile.json_stream import JsonStream
from dse.importer.profile.kineto import KinetoEvents, kineto_profile
from dse.importer.profile.nsight import MAGIC, nsight_profile
from dse.importer.profile.nsight_csv import is_table, nsight_table_profile
from dse.importer.profile.opened import opened
from dse.importer.profile.profile import Integers, Profile
from dse.importer.profile.xplane import xplane_profile
from hardware.input_files import located
from hardware.inputs import fail

_LISTS = ("traceEvents", "nodes")
_HEAD_BYTES = 2**16


_MAX_NS = 2**61
"""Of a time, and of what it is relative to: 73 years, in half of the numbers of 63 bits."""


_MAX_EVENT_NS = 86_400 * 10**9
"""Of a kernel, a copy or a fill."""


def read_profile(path: str) -> Profile:
    """The profile in a file.

    Raises:
        InputError: it cannot be read, is not a profile of a known form, or is damaged.
    """
    profile = _any_profile(path)
    times = [profile.base_ns, *(time for mark in profile.marks for time in (mark.start_ns, mark.end_ns))]
    times += [int(each) for column in (profile.events.start_ns, profile.events.end_ns) for each in _ends(column)]
    if not all(-_MAX_NS < time < _MAX_NS for time in times):
        raise fail(path, "", "", "has times that no clock shows")
    if profile.timing == "times" and profile.events.start_ns.min() == profile.events.end_ns.max():
        raise fail(path, "", "", "must have events that take time")
    lengths_ns = profile.events.end_ns - profile.events.start_ns
    if (lengths_ns < 0).any():
        raise fail(path, "", "", "has an event on a device that ends before it begins")
    longest_ns = int(lengths_ns.max(initial=0))
    if longest_ns > _MAX_EVENT_NS:
        raise fail(path, "", "", f"has an event of {longest_ns / 1e9:,.0f} s on a device: none takes longer than a day")
    for mark in profile.marks:
        if mark.end_ns <= mark.start_ns:
            raise fail(path, mark.name, "", "the step must end after it begins")
    return profile


def _ends(column: Integers) -> tuple[int, int]:
    return column.min(initial=0), column.max(initial=0)


def _any_profile(path: str) -> Profile:
    with opened(path) as stream:
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        if head.startswith(MAGIC):
            return _database_profile(stream, path)
        if head.lstrip()[:1] in (b"{", b"["):
            return _json_profile(stream, path)
        if is_table(head):
            return nsight_table_profile(stream, path)
        if is_chakra(head):
            return chakra_profile(stream, path)
        if path.endswith(".nsys-rep"):
            raise fail(path, "", "", "is a report of Nsight Systems: export it (nsys export --type sqlite)")
        if head[:1] == b"\n":  # the key of the planes of XLA
            return xplane_profile(stream, path)
    rule = "is not a profile of PyTorch (JSON), Nsight Systems (SQLite, CSV), Chakra or XLA (xplane.pb)"
    raise fail(path, "", "", rule)


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
    kept: dict[str, KinetoEvents | ExecutionTrace] = {}
    for name, entries in document.lists(_LISTS):
        kept[name] = KinetoEvents(path) if name == "traceEvents" else ExecutionTrace(path)
        kept[name].read(entries)
    for each in kept.values():
        return kineto_profile(each, document.header) if isinstance(each, KinetoEvents) else each.profile()
    known = ", ".join(document.header) or "none"
    raise fail(path, "traceEvents", "", f"the key is missing: not a profile of PyTorch; keys: {known}")
