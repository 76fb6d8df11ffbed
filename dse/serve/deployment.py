"""A configuration as it is launched: kinds of workers, how many of each, and the limits that their engine gets."""

from dataclasses import dataclass

from dse.serve.checkpoints import CACHE_BYTES
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, ServingPlan, SplitPlan
from dse.serve.shape import Shape


@dataclass(frozen=True)
class Worker:
    """A kind of worker, each a replica with all of the model.

    Attributes:
        shape: of one.
        count: of equal ones.
        requests: that a rank runs at once.
        step_tokens: new tokens of a step of a rank.
    """

    shape: Shape
    count: int
    requests: int
    step_tokens: int


@dataclass(frozen=True)
class Deployment:
    """What one engine serves of one model.

    Attributes:
        model: name of the checkpoint.
        engine: vllm, sglang, trtllm.
        decode: workers that write tokens; those that do everything where ``prefill`` is None.
        prefill: workers that compute prompts alone.
        prompt: tokens of the longest one.
        longest: tokens of the longest request, prompt and output.
        has_experts: whether the model has any.
        cache_bytes: of an element of keys and values.
        memory_share: by the engine's own rule (:class:`dse.serve.engine.MemoryRule`).
        node_chips: of a server.
        reuses_prefixes: whether keys and values of prefixes that requests share are found in memory.
        draft_tokens: that are proposed for a request in each step; 0 without speculative decoding.
        draft_model: what proposes them; "" for the multi-token-prediction layer of the model.
    """

    model: str
    engine: str
    decode: Worker
    prompt: int
    longest: int
    has_experts: bool
    cache_bytes: float
    memory_share: float
    prefill: Worker | None = None
    node_chips: int = 8
    reuses_prefixes: bool = False
    draft_tokens: int = 0
    draft_model: str = ""

    @property
    def workers(self) -> dict[str, Worker]:
        """By what they do."""
        if self.prefill is None:
            return {"serve": self.decode}
        return {"prefill": self.prefill, "decode": self.decode}

    @property
    def chips(self) -> int:
        """Of all workers."""
        return sum(each.count * each.shape.chips for each in self.workers.values())

    def nodes(self, worker: Worker) -> int:
        """Servers that one worker takes."""
        return -(-worker.shape.chips // self.node_chips)


def _worker(plan: ServingPlan) -> Worker:
    return Worker(plan.shape, plan.replicas, plan.batch, plan.chunk)


def _prompt_worker(problem: ServeProblem, plan: ServingPlan) -> Worker:
    """As many prompts at once as a step may take of the shortest."""
    together = max(plan.chunk // problem.load.prompt.low, 1) * plan.pipeline
    return Worker(plan.shape, plan.replicas, together, plan.chunk)


def deployment_of(problem: ServeProblem, plan: Plan) -> Deployment:
    """A configuration of a problem, as its engine is to be launched."""
    engine = next(each for each in problem.engines if each.name == plan.engine)
    return Deployment(
        model=problem.model.name,
        engine=plan.engine.partition("-")[0],
        decode=_worker(plan.decode if isinstance(plan, SplitPlan) else plan),
        prefill=_prompt_worker(problem, plan.prefill) if isinstance(plan, SplitPlan) else None,
        prompt=problem.load.prompt.high,
        longest=problem.longest,
        has_experts=problem.model.has_expert_layers,
        cache_bytes=CACHE_BYTES[plan.kv_precision],
        memory_share=engine.memory.value,
        node_chips=problem.domain,
        reuses_prefixes=problem.load.hit_rate > 0,
        draft_tokens=plan.drafts,
        draft_model="" if problem.drafter is None else problem.drafter.model.name,
    )
