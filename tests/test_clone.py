"""A clone is enough: what tests and benchmarks read is in the repository, once, with its source."""

import hashlib
import re
from pathlib import Path

import pytest

from benchmarks import DATA as BENCHMARKS
from tests.shared_data import DATA as TESTS

ROOT = Path(__file__).parents[1]


def files(*folders):
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def test_no_data_file_is_there_twice():
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files(TESTS, BENCHMARKS)]
    assert len(digests) == len(set(digests)) > 40


@pytest.mark.parametrize("folder", [TESTS, BENCHMARKS], ids=["tests", "benchmarks"])
def test_every_data_file_has_its_source_and_licence_beside_it(folder):
    rows = re.findall(
        r"^\| `([^`]+)`[^|]*\|[^|]+\|([^|]+)\|([^|]+)\|$", (folder / "README.md").read_text(), re.MULTILINE
    )
    listed = {path for pattern, *_ in rows for path in folder.glob(pattern)}
    licences = {folder / path for *_, licence in rows for path in re.findall(r"`([^`]+)`", licence)}
    assert listed | licences | {folder / "README.md"} == set(files(folder))
    assert all(maker.strip() and licence.strip() for _, maker, licence in rows)


def test_nothing_outside_the_checkout_is_read():
    sources = [path for folder in (TESTS.parent, BENCHMARKS.parent) for path in folder.rglob("*.py")]
    beyond = re.compile(r'shared" / "data|DSE_SHARED|parents\[2\] / "shared')
    assert [path.name for path in sources if path != Path(__file__) and beyond.search(path.read_text())] == []
