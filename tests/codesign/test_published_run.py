"""A published training run is feasible, and takes about as long as it took (Korthikanti et al. 2022, Table 5)."""

import json
from dataclasses import replace

import pytest

from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.options import CodesignOptions
from dse.placement.solve import solve

MEGATRON_22B = """
schema: dse.model/1
name: megatron-22b
layers: 48
hidden: 6144
heads: 64
vocabulary: 51200
sequence: 2048
dropout: 0.1
tensor_parallel: [1, 2, 4, 8]
"""
MEASURED_S = 1.42
EIGHT_A100 = {"fixed": "a100-sxm", "accelerators": 8, "global_batch": 4, "microbatch": "4", "tensor_parallel": "8"}


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "megatron-22b.yaml"
    path.write_text(MEGATRON_22B)
    return path


def test_22b_fits_eight_a100_with_full_recomputation(dse, model_file):
    asked = [f"--{key.replace('_', '-')}={value}" for key, value in EIGHT_A100.items()]
    answer = dse("codesign", model_file, *asked, "--workers", "0", "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    plan = document["solution"]["models"]["megatron-22b"]
    assert (plan["pipeline"], plan["data"], plan["tensor"], plan["recompute"]) == (1, 1, 8, True)
    assert plan["batch_s"] == pytest.approx(MEASURED_S, rel=0.1)
    assert document["metrics"]["models"]["megatron-22b"]["peak_memory_gb"] < 80


def test_stage_by_stage_it_would_not_fit(model_file):
    problem = CodesignOptions((str(model_file),), **EIGHT_A100).problem()
    evaluator = Evaluator(problem.jobs[0], problem.machines())
    choice = evaluator.choice((4, 8), problem.hbm_bytes[0], recompute=True)
    posed = evaluator.placement_problem(choice, None)
    assert posed.recompute_granularity == "layer"
    assert solve(posed).placement is not None
    assert solve(replace(posed, recompute_granularity="stage")).placement is None
