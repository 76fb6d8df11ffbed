"""The rules of the house: floors, quick start, and what a lower floor may import."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import rustworkx

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(name.split('.')[0] for name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


STATEMENTS = {
    "problems": """
import dse.cli.run, dse.cli.report, dse.cli.reproduce
from dse.problem import registered
[each.load() for each in registered().values()]
""",
    "engine": """
import pkgutil, importlib, dse, hardware
for package in (dse, hardware):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module.name.startswith("dse.__main__") or importlib.import_module(module.name)
""",
    "sampling": """
import policies.partition.training, policies.partition.runner, policies.partition.search
""",
}
"""What the first one imports, all others import too."""


@cache
def loaded():
    """What is loaded after each of :data:`STATEMENTS`: by one process, and children of it that begin with what the
    first one imports.
    """
    code = """
import json, os, sys
first, *others = json.load(sys.stdin).items()
exec(first[1], {})
print(first[0], *sys.modules, flush=True)
for name, statement in others:
    child = os.fork()
    if not child:
        exec(statement, {})
        print(name, *sys.modules, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""
    text = json.dumps(STATEMENTS)
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, input=text)
    assert answer.returncode == 0, answer.stderr
    lines = [line.split() for line in answer.stdout.splitlines()]
    return {name: {module.split(".")[0] for module in modules} for name, *modules in lines}


def test_help_imports_nothing_heavy():
    loaded = modules_after("from click.testing import CliRunner; from dse.cli import group; CliRunner().invoke(group)")
    assert not loaded & {"numpy", "numba", "ray", "torch", "ortools", "pyscipopt", "plotly", "pydantic", "rich"}


def test_the_engine_needs_neither_torch_nor_ray():
    assert "plotly" in loaded()["engine"]
    assert not loaded()["engine"] & {"ray", "torch"}


def test_only_what_draws_imports_plotly():
    assert "numba" in loaded()["problems"]
    assert "plotly" not in loaded()["problems"]


def test_a_process_that_trains_or_samples_partitions_starts_without_what_it_does_not_need():
    assert "torch" in loaded()["sampling"]
    assert not loaded()["sampling"] & {"torch_geometric", "transformers", "plotly"}


def circles(imports):
    """The groups of names that import each other, by way of others too."""
    network = rustworkx.PyDiGraph()
    number = {name: network.add_node(name) for name in sorted({name for pair in imports for name in pair})}
    network.add_edges_from_no_data([(number[importer], number[imported]) for importer, imported in imports])
    parts = rustworkx.strongly_connected_components(network)
    return [sorted(network[node] for node in part) for part in parts if len(part) > 1]


@cache
def all_imports():
    """(importer, imported), imports within functions and those for type checkers too."""
    graph = grimp.build_graph("hardware", "dse", "policies", "actors")
    return [(name, other) for name in graph.modules for other in graph.find_modules_directly_imported_by(name)]


def test_no_module_imports_itself_by_way_of_others():
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")]) == [["a", "b", "c"]]
    assert circles(all_imports()) == []


def test_no_rooms_of_the_engine_import_each_other():
    def room(module):
        return ".".join(module.split(".")[:2])

    within = {f"dse.{folder.parent.name}" for folder in ROOT.glob("dse/*/__init__.py")} - {"dse.cli"}
    pairs = {(room(importer), room(imported)) for importer, imported in all_imports()}
    assert circles([(a, b) for a, b in pairs if a != b and {a, b} <= within]) == []


def test_floors_import_only_what_lies_below():
    answer = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
