"""Compiled entry points are kept by the content of every file they are compiled from."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

from hardware.compiled import _locked, compiled, kernel, read_only

ROOT = Path(__file__).parents[2]


def compiled_entry(path):
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)

    @compiled(module, error_model="numpy")
    def entry(value):
        return value + 1

    assert entry(2) == 3
    return entry


def test_a_change_in_a_called_file_changes_the_name_of_the_compiled_entry(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("FACTOR = 1\n", encoding="utf-8")
    first, again = named(path), named(path)
    path.write_text("FACTOR = 2\n", encoding="utf-8")
    assert first == again != named(path)


def named(path):
    return compiled_entry(path).py_func.__qualname__


KERNEL = """
from hardware.compiled import _locked, compiled, kernel, read_only

@compiled()
def entry(value):
    return value + 1

assert entry(2) == 3
print(sum(entry.stats.cache_hits.values()))
"""


def test_a_copy_of_the_program_elsewhere_finds_what_is_compiled(tmp_path):
    """As the folders that a cluster gives to each version of a submitted program."""
    hits = []
    for folder in ("first", "second"):
        file = tmp_path / folder / "kernels.py"
        file.parent.mkdir()
        file.write_text(KERNEL, encoding="utf-8")
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        ran = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True, check=True)
        hits.append(int(ran.stdout))
    assert hits == [0, 1]


TOGETHER = """
import sys, time
from pathlib import Path

from hardware.compiled import _locked, compiled, kernel, read_only

@compiled()
def entry(value):
    return value + 1

here = Path(sys.argv[1])
(here / sys.argv[2]).touch()
while len(list(here.glob("ready*"))) < 2:
    time.sleep(0.001)
assert entry(2) == 3
print(sum(entry.stats.cache_hits.values()))
"""


def test_of_processes_that_want_a_kernel_at_once_one_compiles_it(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(TOGETHER, encoding="utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, file, tmp_path, f"ready-{number}"], env=environment, stdout=subprocess.PIPE)
        for number in range(2)
    ]
    assert sorted(int(process.communicate()[0]) for process in running) == [0, 1]


def test_a_cache_that_cannot_be_locked_is_used_without(tmp_path):
    (tmp_path / "file").touch()
    with _locked(tmp_path / "file" / "kernel.lock"):
        pass


def test_functions_of_others_are_kept_where_numba_keeps_them():
    @njit(cache=True)
    def other(value):
        return value + 1

    compiled_entry(__file__)
    assert numba.config.CACHE_LOCATOR_CLASSES == ""
    assert not other.stats.cache_path.endswith("/dse")


def test_a_kernel_is_compiled_once_for_all_constants_of_a_type():
    @kernel
    def scaled(value, factor, is_negative):
        return -value * factor if is_negative else value * factor

    @njit
    def entry(value):
        return scaled(value, 2, False) + scaled(value, 3, True) + scaled(value, value, value > 0)

    assert entry(5) == 5 * 2 - 5 * 3 - 5 * 5
    assert len(scaled.nopython_signatures) == 1


def test_a_kernel_is_code_of_its_callers_and_none_of_its_own():
    @kernel
    def halved(value):
        if value < 0:
            raise ValueError("negative")
        return value / 2

    @kernel
    def quartered(value):
        return halved(halved(value))

    @njit
    def entry(value):
        return quartered(value)

    assert entry(5.0) == 1.25
    with pytest.raises(ValueError, match=r"^negative$"):
        entry(-1.0)
    for inner in (halved, quartered):
        (code,) = inner.overloads.values()
        assert not code.library._codegen._engine.is_symbol_defined(code.fndesc.mangled_name)
        assert code.fndesc.mangled_name not in entry.inspect_asm((numba.float64,))


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
