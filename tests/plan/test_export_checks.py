"""Exported plans and the checks of frameworks: with a stub of one, since none is installed for tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.export_checks import _flags
from benchmarks.exports import FRAMEWORKS, answer, cases, posed
from dse.plan.export import REFUSALS_FILE, exports

ROOT = Path(__file__).parents[2]

STUB = """
import json
import types

TRAIN_BATCH_SIZE = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
HALF = ("bf16", "fp16")
BFLOAT16, FP16 = HALF
COMMUNICATION = "communication_data_type"
TYPES = {types_key}
dist = types.SimpleNamespace(get_rank=None)


class DeepSpeedConfig:
    def __init__(self, path, ranks):
        assert dist.get_rank() == 0
        document = json.load(open(path))
        self.world_size = ranks.get_data_parallel_world_size()
        self.train_micro_batch_size_per_gpu = document[MICRO]
        self.gradient_accumulation_steps = document[STEPS]
        self.zero_optimization_stage = document["zero_optimization"]["stage"]
"""


def asked(folder, **words):
    package = folder / "deepspeed" / "runtime"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    (package.parent / "__init__.py").write_text('__version__ = "9.9"')
    (package / "config.py").write_text(STUB.format(**words))
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.exports", "--framework", "deepspeed"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"},
        text=True,
    )


def test_all_plans_keep_the_rules_and_each_framework_gets_several():
    written = dict.fromkeys(FRAMEWORKS, 0)
    for case in cases():
        for name in exports(*posed(case)):
            if name != REFUSALS_FILE:
                written[name] += 1
    assert all(count >= 4 for count in written.values())
    recorded = json.loads((ROOT / "benchmarks" / "results" / "exports.json").read_text())
    assert recorded["figures"]["plans"] == len(cases())
    names = ("megatron.args", "torchtitan.toml", "maxtext.yml", "deepspeed.json")
    assert [row[-1] for row in recorded["tables"]["main"]["rows"]] == [written[name] for name in names]


def test_a_framework_says_what_it_makes_of_each_file(tmp_path):
    ended = asked(tmp_path, types_key="'data_types'")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert "deepspeed 9.9         replicas                    accepted (32 ranks)" in lines
    assert lines[-2].startswith("deepspeed 9.9: 4 of 4 files accepted, ")


def test_a_key_that_a_framework_does_not_read_is_a_refusal(tmp_path):
    ended = asked(tmp_path, types_key="None")
    assert ended.returncode == 1
    assert "refused: ValueError: keys that it does not read: ['data_types']" in ended.stdout
    assert "deepspeed 9.9: 3 of 4 files accepted, " in ended.stdout


def test_what_is_not_installed_is_said():
    command = [sys.executable, "-m", "benchmarks.exports", "--framework", "maxtext"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (2, "maxtext: not installed, maxtext.yml is not checked\n")


@pytest.mark.parametrize("raised", [SystemExit(2), AssertionError("too  many\nranks"), KeyError("layers")], ids=repr)
def test_whatever_is_raised_is_a_refusal(raised, tmp_path):
    def check(*_):
        raise raised

    accepted, said = answer(check, *posed(cases()[0]), tmp_path / "file")
    assert not accepted
    assert said.startswith(f"refused: {type(raised).__name__}: ")
    assert "\n" not in said


def test_flags_have_values_or_are_there():
    words = [
        "--bf16",
        "--hidden-size",
        "8192",
        "--recompute-modules",
        "moe_act",
        "layernorm",
        "--fp8-recipe",
        "delayed",
    ]
    several = {"recompute_modules": ["moe_act", "layernorm"]}
    assert _flags(words) == {"bf16": True, "hidden_size": 8192, "fp8_recipe": "delayed"} | several
