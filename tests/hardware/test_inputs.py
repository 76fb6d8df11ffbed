import gzip
import re
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from hardware.documents import bytes_of, parse_document, read_document, text_of, yaml_of
from hardware.inputs import MAX_FAULTS, Fault, InputError, choose, nearest, shown, validate


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size_bytes: int = Field(gt=0)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["tensor", "vector"]
    parts: list[Inner] = []
    named: dict[str, Inner] = {}
    weights: tuple[Annotated[float, Field(ge=0)], ...] = Field((1.0,), min_length=1, max_length=2)
    is_fused: bool = False


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({}, "f: kind: the key is missing"),
        ({"kind": "tensr"}, "did you mean tensor?"),
        (
            {"kind": "tensor", "parst": []},
            "f: parst: unknown key; known: is_fused, kind, named, parts, weights (did you mean parts?)",
        ),
        ({"kind": "tensor", "parts": [{"size_bytes": 0}]}, "f: parts.0.size_bytes: 0: must be greater than 0"),
        ({"kind": "tensor", "parts": [{"size_byte": 1}]}, "(did you mean size_bytes?)"),
        ({"kind": "tensor", "named": {"a": {"x": 1}}}, "f: named.a.size_bytes: the key is missing"),
        ({"kind": 1, "parts": 3}, "f: parts: 3: must be a list"),
        ({"kind": "tensor", "named": []}, "f: named: []: must be a mapping of keys to values"),
        ({"kind": "tensor", "parts": [{"size_bytes": 1.5}]}, "f: parts.0.size_bytes: 1.5: must be a whole number"),
        ({"kind": "tensor", "weights": []}, "f: weights: []: must not be empty"),
        ({"kind": "tensor", "weights": [-0.5]}, "f: weights.0: -0.5: must be at least 0"),
        ({"kind": "tensor", "weights": [1, 2, 3]}, "f: weights: [1, 2, 3]: must have at most 2 entries, but has 3"),
        ({"kind": "tensor", "is_fused": "maybe"}, "f: is_fused: maybe: must be true or false"),
        ([1], "f: [1]: the document must be a mapping of keys to values"),
    ],
)
def test_faults_name_file_key_value_and_rule(document, line):
    with pytest.raises(InputError) as caught:
        validate(Outer, document, "f")
    assert any(line in str(fault) for fault in caught.value.faults), str(caught.value)


def test_a_list_is_not_too_short_because_its_parts_are_wrong():
    with pytest.raises(InputError) as caught:
        validate(Outer, {"kind": "tensor", "weights": ["a"]}, "f")
    assert [str(fault) for fault in caught.value.faults] == ["f: weights.0: a: must be a number"]


def test_of_many_names_the_nearest_are_listed():
    names = [f"layer{number:02}/attention/{name}" for number in range(40) for name in ("query", "key", "value")]
    with pytest.raises(InputError) as caught:
        choose("f", "--why", "layer07/attention/qurey", names, "argument")
    (fault,) = caught.value.faults
    assert str(fault).startswith(
        "f: --why: layer07/attention/qurey: no argument of this name; the nearest of 120 known names: "
    )
    assert fault.suggestion == "layer07/attention/query"
    assert fault.suggestion in fault.rule
    assert len(str(fault)) < 300


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "line 1, column 2"),
        ("a.json", '{"a": 1, "a": 2}', "a: the key appears twice"),
        ("a.json", '{"a": NaN}', "NaN: is not a JSON number"),
        ("a.json", "", "not well-formed JSON"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "a: [1", "not well-formed YAML"),
        ("a.yaml", "a: 1\na: 2", "the key a appears twice"),
        ("a.yaml", "a: !!python/object:os.system x", "not well-formed YAML"),
    ],
)
def test_malformed_text_is_one_line(name, text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_document(text, name)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_document(tmp_path / "none.json")
    with pytest.raises(InputError, match="directory"):
        read_document(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_document(tmp_path / "binary.json")


def test_control_characters_are_refused_with_their_line(tmp_path):
    (tmp_path / "case.kgraph").write_text("first\r\n\tsecond\x00")
    with pytest.raises(InputError, match=r"case\.kgraph: line 2: text must not contain the character U\+0000"):
        text_of(tmp_path / "case.kgraph")


def test_a_name_that_is_continued_is_nearer_than_one_that_is_like_it():
    assert nearest("H100", ["v100", "h100-sxm-80gb", "h100-sxm"]) == "h100-sxm"
    assert nearest("a", ["a100-80gb"]) is None


def test_nearest_name_is_offered():
    with pytest.raises(InputError, match=r"did you mean bert-large\?"):
        choose("dse", "model", "bert_large", ["bert-large", "gpt3-175b"], "model")


@given(st.text())
def test_shown_values_stay_on_one_short_line(text):
    assert len(shown(text)) <= 60
    assert "\n" not in shown(text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: !!bool x", "line 1, column 4: .*is no boolean"),
        ("a.yaml", "a: !!int ''", "is no whole number"),
        ("a.yaml", "a: !!timestamp x", "not well-formed YAML"),
        ("a.yaml", "a: !!set {a}", "not well-formed YAML"),
        ("a.yaml", "a: &a [*a]", r"a\.0: the value must not contain itself"),
        ("a.yaml", "a: {b: {1.5: 2}}", r"a\.b: 1\.5: a key must be text"),
        ("a.yaml", "a: .inf", "a: inf: numbers must be finite"),
        ("a.yaml", "a: " + "9" * 400, "a: a number must be below 1e308"),
        ("a.yaml", "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(200)), "too deeply"),
        ("a.yaml", "a0: &a0 x\n" + "".join(f"a{i + 1}: &a{i + 1} [{f'*a{i},' * 9}]\n" for i in range(9)), "values"),
        ("a.json", '{"a": [1e999]}', r"a\.0: inf: numbers must be finite"),
        ("a.json", '{"a": "\\ud800"}', r"U\+D800"),
        ("a.json", '{"a": "\\u001b[31m"}', r"U\+001B"),
        ("a.json", "[" * 150 + "]" * 150, "too deeply; the limit is 100 levels"),
    ],
)
def test_a_document_holds_only_values_that_every_reader_can_take(name, text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_document(text, name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_date_in_yaml_is_text():
    assert parse_document("a: 2020-01-01", "a.yaml") == {"a": "2020-01-01"}


def test_on_and_off_in_yaml_are_text_and_yes_and_no_are_booleans():
    text = "on: [off, On, yes, no, true, false]"
    assert parse_document(text, "a.yaml") == {"on": ["off", "On", True, False, True, False]}
    assert parse_document(yaml_of({"on": "off"}), "a.yaml") == {"on": "off"}


@given(st.text(), st.text(), st.text(), st.text())
def test_a_fault_is_one_printable_line_of_limited_length(file, key, value, rule):
    line = str(Fault(file * 100, key * 100, value * 100, rule * 100, value * 100))
    assert line.isprintable()
    assert len(line) < 2_000


def test_no_more_faults_are_drawn_than_are_listed():
    drawn = []

    def faults():
        for number in range(10_000):
            drawn.append(number)
            yield Fault("f", f"k{number}", "", "unknown key")

    error = InputError(faults())
    assert len(error.faults) == len(drawn) == MAX_FAULTS + 1
    assert "more than 50 faults" in str(error.faults[-1])


def test_a_file_beyond_the_limit_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b" " * 20)
    assert bytes_of(tmp_path / "a.json", 20) == b" " * 20
    with pytest.raises(InputError, match="is larger than"):
        bytes_of(tmp_path / "a.json", 19)


def test_a_packed_file_is_read_as_what_it_holds(tmp_path):
    packed = gzip.compress(b'{"a": ') + gzip.compress(b"[1]}")  # of two members
    (tmp_path / "a.json.gz").write_bytes(packed)
    assert read_document(tmp_path / "a.json.gz") == {"a": [1]}


@pytest.mark.parametrize("end", range(2, 26))
def test_a_packed_file_that_is_not_whole_is_refused(tmp_path, end):
    packed = gzip.compress(b"[1, 2]")
    assert len(packed) == 26
    (tmp_path / "a.json.gz").write_bytes(packed[:end])
    with pytest.raises(InputError, match=r"gzip file|well-formed"):
        read_document(tmp_path / "a.json.gz")


def test_a_packed_file_of_other_bytes_is_refused(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"[1, 2]") + b"more")
    with pytest.raises(InputError, match="not a valid gzip file"):
        read_document(tmp_path / "a.json.gz")


def test_a_packed_file_that_holds_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hardware.documents.MAX_FILE_BYTES", 1000)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b" " * 999 + b"1"))
    assert read_document(tmp_path / "a.json.gz") == 1
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b" " * 1000 + b"1"))
    with pytest.raises(InputError, match="contains more than"):
        read_document(tmp_path / "a.json.gz")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[1, 2, 3, 4, 5]", "contains more than 4 "),
        ("[[1, 2], [3]]", "contains more than 4 values, the limit"),
        ('{"a": "\\b"}', "must not contain the character U+0008"),
        ("[1e999]", "numbers must be finite"),
        (f"[{10**308}]", "a number must be below 1e308"),
        ("[" * 101 + "]" * 101, "is nested too deeply"),
        ("[[1, 2], 3]", "contains more than 4 values, the limit"),
    ],
)
def test_a_document_of_json_that_breaks_a_limit_is_refused(monkeypatch, text, rule):
    monkeypatch.setattr("hardware.documents.MAX_VALUES", 4 if "more than" in rule else 1000)
    with pytest.raises(InputError, match=re.escape(rule)):
        parse_document(text, "x.json")
