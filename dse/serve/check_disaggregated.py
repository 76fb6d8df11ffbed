"""What workers apart cost and which rules they break, from the definitions in docs/method/serving.md.

Plain numbers, one configuration at a time; no code of the search.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dse.serve.check import Costs, Steps, cost_faults, pool_of
from dse.serve.check import costs as costs_together
from dse.serve.check import violations as violations_together
from dse.serve.check_rules import illegal_apart
from dse.serve.engine import Engine
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, SplitPlan

_REQUESTS_PER_CLIENT = 10


def costs(problem: ServeProblem, plan: Plan) -> Costs:
    """Of a legal configuration of either mode."""
    return _costs_apart(problem, plan) if isinstance(plan, SplitPlan) else costs_together(problem, plan)


def violations(problem: ServeProblem, plan: Plan, value: float) -> list[str]:
    """What is wrong with a configuration and the objective that it is said to have; empty where it holds."""
    if not isinstance(plan, SplitPlan):
        return violations_together(problem, plan, value)
    if broken := illegal_apart(problem, plan):
        return broken
    return cost_faults(problem, plan, _costs_apart(problem, plan), value)


@dataclass(frozen=True)
class _Stations:
    """Of prefill and decode workers: what each takes, and how many ranks there are."""

    full_s: float
    alone_s: float
    moved_s: float
    request_s: float
    prefill_ranks: int
    decode_ranks: int

    @property
    def slowest_s(self) -> float:
        return max(self.full_s, self.moved_s)

    @property
    def fixed_s(self) -> float:
        return self.request_s + self.alone_s + self.moved_s

    def wait_s(self, rate: float) -> float:
        busy = min(rate * self.slowest_s / self.prefill_ranks, 1.0 - 1e-12)
        return self.slowest_s * busy / (2.0 * (1.0 - busy))


def _costs_apart(problem: ServeProblem, plan: SplitPlan) -> Costs:
    engine = next(each for each in problem.engines if each.name == plan.engine)
    load, output = problem.load, problem.load.output.mean
    writes, context = max(output - 1.0, 1e-9), load.prompt.mean + output / 2
    memory, held, overflow, tokens = _memory(problem, plan, engine)
    most = max(min(plan.decode.batch, held) // plan.decode.pipeline, 1)
    own, steps = _stations(problem, plan, engine), Steps(problem, plan.decode, engine)

    def parts(running: float) -> dict[str, float]:
        of_step = steps.decode_parts(max(running, 1.0), context)
        return {name: seconds / steps.written for name, seconds in of_step.items()}

    def rate_of(running: float) -> float:
        return own.decode_ranks * running / (writes * sum(parts(running).values()))

    largest = min(own.prefill_ranks / own.slowest_s, rate_of(float(most)))
    if load.rate_per_s:
        running = _least(float(most), lambda b: rate_of(b) >= load.rate_per_s)
        waiting, rate = own.wait_s(load.rate_per_s), load.rate_per_s
        is_lost = rate >= largest
    else:
        clients = float(load.concurrency)
        running = _most(
            min(float(most), clients / own.decode_ranks),
            lambda b: rate_of(b) * (own.fixed_s + own.wait_s(rate_of(b))) + own.decode_ranks * b <= clients,
        )
        rate, is_lost = rate_of(running), False
        waiting = max(own.wait_s(rate), clients / rate - writes * sum(parts(running).values()) - own.fixed_s)
        burst = (clients - 1.0) / 2.0 * own.slowest_s / own.prefill_ranks
        waiting += max(burst - waiting, 0.0) / _REQUESTS_PER_CLIENT
    decode = parts(running)
    tpot, ttft = sum(decode.values()), own.fixed_s + waiting
    latency = ttft + writes * tpot
    out = load.rate_per_s * output if load.rate_per_s else load.concurrency * output / latency
    time = {"waiting": waiting, "request": own.request_s, "prefill": own.alone_s, "transfer": own.moved_s}
    time |= {f"decode: {name}": writes * seconds for name, seconds in decode.items()}
    lost = math.inf if is_lost else 0.0
    pools = {"prefill": own.prefill_ranks / own.slowest_s, "decode": rate_of(float(most))}
    return Costs(
        ttft + lost, tpot + lost, latency + lost, 0.0 if is_lost else out,
        largest if load.rate_per_s else out / output, running, time, memory, tokens, held, overflow, pools,
    )  # fmt: skip


def _most(high: float, keeps: Callable[[float], bool]) -> float:
    """The most that keeps what less keeps too, by halving."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def _least(high: float, keeps: Callable[[float], bool]) -> float:
    """The least that keeps what more keeps too, by halving."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _stations(problem: ServeProblem, plan: SplitPlan, engine: Engine) -> _Stations:
    prompt, chunk = problem.load.prompt.mean, plan.prefill.chunk
    steps, own = Steps(problem, plan.prefill, engine), engine.constants
    launched = problem.model.layers * own.launch_s
    parts = math.ceil(prompt / chunk)
    each = prompt / parts
    alone = parts * (steps.compute_s(each, 1.0) + steps.exchange_s(each) + steps.fixed_s)
    alone = max(alone + steps.prompt_attention_s(prompt, 0.0, parts), parts * launched)
    together, full = int(max(1.0, chunk // prompt)), alone
    if together > 1:
        tokens = together * prompt
        start = steps.prompt_attention_s(0.0, 0.0, 1)
        pairs = together * (steps.prompt_attention_s(prompt, 0.0, 1) - start)
        step = steps.compute_s(tokens, float(together)) + steps.exchange_s(tokens) + steps.fixed_s + start + pairs
        full = max(step, launched) / together
    proposing = steps.proposing_s(prompt, float(parts))
    full, alone = full + proposing, alone + proposing
    ranks = [each.replicas * each.attention_data * each.pipeline for each in (plan.prefill, plan.decode)]
    return _Stations(full, alone, _moved_s(problem, plan), own.request_s + prompt * own.token_s, ranks[0], ranks[1])


def _moved_s(problem: ServeProblem, plan: SplitPlan) -> float:
    """Of the keys and values of a prompt, by the accelerator that sends or receives most."""
    prompt, flat = problem.load.prompt.mean, replace(plan.decode, tensor=1, pipeline=1, attention_data=1)
    engine = next(each for each in problem.engines if each.name == plan.engine)
    copy = pool_of(problem, flat, engine).held_bytes(prompt)
    sent = copy / (plan.prefill.tensor * plan.prefill.pipeline)
    received = pool_of(problem, replace(plan.decode, pipeline=1), engine).held_bytes(prompt) / plan.decode.pipeline
    network = problem.system.network
    if network.inner is not None and plan.accelerators <= network.inner_accelerators:
        network = network.inner
    sharing = max(network.inner_accelerators, 1) if network.shared else 1
    rate = network.bytes_per_s * network.transfer_share / sharing
    return network.launch_s + network.latency_s + max(sent, received) / rate


def _memory(problem: ServeProblem, plan: SplitPlan, engine: Engine) -> tuple[dict[str, float], int, float, float]:
    """(bytes by workers and part, requests of mean length that a decode rank holds, bytes that lack, tokens held)."""
    load, total = problem.load, float(problem.system.chip.hbm_bytes)
    pools = {"prefill": pool_of(problem, plan.prefill, engine), "decode": pool_of(problem, plan.decode, engine)}
    parts: dict[str, float] = {}
    for name, pool in pools.items():
        room = max(pool.bytes, 0.0)
        sizes = {"weights": pool.weights, "activations": pool.activations, "cache": room}
        sizes["kept"] = total - sum(sizes.values())
        parts |= {f"{name}: {part}": size for part, size in sizes.items()}
    together = 1.0 + max(plan.prefill.chunk // load.prompt.mean, 1.0)
    prompts = plan.prefill.pipeline * together * pools["prefill"].held_bytes(load.prompt.high)
    decode, mean = pools["decode"], load.prompt.mean + load.output.mean
    one = decode.held_bytes(mean)
    held = math.floor(max(decode.bytes, 0.0) / one)
    overflow = max(prompts - pools["prefill"].bytes, decode.held_bytes(problem.longest) - decode.bytes)
    if held < plan.decode.pipeline:
        overflow = max(overflow, plan.decode.pipeline * one - decode.bytes)
    ranks = plan.decode.replicas * plan.decode.attention_data
    return parts, held, overflow, ranks * max(decode.bytes, 0.0) / one * mean
