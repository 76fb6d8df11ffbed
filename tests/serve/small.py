"""Small problems, and the vocabulary once more as loops that share no code with the search."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from dse.serve.check import objective_of
from dse.serve.check_disaggregated import costs, violations
from dse.serve.check_rules import illegal, illegal_apart
from dse.serve.options import ServeOptions, posed_problem
from dse.serve.problem import ServeProblem
from dse.serve.search import search
from dse.serve.serving_plan import Plan, ServingPlan, SplitPlan, split_plan

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
    names = [each.name for each in own.engines]
    for engine, precision, cache, drafts in product(names, own.precisions, own.caches, own.drafts):
        for tensor, data, expert, pipeline, replicas in product(sizes, sizes, sizes, sizes, sizes):
            if tensor * data * pipeline * replicas > own.devices or tensor * data % expert:
                continue
            shape = tensor, pipeline, data, expert, tensor * data // expert
            for batch, chunk in product(batches, chunks):
                plan = ServingPlan("aggregated", engine, *shape, replicas, batch, chunk, precision, cache, drafts)
                if not illegal(own, plan):
                    yield plan


def chips(shape: tuple[int, ...]) -> int:
    """Of all replicas."""
    tensor, pipeline, data, *_, replicas = shape
    return tensor * pipeline * data * replicas


def every_split_plan(own: ServeProblem) -> Iterator[SplitPlan]:
    """All legal configurations with workers apart, by trying every pair of sizes."""
    sizes = range(1, own.devices + 1)
    batches, chunks = [1 << power for power in range(15)], [2048 * step for step in range(1, 33)]
    shapes = [
        (tensor, pipeline, data, expert, tensor * data // expert, replicas)
        for tensor, data, expert, pipeline, replicas in product(sizes, sizes, sizes, sizes, sizes)
        if tensor * data * pipeline * replicas < own.devices and tensor * data % expert == 0
    ]
    names = [each.name for each in own.engines]
    for engine, precision, cache, drafts in product(names, own.precisions, own.caches, own.drafts):
        for one, other in product(shapes, shapes):
            if chips(one) + chips(other) > own.devices:
                continue
            for batch, chunk in product(batches, chunks):
                prefill = ServingPlan("prefill", engine, *one, 1, chunk, precision, cache, drafts)
                decode = ServingPlan("decode", engine, *other, batch, 1, precision, cache, drafts)
                plan = split_plan(prefill, decode)
                if not illegal_apart(own, plan):
                    yield plan


def every(own: ServeProblem) -> Iterator[Plan]:
    """All legal configurations of the modes that are asked for."""
    if "aggregated" in own.modes:
        yield from every_plan(own)
    if "disaggregated" in own.modes:
        yield from every_split_plan(own)


def brute_force(own: ServeProblem) -> tuple[float | None, int]:
    """(the best objective, how many configurations there are)."""
    best: float | None = None
    count = 0
    for plan in every(own):
        count += 1
        price = costs(own, plan)
        kept = price.fits and price.latency_s < float("inf")
        for limit, mean in ((own.goals.ttft_s, price.ttft_s), (own.goals.tpot_s, price.tpot_s)):
            kept = kept and (limit is None or mean <= limit * (1 + 1e-9))
        if kept:
            value = objective_of(own, plan, price)
            best = value if best is None else (min if own.fewest else max)(best, value)
    return best, count


def assert_best_of_brute_force(own: ServeProblem, *, rel: float = 1e-12) -> None:
    """The search has the value of the best configuration and the size of the vocabulary, and the checker agrees."""
    searched = search(own)
    best, (value, count) = searched.best(own.goals), brute_force(own)
    assert searched.vocabulary == count
    if best is None:
        assert value is None
        return
    assert best.value(own.fewest) == pytest.approx(value, rel=rel)
    assert violations(own, best.plan, best.value(own.fewest)) == []


def fixed(own: ServeProblem, **keys: Any) -> ServeProblem:
    """The same with these keys fixed."""
    return replace(own, fixed=tuple(keys.items()))
