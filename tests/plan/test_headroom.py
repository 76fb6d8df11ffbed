"""Memory that is kept free, and what an answer says of memory to spare and of other software."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.training_predictions import predicted
from benchmarks.training_rows import Run, rows_of, runs
from dse.plan.check import violations
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate, min_costs
from dse.plan.headroom import PARTS, headroom
from dse.plan.options import PlanOptions, posed_problem
from dse.plan.plan_arrays import PlanArrays
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.stack import list_stacks, stack
from hardware.chips import chip, list_chips
from hardware.inputs import InputError
from hardware.units import GIB
from tests.plan.problems import plan, problem
from tests.shared_data import case_of_others

ASKED = {"model": "mixtral-8x7b", "accelerators": 16, "global_batch": 128}


def best_with(headroom):
    posed = posed_problem(PlanOptions(**ASKED, headroom=headroom)).problem
    found = enumerate_plans(posed).best
    assert found is not None
    assert violations(posed, found.plan, found.step_s) == []
    return posed, found


def test_a_plan_fits_with_the_headroom_and_more_of_it_is_never_faster():
    (plain, first), (_, second) = best_with(0.0), best_with(20.0)
    assert "headroom" not in plain.document()
    assert first.memory_bytes > 60 * GIB >= second.memory_bytes
    assert first.step_s < second.step_s
    posed = posed_problem(PlanOptions(**ASKED, headroom=20.0)).problem
    assert posed.document()["headroom_bytes"] == 20 * GIB
    assert any("needs" in fault for fault in violations(posed, first.plan, first.step_s))


def test_nothing_is_kept_free_twice_and_headroom_0_is_the_memory_of_tensors_alone():
    none, known = problem("mixtral-8x7b"), replace(problem("mixtral-8x7b"), headroom_bytes=None)
    each = plan(data=8, zero=3, expert=8, recompute="full")
    own, more = plan_costs(none, each), plan_costs(known, each)
    assert own.step_s == more.step_s
    assert set(more.memory) - set(own.memory) == set(PARTS)
    assert {part: more.memory[part] for part in own.memory} == own.memory
    assert more.memory_bytes - own.memory_bytes == pytest.approx(sum(more.memory[part] for part in PARTS))


@pytest.mark.parametrize("software", ["generic", "torchtitan-2024", "megatron-bridge", "deepseek-2024"])
def test_arrays_checker_and_bound_agree_about_headroom(software):
    known = replace(problem("deepseek-v3", devices=64, batch=256, software=stack(software)), headroom_bytes=None)
    kinds = [
        {"data": 64, "expert": 1}, {"data": 64, "expert": 8, "zero": 1}, {"data": 64, "expert": 64, "zero": 3},
        {"data": 32, "pipeline": 2, "expert": 32, "zero": 1, "schedule": "dualpipe"},
        {"data": 4, "tensor": 4, "pipeline": 4, "sequence_parallel": True, "expert": 16, "recompute": "full"},
    ]  # fmt: skip
    plans = [plan(**kind) for kind in kinds]
    for each in plans:
        priced, costs = evaluate(known, PlanArrays.of([each])), plan_costs(known, each)
        assert {part: size[0] for part, size in priced.memory.items()} == pytest.approx(costs.memory)
        assert min_costs(known, PlanArrays.of([each]))[1][0] <= costs.memory_bytes * (1 + 1e-12)
    assert plan_costs(known, plans[0]).memory["buffers"] < plan_costs(known, plans[1]).memory["buffers"]


def test_buffers_grow_with_the_ranks_that_share_experts_out_and_with_the_nodes_where_tokens_are_sent_once():
    expert = np.array([1, 2, 8, 16, 64])
    one = np.zeros_like(expert)
    pool = headroom(chip("h100-sxm"), stack("megatron-2025"), 7168, 8).buffers(one, expert)
    assert pool[0] == 0
    assert np.all(np.diff(pool[:3]) > 0)
    assert np.all(pool[2:] == pool[2])
    # NVIDIA/nccl issue 1685: 4.34 less 1.06 GB.
    assert pool[2] == pytest.approx(3.28e9)
    once = headroom(chip("h800-sxm"), stack("deepseek-2024"), 7168, 8).buffers(one, expert)
    assert np.all(np.diff(once) > 0)
    # 10 channels · (7 peers · 288 tokens + 8 nodes · 128 tokens, twice), each of 2 · 7168 + 2048 bytes.
    assert once[4] == 10 * (7 * 288 + 8 * 128 * 2) * (2 * 7168 + 2048)


def test_the_share_of_the_allocator_is_the_fitted_one():
    fitted = stack("torchtitan-2024").reserved
    assert fitted is not None
    assert headroom(chip("h100-sxm"), stack("generic"), 4096, 8).allocator == pytest.approx(fitted.value - 1)
    assert headroom(chip("h100-sxm"), stack("torchtitan-2024"), 4096, 8).allocator == 0
    for name in list_stacks():
        for each in list_chips():
            assert headroom(chip(each), stack(name), 4096, 8).context_bytes < 0.1 * chip(each).hbm_bytes


def test_every_run_that_ran_fits_with_headroom():
    assert not_fitting(runs()) == []


def test_every_shared_run_that_ran_fits_with_headroom():
    rows = rows_of(case_of_others("measured", "training_runs.csv"))
    assert not_fitting(row for row in rows if isinstance(row, Run)) == []


def not_fitting(rows):
    """Names of the runs with a time that are predicted not to fit."""
    ran = [row for row in rows if row.step_s is not None]
    assert len(ran) > 40
    return [row.name for row in ran if not predicted(replace(row, problem=with_room(row)))[1]]


def with_room(row):
    """The problem of a row with headroom."""
    return replace(row.problem, headroom_bytes=None)


def test_published_memory_with_headroom_is_below_what_the_accelerator_has():
    known = [row for row in runs() if row.memory_gib is not None and row.step_s is not None]
    assert len(known) > 8
    for row in known:
        costs = plan_costs(with_room(row), predicted(row)[0].plan)
        room = sum(costs.memory[part] for part in PARTS)
        assert row.memory_gib * GIB + room <= row.problem.system.chip.hbm_bytes, row.name


def test_a_headroom_of_all_memory_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"^--headroom: 80.0: must be less than the memory of h100-sxm \(80 GB\)"):
        posed_problem(PlanOptions(**ASKED, headroom=80.0))


@pytest.mark.parametrize("more", [(), ("--batch", "PLANS")])
def test_memory_that_would_be_enough_includes_what_is_kept_free(dse, tmp_path, more):
    (path := tmp_path / "plans.csv").write_text("zero\n3\n", encoding="utf-8")
    asked = (
        "llama3-8b",
        "--accelerators",
        8,
        "--global-batch",
        64,
        *(path if each == "PLANS" else each for each in more),
    )
    refused = dse("predict", *asked, "--headroom", 79.5, "--json")
    assert refused.code == 1
    lever = next(each for each in json.loads(refused.out)["infeasibility"]["levers"] if each.startswith("accelerators"))
    size = float(re.search(r"at least ([\d.]+) GB", lever)[1])
    demand = json.loads(refused.out)["infeasibility"]["demand"]
    assert size == pytest.approx(79.5 + demand / GIB, rel=0.01)


def test_an_answer_says_what_is_kept_free_and_where_little_is_left(dse):
    asked = (
        "predict",
        "llama3-8b",
        "--accelerators",
        8,
        "--global-batch",
        64,
        "--plan",
        "data=8,zero=3,recompute=full",
    )
    known, kept = dse(*asked), dse(*asked, "--headroom", 3)
    assert "of it headroom" in known.out
    assert "to spare" in known.out
    assert "driver and context" in dse(*asked, "--notes").out
    tight = dse(
        "predict", "llama3-8b", "--accelerators", 4, "--global-batch", 64, "--headroom", 0, "--plan",
        "tensor=1,context=4,data=1,pipeline=1,zero=1,microbatch=1,recompute=none", "--stack", "generic"
    )  # fmt: skip
    assert "without --headroom this plan does not fit" in " ".join(tight.out.split())
    assert kept.code == 0, kept.err
    assert "of 80 GB, 3 GB of which are kept free" in kept.out
    full = dse(*asked, "--headroom", 79)
    assert full.code == 1
    assert "more than the 1 GB of h100-sxm that --headroom leaves" in full.out + full.err
