"""The placement problem (paper section 5) and its solution.

For a width ``t``, a split of the layers into ``s`` stages and ``d`` pipelines, with M microbatches and K accelerators::

    batch_s = max_i load(stage_i) · (ceil(M / d) + s − 1) + synchronisation(d, W_first) + update_first
    sum_i a_i ≤ floor(K / d),   1 ≤ d ≤ min(K, M),   a_i = t if any layer of the stage is sliced, else 1

``load`` is forward + backward of a stage, or, where it recomputes, forward + (recomputed forward, then backward). With
``recompute`` every stage does under GPipe (torchgpipe's ``checkpoint='always'``): all forward passes of a stage come
before its backward passes, also in the last stage and in a pipeline of one. Under 1F1B it depends on the granularity.
Stage by stage, every stage but the last recomputes: that one runs each backward pass right behind its forward pass, the
activations still there. Layer by layer, every stage does, as none has kept more than the inputs of its layers.

Forward: ``start(v) = max`` over incoming edges of the finish of u inside the stage, or bytes / bandwidth if u is
outside; backward is the same over outgoing edges, reversed. Only the receiver pays for a transfer. The recomputed
forward pass repeats without transfers (taking F), then the backward pass starts at max(F, transfer).

Memory of the stage that is s-th from the end::

    state_factor · W + A + n · stash ≤ hbm_bytes;   stash = A, or with recompute the bytes entering the stage

with n = s − 1 microbatches in flight behind the current one under 1F1B (PipeDream-Flush), and n = ceil(M / d), all of a
pipeline's, under GPipe (paper appendix B.1). With recompute, A is held by the one microbatch that
runs backward, recomputed right before. That is the paper's rule, granularity ``stage``. With granularity ``layer``
(full recomputation of Megatron-LM: Narayanan et al. 2021, section 3.5; Korthikanti et al. 2022, section 5) a stage
keeps the input of each of its layers for every microbatch in flight, the current one included, and the activations of
the one layer that runs backward, the largest at worst::

    state_factor · W + max over layers of A_layer + n · sum over layers of input_layer ≤ hbm_bytes

``input_layer`` being the bytes of all edges to a layer, n = s under 1F1B and n = ceil(M / d) under GPipe. The repeated
forward passes take as long as under the other rule.

Synchronisation is an all-reduce among d replicas, on a flat network a ring::

    synchronisation(d, W) = gradient_sync_factor · (d − 1) / d · W / network_bytes_per_s

Where nodes of ``node_accelerators`` are joined inside at ``node_bytes_per_s``, replicas are t ranks apart (tensor
parallelism is innermost, then data, then the pipeline: Narayanan et al. 2021), so that g = min(d, floor(
node_accelerators / t)), but at least 1, of them share a node and m = ceil(d / g) nodes are spanned: a reduce-scatter
inside the node, an all-reduce across nodes on a g-th of the bytes, and an all-gather inside (``hardware.network``)::

    synchronisation(d, W) = gradient_sync_factor · ((g − 1) / g · W / node_bytes_per_s
                                                    + (m − 1) / m · (W / g) / network_bytes_per_s)

Stages are outermost, so the transfers between them cross ``network_bytes_per_s`` always.

``W_first`` are the weight bytes and ``update_first`` the optimizer seconds of the first stage: like gradient
synchronisation (paper equation 18), the update of every other stage hides in the pipeline flush.

Where layers are not totally ordered, a stage may use g groups, ``a_i = g·t`` (or ``g`` if none of its layers is
sliced), with g at most the width of the layer graph: the largest number of its layers without order among them. Each
group runs its layers one at a time in the problem's order, backward in the reverse order; data cross between groups of
a stage for free; ``F`` is the recomputed forward pass of the whole stage; the memory rule holds for each group with the
layers it runs (the stash of recomputation being the bytes that enter the stage at its layers, or enter its layers).
"""

from dataclasses import dataclass
from typing import Literal

PipelineSchedule = Literal["1f1b", "gpipe"]
"""How a pipeline orders its microbatches: one forward one backward with flushes (PipeDream-Flush), or GPipe."""

RecomputeGranularity = Literal["layer", "stage"]
"""What recomputation starts from: the kept input of each layer, or (the PHAZE paper) that of the whole stage."""


@dataclass(frozen=True, slots=True)
class PlacementLayer:
    """One layer as sliced at one width. ``update_s`` is its optimizer step, once per batch (0 where not given)."""

    name: str
    forward_s: float
    backward_s: float
    weight_bytes: float
    activation_bytes: float
    sliced: bool
    update_s: float = 0.0


@dataclass(frozen=True)
class LayerGraph:
    """Layers in topological order with edges (from, to, bytes of one microbatch)."""

    layers: tuple[PlacementLayer, ...]
    edges: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class PlacementProblem:
    """A layer graph for each available tensor-parallel width, and the machine it is placed on.

    ``microbatches`` (M) counts the microbatches of a global batch; ``state_factor`` the bytes of weights, gradients
    and optimizer state per byte of weights; ``gradient_sync_factor`` is 2 for a ring all-reduce. ``node_accelerators``
    and ``node_bytes_per_s`` describe nodes with a network of their own; both are 0 on a flat network.
    ``recompute_granularity`` means something with ``recompute`` only.
    """

    name: str
    accelerators: int
    microbatches: int
    hbm_bytes: float
    network_bytes_per_s: float
    recompute: bool
    state_factor: float
    gradient_sync_factor: float
    tensor_parallel: dict[int, LayerGraph]
    pipeline_schedule: PipelineSchedule = "1f1b"
    node_accelerators: int = 0
    node_bytes_per_s: float = 0.0
    recompute_granularity: RecomputeGranularity = "stage"

    @property
    def last_recomputes(self) -> bool:
        """Whether the last stage recomputes its forward pass too: it keeps its activations under one rule only."""
        return self.recompute and (self.pipeline_schedule == "gpipe" or self.recomputes_layers)

    @property
    def recomputes_layers(self) -> bool:
        """Whether layers are recomputed one at a time, each from its own input."""
        return self.recompute and self.recompute_granularity == "layer"


@dataclass(frozen=True, slots=True)
class Stage:
    """Layer positions of one pipeline stage, in topological order, and the accelerators (of one pipeline) it uses.

    Where the layer graph branches, a stage may use several groups of accelerators side by side: ``groups`` then holds
    the layers of each group. It is empty for a stage of one group, as every stage of a chain is.
    """

    layers: tuple[int, ...]
    accelerators: int
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Placement:
    """A placement: width t, d pipelines, the stages of one pipeline from first to last, and its time per batch."""

    tensor: int
    data: int
    stages: tuple[Stage, ...]
    batch_s: float


@dataclass(frozen=True)
class MemoryShortfall:
    """Why nothing fits: the best attempt's worst stage, and what it needs."""

    tensor: int
    stage_layers: tuple[str, ...]
    needed_bytes: float
    hbm_bytes: float

    @property
    def excess_bytes(self) -> float:
        """Bytes over the limit."""
        return self.needed_bytes - self.hbm_bytes


@dataclass(frozen=True)
class PlacementSolution:
    """The optimum (``placement``), or the reason why there is none (``shortfall``).

    Exactly one is set, except that neither is where a cutoff was given and no placement is faster than it, or the
    search was stopped. The placement is the proven optimum, unless ``bound_s`` is set: then no placement takes less
    than that (only on graphs that branch, where a search for the groups of a stage met its limit or was stopped).
    """

    placement: Placement | None
    shortfall: MemoryShortfall | None
    bound_s: float | None = None
