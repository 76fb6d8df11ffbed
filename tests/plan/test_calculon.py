"""The adapter to Calculon, by the formats that its repository publishes and with a stub of its command."""

import subprocess
import sys

import pytest

from benchmarks.calculon import application, can_express, execution, predicted
from benchmarks.recording import Results
from benchmarks.training_predictions import Row
from benchmarks.training_predictions import predicted as ours
from benchmarks.training_rows import runs
from benchmarks.truth import CALCULON, show_calculon
from dse.plan.stack import stack
from tests.plan.problems import plan, problem

# calculon-ai/calculon@4ad160d, validation/seqsel/tab5/turing-530B_seqsel.json: the facts of a published execution file.
PUBLISHED = {
    "num_procs": 280, "tensor_par": 8, "pipeline_par": 35, "data_par": 1, "tensor_par_net": 0, "pipeline_par_net": 1,
    "batch_size": 280, "microbatch_size": 1, "datatype": "float16", "fused_activation": False,
    "attention_type": "multihead", "activation_recompute": "attn_only", "pipeline_interleaving": 3,
    "optimizer_sharding": False, "tensor_par_comm_type": "rs_ag", "seq_par_ag_redo": True, "data_par_overlap": False,
    "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True,
}  # fmt: skip

SCRIPT = """
import json, sys
name, app, exe, system, stats = sys.argv[1:]
app, exe, system = (json.load(open(path)) for path in (app, exe, system))
assert name == "llm"
if exe["microbatch_size"] > 1:
    print("ERROR: needs too much memory")
    sys.exit(255)
if exe["pipeline_par"] > 1:
    raise ValueError("broken")
figures = {"total_time": app["hidden"] * exe["batch_size"] / system["speed"], "proc_mem_tier1_cap_req": 7}
json.dump(figures, open(stats, "w"))
"""


@pytest.fixture
def checkout(tmp_path):
    for folder in ("bin", "systems"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "calculon").write_text(SCRIPT)
    (tmp_path / "systems" / "a100_80g.json").write_text('{"speed": 1000}')
    return tmp_path


def posed(**values):
    return problem("megatron-22b", "a100-sxm", 8, 4, 2048, software=stack("megatron-2022"), **values)


def test_an_execution_is_the_published_one():
    problem_530 = problem("megatron-529.6b", "a100-sxm", 280, 280, 2048, software=stack("megatron-2022"))
    each = plan(tensor=8, sequence_parallel=True, pipeline=35, interleave=3, recompute="selective")
    ours = execution(problem_530, each)
    assert can_express(problem_530, each)
    assert {key: ours[key] for key in PUBLISHED} == PUBLISHED
    sizes = {
        "hidden": 20480,
        "feedforward": 81920,
        "seq_size": 2048,
        "attn_heads": 128,
        "attn_size": 160,
        "num_blocks": 105,
    }
    assert {key: application(problem_530)[key] for key in sizes} == sizes


def test_a_checkout_is_asked_and_its_figures_refusals_and_failures_are_told_apart(checkout):
    whole = plan(tensor=8)
    assert predicted(checkout, posed(), whole) == (6144 * 4 / 1000, 7.0, "")
    assert predicted(checkout, posed(), plan(tensor=8, microbatch=2)) == (None, None, "ERROR: needs too much memory")
    with pytest.raises(RuntimeError, match="no figures: ValueError: broken"):
        predicted(checkout, posed(), plan(tensor=4, pipeline=2))


@pytest.mark.parametrize(
    "values",
    [{"context": 2}, {"zero": 3}, {"zero": 1, "zero_copies": 2}, {"recompute": "full/2"}, {"precision": "fp8"},
     {"pipeline": 5}, {"pipeline": 2, "first_layers": 20}, {"schedule": "gpipe"},
     {"order": "data-tensor-context-pipeline"}, {"moments": "bf16"}, {"gradient_transfer": "fp8"},
     {"overlap_gradients": "yes"}],
    ids=str,
)  # fmt: skip
def test_what_it_has_no_words_for_is_left_out(values):
    assert can_express(posed(), plan(tensor=8, data=2))
    assert not can_express(posed(), plan(tensor=8, data=2, **values))


def test_a_path_that_is_no_checkout_is_refused_in_one_line(tmp_path):
    command = [sys.executable, "-m", "benchmarks.truth", "--calculon", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, check=False, text=True)
    assert ended.returncode == 2
    assert ended.stderr == f"error: --calculon: {tmp_path}: no checkout of Calculon: it has no bin/calculon\n"


@pytest.mark.parametrize("model", ["llama3-8b", "mixtral-8x7b", "deepseek-v3"])
def test_models_that_it_does_not_know_are_left_out(model):
    assert not can_express(problem(model, "a100-sxm"), plan())


def test_the_runs_of_the_sequence_parallelism_paper_are_among_those_that_it_knows():
    known = [run.name for run in runs() if run.step_s and can_express(run.problem, ours(run)[0].plan)]
    assert len([name for name in known if name.startswith("selene")]) == 8
    assert len([name for name in known if name.startswith("megatron2021")]) == 7
    assert len(known) == 15


def test_fused_attention_is_left_out():
    fused = problem("megatron-22b", "a100-sxm", 8, 4, 2048, software=stack("generic"))
    assert fused.stack.attention.value == "fused"
    assert not can_express(fused, plan(tensor=8))


@pytest.mark.parametrize(
    ("values", "kind"),
    [({"tensor": 8}, "ar"), ({"tensor": 4, "pipeline": 2}, "p2p_rs_ag"), ({"pipeline": 8}, "ar"),
     ({"tensor": 4, "pipeline": 2, "sequence_parallel": True}, "rs_ag")],
    ids=str,
)  # fmt: skip
def test_parts_travel_between_stages_where_there_are_some(values, kind):
    assert execution(posed(), plan(**values))["tensor_par_comm_type"] == kind


def test_both_are_compared_on_the_same_rows_by_quality(checkout, capsys):
    every = {run.name: run for run in runs()}
    chosen = [every[f"selene-megatron-22B-{each}"] for each in ("full", "seqsel")]
    chosen.append(every["torchtitan-8b-8-fsdp"])
    rows = [Row(run, ours(run)[0], fits=True, fitted=run is chosen[0], plain_s=1.0) for run in chosen]
    script = checkout / "bin" / "calculon"
    script.write_text(SCRIPT.replace('if exe["microbatch_size"] > 1:', 'if exe["activation_recompute"] == "full":'))
    results = Results(CALCULON)
    show_calculon(results, rows, checkout)
    assert results.figures == {"counts": "2 of 3", "too_fast": "0 of 1"}
    theirs = f"{100 * (6144 * 4 / 1000 / 1.1 - 1):.1f}"
    said = capsys.readouterr().out
    assert "Calculon ERROR: needs too much memory fitted" in said
    assert f"Calculon +{theirs} " in said
    [quality_a, every] = results.rows["main"]
    assert quality_a[:2] == ["quality A", 1]
    assert quality_a[-3:] == every[-3:] == [f"{theirs} %", f"{theirs} %", 0]
