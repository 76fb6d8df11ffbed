"""Files that are no profile, or none that can be read: one line each, with the file and what must hold."""

import bz2
import gzip
import json
import lzma
import zipfile

import pytest

from dse.importer.profile import json_stream
from dse.importer.profile.read import read_profile
from hardware.inputs import InputError
from tests.trace.profiles import GEMM, document, event, kernel, training_step, write

GOOD = json.dumps(training_step())
STEP = event("user_annotation", "ProfilerStep#1", 1, 1)
TABLE = "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n"


def refused(path):
    with pytest.raises(InputError) as error:
        read_profile(str(path))
    (fault,) = error.value.faults
    assert str(path) in str(fault)
    assert "\n" not in str(fault)
    return str(fault)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("hello", "is not a profile of PyTorch (JSON)"),
        ("{}", "traceEvents: the key is missing"),
        ('{"layers": {}}', "traceEvents: the key is missing: not a profile of PyTorch; keys: layers"),
        (GOOD[: len(GOOD) // 2], "is cut off"),
        (GOOD[:-1], "is cut off"),
        (GOOD[:40], "is cut off"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel"}]}', "traceEvents.0"),
        ('{"traceEvents": [7]}', "traceEvents.0"),
        ('{"traceEvents": [{"ph": }, 1, 2, 3, 4, 5, 6, 7, 8, 9]}', "is not valid JSON"),
        ('{"traceEvents": [' + "[" * 100_000, "nested too deeply"),
        ('{"traceEvents": [' + "9" * 6_000 + "]}", "number too long"),
        ('{traceEvents: []}' + " " * 40, "is not valid JSON"),
        ('{"traceEvents" []}', "is not valid JSON"),
        (json.dumps(document([kernel(GEMM, 5 * 10**15, 1)])), "has times that no clock shows"),
        (json.dumps(document([kernel(GEMM, 10**30, 1)])), "traceEvents.0"),
        (json.dumps(document([kernel(GEMM, "soon", 1)])), "traceEvents.0"),
        (json.dumps(document([kernel(GEMM, 1, 1, stream="seven")])), "traceEvents.0"),
        (json.dumps(document([kernel(GEMM, 1, -1)])), "ts and dur in µs, dur at least 0"),
        (json.dumps(document([kernel(GEMM, 1, 1), kernel(GEMM, 1, 10**11)])), "none takes longer than a day"),
        (TABLE + "1,-5,1,a (0),7,k", "line 2"),
        (json.dumps(document([])), "has no kernels, copies or fills"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1e999999999}]}', "traceEvents.0"),
        (json.dumps(document([kernel(GEMM, 1, 0)])), "must have events that take time"),
        (json.dumps(document([kernel(GEMM, 1, 1)], baseTimeNanoseconds=2**70)), "has times that no clock shows"),
        (json.dumps(document([kernel(GEMM, 1, 1), STEP | {"ts": 2**60}])), "has times that no clock shows"),
        (json.dumps(document([kernel(GEMM, 1, 1), STEP | {"dur": 0}])), "must end after it begins"),
        ('{"nodes": [{"name": "nccl:all_reduce", "inputs": {"shapes": ["ab"], "types": ["Tensor(int)"]}}]}', "nodes.0"),
        (TABLE + "1e999999999,1,1,a (0),7,k", "line 2"),
        (TABLE + "Infinity,1,1,a (0),7,k", "line 2"),
        (TABLE + "1,1," + "9" * 30 + ",a (0),7,k", "line 2"),
        (TABLE + "1,1,1,a (" + "9" * 30 + "),7,k", "line 2"),
    ],
)  # fmt: skip
def test_texts(tmp_path, text, expected):
    path = tmp_path / "profile.json"
    path.write_text(text)
    assert expected in refused(path)


def test_a_file_that_is_not_there(tmp_path):
    assert "cannot be read" in refused(tmp_path / "none.json")


def test_a_compressed_file_that_is_cut_off(tmp_path):
    path = tmp_path / "profile.json.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[:-200])
    assert "is cut off or damaged" in refused(path)


def test_a_compressed_file_with_a_wrong_bit(tmp_path):
    content = bytearray(gzip.compress(GOOD.encode()))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "profile.json.gz"
    path.write_bytes(content)
    assert refused(path)


def test_other_archives(tmp_path):
    path = tmp_path / "profile.json.bz2"
    path.write_bytes(bz2.compress(GOOD.encode()))
    assert "bunzip2" in refused(path)
    path.write_bytes(lzma.compress(GOOD.encode()))
    assert "unxz" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("profile.json", GOOD)
    assert "ZIP" in refused(path)
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 20)
    assert "Zstandard" in refused(path)


@pytest.mark.parametrize("unit", [b" ", b'{"ph": "M", "name": "x"},\n'])
def test_a_compression_bomb_is_stopped(tmp_path, unit):
    path = tmp_path / "profile.json.gz"
    piece = unit * (2**20 // len(unit))
    with gzip.open(path, "wb") as stream:
        stream.write(b'{"traceEvents": [')
        for _ in range(96):
            stream.write(piece)
    assert path.stat().st_size < 2**19
    assert "expands to more than" in refused(path)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 1000])
def test_pieces_of_any_length_give_the_same_events(tmp_path, monkeypatch, piece):
    path = write(tmp_path / "profile.json", training_step())
    whole = read_profile(str(path))
    monkeypatch.setattr(json_stream, "PIECE_CHARACTERS", piece)
    assert read_profile(str(path)).texts == whole.texts
    assert read_profile(str(path)).events.start_ns.tolist() == whole.events.start_ns.tolist()


def test_text_that_is_not_utf8_is_read(tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(GOOD.replace("aten::add_", "aten::ädd_").encode("latin-1"))
    assert len(read_profile(str(path)).events) == 16
