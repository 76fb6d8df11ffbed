"""Solutions and metrics of results, typed."""

from typing import Annotated, Any

from pydantic import Field

from hardware.inputs import Document

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Width = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Triple = Annotated[list[Amount], Field(min_length=3, max_length=3)]


class ServingPlanDocument(Document):
    """A configuration. Keys as of :class:`dse.serve.serving_plan.ServingPlan`."""

    mode: str
    engine: str
    tensor: Width
    pipeline: Width
    attention_data: Width
    expert: Width
    expert_tensor: Width
    replicas: Width
    batch: Width
    chunk: Width
    precision: str
    kv_precision: str
    drafts: Count = 0


class WorkersDocument(Document):
    """Workers of one kind. Keys as of :class:`dse.serve.serving_plan.ServingPlan`."""

    tensor: Width
    pipeline: Width
    attention_data: Width
    expert: Width
    expert_tensor: Width
    replicas: Width


class PrefillDocument(WorkersDocument):
    """Workers that compute prompts."""

    chunk: Width


class DecodeDocument(WorkersDocument):
    """Workers that write tokens."""

    batch: Width


class SplitPlanDocument(Document):
    """A configuration with workers for prompts and for tokens.

    Attributes:
        mode: ``disaggregated``.
        engine, precision, kv_precision, drafts: of all workers.
        prefill: those for prompts.
        decode: those for tokens.
    """

    mode: str
    engine: str
    precision: str
    kv_precision: str
    drafts: Count = 0
    prefill: PrefillDocument
    decode: DecodeDocument


PlanDocument = ServingPlanDocument | SplitPlanDocument


class SolutionDocument(Document):
    """``solution``.

    Attributes:
        plan: the chosen configuration.
    """

    plan: PlanDocument


class StatisticsDocument(Document):
    """Of requests, by events.

    Attributes:
        mean, p50, p90, p99: of those that were answered.
    """

    mean: Amount
    p50: Amount
    p90: Amount
    p99: Amount


class MeansDocument(Document):
    """Means of requests by the closed form.

    Attributes:
        ttft_s: from sending to the first token.
        tpot_s: between tokens.
        latency_s: from sending to the last token.
    """

    ttft_s: Amount
    tpot_s: Amount
    latency_s: Amount


class EventsDocument(Document):
    """What a simulation of one batch's requests says.

    Attributes:
        tokens_per_s: output of the machine.
        goodput_per_s: requests a second whose own TTFT and TPOT keep the limits.
        keeps_limits: whether the statistic of requests keeps them.
        requests: that were answered.
        refused: that memory cannot hold.
        preemptions: of requests that gave their memory back.
        steps: of the batch.
    """

    tokens_per_s: Amount
    goodput_per_s: Amount
    keeps_limits: bool
    requests: Count
    refused: Count
    preemptions: Count
    steps: Count


class UsdDocument(Document):
    """Dollars for a million output tokens, each as [value, low, high].

    Attributes:
        at_cost: with chips at what they cost to make.
        at_price: with chips at what they sell for.
    """

    at_cost: Triple
    at_price: Triple


class ChoiceDocument(Document):
    """A configuration with its means.

    Attributes:
        tokens_per_s_per_accelerator: output, over the accelerators that it uses.
        accelerators: that it uses.
        ttft_s, tpot_s: means of requests.
        plan: which.
    """

    tokens_per_s_per_accelerator: Amount
    accelerators: Width
    ttft_s: Amount
    tpot_s: Amount
    plan: PlanDocument


class CountsDocument(Document):
    """The proof.

    Attributes:
        priced: configurations that were priced.
        vocabulary: all; the others are ruled out by bounds.
    """

    priced: Count
    vocabulary: Count


class OrderDocument(Document):
    """Whether the order of the closed form holds by events.

    Attributes:
        repriced: configurations within the closed form's error of the best.
        holds: whether the best by the closed form is the best by events.
        best: the best by events, with its means by events.
    """

    repriced: Count
    holds: bool
    best: ChoiceDocument


class FrontDocument(Document):
    """A point of the front.

    Attributes:
        tokens_per_s_per_user: one over TPOT.
        tokens_per_s_per_accelerator: output, over the accelerators of a replica.
        requests: in flight on a replica.
        plan: which.
    """

    tokens_per_s_per_user: Amount
    tokens_per_s_per_accelerator: Amount
    requests: Width
    plan: PlanDocument


class PoolDocument(Document):
    """Of workers of one kind.

    Attributes:
        accelerators: that they use.
        largest_rate_per_s: requests a second that they answer at most.
    """

    accelerators: Width
    largest_rate_per_s: Amount


class MetricsDocument(Document):
    """``metrics`` of ``dse serve``.

    Attributes:
        accelerators: that the configuration uses.
        tokens_per_s, tokens_per_s_per_accelerator: output by the closed form.
        largest_rate_per_s: requests a second that it can answer; in a closed loop, that it does answer.
        ttft_s, tpot_s, latency_s: of requests, by events.
        intervals: of the means of TTFT and TPOT: ``level`` (0.9), ``low`` and ``high``, the ``class`` of runs that are
            as near, the number of these ``rows``, and the ``method``; where there is none, low and high are null and a
            ``reason`` is given.
        closed_form: the same by the closed form, of which optimality is proven.
        events: what else the simulation says.
        time_s: of a request's mean latency, by part.
        memory_bytes: of a chip of the fullest stage, by part; ``kept`` is what the engine leaves. Of workers apart with
            ``prefill:`` or ``decode:`` in front.
        kv_tokens: tokens whose keys and values all replicas hold.
        running: requests that run at once.
        binds: limits that are within a hundredth, memory where requests wait for it, of workers apart those that answer
            fewer requests, and the largest part of a token.
        tokens_per_joule: output, over the energy of chips, servers, network and building at full power, as
            [value, low, high]; null where the spec does not say what the chip is made of.
        usd_per_million_tokens: likewise.
        configurations: how many there are, and were priced.
        order: whether the order holds by events.
        without: the best without each limit.
        front: output for each accelerator over that for each user, of the whole vocabulary.
        most_output: of a closed loop, where accelerators stay free: the configuration of the most output in all.
        best: the best of all, where something is fixed.
        pools: of workers apart, by what they do.
        modes: the best of each mode, where both are searched.
        stopped: why the run ended early.
    """

    accelerators: Width
    tokens_per_s: Amount
    tokens_per_s_per_accelerator: Amount
    largest_rate_per_s: Amount
    ttft_s: StatisticsDocument
    tpot_s: StatisticsDocument
    latency_s: StatisticsDocument
    intervals: dict[str, dict[str, Any]]
    closed_form: MeansDocument
    events: EventsDocument
    time_s: dict[str, float]
    memory_bytes: dict[str, Amount]
    kv_tokens: Amount
    running: Amount
    binds: list[str]
    tokens_per_joule: Triple | None
    usd_per_million_tokens: UsdDocument | None
    configurations: CountsDocument | None = None
    order: OrderDocument | None = None
    without: dict[str, ChoiceDocument] | None = None
    front: list[FrontDocument] | None = None
    most_output: ChoiceDocument | None = None
    best: ChoiceDocument | None = None
    pools: dict[str, PoolDocument] | None = None
    modes: dict[str, ChoiceDocument] | None = None
    stopped: str | None = None
