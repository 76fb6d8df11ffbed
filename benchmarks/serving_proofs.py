"""Whether the best configuration of serving is the best, and how fast it is proven and simulated.

``python -m benchmarks.serving_proofs``: random small problems, each against brute force over every combination of sizes
that the checker's rules allow, priced by the checker's plain numbers; then CPU seconds of proofs as users pose them, of
the closed form in arrays, and of an hour of traffic by events. ``--problems N`` poses another number.
"""

import random
import time
from typing import Any

from benchmarks.recording import Record, Results, parser_of
from dse.serve import repricing
from dse.serve.answer import solve
from dse.serve.closed_form import priced, tables_of
from dse.serve.problem import ServeProblem
from dse.serve.search import search
from dse.serve.vocabulary import cells, grid
from tests.serve.small import brute_force, problem

PROBLEMS = 300

MODELS = ("llama3-8b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-120b", "llama3-70b")
CHIPS = ("h100-sxm", "h200-sxm", "b200", "a100-sxm", "mi300x")
ENGINES = ("vllm", "sglang", "trtllm")

TIMED: dict[str, dict[str, Any]] = {
    "Llama 3 70B on 8 H100": {"model": "llama3-70b", "accelerators": 8, "concurrency": 64, "prompt": "3277-4096"},
    "the same at a rate": {"model": "llama3-70b", "accelerators": 8, "rate": 2.0, "prompt": "3277-4096"},
    "DeepSeek-V3 on 72 GB200": {
        "model": "deepseek-v3", "on": "gb200", "accelerators": 72, "concurrency": 1024, "engine": "vllm,sglang,trtllm",
        "tpot": 0.03,
    },
    "Llama 3 70B, fewest H100 for 50 requests/s": {
        "model": "llama3-70b", "accelerators": 1024, "rate": 50.0, "tpot": 0.03, "minimum_devices": True,
    },
}  # fmt: skip

HOUR: dict[str, Any] = {
    "model": "llama3-70b",
    "accelerators": 8,
    "rate": 6.94,
    "prompt": "500-1500",
    "output": "100-400",
}
HOUR_REQUESTS = 25_000

RECORD = Record(
    "serving_proofs",
    ("problems", "equal", "answered", "array_rate", "hour_s", "llama_s", "deepseek_s"),
    {"timed": ("problem", "configurations", "CPU s", "configurations/s")},
)


def random_problem(number: int) -> ServeProblem:
    """Of one to three accelerators, with some limit or none."""
    draw = random.Random(number)
    prompt, output = draw.randint(20, 6000), draw.randint(2, 800)
    asked: dict[str, Any] = {
        "model": draw.choice(MODELS),
        "on": draw.choice(CHIPS),
        "engine": draw.choice(ENGINES),
        "accelerators": draw.choice((1, 2, 2, 3)),
        "prompt": draw.choice((f"{prompt}", f"{-(-4 * prompt // 5)}-{prompt}")),
        "output": f"{output}",
        "tpot": draw.choice((None, 10 ** draw.uniform(-2.5, -1))),
        "ttft": draw.choice((None, 10 ** draw.uniform(-1.5, 1.5))),
        "minimum_devices": draw.random() < 0.2,
    }
    if draw.random() < 0.3:
        asked["rate"] = round(10 ** draw.uniform(-1.5, 1.5), 3)
    else:
        asked["concurrency"] = draw.randint(1, 200)
    if draw.random() < 0.2:
        asked |= {"prefix": max(1, prompt // 3), "hit_rate": round(draw.random(), 2) or 0.5}
    return problem(**asked)


def is_equal(own: ServeProblem) -> tuple[bool, bool]:
    """(whether search and brute force agree, whether there is an answer)."""
    searched = search(own)
    best, (value, count) = searched.best(own.goals), brute_force(own)
    if best is None or value is None:
        return best is None and value is None and searched.vocabulary == count, False
    same = abs(best.value(own.fewest) - value) <= 1e-9 * abs(value)
    return same and searched.vocabulary == count, True


def timed(results: Results) -> dict[str, float]:
    """CPU seconds of proofs."""
    seconds = {}
    for name, asked in TIMED.items():
        own = problem(**{"output": "410-512", "prompt": "4096"} | asked)
        begin = time.process_time()
        answer = solve(own)
        assert answer.best is not None
        seconds[name] = time.process_time() - begin
        count = answer.matching.vocabulary
        results.row("timed", name, count, f"{seconds[name]:.2f}", f"{count / seconds[name]:,.0f}")
    return seconds


def array_rate() -> float:
    """Configurations a second of the closed form, once the tables of a shape are there."""
    own = problem("llama3-70b", accelerators=1024, concurrency=4096, precision="fp8")
    cell = next(each for each in cells(own) if each.shape.tensor == 8)
    columns, tables = grid(own, cell), tables_of(own, cell)
    begin = time.process_time()
    for _ in range(20):
        priced(own, cell, columns, lambda _: tables)
    return 20 * len(columns) / (time.process_time() - begin)


def hour_s() -> float:
    """CPU seconds of :data:`HOUR_REQUESTS` simulated requests."""
    own = problem(**HOUR)
    best = search(own).best(own.goals)
    assert best is not None
    repricing.repriced(own, best.plan, 0)  # compiled before it is timed
    requests = HOUR_REQUESTS * best.plan.groups  # of which one group, which is simulated, answers its part
    begin = time.process_time()
    repricing.repriced(own, best.plan, 0, requests)
    return time.process_time() - begin


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--problems", type=int, default=PROBLEMS, metavar="N", help="random small problems")
    arguments = parser.parse_args()
    results = Results(RECORD)
    judged = [is_equal(random_problem(number)) for number in range(arguments.problems)]
    results.figure("problems", len(judged))
    results.figure("equal", sum(same for same, _ in judged))
    results.figure("answered", sum(answered for _, answered in judged))
    seconds = timed(results)
    results.figure("array_rate", f"{array_rate():,.0f} configurations/s")
    results.figure("hour_s", f"{hour_s():.2f} s")
    results.figure("llama_s", f"{seconds['Llama 3 70B on 8 H100']:.2f} s")
    results.figure("deepseek_s", f"{seconds['DeepSeek-V3 on 72 GB200']:.1f} s")
    results.save(arguments.record)
