"""``dse serve`` as users call it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serve.test_export import read_script

ASKED = ("serve", "llama3-8b", "--accelerators", 2, "--prompt", "800-1000", "--output", "160-200")


def test_an_answer_has_what_the_contract_says(dse: Any, tmp_path: Path) -> None:
    answered = dse(*ASKED, "--concurrency", 32, "--tpot", 0.02, "--json", "--out", tmp_path / "run")
    result = json.loads(answered.out)
    assert (answered.code, result["status"]) == (0, "optimal")
    assert result["objective"]["name"] == "tokens_per_s_per_accelerator"
    metrics = result["metrics"]
    assert set(metrics["ttft_s"]) == {"mean", "p50", "p90", "p99"}
    assert metrics["tokens_per_s"] == pytest.approx(result["objective"]["value"] * metrics["accelerators"])
    assert metrics["tpot_s"]["mean"] <= 0.02
    low, value, high = (metrics["usd_per_million_tokens"]["at_cost"][place] for place in (1, 0, 2))
    assert low < value < high
    users = [each["tokens_per_s_per_user"] for each in metrics["front"]]
    assert users == sorted(users, reverse=True)
    assert metrics["without"]["tpot"]["tokens_per_s_per_accelerator"] >= result["objective"]["value"] * (1 - 1e-9)
    assert dse("check", tmp_path / "run" / "result.json").out.startswith("ok")
    assert "chart" in (tmp_path / "run" / "report.html").read_text()
    flags = read_script((tmp_path / "run" / "vllm-serve.sh").read_text(encoding="utf-8"), "vllm")
    chosen = result["solution"]["plan"]
    assert flags["--tensor-parallel-size"] == str(chosen["tensor"])
    assert (flags["--max-num-seqs"], flags["--max-model-len"]) == (str(chosen["batch"]), "1200")
    graph = (tmp_path / "run" / "dynamo.yaml").read_text(encoding="utf-8")
    assert f"replicas: {chosen['replicas']}" in graph
    plan = tmp_path / "run" / "serving.yaml"
    again = json.loads(dse(*ASKED, "--concurrency", 32, "--tpot", 0.02, "--json", "--plan", plan).out)
    assert again["objective"]["value"] == pytest.approx(result["objective"]["value"])
    assert again["metrics"]["best"]["plan"] == result["solution"]["plan"]


def test_a_stated_configuration_stands_beside_the_best(dse: Any) -> None:
    answered = dse(*ASKED, "--concurrency", 32, "--plan", "tensor=2,batch=8")
    assert "proven best given what is fixed" in answered.out
    assert "the proven best has" in " ".join(answered.out.split())


def test_what_stays_free_stands_beside_the_most_output(dse: Any, tmp_path: Path) -> None:
    answered = dse(*ASKED, "--concurrency", 8, "--out", tmp_path / "run")
    assert "1 of 2 accelerators stay free" in " ".join(answered.out.split())
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    most = result["metrics"]["most_output"]
    assert most["accelerators"] == 2 > result["metrics"]["accelerators"]
    assert most["tokens_per_s_per_accelerator"] * 2 > result["metrics"]["tokens_per_s"]
    assert "The most in all is" in " ".join(answered.out.split())
    assert dse("check", tmp_path / "run" / "result.json").out.startswith("ok")


def test_several_chips_stand_in_one_table(dse: Any) -> None:
    answered = dse(*ASKED, "--concurrency", 8, "--on", "h100-sxm,a100-sxm")
    assert answered.code == 0
    assert "tokens/s per chip" in answered.out
    assert "rows are comparable only if their times have the same basis" in " ".join(answered.out.split())


def test_fewest_accelerators_for_a_load(dse: Any) -> None:
    result = json.loads(dse(*ASKED[:2], *ASKED[4:], "--load", 60, "--tpot", 0.02, "--minimum-devices", "--json").out)
    assert result["objective"]["name"] == "accelerators"
    assert result["solution"]["plan"]["replicas"] >= 2
    assert result["metrics"]["largest_rate_per_s"] > 60


def test_a_percentile_that_no_mean_keeps_is_answered_and_checked(dse: Any, tmp_path: Path) -> None:
    asked = ("serve", "llama3-8b", "--accelerators", 1, "--prompt", 3000, "--output", 200, "--concurrency", 48)
    answered = dse(*asked, "--ttft", 0.2, "--statistic", "p50", "--out", tmp_path / "run")
    assert answered.code == 0
    assert "that keeps the limits by events" in " ".join(answered.out.split()) or "proven best" in answered.out
    assert "another is better" not in answered.out
    assert dse("check", tmp_path / "run" / "result.json").out.startswith("ok")


def test_percentiles_are_kept_by_events(dse: Any) -> None:
    asked = (*ASKED, "--concurrency", 48, "--ttft", 0.35, "--statistic", "p90", "--json")
    result = json.loads(dse(*asked).out)
    assert result["metrics"]["events"]["keeps_limits"]
    assert result["metrics"]["ttft_s"]["p90"] <= 0.35
    assert result["bound"] >= result["objective"]["value"] * (1 - 1e-12)


def test_one_token_has_no_time_between_tokens(dse: Any, tmp_path: Path) -> None:
    asked = ("serve", "llama3-8b", "--accelerators", 2, "--prompt", "800-1000", "--output", 1)
    answered = dse(*asked, "--concurrency", 16, "--out", tmp_path / "run")
    assert (answered.code, "TPOT" in answered.out.splitlines()[0]) == (0, False)
    assert dse("check", tmp_path / "run" / "result.json").out.startswith("ok")


def test_a_chip_whose_parts_are_not_known_has_no_price_and_says_so(dse: Any) -> None:
    answered = dse(*ASKED, "--concurrency", 8, "--on", "tpuv5p", "--notes")
    assert "no price and no energy: the file of tpuv5p does not say" in " ".join(answered.out.split())
    assert "per million tokens" not in answered.out


NOT_ANSWERED = {
    "limit": (("--concurrency", 32, "--tpot", 1e-4), "the nearest has a TPOT of"),
    "rate": (("--rate", 5000), "the largest stable rate is"),
}


@pytest.mark.parametrize("case", NOT_ANSWERED.values(), ids=NOT_ANSWERED)
def test_what_nothing_keeps_is_said_with_the_nearest(dse: Any, case: tuple[tuple[Any, ...], str]) -> None:
    asked, message = case
    answered = dse(*ASKED, *asked)
    assert answered.code == 1
    assert message in " ".join(answered.out.split())


def test_a_request_that_memory_cannot_hold_is_said_to_be_so(dse: Any) -> None:
    answered = dse("serve", "llama3-70b", "--accelerators", 1, "--concurrency", 1)
    assert answered.code == 1
    assert "one request needs" in " ".join(answered.out.split())


def test_requests_of_a_file_that_come_too_fast_are_to_be_spread(dse: Any, tmp_path: Path) -> None:
    line = '{"prompt_tokens": 100, "output_tokens": 10, "arrival_s": '
    path = tmp_path / "requests.jsonl"
    path.write_text(f"{line}0}}\n{line}1e-6}}\n")
    answered = dse("serve", "llama3-8b", "--requests", path)
    assert answered.code == 1
    assert "times as far apart" in answered.out
    assert "--rate" not in answered.out


REFUSED = {
    "prompt": (
        ("--concurrency", 4, "--prompt", 200_000),
        "--prompt: 200000: with --output 200 must be at most the 131,072",
    ),
    "range": (
        ("--concurrency", 4, "--prompt", "900-100"),
        "must begin with the smaller number (did you mean 100-900?)",
    ),
    "words": (("--concurrency", 4, "--prompt", "long"), "must be a number of tokens, or a range"),
    "no writer": (("--concurrency", 4), "must write tokens one by one"),
    "one token": (("--concurrency", 4, "--output", 1, "--tpot", 0.1), "must not be given with --output 1"),
    "no load": ((), "must be given: --concurrency, --rate or --requests"),
    "two loads": (("--concurrency", 4, "--rate", 2), "must not be given with --rate"),
    "format": (("--concurrency", 4, "--precision", "nvfp4"), "needs products in fp4, which h100-sxm lacks"),
    "format of the plan": (("--concurrency", 4, "--plan", "precision=nvfp4"), "needs products in fp4"),
    "engine": (("--concurrency", 4, "--engine", "vlm"), "did you mean vllm?"),
    "key": (("--concurrency", 4, "--plan", "tenor=2"), "tenor: is not a key of a configuration (did you mean tensor?)"),
    "alias": (("--concurrency", 4, "--plan", "tp=3"), "tensor: 3: must divide"),
    "experts": (("--concurrency", 4, "--plan", "expert=2"), "expert"),
    "two values": (("--concurrency", 4, "--plan", "tp=2,tensor=1"), "the key is given twice"),
    "too many": (("--concurrency", 4, "--plan", "tensor=2,pipeline=2"), "--plan: "),
    "chunk": (("--concurrency", 64, "--engine", "trtllm", "--plan", "chunk=64"), "chunk"),
    "prefix": (
        ("--concurrency", 4, "--prefix", 900, "--hit-rate", 0.5),
        "must be shorter than the shortest prompt (800)",
    ),
    "hits": (("--concurrency", 4, "--prefix", 90), "must be given together with --hit-rate"),
    "file": (("--requests", "nowhere.jsonl"), "nowhere.jsonl"),
    "statistic": (("--concurrency", 4, "--statistic", "p99"), "must be given together with --ttft or --tpot"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(dse: Any, case: tuple[tuple[Any, ...], str]) -> None:
    asked, message = case
    model = "bert-large" if message.startswith("must write") else "llama3-8b"
    answered = dse("serve", model, *ASKED[2:], *asked)
    assert answered.code == 2
    (line,) = answered.error_lines
    assert message in line
