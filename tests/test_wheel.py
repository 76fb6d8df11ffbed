"""An installed wheel holds every package and every data file, and imports in a clean folder."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built offline from a copy of the sources, so that no earlier build leaks into it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in ("actors", "dse", "hardware", "policies"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(source)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_imports_outside_the_checkout_and_answers(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; site = {str(tmp_path / 'site')!r}; sys.path.insert(0, site)\n"
        "import actors.ray_executor, dse, dse.codesign.answer, hardware, policies\n"
        "from dse.sources.workloads import list_models, model; from hardware.specs import accelerator\n"
        "assert all(m.__file__.startswith(site) for m in (actors, dse, hardware, policies))\n"
        "print(len([model(name) for name in list_models()]), accelerator('tpuv4').title)"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("8 TPUv4")
