"""What texts must keep, as `make lint` checks it: words of pages and messages, lengths, sources of measured figures.

Each violation is one line, ``FILE:LINE: rule``; the exit code is 1 if there is any.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from docs.making import readme
from docs.making.figures import CODE, PLACEHOLDER, filled

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WORDS = DOCS / "contribute" / "words.yaml"
PROGRAMS = ("dse", "hardware", "policies", "actors", "benchmarks")
"""Packages whose messages and docstrings users read."""
MAX_LINES = {"guides": 120, "method": 250, "README": 120}
WITH_FIGURES = ("start", "guides", "evidence")
"""Chapters whose measured figures are read from result files."""

UNITS = r"%|×(?!\s?\d)|ns|µs|ms|s|min|h|seconds|minutes|hours|times|GB/s|TB/s|MB/s|Tflop/s|samples/s|tokens/s"
FIGURE = re.compile(rf"(?<![\w.,])\d[\d.,]*\s?(?:{UNITS})(?![\w/])")
HEADINGS = ("Command", "What you see", "How to read it", "What to change", "Where it ends")
"""Sections of a guide, in this order."""


def without_code(text: str) -> str:
    """``text`` with code blanked, line by line."""
    return CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)


def words(name: str, text: str, refused: Iterable[tuple[re.Pattern[str], str]]) -> list[str]:
    """Violations of the word list."""
    rules = list(refused)
    return [
        f"{name}:{number}: {found[0]!r}: write {better}"
        for number, line in enumerate(without_code(text).splitlines(), 1)
        for pattern, better in rules
        if (found := pattern.search(line))
    ]


def typed_figures(name: str, text: str) -> list[str]:
    """Figures with a unit of time, ratio or rate that are typed into a page."""
    bare = PLACEHOLDER.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), without_code(text))
    return [
        f"{name}:{number}: {found[0]!r}: read it from benchmarks/results, or give its source as {{{{= …; SOURCE }}}}"
        for number, line in enumerate(bare.splitlines(), 1)
        for found in FIGURE.finditer(line)
    ]


def form(name: str, chapter: str, text: str) -> list[str]:
    """Violations of a page's length and, in a guide, of its sections."""
    faults, lines = [], len(text.splitlines())
    if lines > MAX_LINES.get(chapter, lines):
        faults.append(f"{name}:{lines}: a page of {chapter} has at most {MAX_LINES[chapter]} lines, not {lines}")
    headings = tuple(re.findall(r"^## (.+)$", without_code(text), re.MULTILINE))
    if chapter == "guides" and headings != HEADINGS:
        faults.append(f"{name}:1: the sections of a guide are {', '.join(HEADINGS)}; these are {', '.join(headings)}")
    return faults


def messages(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the strings of a program, each on one line: messages, labels, help and docstrings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def message_violations(path: Path, refused: Iterable[tuple[re.Pattern[str], str]]) -> list[str]:
    """Violations of the word list in the messages and docstrings of one module."""
    name, rules = path.relative_to(ROOT).as_posix(), list(refused)
    return [
        f"{name}:{line}: {found[0]!r}: write {better}"
        for line, text in messages(path.read_text(encoding="utf-8"))
        for pattern, better in rules
        if (found := pattern.search(text))
    ]


def word_list() -> list[tuple[re.Pattern[str], str]]:
    """Patterns that are refused, each with what stands in their place."""
    pairs = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    return [(re.compile(rf"\b{pattern}\b", re.IGNORECASE), better) for pattern, better in pairs.items()]


def violations(path: Path) -> list[str]:
    """All violations of one page."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    chapter = path.relative_to(DOCS).parts[0] if path.is_relative_to(DOCS) else ""
    faults = [] if path == DOCS / "contribute" / "glossary.md" else words(name, text, word_list())
    if path.name != "index.md":
        faults += form(name, chapter, text)
    if chapter in WITH_FIGURES:
        faults += typed_figures(name, text)
    try:
        filled(text)
    except ValueError as error:
        faults.append(f"{name}:1: {error}")
    return faults


def readme_violations() -> list[str]:
    """Violations of the README, whose figures stand in its template."""
    template, text = readme.TEMPLATE.read_text(encoding="utf-8"), readme.README.read_text(encoding="utf-8")
    name = readme.TEMPLATE.relative_to(ROOT).as_posix()
    faults = [*words(name, template, word_list()), *typed_figures(name, template), *form("README.md", "README", text)]
    try:
        is_written = text == readme.text()
    except ValueError as error:
        return [*faults, f"{name}:1: {error}"]
    return faults if is_written else [*faults, f"README.md:1: run python -m docs.making.readme: {name} has changed"]


def pages() -> list[Path]:
    """The pages that people wrote."""
    return sorted(DOCS.glob("*/**/*.md"))


if __name__ == "__main__":
    found = [*readme_violations(), *(fault for path in pages() for fault in violations(path))]
    modules, refused = [path for folder in PROGRAMS for path in sorted((ROOT / folder).rglob("*.py"))], word_list()
    found += [fault for path in modules for fault in message_violations(path, refused)]
    print("\n".join(found) if found else f"{len(pages())} pages and {len(modules)} modules keep the rules of texts")
    sys.exit(bool(found))
