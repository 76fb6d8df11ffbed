"""Measured figures in the pages: each is read from a result file that a benchmark has written.

A page of ``docs/`` says ``{{ plans.model.share:.1% }}`` and gets the figure ``model.share`` of
``benchmarks/results/plans.json``. The other forms::

    {{ table plans.main }}                  the table ``main`` of that file, alone on a line
    {{ source plans }}                      the command, the machine and the date of that file
    {{ lines readme.predict }}              the rows of a table of one column as lines, indented as the placeholder
    {{= 2.9 %; PHAZE, Table 2 }}            a figure that is not ours, and where it is from
    {{ fields dse.plan.model.Transformer }} the keys of a format (:mod:`docs.making.fields`), alone on a line

A result file holds ``command``, ``machine``, ``date``, and ``figures`` (nested numbers or texts), ``tables`` (by name,
``columns`` and ``rows``), or both.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs.making.fields import fields

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PLACEHOLDER = re.compile(r"\{\{(=?)\s*(.*?)\s*\}\}")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@cache
def results(name: str) -> Mapping[str, Any]:
    """A result file by its name without a suffix.

    Raises:
        ValueError: there is none, or it lacks what each must state.
    """
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in RESULTS.glob("*.json")))
        raise ValueError(f"benchmarks/results/{name}.json does not exist; there are {known or 'none'}")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    missing = {"command", "machine", "date"} - set(content)
    if missing:
        raise ValueError(f"benchmarks/results/{name}.json lacks {', '.join(sorted(missing))}")
    return content


def figure(path: str, form: str = "") -> str:
    """The figure ``FILE.KEY.KEY…`` in Python's format ``form``.

    Raises:
        ValueError: the file has no such figure.
    """
    name, *keys = path.split(".")
    value: Any = results(name).get("figures", {})
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise ValueError(f"benchmarks/results/{name}.json: figures.{'.'.join(keys)} does not exist")
        value = value[key]
    if isinstance(value, Mapping):
        raise ValueError(f"benchmarks/results/{name}.json: figures.{'.'.join(keys)} is no figure, but a group of them")
    return f"{value:{form}}" if form else f"{value:,}" if isinstance(value, int) else str(value)


def table(path: str) -> str:
    """The table ``FILE.NAME`` as Markdown.

    Raises:
        ValueError: the file has no such table, or a row has too many cells or too few.
    """
    name, _, key = path.partition(".")
    found = results(name).get("tables", {}).get(key)
    if found is None:
        raise ValueError(f"benchmarks/results/{name}.json: tables.{key} does not exist")
    columns, rows = found["columns"], found["rows"]
    uneven = next((row for row in rows if len(row) != len(columns)), None)
    if uneven is not None:
        raise ValueError(f"benchmarks/results/{name}.json: tables.{key}: {uneven} must have {len(columns)} cells")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def lines(path: str, indent: str) -> str:
    """The rows of the table ``FILE.NAME``, which has one column, as lines; all but the first with an indent.

    Raises:
        ValueError: as :func:`table`.
    """
    table(path)
    name, _, key = path.partition(".")
    return f"\n{indent}".join(str(row[0]) for row in results(name)["tables"][key]["rows"])


def source(name: str) -> str:
    """One sentence: how, where and when the figures of a file were measured."""
    content = results(name)
    return f"(`{content['command']}`; {content['machine']}; {content['date']})"


def filled(text: str) -> str:
    """``text`` with each placeholder outside of code replaced.

    Raises:
        ValueError: a placeholder names nothing, or a quoted figure has no source.
    """

    def one(found: re.Match[str]) -> str:
        quoted, content = found[1], found[2]
        if quoted:
            shown, _, origin = content.partition(";")
            if not origin.strip():
                raise ValueError(f"{found[0]}: a figure that is not ours needs a source behind a semicolon")
            return shown.strip()
        word, _, rest = content.partition(" ")
        if word == "table":
            return table(rest.strip())
        if word == "source":
            return source(rest.strip())
        if word == "lines":
            return lines(rest.strip(), found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()])
        if word == "fields":
            return fields(*rest.split())
        path, _, form = content.partition(":")
        return figure(path.strip(), form.strip())

    parts, at = [], 0
    for code in CODE.finditer(text):
        parts += [PLACEHOLDER.sub(one, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, PLACEHOLDER.sub(one, text[at:])])
