"""What a recurrence costs a rank in one layer: products, short convolution, scan by chunks, norms and gates.

The terms and their sources are those of docs/method/plan.md. All arrays have shape [P].
"""

from typing import NamedTuple

import numpy as np

from dse.plan.kernels import HALF_BYTES, SCANS_BACKWARD, ScanShape
from dse.plan.layer_sums import Parts, WorkSum
from dse.plan.layer_work import RankWork
from dse.plan.model_parts import Recurrence
from dse.plan.plan_arrays import Floats
from dse.plan.recomputation import LAYERNORM

_STATE_BYTES = 4.0
"""Of an element of a state, and of scores between kernels (state-spaces/mamba: ``states_in_fp32``)."""

_MAMBA_FLOPS = 9.0
"""Of each element of a state and token (the count of selective_scan in the benchmarks of state-spaces/mamba)."""


class Scanned(NamedTuple):
    """Of a recurrence: seconds of its scan by pass, bytes of states that exist at a time, parameters of a rank."""

    seconds: tuple[Floats, Floats]
    state_bytes: Floats
    weights: Floats


def recurrence(work: RankWork, sums: WorkSum) -> Scanned:
    """All of a recurrence, whose input is the norm's result; heads are cut over the tensor axis."""
    sizes = work.model.recurrence
    assert sizes is not None, "only called for layers that have one"
    hidden, tokens = float(work.model.hidden), work.tokens
    heads, groups = np.ceil(sizes.heads / work.tensor), np.maximum(np.ceil(sizes.key_heads / work.tensor), 1.0)
    values, keys = heads * sizes.head_width, groups * sizes.state_width
    made, convolved = _widths(sizes, heads, values, keys)
    work.product(sums, tokens, made, hidden, low=True, parts=Parts(otherwise=LAYERNORM))
    inner = _inner_products(work, sums, sizes, values, keys)
    sums.keep(HALF_BYTES * tokens * made)
    if sizes.kernel:
        work.passes(sums, ("multiply", "silu"), tokens * convolved, (4.0, 6.0))
    if sizes.kind in ("gated_delta", "kda", "lightning"):
        # Their scans read what the convolution, or the activation, has made; others make it again.
        sums.keep(HALF_BYTES * tokens * (values + 2.0 * keys))
    if sizes.kind in ("gated_delta", "kda"):
        work.passes(sums, ("rms_norm",), 2.0 * tokens * keys, (4.0, 6.0), row=sizes.state_width)
    if sizes.kind == "lightning":
        work.passes(sums, ("silu",), tokens * (values + 2.0 * keys), (4.0, 6.0))
    if sizes.kind != "mamba":  # whose scan has its gates
        gates = 2.0 if sizes.kind == "gated_convolution" else 1.0
        work.passes(sums, ("silu", "multiply"), gates * tokens * values, (6.0, 10.0))
    work.product(sums, tokens, hidden, values, low=True)
    sums.keep((HALF_BYTES + work.saved_input) * tokens * values)
    forward, state_bytes = _scan(work, sizes, heads, groups)
    weights = hidden * (made + values) + inner
    return Scanned((forward, SCANS_BACKWARD * forward), state_bytes, weights)


def _widths(sizes: Recurrence, heads: Floats, values: Floats, keys: Floats) -> tuple[Floats, Floats]:
    """Of the product that reads the stream, and of what is convolved."""
    match sizes.kind:
        case "mamba2":
            return 2.0 * values + 2.0 * keys + heads, values + 2.0 * keys
        case "gated_delta":
            return 2.0 * values + 2.0 * keys + 2.0 * heads, values + 2.0 * keys
        case "kda":
            return values + 2.0 * keys + heads, values + 2.0 * keys
        case "lightning":
            return 2.0 * values + 2.0 * keys, values
        case "gated_convolution":
            return 3.0 * values, values
        case _:
            return 2.0 * values, values


def _inner_products(work: RankWork, sums: WorkSum, sizes: Recurrence, values: Floats, keys: Floats) -> Floats:
    """Products that make steps, decays and gates; their parameters on a rank."""
    tokens, rank, deep = work.tokens, float(sizes.rank), float(sizes.head_width)
    match sizes.kind:
        case "kda":
            hidden = float(work.model.hidden)
            work.product(sums, tokens, 2.0 * rank, hidden, low=True, parts=Parts(otherwise=LAYERNORM))
            work.product(sums, tokens, keys + values, rank, low=True)
            work.passes(sums, ("power",), tokens * keys, (4.0, 6.0))
            sums.keep(HALF_BYTES * tokens * (2.0 * rank + keys + values))
            return 2.0 * hidden * rank + rank * (keys + values)
        case "mamba":
            steps = rank + 2.0 * sizes.state_width
            work.product(sums, tokens, steps, values, low=True)
            work.product(sums, tokens, values, rank, low=True)
            if sizes.has_norm:
                work.passes(sums, ("rms_norm",), tokens * steps, (4.0, 6.0), row=steps)
            sums.keep(HALF_BYTES * tokens * steps)
            return values * (steps + rank)
        case "rg_lru":
            work.product(sums, tokens, deep, deep, low=True, count=2.0 * values / deep)
            sums.keep(2.0 * HALF_BYTES * tokens * values)
            return 2.0 * values * deep
        case _:
            return np.zeros_like(tokens)


def _scan(work: RankWork, sizes: Recurrence, heads: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Seconds of a forward pass, and bytes of states before and behind each chunk.

    Each of two kernels reads what it needs once: one makes states of chunks, the other results. Between them states and
    scores pass through memory: the former are written, passed on from chunk to chunk, and read.
    """
    chunk = min(sizes.chunk, work.problem.sequence)
    chunks = work.plans.microbatch.astype(float) * np.ceil(work.problem.sequence / work.plans.context / chunk)
    tokens, none = work.tokens, np.zeros_like(work.tokens)
    wide, deep, values = float(sizes.state_width), float(sizes.head_width), heads * sizes.head_width
    scores, mixed = (chunk, chunk, wide), (chunk, deep, chunk)
    match sizes.kind:
        case "mamba2" | "lightning":
            products = [(*scores, groups), (*mixed, heads), (wide, deep, chunk, heads), (chunk, deep, wide, heads)]
            read = values + 2.0 * groups * wide
            moved = HALF_BYTES * tokens * (2.0 * read + values) + 2.0 * _STATE_BYTES * tokens * groups * chunk
        case "gated_delta" | "kda":
            products = [
                *((*scores, 2.0 * heads), (chunk, chunk, chunk / 3.0, heads)),
                *((chunk, wide, chunk, heads), (*mixed, 2.0 * heads)),
                *((wide, deep, chunk, heads), (chunk, deep, wide, 2.0 * heads)),
            ]
            read = values + 2.0 * groups * wide
            corrected = 2.0 * HALF_BYTES * tokens * heads * (wide + deep)
            moved = HALF_BYTES * tokens * (2.0 * read + values) + corrected
            moved = moved + 2.0 * _STATE_BYTES * tokens * heads * chunk
        case "mamba":
            moved = HALF_BYTES * tokens * (4.0 * values + 2.0 * wide)
            lanes = _MAMBA_FLOPS * tokens * values * wide
            return work.kernels.scan_s(ScanShape((), chunks, moved, lanes)), none
        case "rg_lru":
            return work.kernels.scan_s(ScanShape((), chunks, HALF_BYTES * tokens * 4.0 * values, none)), none
        case "gated_convolution":
            return none, none
    states = _STATE_BYTES * chunks * heads * wide * deep
    seconds = work.kernels.scan_s(ScanShape(products, chunks, moved + 4.0 * states, none))
    return seconds, 2.0 * states
