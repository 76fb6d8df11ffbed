"""Which files an answer was asked about: noted on every call, and read again from what was noted."""

import hashlib

from hardware.cost_model import vector_cycles
from hardware.input_files import InputFile, carried, content_of, noting, read_once
from hardware.specs import accelerator


def test_what_is_read_once_is_noted_every_time_and_read_again_where_it_changed(tmp_path):
    path, calls = tmp_path / "a.yaml", []

    @read_once
    def words(name):
        calls.append(name)
        return content_of(name).split()

    path.write_text("one two")
    for _ in range(2):
        with noting() as files:
            assert words(path) == [b"one", b"two"]
        assert {name: file.text for name, file in files.items()} == {str(path): "one two"}
    assert len(calls) == 1
    path.write_text("three")
    assert words(path) == [b"three"]
    with carried({str(path): InputFile(str(path), hashlib.sha256(b"four").hexdigest(), "four")}):
        assert words(path) == [b"four"]
    assert words(path) == [b"three"]


def test_a_built_in_spec_is_no_input():
    with noting() as files:
        vector_cycles()
        accelerator("tpuv4")
    assert files == {}


def test_a_link_to_itself_is_an_unreadable_file(dse, tmp_path):
    link = tmp_path / "layers.yaml"
    link.symlink_to(link)
    for command in ("place", "codesign", "schedule", "partition", "wafer", "check"):
        shown = dse(command, link)
        assert (shown.code, len(shown.error_lines)) == (2, 1), command
        assert shown.error_lines[0].startswith(f"error: {link}: "), command
    refused = dse("place", tmp_path / "none.json", "--out", link)
    assert refused.code == 2
