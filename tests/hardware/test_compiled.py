"""Compiled entry points are kept by the content of every file they are compiled from."""

import importlib.util

from hardware.compiled import compiled


def entry_name(path):
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)

    @compiled(module)
    def entry(value):
        return value + 1

    assert entry(2) == 3
    return entry.py_func.__qualname__


def test_a_change_in_a_called_file_changes_the_name_of_the_compiled_entry(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("FACTOR = 1\n", encoding="utf-8")
    first, again = entry_name(path), entry_name(path)
    path.write_text("FACTOR = 2\n", encoding="utf-8")
    assert first == again != entry_name(path)
