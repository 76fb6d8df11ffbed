"""Drafts as a part of configurations: brute force, the checker, laws, events, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.serve.check_disaggregated import costs, violations
from dse.serve.deployment import deployment_of
from dse.serve.problem import ServeProblem
from dse.serve.repricing import repriced
from dse.serve.rules import broken
from dse.serve.search import choice_of, search
from dse.serve.serving_plan import ServingPlan
from hardware.inputs import InputError
from tests.serve.small import brute_force, problem

SMALL_MODEL = """\
schema: dse.transformer/1
name: llama3-1b
source: "Llama Team, Llama 3.2, 2024"
layers: 16
hidden: 2048
heads: 32
kv_heads: 8
feed_forward: 8192
vocabulary: 128256
sequence: 8192
tied_embeddings: true
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of a model that proposes tokens for llama3-8b."""
    path = tmp_path_factory.mktemp("models") / "llama3-1b.yaml"
    path.write_text(SMALL_MODEL)
    return str(path)


def drafted(small: str, drafts: str = "0-2", acceptance: float = 0.8, **more: Any) -> ServeProblem:
    """Of llama3-8b, on two accelerators with one engine unless ``more`` says otherwise."""
    usual: dict[str, Any] = {"concurrency": 8, "engine": "vllm"} | more
    if "rate" in usual:
        del usual["concurrency"]
    return problem("llama3-8b", drafts=drafts, acceptance=acceptance, draft_model=small, **usual)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"acceptance": 0.1, "concurrency": 64},
        {"rate": 3.0, "tpot": 0.012, "engine": "sglang"},
        {"engine": "trtllm", "prompt": "900-1100", "tpot": 0.004},
        {"mode": "disaggregated", "drafts": "0-1"},
        {"prefix": 400, "hit_rate": 0.5},
    ],
)
def test_the_best_number_of_drafts_is_that_of_brute_force(small: str, more: dict[str, Any]) -> None:
    own = drafted(small, **more)
    searched = search(own)
    value, count = brute_force(own)
    best = searched.best(own.goals)
    assert searched.vocabulary == count
    assert (best is None) == (value is None)
    if best is not None:
        assert best.value(own.fewest) == pytest.approx(value, rel=1e-9)
        assert violations(own, best.plan, best.value(own.fewest)) == []


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"model": "deepseek-v3", "accelerators": 8, "on": "h200-sxm", "concurrency": 16}, id="layer"),
        pytest.param({"model": "llama3-8b", "rate": 2.0}, id="model"),
    ],
)
def test_arrays_and_the_checker_price_drafts_alike(small: str, own: dict[str, Any]) -> None:
    more = {} if own["model"] == "deepseek-v3" else {"draft_model": small}
    posed = problem(drafts="2", acceptance=0.7, engine="sglang", **own, **more)
    seen = 0
    for part in search(posed).parts:
        for row in range(0, len(part), max(len(part) // 3, 1)):
            plan = part.plan(row)
            price = costs(posed, plan)
            if not price.fits or not np.isfinite(price.latency_s):
                continue
            seen += 1
            assert price.time_s["decode: drafts"] > 0
            assert sum(price.time_s.values()) == pytest.approx(price.latency_s)
            for name in ("ttft_s", "tpot_s", "tokens_per_s"):
                assert getattr(part, name)[row] == pytest.approx(getattr(price, name), rel=1e-9)
    assert seen


@settings(max_examples=6, deadline=None)
@given(clients=st.sampled_from([1, 8, 40]), acceptances=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_more_acceptance_is_never_slower_and_none_never_helps(
    small: str, clients: int, acceptances: tuple[float, float]
) -> None:
    own = drafted(small, concurrency=clients)
    plan = search(replace(own, drafts=(2,))).best(own.goals)
    assert plan is not None
    low, high = (choice_of(replace(own, acceptance=each), plan.plan) for each in sorted(acceptances))
    assert high.tpot_s <= low.tpot_s * (1 + 1e-12)
    lost = replace(own, acceptance=0.0)
    best, without = search(lost).best(own.goals), search(replace(lost, drafts=(0,))).best(own.goals)
    assert best is not None
    assert without is not None
    assert best.plan.drafts == 0
    assert best.value(False) == without.value(False)


def test_one_request_has_the_time_between_tokens_of_events(small: str) -> None:
    own = drafted(small, drafts="3", concurrency=1, output="400")
    best = search(own).best(own.goals)
    assert best is not None
    events = repriced(own, best.plan, 0, 200)
    assert events.outcome.mean_tpot_s == pytest.approx(best.tpot_s, rel=0.02)


def test_the_checker_refuses_altered_drafts(small: str) -> None:
    own = drafted(small)
    best = search(own).best(own.goals)
    assert best is not None
    assert isinstance(best.plan, ServingPlan)
    value = best.value(False)
    assert best.plan.drafts
    for other in (0, 1, 3):
        if other != best.plan.drafts:
            assert violations(own, replace(best.plan, drafts=other), value)
    assert violations(own, best.plan, value * 1.001)
    assert violations(replace(own, acceptance=0.5), best.plan, value)
    assert "pipeline must be 1 with drafts" in violations(own, replace(best.plan, tensor=1, pipeline=2), value)
    staged = replace(best.plan, tensor=1, expert_tensor=1, replicas=1, pipeline=2)
    assert ("pipeline", "must be 1 with drafts", 1) in broken(own, staged)


def test_what_is_launched_proposes_as_many_tokens(small: str) -> None:
    own = drafted(small, drafts="2")
    best = search(own).best(own.goals)
    assert best is not None
    launched = deployment_of(own, best.plan)
    assert (launched.draft_tokens, launched.draft_model) == (2, "llama3-1b")


def test_faults_of_drafts_are_one_line_each(small: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SMALL_MODEL.replace("128256", "50000"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"drafts": "2"}, "--acceptance"),
        ({"acceptance": 0.5}, "--drafts"),
        ({"draft_model": small}, "--drafts"),
        ({"drafts": "3-1", "acceptance": 0.5}, "must be a number of drafts"),
        ({"drafts": "x", "acceptance": 0.5}, "must be a number of drafts"),
        ({"drafts": "99", "acceptance": 0.5}, "must be a number of drafts"),
        ({"drafts": "2", "acceptance": 1.5, "draft_model": small}, "--acceptance"),
        ({"drafts": "2", "acceptance": 0.5}, "multi-token-prediction layer"),
        ({"drafts": "2", "acceptance": 0.5, "draft_model": str(other)}, "vocabulary"),
        ({"drafts": "1-2", "acceptance": 0.5, "draft_model": small, "plan": "drafts=4"}, "drafts"),
    ]
    for options, said in cases:
        with pytest.raises(InputError, match=said) as raised:
            problem("llama3-8b", **options)
        assert "\n" not in str(raised.value)
