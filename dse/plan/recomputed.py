"""What backward passes recompute of one layer, by the modes of :mod:`dse.plan.recomputation`; arrays of shape [P]."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dse.plan.alternate import remade
from dse.plan.kernels import HALF_BYTES
from dse.plan.layer_sums import WorkSum
from dse.plan.layer_work import RankWork
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats, Integers
from dse.plan.recomputation import (
    ALTERNATE,
    CORE_ATTN,
    LAYERNORM,
    MLA_UP_PROJ,
    MLP,
    MODULES,
    MOE,
    SELECTIVE,
    SHARED_EXPERTS,
)


class ForwardPass(NamedTuple):
    """A forward pass over a layer: seconds of all of it, of vector work, of attention's core with its exposed exchange.

    ``sent`` are the seconds of the collectives of each axis, by pass; ``saved`` the bytes that it keeps, but for the
    ``scores``, what the core of attention has in addition to queries, keys and values; ``blocks`` how many of
    attention and the feed-forward network are cut over the tensor axis.
    """

    seconds: Floats
    vector: Floats
    core: Floats
    sent: Mapping[str, tuple[Floats, Floats]]
    saved: Floats
    scores: Floats
    blocks: float
    kind: LayerKind


class Recomputed(NamedTuple):
    """Seconds that a backward pass repeats, those of collectives by axis, bytes kept, and there for a while."""

    seconds: Floats
    sent: Mapping[str, Floats]
    saved_bytes: Floats
    remade_bytes: Floats


def recomputed(work: RankWork, sums: WorkSum, first: ForwardPass) -> Recomputed:
    """What each plan says of the layer; of plans that make nothing again, what nothing reads.

    While a layer is recomputed, what it dropped is in memory together with what it stores: with ``full`` the whole
    layer, with modules what these drop, but for the scores of attention, as in Korthikanti et al. 2022.
    """
    codes, whole_bytes = work.plans.recompute, first.saved + first.scores
    stream = HALF_BYTES * work.cut_tokens * work.model.hidden
    core = codes == SELECTIVE
    again, saved = np.where(core, first.core, first.seconds), np.where(core, first.saved, stream)
    remade_bytes = np.where(codes > ALTERNATE, whole_bytes, 0.0)
    # The core of attention and whole layers have the same exchange on the context axis.
    sent = {name: np.where(core & (name != "context"), 0.0, seconds) for name, (seconds, _) in first.sent.items()}
    if has_sets(codes):
        is_set = codes < ALTERNATE
        modules = _modules(work, sums, first, np.where(is_set, codes, 0))
        again, saved = np.where(is_set, modules.seconds, again), np.where(is_set, modules.saved_bytes, saved)
        remade_bytes = np.where(is_set, modules.remade_bytes, remade_bytes)
        sent = {name: np.where(is_set, modules.sent[name], seconds) for name, seconds in sent.items()}
    alternates = codes == ALTERNATE
    if alternates.any():
        other = remade(work, first.kind, first.vector, first.blocks)
        again, saved = np.where(alternates, other.again_s, again), np.where(alternates, other.bytes_left, saved)
        sent = {name: np.where(alternates, 0.0, seconds) for name, seconds in sent.items()}
        remade_bytes = np.where(alternates, np.maximum(whole_bytes - other.bytes_left, 0.0), remade_bytes)
    return Recomputed(again, sent, saved, remade_bytes)


def has_sets(codes: Integers) -> bool:
    """Whether any plan makes other modules again than the core of attention."""
    return bool(((codes > SELECTIVE) & (codes < ALTERNATE)).any())


def _modules(work: RankWork, sums: WorkSum, first: ForwardPass, sets: Integers) -> Recomputed:
    """What sets of modules say of the layer, the empty one among them."""
    core, nothing = (sets & CORE_ATTN) > 0, np.zeros(work.plans.count)
    seconds, remade_bytes = np.where(core, first.core, 0.0), nothing
    for each in sums.repeated:
        times = _times(sets, each.modules)
        if each.otherwise:
            times = np.where(times > 0, times, (sets & each.otherwise) > 0)
        seconds = seconds + times * each.seconds
    for tensor in sums.dropped:
        remade_bytes = remade_bytes + np.where((sets & tensor.modules) > 0, tensor.factor * tensor.elements, 0.0)
    network, raw = _network(work, first.kind), work.block_collectives[0]
    ours = (each.seconds for each in sums.repeated if each.is_product and each.modules == network)
    exposed = work.exposed_tensor(raw, sum(ours, start=nothing))
    times, gathers = _times(sets, network), sum(_gathers(work, first.kind, network, sets), start=nothing)
    sent = {
        "tensor": times * raw + gathers,
        "context": np.where(core, first.sent["context"][0], 0.0),
        "expert": np.where((sets & MOE) > 0, first.sent["expert"][0], 0.0),
    }
    seconds = seconds + times * exposed + gathers
    if first.kind.network == "experts" and ((sets & MOE) > 0).any():
        # Compute that hides one collective hides no other.
        compute = sum((each.seconds for each in sums.repeated if each.modules & MOE), start=nothing)
        idle = compute - (raw - exposed) if network else compute
        seconds = seconds + np.where((sets & MOE) > 0, work.exposed_exchange(idle, idle)[0], 0.0)
    saved = np.where(core, first.saved, first.saved + first.scores) - remade_bytes
    return Recomputed(seconds, sent, saved, remade_bytes)


def _network(work: RankWork, kind: LayerKind) -> int:
    """The modules that a layer's feed-forward network over the tensor axis is in; 0 where it has none."""
    if kind.network != "experts":
        return MLP if kind.network else 0
    return MOE | SHARED_EXPERTS if work.model.experts is not None and work.model.experts.shared else 0


def _gathers(work: RankWork, kind: LayerKind, network: int, sets: Integers) -> Iterator[Floats]:
    """Seconds of gathering the inputs of cut products once more, where ranks have parts of these and keep them whole.

    A network that is recomputed gathers its own. The latent tensors of attention are gathered by its up-projections.
    """
    cut = work.plans.sequence_parallel == 1
    if not cut.any():
        return
    latent = work.model.latent
    if latent is not None and kind.attends:
        width = float((latent.query_rank or work.model.hidden) + latent.key_value_rank)
        yield np.where(cut & ((sets & MLA_UP_PROJ) > 0), work.gather_s(width), 0.0)
    if work.problem.stack.gathers_again.value:
        return
    norms = cut & ((sets & LAYERNORM) > 0)
    if kind.mixes:
        yield np.where(norms, work.operand_gather, 0.0)
    if network:
        yield np.where(norms & ((sets & network) == 0), work.operand_gather, 0.0)


def _times(sets: Integers, modules: int) -> Integers:
    """How many of ``modules`` are in each of the sets."""
    bits = [bit for bit in range(len(MODULES)) if modules >> bit & 1]
    times: Integers = sum((sets >> bit & 1 for bit in bits), start=np.zeros_like(sets))
    return times
