"""The rules of the documentation: what `make lint` refuses, and how figures come into pages."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from docs.making import figures, lint
from docs.making.fields import fields


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder with one result file."""
    content = {
        "command": "python -m benchmarks.none",
        "machine": "two cores",
        "date": "2026-01-02",
        "figures": {"seconds": 3.14159, "model": {"share": 0.125, "plans": 12345}},
        "tables": {
            "main": {"columns": ["a", "b"], "rows": [["x|y", 1234], [None, 0.5]]},
            "uneven": {"columns": ["a"], "rows": [[1, 2]]},
        },
    }
    (tmp_path / "none.json").write_text(json.dumps(content))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    figures.results.cache_clear()
    yield
    figures.results.cache_clear()


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ none.seconds:.1f }} s", "3.1 s"),
        ("{{ none.model.share:.1%}} of {{ none.model.plans }}", "12.5% of 12,345"),
        ("{{= 2.9 %; PHAZE, Table 2 }} and `{{ none.seconds }}`", "2.9 % and `{{ none.seconds }}`"),
        ("{{ table none.main }}", "| a | b |\n| --- | --- |\n| x\\|y | 1,234 |\n| – | 0.5 |"),
        ("{{ source none }}", "(`python -m benchmarks.none`; two cores; 2026-01-02)"),
    ],
)
def test_placeholders_are_read_from_result_files(text, shown):
    assert figures.filled(text) == shown


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ nowhere.seconds }}", "benchmarks/results/nowhere.json does not exist; there are none"),
        ("{{ none.minutes }}", "benchmarks/results/none.json: figures.minutes does not exist"),
        ("{{ none.model }}", "figures.model is no figure, but a group"),
        ("{{ table none.other }}", "tables.other does not exist"),
        ("{{ table none.uneven }}", r"tables.uneven: \[1, 2\] must have 1 cells"),
        ("{{= 2.9 % }}", "needs a source"),
    ],
)
def test_a_placeholder_that_names_nothing_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        figures.filled(text)


class Inner(BaseModel):
    """What a list holds.

    Attributes:
        kind: one of |two|,
            with a second line.
    """

    kind: Annotated[Literal["a", "b"], Field(alias="type")]


@dataclass
class Outer:
    """A format.

    Attributes:
        parts: each :class:`Inner`.
        low, high: bounds.
        note: for people.
    """

    parts: list[Inner]
    low: float
    high: float
    note: str | None = None


class Silent(BaseModel):
    """Says nothing of its keys."""

    key: int


def test_keys_of_a_format_are_those_of_its_classes_with_what_their_docstrings_say():
    module = f"{__name__}."
    assert fields(module + "Outer", module + "Inner") == (
        "**Outer**: A format.\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
        "| `parts` | list of Inner | required | each `Inner` |\n"
        "| `low`, `high` | number | required | bounds |\n"
        "| `note` | text |  | for people |\n\n"
        "**Inner**: What a list holds.\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
        "| `type` | `a`, `b` | required | one of \\|two\\|, with a second line |"
    )
    with pytest.raises(ValueError, match="Silent: its docstring does not say what key is"):
        fields(module + "Silent")
    with pytest.raises(ValueError, match="nothing is not a pydantic model"):
        fields(module + "nothing")


def test_typed_figures_are_found_and_sizes_and_code_are_not():
    text = "It takes 3.5 s.\nOn 80 GB with 8 chips.\n`12 %` and {{ none.x:.1f }} %\n```\n5 ms\n```\n1.14 × as fast, 12%"
    found = lint.typed_figures("page.md", text)
    assert [(line.split(":")[1], line.split("'")[1]) for line in found] == [
        ("1", "3.5 s"),
        ("7", "1.14 ×"),
        ("7", "12%"),
    ]


def test_words_of_the_list_are_refused_with_what_to_write():
    found = lint.words("page.md", "Fine.\nActivations are Made again.\n`made again`", lint.word_list())
    assert found == ["page.md:2: 'Made again': write recomputed"]


def test_a_guide_has_its_sections_and_no_more_lines_than_allowed():
    sections = "".join(f"\n## {heading}\n" for heading in lint.HEADINGS)
    assert lint.form("g.md", "guides", f"# Q\n{sections}") == []
    assert "sections of a guide" in lint.form("g.md", "guides", "# Q\n\n## Command\n")[0]
    assert "at most 120 lines, not 135" in lint.form("g.md", "guides", f"# Q\n{sections}" + "x\n" * 124)[0]
    assert lint.form("m.md", "method", "# Model\n") == []


@pytest.mark.parametrize("path", lint.pages(), ids=lambda path: path.relative_to(lint.DOCS).as_posix())
def test_pages_keep_the_rules(path):
    assert lint.violations(path) == []


@pytest.mark.usefixtures("results")
def test_lines_are_indented_as_their_placeholder(tmp_path):
    content = json.loads((tmp_path / "none.json").read_text())
    content["tables"]["printed"] = {"columns": ["output"], "rows": [["first"], [" second"]]}
    (tmp_path / "none.json").write_text(json.dumps(content))
    assert figures.filled("It prints\n\n    {{ lines none.printed }}\n") == "It prints\n\n    first\n     second\n"


def test_the_readme_is_what_its_template_and_the_result_files_come_to():
    assert lint.readme_violations() == []


def test_a_readme_of_other_figures_and_a_template_with_typed_ones_are_found(tmp_path, monkeypatch):
    template, written = tmp_path / "readme.template", tmp_path / "README.md"
    template.write_text("# dse\n\nIt takes {{ plans.largest_s }}, not 3 s.\n")
    written.write_text("# dse\n\nIt takes 99 s, not 3 s.\n" + "\n" * 200)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint.readme, "TEMPLATE", template)
    monkeypatch.setattr(lint.readme, "README", written)
    typed, long, other = lint.readme_violations()
    assert typed.startswith("readme.template:3: '3 s'")
    assert "at most 120 lines" in long
    assert other == "README.md:1: run python -m docs.making.readme: readme.template has changed"
