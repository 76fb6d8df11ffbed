"""Workers apart in ``dse serve``: the best pair against brute force, laws, and the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.serve.answer import solve
from dse.serve.check_disaggregated import costs
from dse.serve.closed_form import tables_of
from dse.serve.disaggregated_repricing import repriced_apart, split_of
from dse.serve.disaggregated_search import PricedPairs, most_written, price_pairs, search_pairs
from dse.serve.disaggregated_workers import kinds
from dse.serve.problem import Goals, ServeProblem
from dse.serve.repricing import cell_of, repriced
from dse.serve.search import search
from dse.serve.serving_plan import SplitPlan, plan_in, read_plan
from dse.serve.step_tables import BATCHES
from dse.serve.timeline import memory_chart, requests_trace
from hardware.inputs import InputError
from tests.serve.small import assert_best_of_brute_force, every, problem

CASES: dict[str, dict[str, Any]] = {
    "closed loop": {},
    "both limits": {"ttft": 0.3, "tpot": 0.009},
    "Poisson arrivals": {"rate": 6.0, "ttft": 0.2},
    "fewest devices": {"rate": 20.0, "minimum_devices": True, "tpot": 0.01},
    "more requests than memory holds": {"concurrency": 300, "prompt": "3000"},
    "experts": {"model": "qwen3-30b-a3b", "accelerators": 2, "engine": "sglang", "precision": "fp8_block"},
    "prompts that are not cut": {"engine": "trtllm", "prompt": "33000", "concurrency": 4},
    "both modes": {"mode": "both"},
    "nothing keeps the limits": {"tpot": 1e-4},
    "nothing fits": {"model": "llama3-70b"},
}


def apart(**options: Any) -> ServeProblem:
    """Of three accelerators with workers apart, unless the options say otherwise."""
    return problem(**{"accelerators": 3, "mode": "disaggregated"} | options)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_best_is_that_of_brute_force(case: dict[str, Any]) -> None:
    assert_best_of_brute_force(apart(**case), rel=1e-9)


def test_the_nearest_is_that_of_brute_force() -> None:
    for limit in ({"tpot": 1e-4}, {"ttft": 0.01}, {"ttft": 0.03, "tpot": 2e-3}):
        own = apart(**limit, concurrency=20)
        nearest = search(own).nearest(own.goals)
        assert nearest is not None

        def over(ttft: float, tpot: float, goals: Goals = own.goals) -> float:
            return max(ttft / (goals.ttft_s or np.inf), tpot / (goals.tpot_s or np.inf))

        known = (costs(own, plan) for plan in every(own))
        least = min(over(each.ttft_s, each.tpot_s) for each in known if each.fits)
        assert over(nearest.ttft_s, nearest.tpot_s) == pytest.approx(least, rel=1e-9)


def test_the_largest_stable_rate_is_that_of_brute_force() -> None:
    own = apart(rate=1e4)
    busiest = search(own).busiest()
    assert busiest is not None
    rates = [each.rate_per_s for plan in every(own) if (each := costs(own, plan)).fits]
    assert busiest.rate_per_s == pytest.approx(max(rates), rel=1e-9)


def test_bounds_rule_out_nothing_that_is_better() -> None:
    own = apart(accelerators=16, tpot=0.012, ttft=1.0, prompt="2000")
    parts, vocabulary, reason = search_pairs(own)
    assert reason is None
    assert sum(map(len, parts)) < vocabulary / 4
    best = search(own).best(own.goals)
    assert best is not None
    (pair,) = kinds(replace(own, caches=(best.plan.kv_precision,)))
    draw = np.random.default_rng(0)
    prefill = draw.integers(0, len(pair.prefill.cell), 20_000)
    decode = draw.integers(0, len(pair.decode.cell), 20_000)
    priced = price_pairs(own, pair, prefill, decode)
    kept = (priced.devices <= 16) & (priced.ttft_s <= 1.0) & (priced.tpot_s <= 0.012)
    assert kept.any()
    assert (priced.tokens_per_s / priced.devices)[kept].max() <= best.tokens_per_s_per_accelerator * (1 + 1e-9)


@given(limit=st.floats(0.006, 0.03), most=st.floats(0.3, 900.0))
@settings(max_examples=40, deadline=None)
def test_what_decode_workers_write_at_most_is_reached_and_not_passed(limit: float, most: float) -> None:
    tokens = next(kinds(PLAIN)).decode
    told = most_written(tokens, np.full(len(tokens.cell), most), limit, 1.0)
    for row in range(0, len(tokens.cell), 7):
        at = np.concatenate([np.geomspace(most / 4000, most, 4000), BATCHES[most >= BATCHES]])
        seconds = tokens.pace(np.full(len(at), tokens.cell[row]), np.maximum(at, 1.0))
        reached = float(np.where(seconds <= limit, at / seconds, 0.0).max()) * tokens.ranks[row]
        assert reached <= told[row] * (1 + 1e-9)
        assert told[row] <= reached * 1.01 + 1e-9


PLAIN = apart()


def test_more_accelerators_are_never_worse() -> None:
    values = []
    for devices in (2, 3, 4, 6):
        best = search(apart(accelerators=devices, tpot=0.011)).best(Goals(tpot_s=0.011))
        values.append(0.0 if best is None else best.tokens_per_s_per_accelerator)
    assert values == sorted(values)


def test_both_modes_are_never_worse_than_one() -> None:
    best = {mode: search(apart(mode=mode)).best(Goals()) for mode in ("aggregated", "disaggregated", "both")}
    values = {mode: each.tokens_per_s_per_accelerator for mode, each in best.items() if each is not None}
    assert values["both"] == max(values.values())


def test_faster_links_are_never_slower() -> None:
    reached = []
    for factor in (1e-4, 1e-2, 1.0, 1e6):
        own = apart(prompt="3000", concurrency=40)
        network = own.system.network
        assert network.inner is not None
        inner = replace(network.inner, bytes_per_s=factor * network.inner.bytes_per_s)
        best = search(replace(own, system=replace(own.system, network=replace(network, inner=inner)))).best(Goals())
        assert best is not None
        reached.append(best.tokens_per_s_per_accelerator)
    assert reached == sorted(reached)
    assert reached[0] < reached[-1]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_one_request_at_a_time_is_the_same_by_events(engine: str) -> None:
    own = apart(concurrency=1, engine=engine, prompt="900", output="300", accelerators=2)
    best = search(own).best(own.goals)
    assert best is not None
    events = repriced(own, best.plan, 0)
    assert events.outcome.mean_tpot_s == pytest.approx(best.tpot_s, rel=1e-3)
    assert events.outcome.mean_ttft_s == pytest.approx(best.ttft_s, rel=5e-3)
    assert events.tokens_per_s == pytest.approx(best.tokens_per_s, rel=1e-3)


def test_stages_have_batches_on_their_way() -> None:
    fixed = "prefill.pipeline=2,decode.pipeline=2"
    own = apart(accelerators=4, plan=fixed, concurrency=2)
    best = search(own).best(own.goals)
    assert best is not None
    assert isinstance(best.plan, SplitPlan)
    split = split_of(own, best.plan)
    assert (split.prefill_ranks, split.decode_ranks) == (2 * best.plan.prefill.replicas, 2 * best.plan.decode.replicas)
    assert split.decode is tables_of(own, cell_of(own, best.plan.decode)) or split.decode.layers == own.model.layers
    events = repriced(own, best.plan, 0)
    assert events.outcome.mean_tpot_s == pytest.approx(best.tpot_s, rel=1e-2)


def test_steps_of_every_rank_stand_in_the_trace() -> None:
    own = apart(prompt="800-1000", concurrency=12, plan="prefill.replicas=1,decode.replicas=2")
    best = search(own).best(own.goals)
    assert best is not None
    assert isinstance(best.plan, SplitPlan)
    record, split = repriced_apart(own, best.plan, 0, 3000)
    assert set(record.steps[:, 0]) == {0.0, 2.0, 3.0}
    prompts = record.steps[record.steps[:, 0] == 0]
    assert prompts[:, 3].max() <= split.step_tokens
    assert (prompts[1:, 1] >= prompts[:-1, 2]).all()
    names = {each["args"].get("name") for each in requests_trace(own, best.plan, 0)["traceEvents"] if each["ph"] == "M"}
    assert {"prefill rank 1", "decode rank 1", "decode rank 2"} <= names
    assert memory_chart(own, best.plan, 0) is not None


def test_a_configuration_is_read_back() -> None:
    own = apart(concurrency=8)
    plan = solve(own).best
    assert plan is not None
    assert plan_in(plan.plan.document(), "") == plan.plan
    assert read_plan(plan.plan.text()).items() <= plan.plan.keys().items()


REFUSED = {
    "mode=split": "must be aggregated or disaggregated",
    "prefil.tensor=2": "did you mean prefill.tensor?",
    "decode.chunk=4096": "is not a key of a configuration",
    "tensor=2,decode.tensor=2": "tensor: must be prefill.tensor or decode.tensor with mode=disaggregated",
    "mode=aggregated,prefill.tp=2": "prefill.tensor: must not be given with mode=aggregated",
    "prefill.tp=3": "must divide",
    "prefill.tensor=2,decode.tensor=2": "no configuration has these values on 3 accelerators",
}


@pytest.mark.parametrize(("plan", "message"), REFUSED.items(), ids=REFUSED)
def test_a_configuration_that_cannot_be_is_refused(plan: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        solve(problem(accelerators=3, plan=plan))
    assert message in str(error.value)


def test_workers_apart_stand_beside_the_other_mode_and_are_launched(dse: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asked = ("serve", "llama3-8b", "--accelerators", 3, "--prompt", "800-1000", "--output", "160-200")
    answered = dse(*asked, "--concurrency", 48, "--mode", "both", "--plan", "decode.batch=32", "--json", "--out", run)
    result = json.loads(answered.out)
    assert result["status"] == "optimal"
    plan = result["solution"]["plan"]
    assert (plan["mode"], plan["decode"]["batch"]) == ("disaggregated", 32)
    metrics = result["metrics"]
    assert set(metrics["pools"]) == {"prefill", "decode"}
    assert sum(each["accelerators"] for each in metrics["pools"].values()) == metrics["accelerators"]
    assert sum(metrics["time_s"].values()) == pytest.approx(metrics["closed_form"]["latency_s"])
    assert metrics["best"]["tokens_per_s_per_accelerator"] >= result["objective"]["value"]
    assert metrics["intervals"]["tpot_s"]["low"] is None
    assert dse("check", run).out.startswith("ok")
    assert "kv_connector" in (run / "vllm-prefill.sh").read_text()
    assert "subComponentType: prefill" in (run / "dynamo.yaml").read_text()
    again = json.loads(dse(*asked, "--concurrency", 48, "--json", "--plan", run / "serving.yaml").out)
    assert again["objective"]["value"] == pytest.approx(result["objective"]["value"])
    result["solution"]["plan"]["prefill"]["replicas"] += 1
    (run / "result.json").write_text(json.dumps(result))
    assert dse("check", run / "result.json").code == 1


def test_parts_of_pairs_are_of_their_mode() -> None:
    searched = search(apart(mode="both"))
    assert all(isinstance(each, PricedPairs) for each in searched.of_mode("disaggregated").parts)
    assert searched.of_mode("aggregated").priced + searched.of_mode("disaggregated").priced == searched.priced
