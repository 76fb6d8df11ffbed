"""The rules of the house: floors, quick start, and what a lower floor may import."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(name.split('.')[0] for name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_help_imports_nothing_heavy():
    loaded = modules_after("from click.testing import CliRunner; from dse.cli import group; CliRunner().invoke(group)")
    assert not loaded & {"numpy", "numba", "ray", "torch", "ortools", "pyscipopt", "plotly", "pydantic", "rich"}


def test_the_engine_needs_neither_torch_nor_ray():
    everything = "import pkgutil, importlib, dse, hardware\n" + "\n".join(
        f"[importlib.import_module(m.name) for m in pkgutil.walk_packages({package}.__path__, '{package}.')"
        " if not m.name.startswith('dse.__main__')]"
        for package in ("dse", "hardware")
    )
    assert not modules_after(everything) & {"ray", "torch"}


def test_floors_import_only_what_lies_below():
    answer = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
