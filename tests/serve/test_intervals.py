"""Intervals of TTFT and TPOT: which runs are as near, and where there are none."""

import math

import pytest

from dse.plan.intervals import LEVEL
from dse.serve.engine import list_engines
from dse.serve.intervals import documents, interval, intervals
from dse.serve.search import search
from tests.serve.small import problem


def test_errors_are_of_engines_that_there_are_and_ascend() -> None:
    for name, each in intervals().engines.items():
        assert name in list_engines()
        for errors in (each.known, each.other):
            assert list(errors.tpot) == sorted(errors.tpot)
            assert list(errors.ttft) == sorted(errors.ttft)


def test_an_interval_holds_nine_of_ten_runs_that_are_as_near() -> None:
    own = problem("llama3-70b", on="h200-sxm", precision="fp8")
    sizes = intervals().engines["vllm"].known.tpot
    found = interval(own, "vllm", "tpot")
    assert found.factor is not None
    inside = sum(size <= math.log(found.factor) + 1e-9 for size in sizes)
    assert inside == math.ceil(LEVEL * (len(sizes) + 1))
    assert found.rows == len(sizes)


def test_a_chip_without_runs_has_no_interval_and_says_so() -> None:
    own = problem(on="mi300x")
    best = search(own).best(own.goals)
    assert best is not None
    found = documents(own, best.plan, {"ttft_s": {"mean": 1.0}, "tpot_s": {"mean": 0.01}})
    assert found["tpot_s"]["low"] is None
    assert "no published run here is of vllm on mi300x" in str(found["tpot_s"]["reason"])


@pytest.mark.parametrize("metric", ["tpot", "ttft"])
def test_models_of_no_fitted_run_are_a_class_of_their_own(metric: str) -> None:
    seen, unseen = problem("llama3-70b"), problem("llama3-8b")
    one, other = interval(seen, "vllm", metric), interval(unseen, "vllm", metric)
    assert one.of != other.of
    assert other.factor is None or one.factor != other.factor
