"""Only public interfaces of other packages: every private name in this project is on one list, with a reason."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.public_names import OURS, defined_names, imported_modules, module_files, private_uses

ROOT = Path(__file__).parents[1]

THIS = "tests/test_public_interfaces.py"

TRACING = "PyTorch has no public way to see the operations of a module as it runs, with their schemas"
GROUPS = "PyTorch has no public process group that stands for devices which are not there"
MODULES = "RLlib documents these methods as the ones that a module of one's own overrides"
TREES = "scikit-learn has no public form of trees fitted on histograms; those that it has take 29 times as long to fit"
FRAMEWORKS = "what the framework would know on a machine with its accelerators, which is not there"
COUNTING = "the option that Numba documents with register_jitable; without it a fabric move takes ten times as long"

ALLOWED: dict[str, dict[str, tuple[str, ...]]] = {
    TRACING: {
        "dse/importer/torch/arguments.py": ("_schema",),
        "dse/importer/torch/recorder.py": ("_schema", "torch.utils._python_dispatch.TorchDispatchMode"),
        "dse/importer/torch/training.py": ("torch._decomp.get_decompositions",),
    },
    COUNTING: {"hardware/compiled.py": ("numba.extending.register_jitable(_nrt=…)",)},
    GROUPS: {"tests/parallel/test_torch_plans.py": ("torch.testing._internal.distributed.fake_pg.FakeStore",)},
    MODULES: {
        "benchmarks/stock_rllib.py": ("_forward_exploration",),
        "policies/parallel/module.py": ("_forward_exploration", "_forward_train"),
        "policies/partition/rl_module.py": ("_forward_exploration", "_forward_inference", "_forward_train"),
    },
    TREES: {"policies/fabric/model/trees.py": ("_predictors",)},
    FRAMEWORKS: {"benchmarks/export_checks.py": ("_registry_model_converter_cls", "_te_version")},
}
"""{reason: {file: private names that have no public twin}}."""


@cache
def used():
    """{file: private names of other packages in it}."""
    files = [path for folder in sorted(OURS) for path in sorted((ROOT / folder).rglob("*.py"))]
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in files}
    trees.pop(THIS)
    defined = {name: defined_names(tree) for name, tree in trees.items()}

    def known(name):
        """Names of the file and of the files of ours that it imports: another library's may be the same elsewhere."""
        files = (file for module in imported_modules(trees[name]) for file in module_files(module))
        return set().union(defined[name], *(defined.get(file, ()) for file in files))

    names = {name: {use.name for use in private_uses(tree, known(name))} for name, tree in trees.items()}
    return {name: found for name, found in names.items() if found}


def test_private_names_of_other_packages_are_on_the_list():
    allowed: dict[str, set[str]] = {}
    for files in ALLOWED.values():
        for name, names in files.items():
            allowed.setdefault(name, set()).update(names)
    assert used() == allowed


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import torch._dynamo", "torch._dynamo"),
        ("from ray._private import node", "ray._private.node"),
        ("from ray.tune import _hidden", "ray.tune._hidden"),
        ("from numba.core import types", "numba.core.types"),
        ("import ray\nray._private", "ray._private"),
        ("import ray as r\nr.util._hidden()", "ray.util._hidden"),
        ("import ray\nray.init(_temp_dir='x')", "ray.init(_temp_dir=…)"),
        ("value = made()\nvalue._hidden", "_hidden"),
        ("name = 'ray._private.services'", "ray._private.services"),
        ("import ray\nray.init = None", "ray.init"),
        ("import ray\nsetattr(ray, 'init', None)", "ray.init"),
        ("import ray\nmonkeypatch.setattr(ray, 'init', None)", "ray.init"),
        ("monkeypatch.setattr('ray.init', None)", "ray.init"),
        (
            "import ray\nclass Mine(ray.Base):\n    def _hidden(self): return super()._hidden()",
            "_hidden",
        ),
    ],
)
def test_a_private_name_is_found(code, name):
    tree = ast.parse(code)
    assert name in {use.name for use in private_uses(tree, defined_names(tree))}


def test_a_name_that_only_another_file_defines_is_found():
    tree = ast.parse("from actors.worker import Worker\nvalue = made()\nvalue._hidden, value._own")
    assert imported_modules(tree) == {"actors.worker", "actors.worker.Worker"}
    assert module_files("actors.worker") == ("actors/worker.py", "actors/worker/__init__.py")
    assert [use.name for use in private_uses(tree, {"_own"})] == ["_hidden"]


@pytest.mark.parametrize(
    "code",
    [
        "import ray\nray.init()",
        "from dse.run import _ours",
        "class Mine:\n    def _own(self): return self._own()",
        "import ray\nclass Mine(ray.Base):\n    def _own(self): return 1\n    def step(self): self._own()",
        "row._replace(a=1), row._asdict(), row._fields",
        "import os\nos._exit(1)",
        "from __future__ import annotations",
        "monkeypatch.setattr('dse.cli._own', None)",
        "import time\nmonkeypatch.setattr(time, 'sleep', None)",
        "text = 'a sentence that ends._'",
    ],
)
def test_a_public_name_is_not(code):
    tree = ast.parse(code)
    assert private_uses(tree, defined_names(tree)) == []
