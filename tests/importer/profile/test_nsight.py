"""Databases of Nsight Systems: what is read, and what a hostile one cannot do."""

import gzip
import sqlite3

import pytest

from dse.importer.profile import nsight as reader
from dse.importer.profile.read import read_profile
from hardware.inputs import InputError
from tests.importer.profile.databases import KERNEL, nsight


def test_kernels_copies_operators_annotations_and_steps(tmp_path):
    profile = read_profile(str(nsight(tmp_path / "one.sqlite")))
    events, operators = profile.events, profile.operators
    assert [profile.text(name) for name in events.name] == [
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "Memcpy DtoD", "gelu_kernel"
    ]  # fmt: skip
    assert events.start_ns.tolist() == [30_000, 60_000, 80_000]
    assert events.kind.tolist() == [0, 1, 0]
    assert [profile.text(operators.name[row]) if row >= 0 else "" for row in events.operator] == ["aten::mm", "", ""]
    assert profile.text(operators.shapes[0]) == "[[512, 1024], [1024, 2048]]"
    assert [profile.text(name) for name in events.annotation] == ["step 1", "load the batch", ""]
    assert [(mark.name, mark.start_ns, mark.end_ns) for mark in profile.marks] == [("step 1", 5_000, 90_000)]
    assert profile.remarks == (
        "1 of 3 device events are replays of graphs: their operators, shapes and layers are not recorded",
    )


def test_a_compressed_database_is_the_same(tmp_path):
    plain = nsight(tmp_path / "one.sqlite")
    (tmp_path / "one.sqlite.gz").write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (read_profile(str(tmp_path / name)) for name in ("one.sqlite", "one.sqlite.gz"))
    assert first.events.start_ns.tolist() == second.events.start_ns.tolist()
    assert first.texts == second.texts


def test_equal_correlations_of_two_processes_are_not_mixed(tmp_path):
    other = 88 << 24
    path = nsight(tmp_path / "one.sqlite", [
        f"INSERT INTO {KERNEL} VALUES (40000, 50000, 1, 7, 5, {other}, 2, 2, NULL)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (20000, 21000, {other + 9}, 5, 1)",
    ])  # fmt: skip
    profile = read_profile(str(path))
    of_other = profile.events.device.tolist().index(1)
    assert profile.events.operator[of_other] == -1
    assert profile.events.is_launched.tolist() == [1] * 4


def test_without_ranges_and_launches_the_kernels_are_still_read(tmp_path):
    path = nsight(tmp_path / "one.sqlite", without=("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"))
    profile = read_profile(str(path))
    assert len(profile.events) == 3
    assert profile.remarks[0].startswith("3 of 3 device events were launched before the profile began")


def refused(path):
    with pytest.raises(InputError) as error:
        read_profile(str(path))
    (fault,) = error.value.faults
    assert str(path) in str(fault)
    return str(fault)


RECURSIVE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    ("without", "statements", "expected"),
    [
        ((KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY"), [], "has no table of kernels, copies or fills"),
        ((KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY"),
         [f"CREATE VIEW {KERNEL} AS {RECURSIVE} SELECT i AS start FROM n"], "has no table of kernels, copies or fills"),
        ((KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY"),
         [f"CREATE VIRTUAL TABLE {KERNEL} USING rtree(id, start, end)"], "has no table of kernels, copies or fills"),
        ((), [f"DELETE FROM {KERNEL}", "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY"], "has no kernels, copies or fills"),
        ((), [f"UPDATE {KERNEL} SET start = 'soon'"], "must have whole numbers"),
        ((), [f"UPDATE {KERNEL} SET start = 1e30 WHERE correlationId = 6"], "must have whole numbers"),
        ((), [f"UPDATE {KERNEL} SET end = start - 1"], "must not be before start"),
        (("StringIds",), [], "StringIds: the table is missing"),
        ((), ["UPDATE StringIds SET value = printf('%.*c', 3000000, 'x') WHERE id = 1"], "too big"),
    ],
)  # fmt: skip
def test_bad_databases(tmp_path, without, statements, expected):
    assert expected in refused(nsight(tmp_path / "bad.sqlite", statements, without))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"UPDATE {KERNEL} SET start = NULL", "has events without start or end"),
        (f"ALTER TABLE {KERNEL} RENAME COLUMN end TO stop", "the column is missing"),
        (f"UPDATE {KERNEL} SET start = {-(2**63)}, end = {2**63 - 1}", "has times that no clock shows"),
        ("UPDATE NVTX_EVENTS SET end = 0 WHERE textId = 3", "step 1: the step must end after it begins"),
    ],
)
def test_times_that_are_not_there_are_not_guessed(tmp_path, statement, expected):
    assert expected in refused(nsight(tmp_path / "run.sqlite", [statement]))


def test_a_database_that_is_cut_off(tmp_path):
    path = nsight(tmp_path / "bad.sqlite")
    path.write_bytes(path.read_bytes()[: 3 * 4096])
    assert "is not a database that Nsight Systems wrote" in refused(path)
    path.write_bytes(reader.MAGIC + b"\xff" * 200)
    assert "is not a database that Nsight Systems wrote" in refused(path)


def test_computed_columns_and_triggers_are_not_run(tmp_path):
    path = nsight(tmp_path / "bad.sqlite", [
        "ALTER TABLE NVTX_EVENTS ADD COLUMN category INTEGER AS (length(hex(zeroblob(500000)))) VIRTUAL",
        f"CREATE TRIGGER each AFTER INSERT ON {KERNEL} BEGIN DELETE FROM StringIds; END",
    ])  # fmt: skip
    before = path.read_bytes()
    assert len(read_profile(str(path)).events) == 3
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.sqlite"]


def test_a_query_without_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_STEPS", 10)
    assert "interrupted" in refused(nsight(tmp_path / "one.sqlite"))


def test_nothing_is_written_to_a_database_in_use(tmp_path):
    path = nsight(tmp_path / "one.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert len(read_profile(str(path)).events) == 3
    connection.close()
