"""Files of requests: what they say, and what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse.serve.check import violations
from dse.serve.deployment import deployment_of
from dse.serve.repricing import repriced
from dse.serve.requests import GivenRequests, given_requests
from dse.serve.search import search
from hardware.inputs import InputError
from tests.serve.small import problem


def file(folder: Path, rows: list[dict[str, Any]]) -> str:
    """A file of these requests."""
    path = folder / "requests.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def rows(count: int, speed: float = 1.0) -> list[dict[str, Any]]:
    """Requests four a second, twice as many with twice the speed."""
    random = np.random.default_rng(0)
    lengths = random.integers(50, 900, (count, 2)).tolist()
    gaps = np.cumsum(random.exponential(0.25 / speed, count)).tolist()
    return [
        {"prompt_tokens": prompt, "output_tokens": output, "arrival_s": arrival}
        for (prompt, output), arrival in zip(lengths, gaps, strict=True)
    ]


def test_requests_are_shared_out_in_turn_and_have_their_means(tmp_path: Path) -> None:
    load = given_requests(file(tmp_path, rows(90)), 0, 0, 0.0)
    assert load.prompt.mean == pytest.approx(np.mean(load.prompts))
    assert load.rate_per_s == pytest.approx(4.0, rel=0.2)
    parts = [load.part(4, 0) for _ in range(4)]
    assert parts[0].prompts == load.prompts[::4]
    assert parts[0].rate_per_s == pytest.approx(load.rate_per_s / 4)
    prompts, outputs, arrivals = load.drawn(90, 7)
    assert (prompts.tolist(), outputs.tolist()) == (list(load.prompts), list(load.outputs))
    assert arrivals[0] == 0


def test_every_request_of_a_file_is_answered(tmp_path: Path) -> None:
    own = problem(requests=file(tmp_path, rows(60)), prompt="1024", output="1024", concurrency=None, accelerators=1)
    best = search(own).best(own.goals)
    assert best is not None
    events = repriced(own, best.plan, 0)
    load = own.load
    assert isinstance(load, GivenRequests)
    assert len(events.outcome.ttft_s) == 60
    assert events.outcome.output_tokens == sum(load.outputs)


def test_twice_the_arrivals_at_twice_the_speed_wait_longer(tmp_path: Path) -> None:
    seen = []
    for speed in (1.0, 2.0):
        path = file(tmp_path, rows(80, speed))
        own = problem(requests=path, prompt="1024", output="1024", concurrency=None, accelerators=1)
        best = search(own).best(own.goals)
        assert best is not None
        seen.append(repriced(own, best.plan, 0).outcome.mean_tpot_s)
    assert seen[0] < seen[1]


def test_the_longest_request_need_not_have_the_longest_prompt_and_output(tmp_path: Path) -> None:
    own = [{"prompt_tokens": 120_000, "output_tokens": 10}, {"prompt_tokens": 10, "output_tokens": 20_000}]
    asked: dict[str, Any] = {"prompt": "1024", "output": "1024", "concurrency": 2, "model": "llama3-70b"}
    known = problem(requests=file(tmp_path, own), accelerators=8, **asked)
    assert known.longest == 120_010
    best = search(known).best(known.goals)
    assert best is not None
    assert violations(known, best.plan, best.value(fewest=False)) == []
    assert deployment_of(known, best.plan).longest == 120_010
    own[1]["prompt_tokens"] = 115_000
    with pytest.raises(InputError, match=r"135000: must be at most the 131,072 tokens that llama3-70b takes"):
        problem(requests=file(tmp_path, own), accelerators=8, **asked)


GOOD = {"prompt_tokens": 10, "output_tokens": 5, "arrival_s": 0.5}

BAD: dict[str, tuple[list[dict[str, Any]], int, str]] = {
    "no output": ([{"prompt_tokens": 10}], 4, "line 1: output_tokens: must be given"),
    "no unit": ([GOOD, GOOD | {"arrival": 3}], 0, r"line 2: arrival: .*did you mean arrival_s in seconds"),
    "other names": ([{"input_length": 10, "output_length": 4}], 4, "did you mean prompt_tokens"),
    "gap": ([GOOD, {"prompt_tokens": 10, "output_tokens": 5}], 0, "line 2: must have arrival_s, as line 1 has it"),
    "back in time": ([GOOD, GOOD | {"arrival_s": 0.1}], 0, "line 2: arrival_s: 0.1: must not be before line 1"),
    "half a token": ([GOOD | {"prompt_tokens": 1.5}], 0, "must be a whole number of tokens"),
    "nothing": ([GOOD | {"output_tokens": 0}], 0, "must be a whole number of tokens from 1"),
    "all at once": ([GOOD, GOOD], 0, "arrive at once"),
    "two loads": ([GOOD], 8, "--concurrency: 8: must not be given"),
    "no load": ([{"prompt_tokens": 10, "output_tokens": 5}], 0, "arrival_s: must be given in every line"),
    "negative": ([GOOD | {"arrival_s": -1}], 0, "must be seconds, at least 0"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_file_is_said_by_line(tmp_path: Path, case: tuple[list[dict[str, Any]], int, str]) -> None:
    content, clients, message = case
    with pytest.raises(InputError, match=message):
        given_requests(file(tmp_path, content), clients, 0, 0.0)


def test_lines_that_are_no_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt_tokens": 3,\n')
    with pytest.raises(InputError, match=r"line 1: .* must be a JSON object"):
        given_requests(str(path), 0, 0, 0.0)
    path.write_text("\n\n")
    with pytest.raises(InputError, match="must have a request a line"):
        given_requests(str(path), 0, 0, 0.0)


def test_prompts_that_are_in_memory_are_read_and_not_computed() -> None:
    plain = problem(prompt="4000", concurrency=1, accelerators=1)
    shared = problem(prompt="4000", concurrency=1, accelerators=1, prefix=3900, hit_rate=1.0)
    best = search(shared).best(shared.goals)
    assert best is not None
    events, without = repriced(shared, best.plan, 0), repriced(plain, best.plan, 0)
    assert events.outcome.mean_ttft_s < 0.6 * without.outcome.mean_ttft_s
    assert events.outcome.mean_tpot_s == pytest.approx(best.tpot_s, rel=1e-2)
    assert events.tokens_per_s == pytest.approx(best.tokens_per_s, rel=3e-2)
