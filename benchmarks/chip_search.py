"""``dse codesign --space chips-2026``: proofs over up to 2e11 chips, every chip near the best, fronts, random spaces.

Each row is a question about packages under 1 kW for 1,024 of them and 4,096 samples (unless it says otherwise), in a
process of its own on one core that has compiled its kernels before. Sizes: ``1e6`` chips are of one node, die, clock,
link rate and domain with three memories, ``5e7`` of all memories that one die holds and both domains, ``4e9`` also of
all clocks and link rates, ``2e11`` all of chips-2026. Targets on two cores: 30 s and 2 GB, 2 minutes, 10 minutes, an
hour. Baseline in the same run: every plan on every chip, extrapolated from the rate at which the evaluator prices a
sample of both. Random spaces of at most 2,000 chips are compared with brute force, for each objective.

    python -m benchmarks.chip_search 1e6 5e7 --record
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.process import answer_of, peak_gb
from benchmarks.recording import Record, Results, cpu_s, parser_of
from dse.codesign.chips.asked import chip_problem
from dse.codesign.chips.front_search import FrontSearch
from dse.codesign.chips.leaf import whole_designs
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.search import ChipSearch
from dse.codesign.objective import Per
from dse.codesign.options import CodesignOptions
from dse.plan.evaluate import step_seconds
from dse.plan.search.vocabulary import families, member_counts, plans_of
from dse.plan.template_kernels import TemplateKernels
from hardware.chip_space import ChipSpace, chip_space, least_designs
from hardware.silicon.design import Die
from hardware.silicon.edges import max_sites
from tests.codesign.chip_spaces import OBJECTIVES, best_of_all, random_problem

RECORD = Record(
    "chip_search",
    tables={
        "main": (
            "question", "chips", "plans", "answer", "gap", "chips priced", "CPU s", "wall s", "peak GB",
            "every plan on every chip, CPU years",
        ),
        "random": ("objective", "spaces", "with an answer", "same optimum"),
    },
)  # fmt: skip

_ONE = {"nodes": [3], "dies": [1], "clock_hz": [1.6e9], "bytes_per_s": [900e9], "domains": [72]}
_SIZES: Mapping[str, tuple[str, ...]] = {
    "1e6": ("nodes", "dies", "clock_hz", "bytes_per_s", "domains"),
    "5e7": ("nodes", "dies", "clock_hz", "bytes_per_s"),
    "4e9": ("nodes", "dies"),
    "2e11": (),
}
_THREE = [{"kind": "hbm3e", "stacks": [4, 5, 6], "gb": [24], "source": "as in an H200"}]

_SECONDS_A_YEAR = 365.25 * 86_400
_SAMPLED_CHIPS, _SAMPLED_PLANS = 16, 256


def space_of(size: str) -> ChipSpace:
    """A part of chips-2026."""
    document = chip_space("chips-2026").model_dump(mode="json", exclude_none=True)
    for axis in _SIZES[size]:
        place = document["scale_up"] if axis in ("bytes_per_s", "domains") else document
        place[axis]["values"] = _ONE[axis]
    whole = chip_space("chips-2026")
    for each in document["memories"]:
        die = Die(node=3, style=whole.style.value, memory=each["kind"], memory_sites=1)
        most = int(max_sites(die, whole.largest_mm2)) * max(document["dies"]["values"])
        each["stacks"] = [stacks for stacks in each["stacks"] if stacks <= most]
    if size == "1e6":
        document["memories"] = _THREE
    return ChipSpace.model_validate(document)


def posed(size: str, *models: str, **changes: Any) -> ChipProblem:
    """Models on chips of a size."""
    options = CodesignOptions(models, space="chips-2026", power_cap=1000.0, on="none", **changes)
    return replace(chip_problem(options), space=space_of(size))


_LLAMA = ("llama3-70b",)
_FRONT: dict[str, Any] = {"pareto": True, "pareto_of": "throughput,power,cost", "pareto_gap": 2.0}
QUESTIONS: Mapping[str, tuple[str, Callable[[], ChipProblem]]] = {
    "1e6": ("Llama 3 70B", lambda: posed("1e6", *_LLAMA)),
    "5e7": ("Llama 3 70B", lambda: posed("5e7", *_LLAMA)),
    "4e9": ("Llama 3 70B", lambda: posed("4e9", *_LLAMA)),
    "4e9-dollar": ("Llama 3 70B, per dollar", lambda: posed("4e9", *_LLAMA, objective="per-dollar")),
    "2e11": ("Llama 3 70B", lambda: posed("2e11", *_LLAMA)),
    "1e6-near": ("Llama 3 70B, every chip within 3 %", lambda: posed("1e6", *_LLAMA, within=3.0)),
    "4e9-near": ("Llama 3 70B, every chip within 3 %", lambda: posed("4e9", *_LLAMA, within=3.0)),
    "1e6-three": (
        "Llama 3 70B, Mixtral 8x7B and Qwen3 32B at once",
        lambda: posed("1e6", "llama3-70b", "mixtral-8x7b", "qwen3-32b", weights="2,1,1"),
    ),
    "4e9-three": (
        "Llama 3 70B, Mixtral 8x7B and Qwen3 32B at once",
        lambda: posed("4e9", "llama3-70b", "mixtral-8x7b", "qwen3-32b", weights="2,1,1"),
    ),
    "1e6-front": ("Llama 3 70B, front of throughput, power and cost", lambda: posed("1e6", *_LLAMA, **_FRONT)),
    "4e9-front": ("Llama 3 70B, front of throughput, power and cost", lambda: posed("4e9", *_LLAMA, **_FRONT)),
    "1e6-deepseek": (
        "DeepSeek-V3 on 16,128 chips, 16,128 samples",
        lambda: posed("1e6", "deepseek-v3", accelerators=16_128, global_batch=16_128),
    ),
    "4e9-deepseek": ("DeepSeek-V3", lambda: posed("4e9", "deepseek-v3")),
}


def main() -> None:
    """Print a row per question, and a row per objective of random spaces."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument(
        "questions",
        nargs="*",
        default=["1e6", "5e7", "4e9", "4e9-dollar"],
        metavar="QUESTION",
        help=", ".join(QUESTIONS),
    )
    parser.add_argument("--limit", type=float, default=600.0, help="CPU seconds of a question (default: 600)")
    parser.add_argument("--random", type=int, default=50, help="random spaces of each objective (default: 50)")
    parser.add_argument("--one", choices=QUESTIONS, help="a question to answer in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(answered(arguments.one, arguments.limit)))
        return
    for name in arguments.questions:
        row = answer_of("benchmarks.chip_search", "--one", name, "--limit", arguments.limit, OMP_NUM_THREADS="1")
        results.row("main", *row["cells"])
    for per in OBJECTIVES if arguments.random else ():
        results.row("random", per, *compared(per, arguments.random))
    results.save(arguments.record)


def answered(name: str, limit_s: float) -> dict[str, Any]:
    """The cells of one question."""
    words, pose = QUESTIONS[name]
    problem = pose()
    rate, plans = priced_per_s(problem)
    began, began_cpu = time.perf_counter(), cpu_s()

    def stop() -> str | None:
        return "time limit" if cpu_s() - began_cpu > limit_s else None

    if problem.pareto:
        front = FrontSearch(problem, stop).run()
        answer, gap, priced = f"{len(front.points):,} chips", front.gap, front.counts.priced
    else:
        outcome = ChipSearch(problem, stop).run()
        near = outcome.near(problem.within)
        more = f", {len(near):,} chips" if problem.within else ""
        answer = f"{outcome.score:,.1f} {problem.objective.unit}{more}"
        gap, priced = outcome.bound / outcome.score - 1 if outcome.score else np.inf, outcome.counts.priced
    seconds = cpu_s() - began_cpu, time.perf_counter() - began
    years = problem.space.points * plans / rate / _SECONDS_A_YEAR
    shown = "none" if np.isinf(gap) else f"{gap:.2%}"
    figures = (f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{peak_gb():.2f}", f"{years:,.2g}")
    return {"cells": [words, f"{problem.space.points:.2g}", plans, answer, shown, priced, *figures]}


def priced_per_s(problem: ChipProblem) -> tuple[float, int]:
    """Plans on chips that the evaluator prices in a CPU second, from a sample of both; and how many plans there are."""
    draw, space, plans, pairs, spent_s = np.random.default_rng(0), problem.space, 0, 0, 0.0
    cores = whole_designs(problem, least_designs(space))
    machines = problem.machines(
        cores.take(draw.choice(len(cores), _SAMPLED_CHIPS)), min(space.clock_hz.values), space.choices[-1]
    )
    links = Links(max(space.scale_up.bytes_per_s.values), max(space.scale_up.domains.values))
    for model in range(len(problem.models)):
        for precision in problem.precisions:
            asked = problem.plan_problem(model, precision, links, machines.one(0), space.choices[-1])
            every = np.concatenate(list(families(asked, 16_384)))
            plans += int(member_counts(asked, every).sum())
            few = plans_of(asked, every[draw.choice(len(every), _SAMPLED_PLANS)])
            step_seconds(asked, few.part(np.arange(8)), TemplateKernels(asked, machines))
            began = time.process_time()
            step_seconds(asked, few, TemplateKernels(asked, machines))
            spent_s, pairs = spent_s + time.process_time() - began, pairs + few.count * _SAMPLED_CHIPS
    return pairs / spent_s, plans


def compared(per: Per, spaces: int) -> tuple[int, int, int]:
    """Random spaces, those with an answer, and those with the same optimum by brute force."""
    answers = same = 0
    for seed in range(spaces):
        problem = random_problem(10_000 + 1_000 * OBJECTIVES.index(per) + seed, per)
        best, _ = best_of_all(problem)
        outcome = ChipSearch(problem).run()
        answers += best > 0
        same += abs(outcome.score - best) <= 1e-9 * best and outcome.bound == outcome.score
    return spaces, answers, same


if __name__ == "__main__":
    main()
