"""A result carries what its exported files need, though no cost depends on some of it."""

import json
from pathlib import Path

import pytest

from dse.problem import problem_type
from dse.results.check import posed_again
from dse.results.result import read_sealed
from dse.run.tables import Tables

CONFIG = {
    "model_type": "glm4_moe", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 1024, "max_position_embeddings": 512,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "head_dim": 64,
    "rope_theta": 5e5, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-5, "hidden_act": "silu",
}  # fmt: skip
OTHER = {
    "rope_theta": 1e6,
    "partial_rotary_factor": 0.5,
    "rope_scaling": {"type": "yarn", "factor": 4.0},
    "rms_norm_eps": 1e-6,
    "hidden_act": "gelu",
}
"""Keys that no cost depends on, and that exports have."""

NAMES = ("megatron.args", "torchtitan.toml", "maxtext.yml", "deepspeed.json", "not-exported.txt", "plan.yaml")


@pytest.fixture
def run(dse, tmp_path):
    """A finished run about a file, and what asks for it again."""
    path, out = tmp_path / "config.json", tmp_path / "run"
    path.write_text(json.dumps(CONFIG))

    def asked(*more):
        plan = "data=8,expert=1,zero=3,recompute=full,microbatch=1"
        return dse("predict", path, "--global-batch", 8, "--plan", plan, "--out", out, *more)

    answered = asked()
    assert answered.code == 0, answered.err
    return path, out, asked


def contents(out: Path) -> dict[str, bytes]:
    """All files but the page and what a run keeps of itself."""
    return {
        each.name: each.read_bytes()
        for each in out.iterdir()
        if each.is_file() and each.suffix not in (".html", ".svg")
    }


@pytest.mark.parametrize("key", OTHER)
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_report_leaves_exported_files_as_they_are(dse, run, key, is_gone):
    path, out, _ = run
    before = contents(out)
    path.write_text(json.dumps(CONFIG | {key: OTHER[key]}))
    if is_gone:
        path.unlink()
    reported = dse("report", out)
    assert reported.code == 0, reported.err
    assert contents(out) == before
    result = read_sealed(out / "result.json")
    posed = posed_again(result, out / "result.json")
    again = problem_type(result.command).view(result, posed, Tables(out)).files()
    written = [name for name in NAMES if (out / name).exists()]
    assert {"megatron.args", "torchtitan.toml", "maxtext.yml"} <= {*written}
    assert all((out / name).read_text() == again[name] for name in written)


@pytest.mark.parametrize("key", OTHER)
def test_a_finished_run_is_not_the_answer_to_a_file_with_other_numerics(run, key):
    path, out, asked = run
    before = contents(out)
    path.write_text(json.dumps(CONFIG | {key: OTHER[key]}))
    resumed = asked("--resume")
    assert resumed.code == 2, resumed.out
    assert contents(out) == before
    path.write_text(json.dumps(CONFIG))
    assert asked("--resume").code == 0


def test_a_result_of_an_earlier_run_still_has_its_digest(run):
    """Numerics decide no cost: the digest of the problem, by which results are compared, is without them."""
    path, out, _ = run
    digest = read_sealed(out / "result.json").problem.digest
    path.write_text(json.dumps(CONFIG | OTHER))
    options = problem_type("predict").Options(
        str(path), global_batch=8, plan="data=8,expert=1,zero=3,recompute=full,microbatch=1"
    )
    assert problem_type("predict").pose(options).digest == digest
