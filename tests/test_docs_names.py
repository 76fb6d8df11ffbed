"""Every name of code, path and link in the documents is one that there is."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dse", "hardware", "policies", "actors", "benchmarks", "tests")
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

_ONE_OF = "|".join(PACKAGES)
# Not a schema (dse.graph/1), a file (dse.yaml) or a part of a longer path.
NAME = re.compile(rf"(?<![\w./-])(?:{_ONE_OF})(?:\.[A-Za-z_]\w*)+(?![\w/])(?!\.\w)")
PATH = re.compile(rf"(?<![\w./-])(?:{_ONE_OF}|docs)(?:/[\w.-]+)+")
CODE = re.compile(r"```.*?```|`[^`\n]+`|^ {4}[^\n]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
CLASS = re.compile(r"(?:[A-Z][a-z]+){2,}")
FILE = re.compile(r"[a-z_]+\.py")
TEST = re.compile(r"(?<![\w./-])(tests/[\w./-]+\.py)::(\w+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROLE = re.compile(rf":(?:mod|func|class|data|meth|attr):`~?((?:{_ONE_OF})(?:\.\w+)*)`")


def resolves(name):
    """Whether a dotted name is a module, or an attribute of one, of an instance's class included."""
    words = name.split(".")
    for end in range(len(words), 0, -1):
        module = ".".join(words[:end])
        try:
            if importlib.util.find_spec(module) is None:
                continue
        except ModuleNotFoundError:
            continue
        rest = words[end:]
        if not rest:
            return True
        value = importlib.import_module(module)
        for word in rest:
            if word in getattr(value, "__dataclass_fields__", {}) or word in getattr(value, "__annotations__", {}):
                return True
            if not hasattr(value, word):
                return False
            value = getattr(value, word)
        return True
    return False


def slugs(text):
    """Anchors of the headings of a document, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+?)\s*$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def unresolved(text):
    """Names, paths, tests and classes in code of ``text`` that do not exist."""
    code = " ".join(CODE.findall(text))
    names = {name for name in NAME.findall(code) if not resolves(name)}
    paths = {path for path in PATH.findall(code) if not (ROOT / path.rstrip(".")).exists()}
    defined = {name for path in SOURCES for name in re.findall(r"^class (\w+)", path.read_text(), flags=re.MULTILINE)}
    classes = {span for span in SPAN.findall(text) if CLASS.fullmatch(span) and span not in defined}
    known = {path.name for path in (*SOURCES, *(ROOT / "docs").rglob("*.py"))}
    files = {span for span in SPAN.findall(text) if FILE.fullmatch(span) and span not in known}
    tests = {f"{path}::{name}" for path, name in TEST.findall(code) if not defines(ROOT / path, name)}
    return sorted(names | paths | classes | files | tests)


def defines(path, name):
    """Whether a file of tests has a test called ``name``; where there is no file, that is said elsewhere."""
    return not path.exists() or f"\ndef {name}(" in path.read_text(encoding="utf-8")


def broken_links(path, text):
    """Relative links of a document to files or headings that there are not."""
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        if not linked.exists() or (anchor and anchor not in slugs(linked.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_and_paths_in_code_exist(path):
    assert unresolved(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(path):
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_cross_references_in_docstrings_exist():
    broken = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in ROLE.findall(path.read_text(encoding="utf-8"))
        if not resolves(name)
    ]
    assert broken == []


def test_what_does_not_exist_is_reported(tmp_path):
    """The checks themselves: each kind of reference once right, once wrong."""
    right = (
        "`dse.partition.problem.PartitionGraph.names`, `python -m benchmarks.measured`, schema `dse.graph/1`,"
        " `hardware/specs`, `PartitionGraph`, `check.py`,"
        " `tests/test_docs_names.py::test_what_does_not_exist_is_reported`\n\n"
        "    from dse.run.executor import Executor\n"
    )
    assert unresolved(right) == []
    spans = (
        "tests/test_docs_names.py::test_nothing",
        "NoSuchThing",
        "dse.partition.constraints.Sampler",
        "dse/partition/nowhere.py",
        "no_file.py",
    )
    wrong = " ".join(f"`{span}`" for span in spans) + "\n\n    import dse.nowhere\n"
    assert unresolved(wrong) == sorted([*spans, "dse.nowhere"])
    page = tmp_path / "page.md"
    page.write_text("# A heading: `one`\n")
    links = "[a](page.md) [b](#a-heading-one) [c](https://example.org/x) [d](none.md) [e](page.md#two)"
    assert broken_links(page, links) == ["none.md", "page.md#two"]
