"""A wheel holds every module and data file, and answers where it is installed, without the checkout."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.shared_data import shared_data

ROOT = Path(__file__).parents[1]
PACKAGES = ("actors", "dse", "hardware", "policies")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the sources, so that no earlier build leaks into one."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """Built offline."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """``installed(*arguments)``: what Python prints with the installed wheel and its dependencies alone."""
    site = tmp_path_factory.mktemp("site")
    install = (*PIP, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", site, wheel)
    subprocess.run(install, check=True, capture_output=True)

    def ran(*arguments):
        command, environment = [sys.executable, "-P", *map(str, arguments)], {**os.environ, "PYTHONPATH": str(site)}
        answer = subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return ran


def test_a_wheel_holds_every_file_of_the_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.partition("/")[0] in PACKAGES}
    files = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    assert held == {path.as_posix() for path in files if "__pycache__" not in path.parts and path.suffix != ".md"}


def test_an_editable_installation_is_a_path_that_type_checkers_follow(source, tmp_path):
    code = f"import setuptools.build_meta as backend; backend.build_editable({str(tmp_path)!r})"
    subprocess.run((sys.executable, "-c", code), cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        (path,) = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert archive.read(path).decode().split() == [str(source)]


def test_every_package_of_an_installed_wheel_imports(installed):
    code = (
        "import importlib, json, pkgutil\n"
        f"modules = [importlib.import_module(name) for name in {PACKAGES}]\n"
        "for root in tuple(modules):\n"
        "    packages = [m.name for m in pkgutil.walk_packages(root.__path__, root.__name__ + '.') if m.ispkg]\n"
        "    modules += map(importlib.import_module, packages)\n"
        "print(json.dumps({module.__name__: module.__file__ for module in modules}))"
    )
    imported = json.loads(installed("-c", code))
    assert not any(Path(file).is_relative_to(ROOT) for file in imported.values())
    assert set(imported) == {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }


def test_an_installed_wheel_answers_and_checks(installed, tmp_path):
    case = shared_data("placement", "01_bertlarge_24L_mb8_hbm32.json")
    expected = json.loads(case.with_suffix(".expected.json").read_text())
    result = tmp_path / "result.json"
    result.write_text(installed("-m", "dse", "place", case, "--json"))
    assert json.loads(result.read_text())["objective"]["value"] == pytest.approx(expected["batch_s"], rel=1e-9)
    assert "ok" in installed("-m", "dse", "check", result, case)
    assert "bert-large" in installed("-m", "dse", "models")
