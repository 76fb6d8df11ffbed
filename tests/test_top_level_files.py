"""The files at the top of the repository agree with the project and with each other."""

import json
import re
import tomllib
from pathlib import Path

import yaml

import dse

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(name):
    """The instructions of the Dockerfile with that name, each as its words; continued lines are one."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split()[1:] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_no_package_that_an_installer_fetched_lies_at_the_top():
    assert not list(ROOT.glob("*.whl"))


def test_the_image_copies_files_that_are_there_and_all_that_an_installation_needs():
    sources = [source for *copied, _folder in instructions("COPY") for source in copied]
    assert all((ROOT / source).exists() for source in sources)
    packages = {pattern.rstrip("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    named = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml", "Makefile"}
    assert packages | named <= set(sources)


def test_the_image_is_of_a_python_that_the_project_takes_and_runs_targets_of_the_makefile():
    [(image, *_)] = [words for words in instructions("FROM") if ":" in words[0]]
    version = image.removeprefix("python:").removesuffix("-slim")
    assert PROJECT["project"]["requires-python"] == f">={version}"
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {words[1] for words in instructions("RUN") if words[0] == "make"} == {"run", "test"} <= targets


def test_the_command_of_the_image_is_one_of_dse(dse):
    [words] = instructions("CMD")
    program, *arguments = json.loads(" ".join(words))
    assert program == ".venv/bin/dse"
    assert dse(*arguments, "--help").code == 0


def test_nothing_that_the_image_copies_is_ignored():
    ignored = [line.rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines()]
    assert not {"tests", "benchmarks", "docs", "data", "*.md"} & set(ignored)


def test_changelog_and_citation_name_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1] == (dse.__version__, str(citation["date-released"]))
    assert citation["version"] == dse.__version__
    assert citation["license"] == PROJECT["project"]["license"]
