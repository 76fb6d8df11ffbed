"""The site of `make docs` has a place for every page."""

import ast
import io
import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "making" / "pages.py"


def constant(name):
    """What ``name`` is set to in the script that makes the pages; the script itself needs the extra `docs`."""
    for statement in ast.parse(PAGES.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{PAGES} sets no {name}")


def test_every_chapter_is_a_folder_and_every_folder_of_pages_is_a_chapter():
    folders = {path.parent.name for path in (ROOT / "docs").glob("*/*.md")}
    assert folders <= set(constant("CHAPTERS"))
    assert all((ROOT / name).is_file() for name in constant("TOP_LEVEL"))
    assert all((ROOT / "docs" / chapter / "index.md").is_file() for chapter in folders)


def test_the_reference_covers_every_package_that_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert sorted(constant("PACKAGES")) == sorted(pattern.rstrip("*") for pattern in included)


def test_every_page_of_the_reference_is_a_module_of_a_package(monkeypatch):
    written = {}

    class Page(io.StringIO):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def close(self):
            written[self.name] = self.getvalue()
            super().close()

    def opened(name, mode):
        return io.BytesIO() if mode == "wb" else Page(name)

    monkeypatch.setitem(sys.modules, "mkdocs_gen_files", SimpleNamespace(open=opened))
    runpy.run_path(str(PAGES))
    names = re.findall(r"^::: (\S+)$", "".join(written.values()), flags=re.MULTILINE)
    assert {"dse", "dse.problem", "hardware.cost_model", "policies.learning", "actors"} <= set(names)
    folders = {"/".join(name.split(".")[:-1]) for name in names} - {""}
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def statements(node):
    """All within ``node``. No expression has a docstring in it, and most nodes are expressions."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case):
            yield inner
            yield from statements(inner)


def test_no_docstring_outside_code_reads_as_a_markdown_reference():
    """``costs[u][x]`` in plain text is a link to ``x`` for Markdown; the strict build ends at it."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    wrong = []
    for package in constant("PACKAGES"):
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "][" not in source:  # most files: to parse them all takes seconds
                continue
            tree = ast.parse(source)
            texts = [ast.get_docstring(node) or "" for node in [tree, *statements(tree)] if isinstance(node, owners)]
            wrong += [f"{path}: {text}" for text in texts if "][" in re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)]
    assert wrong == []


def test_the_build_is_strict_and_its_scripts_are_there():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert site["strict"] is True
    plugins = {
        name: settings for plugin in site["plugins"] if isinstance(plugin, dict) for name, settings in plugin.items()
    }
    scripts = plugins["gen-files"]["scripts"] + plugins["mkdocstrings"]["handlers"]["python"]["options"]["extensions"]
    assert all((ROOT / script).is_file() for script in scripts)


def test_the_index_of_a_chapter_links_its_pages():
    for chapter in ("guides", "method", "evidence", "reference"):
        folder = ROOT / "docs" / chapter
        linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text(encoding="utf-8")))
        assert linked == {path.name for path in folder.glob("*.md")} - {"index.md"}


def test_the_workflow_builds_with_make_and_publishes_what_it_built():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "docs.yml").read_text())
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [step["run"] for step in build["steps"] if "run" in step]
    assert commands == ["make docs"]
    assert {command.removeprefix("make ") for command in commands} <= targets
    [upload] = [step for step in build["steps"] if step.get("uses", "").startswith("actions/upload-pages-artifact@")]
    assert upload["with"]["path"] == yaml.safe_load((ROOT / "mkdocs.yml").read_text())["site_dir"]
    [python] = [step for step in build["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    minimum = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, python["with"]["python-version"].split("."))) >= tuple(map(int, minimum.split(".")))
    assert publish["needs"] == "build"
    assert "refs/heads/main" in publish["if"]
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == ["actions/deploy-pages"]
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert workflow["permissions"] == {"contents": "read"}


def test_every_question_leads_to_its_guide_and_from_there_to_its_evidence():
    """Two clicks from the first page to a task, one more to how far its figures can be trusted."""
    start = (ROOT / "docs" / "start" / "index.md").read_text(encoding="utf-8")
    guides = re.findall(r"\]\(\.\./guides/([\w-]+)\.md\)", start)
    without_figures = {"bring-your-own", "from-python", "check-and-share"}
    for guide in set(guides) - without_figures:
        text = (ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8")
        assert re.search(r"\]\(\.\./evidence/[\w-]+\.md", text), guide


def test_a_stub_of_a_function_does_not_hide_the_package_of_the_same_name(tmp_path):
    griffe = pytest.importorskip("griffe")
    (tmp_path / "house" / "room").mkdir(parents=True)
    (tmp_path / "house" / "__init__.py").touch()
    (tmp_path / "house" / "room" / "__init__.py").touch()
    (tmp_path / "house" / "__init__.pyi").write_text("def room() -> int: ...\ndef rooms() -> int: ...\n")
    extensions = griffe.load_extensions(str(ROOT / "docs" / "making" / "docstrings.py"))
    house = griffe.load("house", search_paths=[tmp_path], extensions=extensions)
    assert house["room"].is_module
    assert house["rooms"].is_function
