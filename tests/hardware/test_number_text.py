"""Numbers as text are plain digits: on the command line, in lists, in plans, tables and documents."""

import pytest

from hardware.documents import parse_document, yaml_of
from hardware.inputs import InputError
from hardware.number_text import number_of, whole_number_of

NOT_PLAIN = ("1_0", "\uff11\uff10", "\u0661", "\u00b2", " 10", "10 ", "0x10", "1e", "ten", "", "--1", "1,0")


@pytest.mark.parametrize("text", [*NOT_PLAIN, "1.0", "1e3"])
def test_only_plain_digits_are_a_whole_number(text):
    with pytest.raises(ValueError, match=r".*"):
        whole_number_of(text)


@pytest.mark.parametrize("text", [*NOT_PLAIN, "inf", "nan", "1e1_0"])
def test_only_decimal_and_scientific_notation_are_a_number(text):
    with pytest.raises(ValueError, match=r".*"):
        number_of(text)


def test_plain_numbers_are_read():
    assert [whole_number_of(text) for text in ("10", "-3", "+4", "007")] == [10, -3, 4, 7]
    assert [number_of(text) for text in ("10", "-.5", "2.", "1.5e-3")] == [10.0, -0.5, 2.0, 0.0015]


@pytest.mark.parametrize("text", ["1_0", "010", "0x10", "0b11", "1:30", "1_0.5", "1:30.5", "08", "1_0e3", "1e1_0"])
def test_yaml_has_no_other_ways_of_writing_a_number(text):
    """YAML 1.1 reads the first seven as 10, 8, 16, 3, 90, 10.5 and 90.5, and the others as text."""
    with pytest.raises(InputError, match=rf"^model.yaml: line 1, column 9: .*: {text} is no .*number in plain digits$"):
        parse_document(f"layers: {text}\n", "model.yaml")


def test_yaml_has_plain_numbers():
    document = parse_document("[10, -3, +4, 0, 1.5, 1.5e+9, -0.5, 2.]\n", "model.yaml")
    assert document == [10, -3, 4, 0, 1.5, 1.5e9, -0.5, 2.0]
    assert [type(each) for each in document[:4]] == [int] * 4


@pytest.mark.parametrize("text", ["1e9", "1e-3", "1.5e3", "1E+5", "-.5", "+.5e1", "0e0"])
def test_yaml_has_the_numbers_of_json_and_of_the_command_line(text):
    """YAML 1.1 reads these as text."""
    assert parse_document(f"[{text}]\n", "model.yaml") == [number_of(text)]


@pytest.mark.parametrize("text", ["1.0.0", "e9", "1e", "1f1b", "2026-01-01", "h100", "+", "-", ".", "'1e9'", "v1_0"])
def test_yaml_has_text_that_is_no_number(text):
    assert parse_document(f"[{text}]\n", "model.yaml") == [text.strip("'")]


@pytest.mark.parametrize("text", ["1e9", "-.5", "08", "1_0e3", "1_0", "010", "1:30", "1.5", "2026-01-01", "true"])
def test_text_that_looks_like_a_number_is_written_as_text(text):
    """So that a run directory states ``--area-budget 1e3`` as it was given."""
    assert parse_document(yaml_of({"a": text}), "run.yaml") == {"a": text}


ASKED = ("codesign", "bert-large", "--fixed", "tpuv4")
COMMANDS = [
    (*ASKED, "--accelerators", "1_0"),
    (*ASKED, "--accelerators", "\uff11\uff10"),
    (*ASKED, "--microbatch", "1_0"),
    (*ASKED, "--hbm-gb", "3_2"),
    (*ASKED, "--weights", "1_0"),
    (*ASKED, "--seed", "1_0"),
    (*ASKED, "--workers", "1_0"),
    (*ASKED, "--workers", "\u00b2"),
    (*ASKED, "--workers=-1"),
    (*ASKED, "--workers", "1.0"),
    (*ASKED, "--time-limit", "1_0"),
    ("codesign", "bert-large", "--area-budget", "1_00"),
    ("wafer", "resnet50-conv", "--wdeltat", "1_0"),
    ("wafer", "resnet50-conv", "--wdeltat", "nan"),
    ("wafer", "resnet50-conv", "--sweep", "side=3_0,40"),
    ("parallel", "step.hlo", "--mesh", "data=1_0"),
    ("parallel", "step.hlo", "--mesh", "data=\u0662"),
    ("parallel", "step.hlo", "--memory-gb", "1_0"),
    ("plan", "llama3-8b", "--plan", "tensor=1_0"),
    ("models", "bert-large", "--sequence", "1_0"),
    ("reproduce", "mcm", "--samples", "1_0"),
    ("pretrain", "partition", "--out", "run", "--samples", "1_0"),
    ("pretrain", "partition", "--out", "run", "--rollouts", "1_0"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: " ".join(each[-2:]))
def test_numbers_on_the_command_line_are_plain_digits(dse, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    refused = dse(*arguments, *([] if arguments[0] == "models" else ["--quiet"]))
    assert refused.code == 2
    assert refused.out == ""
    assert len(refused.err.splitlines()) == 1, refused.err
    assert refused.err.startswith("error: ")
    assert arguments[-1].rpartition("=")[2] in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["codesign", "wafer", "parallel", "plan", "partition"])
def test_help_shows_a_range_only_where_there_is_one(dse, command):
    assert "None" not in dse(command, "--help").out
