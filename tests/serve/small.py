"""Small problems, and the vocabulary once more as loops that share no code with the search."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from dse.serve.check import costs, objective_of
from dse.serve.check_rules import illegal
from dse.serve.options import ServeOptions, posed_problem
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import ServingPlan

CHUNKS = (2048, 4096, 8192, 16384, 32768)


def problem(model: str = "llama3-8b", **options: Any) -> ServeProblem:
    """Of these options, with prompts of 1,000 tokens and 64 requests in flight unless they say otherwise."""
    usual: dict[str, Any] = {"accelerators": 2, "prompt": "1000", "output": "200"}
    if "rate" not in options:
        usual["concurrency"] = 64
    return posed_problem(ServeOptions(model, **usual | options)).problem


def every_plan(own: ServeProblem) -> Iterator[ServingPlan]:
    """All legal configurations, by trying every combination of sizes."""
    sizes = range(1, own.devices + 1)
    batches = [1 << power for power in range(15)]
    chunks = [2048 * step for step in range(1, 33)]
    for engine, precision, cache in product([each.name for each in own.engines], own.precisions, own.caches):
        for tensor, data, expert, pipeline, replicas in product(sizes, sizes, sizes, sizes, sizes):
            if tensor * data * pipeline * replicas > own.devices or tensor * data % expert:
                continue
            shape = tensor, pipeline, data, expert, tensor * data // expert
            for batch, chunk in product(batches, chunks):
                plan = ServingPlan("aggregated", engine, *shape, replicas, batch, chunk, precision, cache)
                if not illegal(own, plan):
                    yield plan


def brute_force(own: ServeProblem) -> tuple[float | None, int]:
    """(the best objective, how many configurations there are)."""
    best: float | None = None
    count = 0
    for plan in every_plan(own):
        count += 1
        price = costs(own, plan)
        kept = price.fits and price.latency_s < float("inf")
        for limit, mean in ((own.goals.ttft_s, price.ttft_s), (own.goals.tpot_s, price.tpot_s)):
            kept = kept and (limit is None or mean <= limit * (1 + 1e-9))
        if kept:
            value = objective_of(own, plan, price)
            best = value if best is None else (min if own.fewest else max)(best, value)
    return best, count


def fixed(own: ServeProblem, **keys: Any) -> ServeProblem:
    """The same with these keys fixed."""
    return replace(own, fixed=tuple(keys.items()))
