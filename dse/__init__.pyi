"""Types of the interface, written by ``python -m docs.making.stubs`` from the options of the problems."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from dse.results import documents
from dse.results.answer import Answer as Answer
from dse.run.progress import ProgressCallback, StopSignal

_Words = str | int | float | os.PathLike[str] | Sequence[str | int | float] | Mapping[str, Any]

class _Run(TypedDict, total=False):
    out: str | os.PathLike[str] | None
    resume: bool
    mirror: str | None
    seed: int
    workers: int | Literal["auto"]
    address: str | None
    time_limit: float | None
    item_timeout: float | None
    progress: ProgressCallback
    stop: StopSignal

__version__: str

def problems() -> dict[str, str]: ...
def codesign(
    *sources: object,
    models: object = ...,
    accelerators: int = ...,
    global_batch: int = ...,
    microbatch: _Words = ...,
    hbm_gb: _Words | None = ...,
    tensor_parallel: _Words = ...,
    area_budget: _Words | None = ...,
    space: _Words | None = ...,
    fixed: _Words | None = ...,
    search: Literal["exhaustive", "hysteresis", "bayesian"] = ...,
    hysteresis: int = ...,
    hysteresis_rule: Literal["decreasing", "no-new-best"] = ...,
    samples: int = ...,
    network: _Words | None = ...,
    objective: Literal["throughput", "per-watt", "per-mm2", "per-dollar", "per-price", "per-kg"] = ...,
    power_cap: float | None = ...,
    cost_limit: float | None = ...,
    mean: Literal["geometric", "arithmetic"] = ...,
    weights: _Words | None = ...,
    cost_model: Literal["consistent", "phaze-2024"] = ...,
    granularity: Literal["operators", "trace"] = ...,
    pipeline_schedule: Literal["1f1b", "gpipe"] = ...,
    sequence: int | None = ...,
    plans: Literal["phaze", "phaze-2024", "modern"] = ...,
    plan: _Words = ...,
    attention: Literal["unfused", "fused"] | None = ...,
    ideal: bool = ...,
    within: float = ...,
    on: _Words | None = ...,
    pareto: bool = ...,
    pareto_of: _Words = ...,
    pareto_gap: float = ...,
    sensitivity: bool = ...,
    **run: Unpack[_Run],
) -> Answer[documents.CodesignSolution, documents.CodesignMetrics]: ...
def place(
    *sources: object,
    layers: object = ...,
    chip: _Words | None = ...,
    **run: Unpack[_Run],
) -> Answer[documents.PlaceSolution, documents.PlaceMetrics]: ...
def schedule(
    *sources: object,
    layer: object = ...,
    method: Literal["auto", "cp-sat", "scip"] = ...,
    chip: _Words | None = ...,
    **run: Unpack[_Run],
) -> Answer[documents.ScheduleSolution, documents.ScheduleMetrics]: ...
def partition(
    *sources: object,
    source: object = ...,
    package: _Words | None = ...,
    chips: int | None = ...,
    chip: _Words | None = ...,
    link_bytes_per_s: float | None = ...,
    method: _Words = ...,
    checkpoint: _Words | None = ...,
    samples: int = ...,
    emit_samples: _Words | None = ...,
    evaluator: Literal["analytical", "simulator"] = ...,
    objective: Literal["throughput", "latency"] = ...,
    microbatch: int | None = ...,
    sequence: int | None = ...,
    granularity: Literal["operator", "primitive"] | None = ...,
    **run: Unpack[_Run],
) -> Answer[documents.PartitionSolution, documents.PartitionMetrics]: ...
def wafer(
    *sources: object,
    case: object = ...,
    kernels: _Words | None = ...,
    method: Literal["portfolio", "rows", "slicing-tree", "gigaplacer"] = ...,
    moves: int | None = ...,
    sweep: _Words = ...,
    width: int | None = ...,
    height: int | None = ...,
    memlimit: int | None = ...,
    wdeltat: float | None = ...,
    wlength: float | None = ...,
    wadapter: float | None = ...,
    **run: Unpack[_Run],
) -> Answer[documents.WaferSolution, documents.WaferMetrics]: ...
def parallel(
    *sources: object,
    step: object = ...,
    strategy: Literal["sharding", "pipeline", "hybrid", "all"] = ...,
    mesh: _Words = ...,
    stages: int | None = ...,
    microbatches: int | None = ...,
    device_cuts: Literal["auto", "free", "near", "equal"] = ...,
    state: Literal["weights", "gradients", "optimizer"] = ...,
    recompute: bool = ...,
    objective: Literal["cost", "count"] = ...,
    method: Literal["auto", "exact", "linkage", "dqn", "inference"] = ...,
    checkpoint: _Words | None = ...,
    decide: Literal["variables", "inputs"] = ...,
    accelerator: _Words = ...,
    f32_products: Literal["stated", "default", "high", "highest"] = ...,
    network: _Words | None = ...,
    memory_gb: float | None = ...,
    activations: bool = ...,
    overlap: bool = ...,
    pin: _Words = ...,
    variables: _Words | None = ...,
    why: _Words | None = ...,
    emit_iopddl: _Words | None = ...,
    emit_pipedream: _Words | None = ...,
    emit_piper: _Words | None = ...,
    **run: Unpack[_Run],
) -> Answer[documents.ParallelSolution, documents.ParallelMetrics]: ...
def fabric(
    *sources: object,
    graph: object = ...,
    fabric: _Words = ...,
    pass_: Literal["forward", "training"] = ...,
    cost: _Words = ...,
    tuned: _Words | None = ...,
    checkpoint: _Words | None = ...,
    fill: float = ...,
    cut: Literal["auto", "never"] = ...,
    microbatch: int | None = ...,
    sequence: int | None = ...,
    slots: _Words = ...,
    routing: Literal["xy", "yx", "congestion"] = ...,
    chains: int | None = ...,
    moves: int = ...,
    rounds: int | None = ...,
    batch: int = ...,
    **run: Unpack[_Run],
) -> Answer[documents.FabricSolution, documents.FabricMetrics]: ...
def plan(
    *sources: object,
    model: object = ...,
    on: _Words = ...,
    network: _Words | None = ...,
    accelerators: int = ...,
    global_batch: int = ...,
    sequence: int | None = ...,
    precision: _Words | None = ...,
    ideal: bool = ...,
    stack: _Words | None = ...,
    export: _Words | None = ...,
    headroom: float | None = ...,
    plan: _Words = ...,
    batch: _Words | None = ...,
    measured: _Words = ...,
    sensitivity: bool = ...,
    constraints: bool = ...,
    **run: Unpack[_Run],
) -> Answer[documents.PlanSolution, documents.PlanMetrics]: ...
def predict(
    *sources: object,
    model: object = ...,
    on: _Words = ...,
    network: _Words | None = ...,
    accelerators: int = ...,
    global_batch: int = ...,
    sequence: int | None = ...,
    precision: _Words | None = ...,
    ideal: bool = ...,
    stack: _Words | None = ...,
    export: _Words | None = ...,
    headroom: float | None = ...,
    plan: _Words = ...,
    batch: _Words | None = ...,
    measured: _Words = ...,
    **run: Unpack[_Run],
) -> Answer[documents.PredictSolution, documents.PredictMetrics]: ...
def trace(
    *sources: object,
    files: object = ...,
    **run: Unpack[_Run],
) -> Answer[documents.TraceSolution, documents.TraceMetrics]: ...
def campaign(
    *sources: object,
    file: object = ...,
    yes: bool = ...,
    **run: Unpack[_Run],
) -> Answer[documents.CampaignSolution, documents.CampaignMetrics]: ...
def serve(
    *sources: object,
    model: object = ...,
    on: _Words = ...,
    network: _Words | None = ...,
    accelerators: int | None = ...,
    prompt: _Words = ...,
    output: _Words = ...,
    concurrency: int | None = ...,
    rate: float | None = ...,
    requests: _Words | None = ...,
    prefix: int = ...,
    hit_rate: float = ...,
    ttft: float | None = ...,
    tpot: float | None = ...,
    statistic: Literal["mean", "p50", "p90", "p99"] = ...,
    engine: _Words = ...,
    precision: _Words | None = ...,
    plan: _Words = ...,
    mode: Literal["aggregated", "disaggregated", "both"] = ...,
    drafts: _Words | None = ...,
    acceptance: float | None = ...,
    draft_model: _Words | None = ...,
    minimum_devices: bool = ...,
    **run: Unpack[_Run],
) -> Answer[documents.ServeSolution, documents.ServeMetrics]: ...
