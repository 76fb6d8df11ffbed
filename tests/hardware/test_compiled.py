"""Entry points are cached until a file that they are compiled from changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

import hardware.compiled
from hardware.compiled import kernel, kernel_sources, read_only

ROOT = Path(__file__).parents[2]

CALLER = """
from dse.callee import doubled
from hardware.compiled import compiled

@compiled
def entry(value):
    return doubled(value)

print(entry(10), sum(entry.stats.cache_hits.values()))
"""
CALLEE = """
from dse.numbers import FACTOR
from hardware.compiled import kernel

@kernel
def doubled(value):
    return FACTOR * value
"""


@pytest.fixture
def copied_tree(tmp_path):
    """A tree with an entry point, a kernel in another file, and a constant in a third."""
    texts = {"caller.py": CALLER, "callee.py": CALLEE, "numbers.py": "FACTOR = 2\n"}
    for name, text in texts.items():
        file = tmp_path / "tree" / "dse" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "tree" / "hardware").mkdir()
    for package in ("dse", "hardware"):  # one without this file would come after the installed one
        (tmp_path / "tree" / package / "__init__.py").touch()
    shutil.copy(hardware.compiled.__file__, tmp_path / "tree" / "hardware")
    return tmp_path / "tree"


def printed(tree, cache):
    """What the entry point returns, and how often it was taken from the cache, in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "dse.caller"]
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in ran.stdout.split()]


def test_a_change_in_a_called_file_or_in_a_constant_is_noticed(copied_tree, tmp_path):
    cache = tmp_path / "cache"
    assert [printed(copied_tree, cache) for _ in range(2)] == [[20, 0], [20, 1]]
    callee = copied_tree / "dse" / "callee.py"
    callee.write_text(CALLEE.replace("FACTOR * value", "FACTOR * value + 1"), encoding="utf-8")
    assert [printed(copied_tree, cache) for _ in range(2)] == [[21, 0], [21, 1]]
    (copied_tree / "dse" / "numbers.py").write_text("FACTOR = 3\n", encoding="utf-8")
    assert printed(copied_tree, cache) == [31, 0]


def test_where_no_cache_can_be_written_entry_points_are_compiled_without(copied_tree, tmp_path):
    (tmp_path / "file").touch()
    assert [printed(copied_tree, tmp_path / "file" / "cache") for _ in range(2)] == [[20, 0], [20, 0]]
    assert not list(copied_tree.rglob("*.nbi"))


OTHER = """
from pathlib import Path
import dse.callee
from numba import njit

@njit(cache=True)
def entry(value):
    return value + 1

print(entry(1), int(Path(entry.stats.cache_path).parent.name == "cache"))
"""


def test_the_cache_is_in_the_folder_that_the_user_has_set_for_numba(copied_tree, tmp_path):
    printed(copied_tree, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.name.startswith("dse-")
    # Functions of others are cached where Numba keeps them.
    (copied_tree / "dse" / "caller.py").write_text(OTHER, encoding="utf-8")
    assert printed(copied_tree, tmp_path / "cache") == [2, 1]


def test_kernel_sources_hold_all_kernels_and_what_they_import():
    sources = {file.relative_to(ROOT).as_posix() for file in kernel_sources(ROOT)}
    assert "dse/fabric/search/anneal_kernels.py" in sources
    assert "dse/fabric/search/move_state.py" in sources, "constants of kernels; Numba is not mentioned there"
    assert not [name for name in sources if name.startswith("dse/cli/")]


def test_a_kernel_raises_what_it_would_in_python():
    @kernel
    def halved(value):
        if value < 0:
            raise ValueError("negative")
        return value / 2

    @njit
    def entry(value):
        return halved(halved(value))

    assert entry(5.0) == 1.25 == halved(halved(5.0))
    with pytest.raises(ValueError, match=r"^negative$"):
        entry(-1.0)


def test_a_kernel_that_allocates_is_refused():
    @kernel
    def ones(count):
        return np.ones(count)

    @njit
    def entry(count):
        return ones(count).sum()

    with pytest.raises(numba.TypingError, match="No implementation of function"):
        entry(3)


def test_an_entry_point_that_is_given_read_only_views_is_compiled_once():
    @njit
    def total(values):
        return values.sum()

    values = np.arange(4.0)
    shared = np.arange(4.0)
    shared.flags.writeable = False
    assert total(read_only(values)) == total(read_only(shared)) == 6
    assert len(total.signatures) == 1
    assert values.flags.writeable
