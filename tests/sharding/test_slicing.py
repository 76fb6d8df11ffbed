"""Inferred tensor-parallel slices: on numbers against the whole trace, and in their collectives against Megatron's."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.graph.trace import Trace
from dse.sharding.slicing import Slicing, slice_group, slicing, widths
from hardware.inputs import InputError
from tests.importer.interpreter import cut, run_group, run_whole, torch
from tests.importer.programs import Program

BATCH, SEQUENCE, HIDDEN = 2, 6, 16


def stream(program: Program) -> int:
    """A residual stream with a gradient."""
    return program.norm(program.input(program.microbatch, SEQUENCE, HIDDEN))


def trained(leaves: dict[int, Any]) -> dict[int, Any]:
    """Copies of ``leaves``, floating ones with a gradient."""
    return {v: t.detach().clone().requires_grad_(t.is_floating_point()) for v, t in leaves.items()}


def sliced(program: Program, output: int, width: int) -> Slicing:
    """The sliced trace, after its numbers and its gradients were compared with the whole one's."""
    return compared(program.trace(output), program.leaves, program.random, width)


def compared(trace: Trace, leaves: dict[int, Any], random: np.random.Generator, width: int) -> Slicing:
    """As :func:`sliced`, of a trace of one output."""
    (output,) = trace.outputs
    result = slicing(trace, width)
    whole = trained(leaves)
    expected = run_whole(trace, whole)[output]
    gradient = torch.as_tensor(random.normal(size=expected.shape))
    expected.backward(gradient)
    parts = [
        trained({v: cut(t, result.splits[v], width, rank) if v in result.splits else t for v, t in leaves.items()})
        for rank in range(width)
    ]
    outputs = [values[output] for values in run_group(result, parts)]
    for found in outputs:
        torch.testing.assert_close(found, expected)
    torch.autograd.backward(outputs, [gradient] * width)
    check_gradients(result, trace, whole, parts)
    return result


def check_gradients(result: Slicing, trace: Trace, whole: dict[int, Any], parts: list[dict[int, Any]]) -> None:
    """Each accelerator has its part of a gradient; of a whole parameter all, or a summand inside a split branch."""
    local = result.trace
    for index, leaf in whole.items():
        if trace.values[index].role != "parameter" or leaf.grad is None:
            continue
        readers = [local.steps[position] for position in local.consumers[index]]
        values = {value for step in readers for value in step.inputs + step.outputs}
        if index in result.splits:
            for rank, part in enumerate(parts):
                torch.testing.assert_close(part[index].grad, cut(leaf.grad, result.splits[index], result.width, rank))
        elif values & result.splits.keys():
            torch.testing.assert_close(sum(part[index].grad for part in parts), leaf.grad)
        else:
            for part in parts:
                torch.testing.assert_close(part[index].grad, leaf.grad)


def collectives(trace: Trace) -> Counter[tuple[str, int]]:
    """Kind and elements of the collectives of a trace."""
    steps = [step for step in trace.steps if step.kind in ("all_reduce", "copy_to_group")]
    return Counter((step.kind, trace.values[step.outputs[0]].elements) for step in steps)


def split_flops(trace: Trace) -> int:
    total = 0
    for step in trace.steps:
        if step.kind == "matmul":
            total += 2 * trace.values[step.outputs[0]].elements * trace.values[step.inputs[0]].shape[-1]
    return total


ONE_OF_EACH = Counter({("all_reduce", BATCH * SEQUENCE * HIDDEN): 1, ("copy_to_group", BATCH * SEQUENCE * HIDDEN): 1})


def mlp(p: Program, x: int) -> int:
    return p.feed_forward(x, 32)


def gated_mlp(p: Program, x: int) -> int:
    gate = p.function("silu", p.linear(x, 24, bias=False))
    return p.linear(p.function("multiply", gate, p.linear(x, 24, bias=False)), HIDDEN, bias=False)


def fused_gated_mlp(p: Program, x: int) -> int:
    both = p.linear(x, 48)
    gate, up = p.part(both, 2, 0, 24), p.part(both, 2, 24, 24)
    return p.linear(p.function("multiply", p.function("silu", gate), up), HIDDEN)


def attention(p: Program, x: int) -> int:
    return p.attention(x, 4)


def masked_attention(p: Program, x: int) -> int:
    query, key, value = (p.heads(p.linear(x, HIDDEN), 4) for _ in range(3))
    context = p.core(query, key, value, p.buffer(p.random.normal(size=(1, 1, SEQUENCE, SEQUENCE))))
    return p.linear(context, HIDDEN)


def rotary_attention(p: Program, x: int) -> int:
    query, key, value = (p.heads(p.linear(x, HIDDEN), 4) for _ in range(3))
    cos, sin = (p.constant(p.random.normal(size=(1, 1, SEQUENCE, 4))) for _ in range(2))
    query, key = (p.step("rotary", v, cos, sin) for v in (query, key))
    return p.linear(p.core(query, key, value), HIDDEN)


def fused_query_key_value(p: Program, x: int) -> int:
    """GPT-2: one product, then three equal slices."""
    all_three = p.linear(x, 3 * HIDDEN)
    query, key, value = (p.heads(p.part(all_three, 2, i * HIDDEN, HIDDEN), 4) for i in range(3))
    return p.linear(p.core(query, key, value), HIDDEN)


def stacked_query_key_value(p: Program, x: int) -> int:
    """Vision transformers: a view as [3, heads, width], permuted and picked apart."""
    stacked = p.reshape(p.linear(x, 3 * HIDDEN), p.microbatch, SEQUENCE, 3, 4, 4)
    stacked = p.permute(stacked, 2, 0, 3, 1, 4)
    query, key, value = (p.reshape(p.part(stacked, 0, i, 1), p.microbatch, 4, SEQUENCE, 4) for i in range(3))
    return p.linear(p.core(query, key, value), HIDDEN)


def joint_key_value(p: Program, x: int) -> int:
    """A view as [2, heads, width] of one product: the packing is as divisible as the heads are."""
    query = p.heads(p.linear(x, HIDDEN), 4)
    packed = p.reshape(p.linear(x, 2 * HIDDEN), p.microbatch, SEQUENCE, 2, 4, 4)
    packed = p.permute(packed, 2, 0, 3, 1, 4)
    key, value = (p.reshape(p.part(packed, 0, i, 1), p.microbatch, 4, SEQUENCE, 4) for i in range(2))
    return p.linear(p.core(query, key, value), HIDDEN)


def normalised_joint_key_value(p: Program, x: int) -> int:
    """Packed key and value are normalised head by head before they are picked apart."""
    query = p.heads(p.linear(x, HIDDEN), 4)
    packed = p.reshape(p.linear(x, 2 * HIDDEN), p.microbatch, SEQUENCE, 2, 4, 4)
    packed = p.step("rms_norm", packed, p.parameter(4), axes=(-1,))
    key, value = (
        p.permute(p.reshape(p.part(packed, 2, i, 1), p.microbatch, SEQUENCE, 4, 4), 0, 2, 1, 3) for i in range(2)
    )
    return p.linear(p.core(query, key, value), HIDDEN)


def four_in_one_product(p: Program, x: int) -> int:
    """Query, key, value and an output gate: four packed parts."""
    packed = p.permute(p.reshape(p.linear(x, 4 * HIDDEN), p.microbatch, SEQUENCE, 4, HIDDEN), 2, 0, 1, 3)
    parts = [p.reshape(p.part(packed, 0, i, 1), p.microbatch, SEQUENCE, HIDDEN) for i in range(4)]
    query, key, value = (p.heads(part, 4) for part in parts[:3])
    return p.linear(p.function("multiply", p.core(query, key, value), p.function("silu", parts[3])), HIDDEN)


def packed_cross_attention(p: Program, x: int) -> int:
    """torch.nn.MultiheadAttention with one tensor for keys and values: unflattened, and the packing moved in front."""
    query = p.heads(p.linear(x, HIDDEN), 4)
    packed = p.reshape(p.linear(x, 2 * HIDDEN), 1, p.microbatch, SEQUENCE, 2, HIDDEN)
    packed = p.reshape(p.permute(packed, 3, 1, 2, 0, 4), 2, p.microbatch, SEQUENCE, HIDDEN)
    key, value = (p.heads(p.reshape(p.part(packed, 0, i, 1), p.microbatch, SEQUENCE, HIDDEN), 4) for i in range(2))
    return p.linear(p.core(query, key, value), HIDDEN)


def maxout(p: Program, x: int) -> int:
    """The larger of two packed halves."""
    halves = p.reshape(p.linear(x, 32), p.microbatch, SEQUENCE, 2, 16)
    return p.linear(p.step("reduction", halves, function="max", axes=(2,), keep=0), HIDDEN)


def interleaved_query_key_value(p: Program, x: int) -> int:
    """GPT-NeoX: query, key and value side by side for each head."""
    by_head = p.reshape(p.linear(x, 3 * HIDDEN), p.microbatch, SEQUENCE, 4, 12)
    query, key, value = (p.permute(p.part(by_head, 3, i * 4, 4), 0, 2, 1, 3) for i in range(3))
    return p.linear(p.core(query, key, value), HIDDEN)


def parts_of_one_parameter(p: Program, x: int) -> int:
    """torch.nn.MultiheadAttention: three views of one weight and one bias."""
    weight, bias = p.parameter(3 * HIDDEN, HIDDEN), p.parameter(3 * HIDDEN)
    made = []
    for i in range(3):
        part = slice(i * HIDDEN, (i + 1) * HIDDEN)
        views = (p.view(weight, p.arrays[weight][part].T), p.view(bias, p.arrays[bias][part]))
        made.append(p.heads(p.step("matmul", x, *views), 4))
    return p.linear(p.core(*made), HIDDEN)


def repeated_keys(p: Program, kv_heads: int, x: int) -> tuple[int, int, int]:
    """Grouped queries with keys and values repeated for each query head (Hugging Face's ``repeat_kv``)."""
    query = p.heads(p.linear(x, HIDDEN), 4)
    pair = []
    for _ in range(2):
        tensor = p.heads(p.linear(x, kv_heads * 4), kv_heads)
        tensor = p.reshape(tensor, p.microbatch, kv_heads, 1, SEQUENCE, 4)
        tensor = p.step("expand", tensor, shape=(p.microbatch, kv_heads, 4 // kv_heads, SEQUENCE, 4))
        pair.append(p.reshape(tensor, p.microbatch, 4, SEQUENCE, 4))
    return query, pair[0], pair[1]


def grouped_queries(p: Program, x: int) -> int:
    return p.linear(p.core(*repeated_keys(p, 2, x)), HIDDEN)


def folded_grouped_queries(p: Program, x: int) -> int:
    """The queries that share a key are rows of one product."""
    query = p.reshape(p.heads(p.linear(x, HIDDEN), 4), p.microbatch, 2, 2 * SEQUENCE, 4)
    key, value = (p.heads(p.linear(x, 8), 2) for _ in range(2))
    scores = p.step("matmul", query, p.permute(key, 0, 1, 3, 2))
    context = p.step("matmul", p.step("softmax", scores, axis=-1), value)
    context = p.permute(p.reshape(context, p.microbatch, 4, SEQUENCE, 4), 0, 2, 1, 3)
    return p.linear(p.reshape(context, p.microbatch, SEQUENCE, HIDDEN), HIDDEN)


def fused_grouped_queries(p: Program, x: int) -> int:
    """Phi-3: query, key and value of different widths in one product."""
    fused = p.linear(x, 32)
    query = p.reshape(p.heads(p.part(fused, 2, 0, 16), 4), p.microbatch, 2, 2 * SEQUENCE, 4)
    key, value = (p.heads(p.part(fused, 2, start, 8), 2) for start in (16, 24))
    context = p.step("matmul", p.step("matmul", query, p.permute(key, 0, 1, 3, 2)), value)
    context = p.permute(p.reshape(context, p.microbatch, 4, SEQUENCE, 4), 0, 2, 1, 3)
    return p.linear(p.reshape(context, p.microbatch, SEQUENCE, HIDDEN), HIDDEN)


def flattened_tokens(p: Program, x: int) -> int:
    """GPT-2's Conv1D: every product over a view of [tokens, hidden]."""
    rows = [p.reshape(x, p.microbatch * SEQUENCE, HIDDEN) for _ in range(3)]
    query, key, value = (p.heads(p.reshape(p.linear(r, HIDDEN), p.microbatch, SEQUENCE, HIDDEN), 4) for r in rows)
    context = p.reshape(p.core(query, key, value), p.microbatch * SEQUENCE, HIDDEN)
    return p.reshape(p.linear(context, HIDDEN), p.microbatch, SEQUENCE, HIDDEN)


def normalised_heads(p: Program, x: int) -> int:
    """Qwen3: queries and keys normalised head by head."""
    query, key, value = (p.heads(p.linear(x, HIDDEN), 4) for _ in range(3))
    query, key = (p.step("rms_norm", v, p.parameter(4), axes=(-1,)) for v in (query, key))
    return p.linear(p.core(query, key, value), HIDDEN)


BRANCHES = [
    mlp,
    gated_mlp,
    fused_gated_mlp,
    attention,
    masked_attention,
    rotary_attention,
    fused_query_key_value,
    stacked_query_key_value,
    joint_key_value,
    normalised_joint_key_value,
    four_in_one_product,
    packed_cross_attention,
    maxout,
    interleaved_query_key_value,
    parts_of_one_parameter,
    grouped_queries,
    folded_grouped_queries,
    fused_grouped_queries,
    flattened_tokens,
    normalised_heads,
]


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("pre", [True, False])
def test_branch_of_a_block(branch, pre):
    """One all-reduce and one copy a branch, half the FLOPs, and the same numbers."""
    p = Program()
    x = stream(p)
    output = p.function("add", x, branch(p, p.norm(x) if pre else x))
    output = output if pre else p.norm(output)
    result = sliced(p, output, 2)
    assert collectives(result.trace) == ONE_OF_EACH
    assert 2 * split_flops(result.trace) == split_flops(p.trace(output))
    assert widths(p.trace(output), (2,)) == (1, 2)


@pytest.mark.parametrize("branch", BRANCHES)
def test_parameters_are_cut_without_loss(branch):
    """The parts of a cut parameter together are the whole; norms and biases of row splits are whole on each."""
    p = Program()
    trace = p.trace(branch(p, stream(p)))
    result = slicing(trace, 2)
    for index, value in enumerate(trace.values):
        if value.role == "parameter":
            shared = result.trace.values[index].elements * (2 if index in result.splits else 1)
            assert shared == value.elements
    kept = sum(
        v.elements
        for i, v in enumerate(trace.values)
        if v.role == "parameter" and v.base is None and i not in result.splits
    )
    assert 2 * result.trace.parameters == trace.parameters + kept


def test_every_branch_of_a_deep_model_is_split():
    """Every branch of a deep model is split, whatever stands in front of it."""
    p = Program()
    x = stream(p)
    for _ in range(3):
        x = p.function("add", x, p.attention(p.norm(x), 4))
        x = p.function("add", x, p.feed_forward(p.norm(x), 32))
    result = sliced(p, x, 4)
    assert collectives(result.trace) == Counter(dict.fromkeys(ONE_OF_EACH, 6))


def test_cross_attention_copies_both_streams_to_the_group():
    """Queries of one stream and keys of another: both are copied to the group."""
    p = Program()
    x, memory = stream(p), p.norm(p.input(BATCH, SEQUENCE, HIDDEN))
    result = sliced(p, p.function("add", x, p.attention(x, 4, memory)), 2)
    size = BATCH * SEQUENCE * HIDDEN
    assert collectives(result.trace) == Counter({("all_reduce", size): 1, ("copy_to_group", size): 2})


@pytest.mark.parametrize("residual_first", [True, False])
def test_parallel_branches_share_their_collectives(residual_first):
    """GPT-J: attention and feed-forward read the same normalised stream; their partial sums are added before the sum.

    Where the residual is added in between, each has an all-reduce of its own.
    """
    p = Program()
    x = stream(p)
    y = p.norm(x)
    first, second = p.attention(y, 4), p.feed_forward(y, 32)
    if residual_first:
        output = p.function("add", p.function("add", x, first), second)
    else:
        output = p.function("add", x, p.function("add", first, second))
    size = BATCH * SEQUENCE * HIDDEN
    expected = Counter({("all_reduce", size): 1 + residual_first, ("copy_to_group", size): 1})
    assert collectives(sliced(p, output, 2).trace) == expected


def test_relative_positions_are_split_with_the_heads():
    """T5: a table of one number a head, looked up once, and added to the scores of every layer."""
    p = Program()
    x = stream(p)
    table, buckets = p.parameter(8, 4), p.buffer(p.random.integers(8, size=(SEQUENCE, SEQUENCE)))
    bias = p.reshape(p.permute(p.step("embedding", table, buckets), 2, 0, 1), 1, 4, SEQUENCE, SEQUENCE)
    for _ in range(2):
        query, key, value = (p.heads(p.linear(x, HIDDEN), 4) for _ in range(3))
        x = p.norm(p.function("add", x, p.linear(p.core(query, key, value, bias), HIDDEN)))
    result = sliced(p, x, 2)
    assert result.splits[table].axis == 1
    assert sum(collectives(result.trace).values()) == 4


def test_frozen_weights_are_split_with_their_adapters():
    """LoRA: frozen weights are split as trained ones are, and with them the adapter's second matrix."""
    p = Program()
    x = stream(p)
    frozen = {shape: p.buffer(p.random.normal(size=shape)) for shape in ((HIDDEN, 32), (32, HIDDEN))}
    adapter = p.step("matmul", p.step("matmul", x, p.parameter(HIDDEN, 2)), second := p.parameter(2, 32))
    inner = p.function("gelu", p.function("add", p.step("matmul", x, frozen[HIDDEN, 32]), adapter))
    result = sliced(p, p.function("add", x, p.step("matmul", inner, frozen[32, HIDDEN])), 2)
    assert set(frozen.values()) | {second} <= set(result.splits)
    expected = ONE_OF_EACH + Counter({("copy_to_group", BATCH * SEQUENCE * 2): 1})
    assert collectives(result.trace) == expected


def test_shared_weights_are_cut_in_every_layer():
    """ALBERT: one set of weights in all layers is cut in all of them."""
    p = Program()
    x = stream(p)
    up, down = p.parameter(HIDDEN, 32), p.parameter(32, HIDDEN)
    for _ in range(3):
        x = p.norm(p.function("add", x, p.step("matmul", p.function("gelu", p.step("matmul", x, up)), down)))
    assert sum(collectives(sliced(p, x, 2).trace).values()) == 6


def language_model(p: Program, tied: bool, vocabulary: int = 24, loss: bool = True) -> int:
    tokens = p.tokens(vocabulary, BATCH, SEQUENCE)
    table = p.parameter(vocabulary, HIDDEN)
    positions = p.step("embedding", p.parameter(20, HIDDEN), p.buffer(np.arange(SEQUENCE)))
    x = p.function("add", p.step("embedding", table, tokens), positions)
    x = p.norm(p.function("add", x, p.feed_forward(p.norm(x), 32)))
    logits = p.step("matmul", x, p.transposed(table if tied else p.parameter(vocabulary, HIDDEN)))
    if not loss:
        return logits
    logits = p.reshape(logits, BATCH * SEQUENCE, vocabulary)
    return p.step("cross_entropy", logits, p.tokens(vocabulary, BATCH * SEQUENCE), axis=-1)


@pytest.mark.parametrize("tied", [True, False])
def test_a_vocabulary_is_split_over_embedding_and_loss(tied):
    """Embedding and loss over the split vocabulary: an all-reduce, a copy, and participants of the loss."""
    p = Program()
    result = sliced(p, language_model(p, tied), 2)
    assert collectives(result.trace) == Counter(dict.fromkeys(ONE_OF_EACH, 2))
    loss = result.trace.steps[-1]
    assert loss.kind == "cross_entropy"
    assert loss.attributes["participants"] == 2
    tables = [step.inputs[0] for step in result.trace.steps if step.kind == "embedding"]
    assert [result.trace.values[table].shape for table in tables] == [(20, HIDDEN), (12, HIDDEN)]


@pytest.mark.parametrize("tied", [True, False])
def test_vocabulary_that_does_not_divide_stays_whole(tied):
    p = Program()
    output = language_model(p, tied, vocabulary=23)
    result = sliced(p, output, 2)
    assert collectives(result.trace) == ONE_OF_EACH
    assert "participants" not in result.trace.steps[-1].attributes


def test_tied_vocabulary_without_loss_stays_whole():
    """Logits that leave the module must be whole, and so must the table they share."""
    p = Program()
    assert collectives(sliced(p, language_model(p, tied=True, loss=False), 2).trace) == ONE_OF_EACH


def test_classifier_over_few_classes_stays_whole():
    """A pooler and two classes at the end of an encoder are not worth two collectives."""
    p = Program()
    x = p.norm(p.function("add", first := stream(p), p.feed_forward(first, 64)))
    token = p.reshape(p.part(x, 1, 0, 1), p.microbatch, HIDDEN)
    classes = p.linear(p.function("tanh", p.linear(token, HIDDEN)), 2)
    result = sliced(p, p.step("cross_entropy", classes, p.tokens(2, BATCH), axis=-1), 2)
    assert collectives(result.trace) == ONE_OF_EACH


def norm_over_columns(p: Program, x: int) -> int:
    return p.linear(p.norm(p.linear(x, 32)), HIDDEN)


def softmax_over_columns(p: Program, x: int) -> int:
    return p.linear(p.step("softmax", p.linear(x, 32), axis=-1), HIDDEN)


def mean_over_columns(p: Program, x: int) -> int:
    y = p.linear(x, 32)
    return p.linear(p.function("multiply", y, p.step("reduction", y, function="mean", axes=(-1,), keep=1)), HIDDEN)


def leaves_the_module(p: Program, x: int) -> int:
    return p.linear(x, 32)


def uneven_slices(p: Program, x: int) -> int:
    y = p.linear(x, 33)
    return p.linear(p.part(y, 2, 5, 16), HIDDEN)


def whole_second_matrix(p: Program, x: int) -> int:
    """A parameter that meets split heads whole would get a part of its gradient on each accelerator."""
    heads = p.step("matmul", p.heads(p.linear(x, HIDDEN), 4), p.parameter(4, 4))
    weights = p.permute(p.step("softmax", heads, axis=-1), 0, 2, 1, 3)
    return p.linear(p.reshape(weights, p.microbatch, SEQUENCE, HIDDEN), HIDDEN)


WHOLE = [norm_over_columns, softmax_over_columns, mean_over_columns, leaves_the_module, uneven_slices]
WHOLE += [whole_second_matrix]


@pytest.mark.parametrize("branch", WHOLE)
def test_what_cannot_be_split_stays_whole(branch):
    p = Program()
    trace = p.trace(branch(p, stream(p)))
    assert slice_group(trace, 2) == trace
    assert widths(trace, (2, 4)) == (1,)


def test_too_few_key_heads_leave_attention_whole():
    """Two key heads on four accelerators: attention stays whole, so the width is not offered."""
    p = Program()
    x = stream(p)
    x = p.function("add", x, p.linear(p.core(*repeated_keys(p, 2, x)), HIDDEN))
    trace = p.trace(p.function("add", x, p.feed_forward(x, 64)))
    assert collectives(slice_group(trace, 4)) == ONE_OF_EACH
    assert widths(trace, (1, 2, 4)) == (1, 2)


def test_one_key_head_is_whole_on_each_accelerator():
    """Multi-query attention: the queries are split, and the gradients of key and value summed."""
    p = Program()
    x = stream(p)
    result = sliced(p, p.function("add", x, p.linear(p.core(*repeated_keys(p, 1, x)), HIDDEN)), 2)
    size = BATCH * SEQUENCE * HIDDEN
    assert collectives(result.trace) == Counter(
        {("all_reduce", size): 1, ("copy_to_group", size): 1, ("copy_to_group", size // 4): 2}
    )


def test_a_width_below_one_is_refused():
    p = Program()
    with pytest.raises(InputError, match="at least 1"):
        slice_group(p.trace(mlp(p, stream(p))), 0)


CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16)


def check_divisors(trace: Trace) -> None:
    """With a width, all candidates that divide it are offered."""
    offered = widths(trace, CANDIDATES)
    assert set(offered) == {small for small in CANDIDATES if any(large % small == 0 for large in offered)}


@pytest.mark.parametrize("branch", [*BRANCHES, *WHOLE])
def test_widths_are_closed_under_divisors(branch):
    p = Program()
    x = stream(p)
    y = branch(p, x)
    check_divisors(p.trace(p.function("add", x, y) if p.arrays[y].shape == p.arrays[x].shape else y))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(BRANCHES), min_size=1, max_size=3), st.integers(1, 3))
def test_widths_of_stacks_are_closed_under_divisors(branches, microbatch):
    p = Program(microbatch)
    x = stream(p)
    for branch in branches:
        x = p.norm(p.function("add", x, branch(p, x)))
    check_divisors(p.trace(x))


@pytest.mark.parametrize("vocabulary", [24, 23])
def test_widths_of_language_models_are_closed_under_divisors(vocabulary):
    p = Program()
    check_divisors(p.trace(language_model(p, tied=True, vocabulary=vocabulary)))


class Joint(torch.nn.Module):
    """Keys and values from one product."""

    def __init__(self):
        super().__init__()
        self.query, self.both, self.out = (torch.nn.Linear(HIDDEN, size) for size in (HIDDEN, 2 * HIDDEN, HIDDEN))
        self.norm = torch.nn.LayerNorm(HIDDEN)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        x = self.norm(x)
        query = self.query(x).view(batch, tokens, 4, -1).transpose(1, 2)
        key, value = self.both(x).view(batch, tokens, 2, 4, -1).permute(2, 0, 3, 1, 4)
        context = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(context.transpose(1, 2).reshape(batch, tokens, hidden))


def transformer():
    return torch.nn.Transformer(HIDDEN, 4, 1, 1, 32, dropout=0.0, batch_first=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "lengths", "branches"), [(Joint, (6,), 1), (transformer, (6, 5), 5)])
def test_every_branch_of_a_torch_module_with_joint_keys_and_values_is_split(make, lengths, branches):
    """Every branch is split at both widths: attention, of the encoder and across, and feed-forward."""
    from dse.importer.canonical import canonical
    from dse.importer.torch.module import trace_module

    trace = canonical(trace_module(make(), tuple(torch.zeros(1, n, HIDDEN) for n in lengths), "module", BATCH))
    random = np.random.default_rng(0)
    leaves = {
        index: torch.as_tensor(random.normal(size=value.shape)) / 2
        for index, value in enumerate(trace.values)
        if value.role != "activation"
    }
    assert widths(trace, (2, 4, 8)) == (1, 2, 4)
    for width in (2, 4):
        result = compared(trace, leaves, random, width)
        assert Counter(step.kind for step in result.trace.steps)["all_reduce"] == branches


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_slices_of_random_stacks_compute_the_same_numbers(data):
    """Blocks of random branches over a random vocabulary: the numbers never change; one accelerator changes nothing."""
    p = Program(data.draw(st.sampled_from([1, 2, 3])), seed=data.draw(st.integers(0, 9)))
    x = stream(p)
    for branch in data.draw(st.lists(st.sampled_from([*BRANCHES, norm_over_columns, whole_second_matrix]), max_size=3)):
        kind = data.draw(st.sampled_from(["pre", "post", "none"]))
        x = p.function("add", x, branch(p, p.norm(x) if kind == "pre" else x))
        x = p.norm(x) if kind == "post" else x
    width = data.draw(st.sampled_from([2, 3, 4, 8]))
    trace = p.trace(x)
    assert slice_group(trace, 1) == trace
    result = sliced(p, x, width)
    for index, split in result.splits.items():
        if index in p.leaves:
            parts = [cut(p.leaves[index], split, width, rank) for rank in range(width)]
            assert sum(part.numel() for part in parts) == p.leaves[index].numel()
            assert {tuple(part.shape) for part in parts} == {result.trace.values[index].shape}
