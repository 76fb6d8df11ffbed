"""What a configuration costs and which rules it breaks, from the definitions in docs/method/serving.md.

Plain numbers, one configuration at a time; no code of the search. Parts of a step, weights, and keys and values are
sums over the model's layers, kernel by kernel (:mod:`dse.serve.check_steps`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dse.plan.model import Transformer
from dse.results.result import PROOF_TOLERANCE
from dse.run.remembered import Remembered, Same
from dse.serve.check_kernels import Kernels
from dse.serve.check_rules import illegal
from dse.serve.check_steps import TOKENS, LayerSums, Parts, between
from dse.serve.checkpoints import formats_of
from dse.serve.engine import Engine
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, ServingPlan
from dse.serve.shape import Formats
from dse.serve.speculation import prediction_layer

_REQUESTS_PER_CLIENT = 10


@dataclass(frozen=True)
class Costs:
    """Of a configuration.

    Attributes:
        ttft_s, tpot_s, latency_s: means; infinite where no queue comes to rest.
        tokens_per_s: output of the machine.
        rate_per_s: the most requests that it answers.
        running: requests that a batch runs at once.
        time_s: of a request, by part: the sum is ``latency_s``.
        memory_bytes: of a chip of the fullest stage, by part: the sum is its memory.
        kv_tokens: that all replicas hold.
        held: requests of mean length that a rank holds.
        overflow_bytes: what the longest request, or one for each stage, needs beyond the room for keys and values.
        pools: of workers apart, the most requests a second that those of each kind answer.
    """

    ttft_s: float
    tpot_s: float
    latency_s: float
    tokens_per_s: float
    rate_per_s: float
    running: float
    time_s: dict[str, float]
    memory_bytes: dict[str, float]
    kv_tokens: float
    held: int
    overflow_bytes: float
    pools: dict[str, float] | None = None

    @property
    def fits(self) -> bool:
        """Whether memory holds what it must."""
        return self.overflow_bytes <= 0


_PARTS: Remembered[dict[object, Parts]] = Remembered(4)
"""Of the models and chips that were asked about last."""


def parts_of(problem: ServeProblem, plan: ServingPlan) -> Parts:
    """Parts of a step in the shape of a configuration."""
    formats = formats_of(problem.model, plan.precision, plan.kv_precision)
    cut = plan.tensor, plan.attention_data, plan.expert, plan.expert_tensor
    return _parts(problem, problem.model, problem.model, cut, formats)


def drafting_of(problem: ServeProblem, plan: ServingPlan) -> tuple[Transformer, Parts]:
    """What proposes tokens, and parts of one of its passes."""
    formats = formats_of(problem.model, plan.precision, plan.kv_precision)
    if (own := problem.drafter) is None:
        cut = plan.tensor, plan.attention_data, plan.expert, plan.expert_tensor
        layer = prediction_layer(problem.model)
        return layer, _parts(problem, problem.model, layer, cut, formats)
    shape = own.shape(plan.shape)
    cut = shape.tensor, 1, 1, shape.tensor
    return own.model, _parts(problem, own.model, own.model, cut, own.formats(formats.cache_bytes))


def _parts(
    problem: ServeProblem, named: Transformer, model: Transformer, cut: tuple[int, int, int, int], formats: Formats
) -> Parts:
    """Of a model, or of the layer of a model that is ``named``."""
    known, is_layer = _PARTS.get((Same(problem.kernels), Same(named)), dict), named is not model
    if (is_layer, cut, formats) not in known:
        joined = 2 if is_layer else 0
        sums = LayerSums(model, cut, formats, Kernels(problem.kernels), joined)
        known[is_layer, cut, formats] = Parts(sums)
    return known[is_layer, cut, formats]


class Steps:
    """Seconds of steps of a batch of one configuration."""

    def __init__(self, problem: ServeProblem, plan: ServingPlan, engine: Engine) -> None:
        self.parts = parts_of(problem, plan)
        self.own, self.layers, self.stages = engine.constants, problem.model.layers, plan.pipeline
        self._inside = plan.shape.chips <= problem.domain
        self._stream_bytes, self._network = 2.0 * problem.model.hidden, problem.system.network
        self.new, acceptance = 1 + plan.drafts, problem.acceptance
        self.written = 1.0 if plan.drafts == 0 else math.fsum(acceptance**place for place in range(self.new))
        self._drafting = drafting_of(problem, plan) if plan.drafts else None

    @property
    def fixed_s(self) -> float:
        """Of any step."""
        host = self.own.host_s * self.stages + self.layers * self.own.layer_s
        return host + self.own.starts * self.parts.product_starts_s

    def _sent_s(self, tokens: float) -> float:
        return self._network.transfer_s(tokens * self._stream_bytes, inside=self._inside)

    def compute_s(self, tokens: float, out: float) -> float:
        """Of products, norms and the output matrix."""
        return self.own.kernels * (self.parts.linear_s(tokens) + self.parts.head_s(out))

    def exchange_s(self, tokens: float) -> float:
        """Of collectives, and of transfers between stages."""
        seconds = self.parts.exchange_s(tokens)
        if self.stages > 1:
            seconds += (self.stages - 1) * between(TOKENS, self._sent_s, tokens)
        return self.own.collectives * seconds

    def attention_s(self, batch: float, context: float) -> float:
        """Of new tokens."""
        seconds = self.parts.decode_s(batch, context, float(self.new))
        return self.own.kernels * seconds + self.own.starts * self.parts.decode_start_s

    def decode_parts(self, batch: float, context: float) -> dict[str, float]:
        """Of a step in which so many requests decode, by part."""
        tokens = batch * self.new
        parts = {
            "linear": self.compute_s(tokens, tokens),
            "attention": self.attention_s(batch, context),
            "collectives": self.exchange_s(tokens),
            "host": self.fixed_s,
        }
        if self._drafting is not None:
            model, own = self._drafting
            attention = self.own.kernels * own.decode_s(batch, context) + self.own.starts * own.decode_start_s
            once = self._passed_s(model, own, batch, batch) + attention
            parts["drafts"] = (self.new - 1) * once
        return parts

    def _passed_s(self, model: Transformer, own: Parts, tokens: float, out: float) -> float:
        """Of a pass of what proposes tokens, but its attention."""
        products = self.own.kernels * (own.linear_s(tokens) + own.head_s(out))
        fixed = model.layers * self.own.layer_s + self.own.starts * own.product_starts_s
        return products + self.own.collectives * own.exchange_s(tokens) + fixed

    def proposing_s(self, tokens: float, parts: float) -> float:
        """Of a prompt in so many parts in what proposes tokens."""
        if self._drafting is None:
            return 0.0
        model, own = self._drafting
        attention = self.own.kernels * own.prefill_s(tokens) + self.own.starts * parts * own.prefill_start_s
        return parts * self._passed_s(model, own, tokens / parts, 0.0) + attention

    def prompt_attention_s(self, tokens: float, before: float, parts: int, prompts: float = 1.0) -> float:
        """Of prompts whose first tokens are there, in so many steps."""
        pairs = prompts * (self.parts.prefill_s(tokens) - self.parts.prefill_s(before))
        return self.own.kernels * pairs + self.own.starts * parts * self.parts.prefill_start_s


@dataclass(frozen=True)
class _Pace:
    """Of a batch: between tokens, of a prompt alone, what a prompt adds; parts of a decode step; until the first
    tokens of as many prompts that come at once, mean; and tokens that a request gets in a step.
    """

    tpot_s: float
    alone_s: float
    added_s: float
    decode: dict[str, float]
    first_s: float
    written: float

    def rest_s(self, begun: float, others: float) -> float:
        """Of a step in which so many prompts begin, and of the prompts of ``others`` a second that come in it."""
        step = sum(self.decode.values())
        square = step**2 + 2 * begun * step * self.added_s + (begun + begun**2) * self.added_s**2
        rest = square / (2 * (step + begun * self.added_s))
        return rest * (1 + 2 * others * self.added_s)


def _pace(problem: ServeProblem, engine: Engine, steps: Steps, running: float, chunk: int) -> _Pace:
    load, own = problem.load, engine.constants
    prompt, output = load.prompt.mean, load.output.mean
    new = max(prompt - load.prefix * load.hit_rate, 1.0)
    decode = steps.decode_parts(running, prompt + output / 2)
    step = sum(decode.values())
    waits = engine.steps.value == "prefill first"
    parts = math.ceil(new / (chunk if waits else max(chunk - (running - 1.0) * steps.new, 1.0)))
    attention, each = steps.prompt_attention_s(prompt, prompt - new, parts), new / parts
    least, proposing = parts * problem.model.layers * own.launch_s, steps.proposing_s(new, parts)
    if waits:
        part = steps.compute_s(each, 1.0) + steps.exchange_s(each) + steps.fixed_s
        added = alone = max(parts * part + attention, least) + proposing
    else:
        tokens = running * steps.new
        with_prompt = steps.compute_s(tokens + each, tokens + 1.0) + steps.exchange_s(tokens + each)
        more = with_prompt - steps.compute_s(tokens, tokens) - steps.exchange_s(tokens)
        added = max(parts * more + attention, least - parts * step) + proposing
        alone = added + parts * step
    added = max(added, 0.0)
    if engine.steps.value == "whole prompts":
        count = math.ceil(running / max(math.floor(chunk / new), 1))
    else:
        count = math.ceil(running * new / chunk)
    share = running / count
    full = steps.compute_s(share * new, share) + steps.exchange_s(share * new) + steps.fixed_s
    full += steps.prompt_attention_s(prompt, prompt - new, 1, share)
    full = max(full, problem.model.layers * own.launch_s) + share * proposing
    first, tpot = (
        (count + max(count / running, 1.0)) / 2 * full,
        step / steps.written + (running - 1.0) * added / output,
    )
    return _Pace(tpot, alone, added, decode, first, steps.written)


def costs(problem: ServeProblem, plan: ServingPlan) -> Costs:
    """Of a legal configuration."""
    engine = next(each for each in problem.engines if each.name == plan.engine)
    memory, held, overflow, tokens = _memory(problem, plan, engine)
    steps = Steps(problem, plan, engine)
    load, output = problem.load, problem.load.output.mean
    batches = plan.replicas * plan.attention_data * plan.pipeline
    most = max(min(plan.batch, held) // plan.pipeline, 1)
    if load.rate_per_s:
        return _open_costs(problem, plan, engine, steps, (memory, held, overflow, tokens), batches, most)
    clients, busy = max(load.concurrency / batches, 1.0), min(batches, load.concurrency)
    running = min(clients, float(most))
    own = _pace(problem, engine, steps, running, plan.chunk)
    answering = own.alone_s + (output - 1.0) * own.tpot_s
    queue = max(clients - running, 0.0) / running * answering
    others, taken = running - 1.0, load.prompt.mean * engine.constants.token_s
    calm = first = own.first_s
    if others > 0:
        prompts = others * own.added_s
        rest = max(own.rest_s(others * own.written / output, others / answering), prompts / output)
        calm = own.alone_s + min(rest, prompts + sum(own.decode.values()))
        first = max(first, own.alone_s + others / 2.0 * plan.attention_data * plan.pipeline * taken)
    request = engine.constants.request_s + taken
    ttft = request + queue + calm + (first - calm) / _REQUESTS_PER_CLIENT
    latency = ttft + (output - 1.0) * own.tpot_s
    out = busy * clients * output / latency
    parts = _time(own, output, request, ttft)
    return Costs(ttft, own.tpot_s, latency, out, out / output, running, parts, memory, tokens, held, overflow)


def _open_costs(
    problem: ServeProblem, plan: ServingPlan, engine: Engine, steps: Steps,
    memory: tuple[dict[str, float], int, float, float], batches: int, most: int,
) -> Costs:  # fmt: skip
    load, output = problem.load, problem.load.output.mean
    rate = load.rate_per_s / batches
    server, taken = plan.attention_data * plan.pipeline, load.prompt.mean * engine.constants.token_s
    busy = min(server * rate * taken, 0.999)
    request = engine.constants.request_s + taken + busy * taken / (2 * (1 - busy))

    def latency_of(own: _Pace) -> tuple[float, float]:
        run = own.alone_s + (output - 1.0) * own.tpot_s
        begun = rate * sum(own.decode.values()) / (1 - min(rate * own.added_s, 0.999))
        ttft = request + own.alone_s + (1 - math.exp(-rate * run)) * own.rest_s(begun, rate)
        return ttft, ttft + (output - 1.0) * own.tpot_s

    full = _pace(problem, engine, steps, float(most), plan.chunk)
    capacity = most / (full.alone_s + full.tpot_s / 2.0 + (output - 1.0) * full.tpot_s)
    slowest = max(full.added_s, server * taken)
    capacity = min(capacity, 1 / slowest) if slowest else capacity
    low, high = 1.0, float(most)
    for _ in range(24):
        middle = (low + high) / 2.0
        if rate * latency_of(_pace(problem, engine, steps, middle, plan.chunk))[1] <= middle:
            high = middle
        else:
            low = middle
    own = _pace(problem, engine, steps, high, plan.chunk)
    ttft, latency = latency_of(own)
    stays, held, overflow, tokens = memory
    parts = _time(own, output, request, ttft)
    if rate >= capacity:
        ttft = latency = math.inf
    tpot = own.tpot_s if math.isfinite(latency) else math.inf
    answered = load.rate_per_s * output if math.isfinite(latency) else 0.0
    return Costs(
        ttft, tpot, latency, answered, batches * capacity, high, parts, stays, tokens, held, overflow
    )  # fmt: skip


def _time(own: _Pace, output: float, request_s: float, ttft_s: float) -> dict[str, float]:
    """Where the latency of a request goes."""
    tokens, prefill = output - 1.0, min(own.alone_s, ttft_s - request_s)
    decode = {f"decode: {name}": tokens * seconds / own.written for name, seconds in own.decode.items()}
    others = tokens * (own.tpot_s - sum(own.decode.values()) / own.written)
    return {
        "waiting": ttft_s - request_s - prefill,
        "request": request_s,
        "prefill": prefill,
        **decode,
        "prompts of others": others,
    }


def _memory(problem: ServeProblem, plan: ServingPlan, engine: Engine) -> tuple[dict[str, float], int, float, float]:
    """(bytes by part, requests of mean length that a rank holds, bytes that lack, tokens that all replicas hold)."""
    load, total = problem.load, float(problem.system.chip.hbm_bytes)
    own = pool_of(problem, plan, engine)
    weights, working, pool, request = own.weights, own.activations, own.bytes, own.held_bytes
    shared = request(load.prefix) if load.hit_rate else 0.0
    mean = load.prompt.mean + load.output.mean
    one = request(mean) - load.hit_rate * request(load.prefix)
    held = math.floor(max(pool - shared, 0.0) / one)
    longest = request(problem.longest)
    overflow = longest - pool
    if held < plan.pipeline:
        overflow = max(overflow, plan.pipeline * one + shared - pool)
    ranks = plan.replicas * plan.attention_data
    room = max(pool, 0.0)
    parts = {"weights": weights, "activations": working, "cache": room, "kept": total - weights - working - room}
    return parts, held, overflow if overflow > 0 else min(overflow, 0.0), ranks * room / request(mean) * mean


@dataclass(frozen=True)
class Pool:
    """Memory of a chip of the fullest stage.

    Attributes:
        weights, activations: bytes.
        bytes: what is left of the engine's share for keys and values; below 0 where weights alone do not fit.
        held_bytes: of a request, by tokens of its context.
    """

    weights: float
    activations: float
    bytes: float
    held_bytes: Callable[[float], float]


def pool_of(problem: ServeProblem, plan: ServingPlan, engine: Engine) -> Pool:
    """Of a configuration, or of workers of one kind."""
    model, total = problem.model, float(problem.system.chip.hbm_bytes)
    fullest, sums = math.ceil(model.layers / plan.pipeline) / model.layers, parts_of(problem, plan).sums
    ends = (1 if model.tied_embeddings else 2) * model.vocabulary * model.hidden * 2.0 / plan.tensor
    weights, working = fullest * sums.weight_bytes + ends, _working_bytes(model, plan)
    rule, proposing = engine.memory, drafting_of(problem, plan)[1].sums if plan.drafts else None
    if proposing is not None:
        weights += proposing.weight_bytes
        if (own := problem.drafter) is not None:
            matrices = 1 if own.model.tied_embeddings else 2
            weights += matrices * own.model.vocabulary * own.model.hidden * 2.0 / proposing.tensor

    def held_bytes(tokens: float) -> float:
        own = fullest * sums.cache_bytes(tokens)
        return own if proposing is None else own + proposing.cache_bytes(tokens)

    taken = weights + working
    pool = rule.value * (total - taken) if rule.of_rest else rule.value * total - taken
    return Pool(weights, working, pool, held_bytes)


def _working_bytes(model: Transformer, plan: ServingPlan) -> float:
    """Of the largest step."""
    tokens, t = plan.chunk, plan.tensor
    widths = [(model.heads * (model.key_width + model.context_width) + 2 * model.key_heads * model.key_width) / t]
    if model.dense_layers:
        widths.append(3.0 * model.feed_forward / t)
    if model.experts is not None:
        rows = plan.attention_data * model.experts.active / plan.expert
        widths.append(rows * (3.0 * model.experts.width / plan.expert_tensor + model.hidden))
    logits = 4.0 * min(tokens, plan.batch // plan.pipeline * (1 + plan.drafts)) * model.vocabulary / t
    return 2.0 * tokens * (2.0 * model.hidden + max(widths)) + logits


def violations(problem: ServeProblem, plan: ServingPlan, value: float) -> list[str]:
    """What is wrong with a configuration and the objective that it is said to have; empty where it holds."""
    if broken := illegal(problem, plan):
        return broken
    return cost_faults(problem, plan, costs(problem, plan), value)


def cost_faults(problem: ServeProblem, plan: Plan, own: Costs, value: float) -> list[str]:
    """What is wrong with a legal configuration of these costs."""
    faults = []
    if not own.fits:
        faults.append(f"a chip needs {own.overflow_bytes:,.0f} bytes more than it has for keys and values")
    if not math.isfinite(own.latency_s):
        faults.append(f"it answers at most {own.rate_per_s:.6g} requests a second")
    goals = problem.goals
    for name, limit, mean in (("TTFT", goals.ttft_s, own.ttft_s), ("TPOT", goals.tpot_s, own.tpot_s)):
        if goals.statistic == "mean" and limit is not None and mean > limit * (1 + PROOF_TOLERANCE):
            faults.append(f"its mean {name} is {mean!r} s, above the limit of {limit!r} s")
    expected = objective_of(problem, plan, own)
    if not math.isclose(expected, value, rel_tol=PROOF_TOLERANCE):
        faults.append(f"the objective must be {expected!r}, but got {value!r}")
    return faults


def objective_of(problem: ServeProblem, plan: Plan, own: Costs) -> float:
    """Output tokens per second and accelerator, or the accelerators."""
    return float(plan.accelerators) if problem.fewest else own.tokens_per_s / plan.accelerators
