"""What backward passes make again of one layer, by the modes of :mod:`dse.plan.recomputation`; arrays of shape [P]."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dse.plan.alternate import remade
from dse.plan.kernels import HALF_BYTES
from dse.plan.layer_sums import WorkSum
from dse.plan.plan_arrays import Floats, Integers
from dse.plan.recomputation import ALTERNATE, CORE_ATTN, LAYERNORM, MLA_UP_PROJ, MLP, MODULES, MOE, SHARED_EXPERTS

if TYPE_CHECKING:
    from dse.plan.layer_work import RankWork


class ForwardPass(NamedTuple):
    """A forward pass over a layer: seconds of all of it, of vector work, of attention's core with its exposed exchange.

    ``sent`` are the seconds of the collectives of each axis, by pass; ``kept`` the bytes that it keeps, but for the
    ``scores``, what the core of attention has beside queries, keys and values; ``blocks`` how many of attention and the
    feed-forward network are cut over the tensor axis.
    """

    seconds: Floats
    vector: Floats
    core: Floats
    sent: Mapping[str, tuple[Floats, Floats]]
    kept: Floats
    scores: Floats
    blocks: float
    has_experts: bool


class MadeAgain(NamedTuple):
    """Seconds that a backward pass repeats, those of collectives by axis, bytes kept, and there for a while."""

    seconds: Floats
    sent: Mapping[str, Floats]
    kept_bytes: Floats
    remade_bytes: Floats


class _Modules(NamedTuple):
    """Of modules but the core of attention: seconds that are repeated, collectives among them, bytes dropped."""

    seconds: Floats
    tensor: Floats
    expert: Floats
    dropped_bytes: Floats


def made_again(work: "RankWork", sums: WorkSum, first: ForwardPass) -> MadeAgain:
    """What each plan says of the layer; where it makes nothing again, nothing is repeated and all is kept.

    While a layer is made again, what it has dropped is in memory beside what it keeps: with ``full`` the whole layer,
    with modules what these drop, but for the scores of attention, as in Korthikanti et al. 2022.
    """
    codes = work.plans.recompute
    sets = np.where(codes < ALTERNATE, codes, 0)
    core, whole = (sets & CORE_ATTN) > 0, codes > ALTERNATE
    nothing = np.zeros(work.plans.count)
    again, sent = np.where(core, first.core, nothing), dict.fromkeys(first.sent, nothing)
    sent["context"] = np.where(core, first.sent["context"][0], nothing)
    kept, remade_bytes = np.where(core, first.kept, first.kept + first.scores), nothing
    if (sets > CORE_ATTN).any():
        modules = _modules(work, sums, first, sets)
        again, kept, remade_bytes = again + modules.seconds, kept - modules.dropped_bytes, modules.dropped_bytes
        sent |= {"tensor": modules.tensor, "expert": modules.expert}
    if whole.any():
        stream = HALF_BYTES * work.cut_tokens * work.model.hidden
        again, kept = np.where(whole, first.seconds, again), np.where(whole, stream, kept)
        remade_bytes = np.where(whole, first.kept + first.scores, remade_bytes)
        sent = {name: np.where(whole, passes[0], sent[name]) for name, passes in first.sent.items()}
    alternates = codes == ALTERNATE
    if alternates.any():
        other = remade(work, first.has_experts, first.vector, first.blocks)
        again, kept = np.where(alternates, other.again_s, again), np.where(alternates, other.bytes_left, kept)
        rest = np.maximum(first.kept + first.scores - other.bytes_left, 0.0)
        remade_bytes = np.where(alternates, rest, remade_bytes)
    return MadeAgain(again, sent, kept, remade_bytes)


def _modules(work: "RankWork", sums: WorkSum, first: ForwardPass, sets: Integers) -> _Modules:
    seconds = dropped = nothing = np.zeros(work.plans.count)
    for each in sums.repeated:
        times = _times(sets, each.modules)
        if each.otherwise:
            times = np.where(times > 0, times, (sets & each.otherwise) > 0)
        seconds = seconds + times * each.seconds
    for tensor in sums.dropped:
        dropped = dropped + np.where((sets & tensor.modules) > 0, tensor.size_bytes, 0.0)
    network = _network(work, first.has_experts)
    times = _times(sets, network)
    products = sum(
        (each.seconds for each in sums.repeated if each.is_product and each.modules & network), start=nothing
    )
    tensor_s = times * work.block_collectives[0]
    seconds = seconds + times * work.exposed_tensor(work.block_collectives[0], products)
    gathers = sum(_gathers(work, network, sets), start=nothing)
    exchange = np.where(first.has_experts & ((sets & MOE) > 0), first.sent["expert"][0], 0.0)
    if exchange.any():
        compute = sum((each.seconds for each in sums.repeated if each.modules & MOE), start=nothing)
        hidden = work.block_collectives[0] - work.exposed_tensor(work.block_collectives[0], products)
        idle = compute - (hidden if network else 0.0)
        seconds = seconds + np.where(exchange > 0, work.exposed_exchange(idle, idle)[0], 0.0)
    return _Modules(seconds + gathers, tensor_s + gathers, exchange, dropped)


def _network(work: "RankWork", has_experts: bool) -> int:
    """The modules that a layer's feed-forward network over the tensor axis is in; 0 where it has none."""
    if not has_experts:
        return MLP
    return MOE | SHARED_EXPERTS if work.model.experts is not None and work.model.experts.shared else 0


def _gathers(work: "RankWork", network: int, sets: Integers) -> Iterator[Floats]:
    """Seconds of gathering the inputs of cut products once more, where ranks have parts of these and keep them whole.

    A network that is made again gathers its own. The latent tensors of attention are gathered by its up-projections.
    """
    cut = work.plans.sequence_parallel == 1
    if not cut.any():
        return
    latent = work.model.latent
    if latent is not None:
        width = float((latent.query_rank or work.model.hidden) + latent.key_value_rank)
        yield np.where(cut & ((sets & MLA_UP_PROJ) > 0), work.gather_s(width), 0.0)
    if work.problem.stack.gathers_again.value:
        return
    norms = cut & ((sets & LAYERNORM) > 0)
    yield np.where(norms, work.operand_gather, 0.0)
    if network:
        yield np.where(norms & ((sets & network) == 0), work.operand_gather, 0.0)


def _times(sets: Integers, modules: int) -> Integers:
    """How many of ``modules`` are in each of the sets."""
    bits = [bit for bit in range(len(MODULES)) if modules >> bit & 1]
    times: Integers = sum((sets >> bit & 1 for bit in bits), start=np.zeros_like(sets))
    return times
