"""``plan_jax.py``: what it holds; and, where JAX is installed, what it does."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.hlo.run_plan import axes_of, collectives
from tests.parallel.problems import DUMPS

ROOT = Path(__file__).parents[2]


def constants(text):
    """The constants of the module, with ``P(…)`` as a tuple."""

    class Plain(ast.NodeTransformer):
        def visit_Call(self, node):
            return ast.Tuple(node.args, ast.Load())

    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            found[node.targets[0].id] = ast.literal_eval(Plain().visit(node.value))
    return found


def spec(axes):
    """One dimension of a solution as a PartitionSpec has it."""
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)


@pytest.mark.parametrize("method", ["linkage", "exact"])
def test_the_module_holds_the_layouts_of_the_plan(dse, tmp_path, method):
    out = tmp_path / "run"
    answer = dse(
        "parallel", DUMPS / "dlrm-tiny.hlo", "--mesh", "data=2,model=2", "--method", method, "--out", out, "--quiet"
    )
    assert answer.code == 0, answer.err
    solution = json.loads((out / "result.json").read_text())["solution"]
    held = constants((out / "plan_jax.py").read_text())
    assert (held["AXES"], held["SIZES"]) == (("data", "model"), (2, 2))
    assert held["ARGUMENTS"] == {name: tuple(map(spec, split)) for name, split in solution["arguments"].items()}
    assert any(label.endswith("dot_general") for label in held["PINS"])
    pins_all = any(label.endswith("/mul") for label in held["PINS"])
    assert not (pins_all and method == "linkage")  # which reshards nothing
    for by_shape in held["PINS"].values():
        for dims, layouts in by_shape.items():
            assert all(len(layout) == len(dims) for layout, _ in layouts)
            assert all(pins_all or not operands for _, operands in layouts)


def python(*arguments):
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lowered(tmp_path_factory):
    """The folder of a dump that the installed JAX made."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("dumps")
    python("benchmarks.hlo.steps", folder, "bert-tiny")
    return folder


@pytest.mark.parametrize(
    ("mesh", "method", "memory_gb"),
    [
        ("8", "linkage", 4e-5),
        ("data=2,model=4", "linkage", 2e-5),
        ("8", "exact", 2e-5),
        ("data=2,model=4", "exact", 2e-5),
    ],
)
def test_the_plan_run_on_devices_gives_what_one_device_gives(lowered, dse, tmp_path, mesh, method, memory_gb):
    asked = ("--mesh", mesh, "--method", method, "--memory-gb", memory_gb, "--out", tmp_path / "run", "--quiet")
    answer = dse("parallel", lowered / "bert-tiny.hlo", *asked)
    assert answer.code == 0, answer.err
    # Fails where a result differs by more than 1e-5.
    printed = python("benchmarks.hlo.run_plan", "bert-tiny", tmp_path / "run")
    (line,) = [line for line in printed.splitlines() if line.startswith("argument bytes")]
    xla, plan = (part.split()[-1] for part in line.partition(":")[2].split(", p"))
    assert xla == plan
    if method == "linkage":
        sums = {"plan": Counter(), "compiled": Counter()}
        for line in printed.splitlines():
            if line.split()[0] in sums:
                by, kind, size, axes, *_ = line.replace(",", "").split()
                sums[by][kind, axes] += int(size)
        assert sums["plan"] == sums["compiled"] != {}


def test_a_plan_with_resharding_sends_no_more_than_planned():
    """Convolutions planned four all-gathers of 589,824 bytes together, and XLA ran 17 and two all-reduces."""
    pytest.importorskip("jax")
    *_, whole = python("benchmarks.planned_and_run", "convolutions").splitlines()
    planned, compiled = (int(cell.replace(",", "")) for cell in whole.strip("| ").split("|")[2:])
    assert 0 < compiled <= planned


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", ("model",)),
        ("{{0,4},{1,5},{2,6},{3,7}}", ("data",)),
        ("[2,4]<=[8]", ("model",)),
        ("[4,2]<=[2,4]T(1,0)", ("data",)),
        ("mesh['axis_0'=1,'axis_1'=2,'axis_2'=4] {'axis_1'}", ("data",)),
        ("mesh['axis_0'=4,'axis_1'=2], device_ids=([2,4]T(1,0)) {'axis_0'}", ("model",)),
        ("mesh['data'=2,'model'=4] {'data','model'}", ("data", "model")),
        ("{}", ("data", "model")),
    ],
)
def test_replica_groups_are_axes_of_the_mesh_in_every_notation(groups, axes):
    line = f"  %r = f32[4,2]{{1,0}} all-reduce(%x), channel_id=1, replica_groups={groups}, to_apply=%add"
    assert axes_of(line, {"data": 2, "model": 4}) == axes
    assert collectives(line, {"data": 2, "model": 4}) == {("all_reduce", "+".join(axes)): 32}


def test_shardy_splits_the_same_dimensions_together():
    pytest.importorskip("jax")
    printed = python("benchmarks.hlo.classes", "vgg-tiny", "t5-tiny", "bert-tiny")
    alike = [line.split()[:4] for line in printed.splitlines()]
    assert alike == [["vgg-tiny", "5", "of", "5"], ["t5-tiny", "10", "of", "10"], ["bert-tiny", "9", "of", "9"]]


def test_shardy_arrives_at_the_same_collectives(lowered, dse, tmp_path):
    asked = (
        "--mesh",
        "data=2,model=4",
        "--method",
        "linkage",
        "--memory-gb",
        2e-5,
        "--out",
        tmp_path / "run",
        "--quiet",
    )
    assert dse("parallel", lowered / "bert-tiny.hlo", *asked).code == 0
    printed = python("benchmarks.hlo.shardy", "bert-tiny", tmp_path / "run" / "result.json")
    rows = {"Shardy": [], "dse": []}
    for line in printed.splitlines():
        by, kind, axes, runs, size = line.split()[:5]
        rows[by].append((kind, axes, runs, size))
    assert sorted(rows["Shardy"]) == sorted(rows["dse"]) != []
