"""The distribution's name: another than ``dse``, which is someone else's project on PyPI, and the same everywhere."""

import re
import tomllib
from pathlib import Path

from dse.importer import libraries
from dse.version import DISTRIBUTION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_project_and_its_own_extras_bear_the_distributions_name():
    own = [requirement for requirement in PROJECT["optional-dependencies"]["test"] if "learn" in requirement]
    assert PROJECT["name"] == DISTRIBUTION != "dse"
    assert own == [f"{DISTRIBUTION}[jax,learn,models,onnx]"]


def test_every_hint_installs_an_extra_of_this_project():
    files = [
        file
        for pattern in ("*.md", "docs/*.md", "dse/**/*.py", "hardware/**/*.py", "policies/**/*.py", "actors/**/*.py")
        for file in ROOT.glob(pattern)
    ]
    hints = {
        hint
        for file in files
        for hint in re.findall(r"pip install (?:-e )?['\"]([^'\"]+\[[^'\"]+\])['\"]", file.read_text(encoding="utf-8"))
    }
    names = {hint.partition("[")[0] for hint in hints}
    lists = {hint.partition("[")[2].rstrip("]") for hint in hints} - {"{extras}"} | {*libraries._EXTRAS.values()}
    extras = {extra for each in lists for extra in each.split(",")}
    assert names <= {"{DISTRIBUTION}", DISTRIBUTION, "."}
    assert {"learn", "models", "onnx"} <= extras <= set(PROJECT["optional-dependencies"])


def test_the_version_is_said_without_an_installation(dse):
    assert dse("--version").out == f"dse {__import__('dse').__version__}\n"
