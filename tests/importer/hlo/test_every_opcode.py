"""Every operation of HLO ("HLO semantics", ``xla/hlo/ir/hlo_opcode.h``): split by a rule, free, or named and priced."""

import pytest

from dse.graph.step_work import flops_of
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.json_form import module_from_document
from dse.importer.hlo.stablehlo import parse_stablehlo
from dse.importer.hlo.text import parse_hlo
from dse.parallel.storage import Storage
from dse.parallel.whole_operations import whole_note, whole_operations
from dse.sharding.hlo.table import step_factors
from hardware.inputs import InputError
from tests.fuzz.examples import HLO_JSON
from tests.parallel.problems import problem

COMPUTATIONS = """
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
ge {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=GE
}
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT
}
product {
  p = f32[8,4] parameter(0)
  q = f32[4,6] parameter(1)
  ROOT r = f32[8,6] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

UNARY = (
    "abs", "cbrt", "ceil", "copy", "cosine", "erf", "exponential", "exponential-minus-one", "floor", "log",
    "log-plus-one", "logistic", "negate", "round-nearest-afz", "round-nearest-even", "rsqrt", "sign", "sine", "sqrt",
    "tan", "tanh",
)  # fmt: skip
BINARY = ("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract")
INTEGER = ("and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical")

DOT_FLOPS = 2 * 8 * 6 * 4
CONFIG = 'backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}'
TRANSPOSED = CONFIG.replace("1", "0")
FMHA = (
    'backend_config={"cudnn_fmha_backend_config":{"bmm1_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],'
    '"rhs_contracting_dimensions":["3"],"lhs_batch_dimensions":["0","1"],"rhs_batch_dimensions":["0","1"]},'
    '"bmm2_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],"rhs_contracting_dimensions":["2"]}}}'
)
WINDOW = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"

SPLIT = {
    **{each: f"f32[8,4] {each}(x)" for each in UNARY},
    **{each: f"f32[8,4] {each}(x, x)" for each in BINARY},
    **{each: f"s32[8,4] {each}(i, i)" for each in INTEGER},
    "not": "pred[8,4] not(b)", "popcnt": "s32[8,4] popcnt(i)", "count-leading-zeros": "s32[8,4] count-leading-zeros(i)",
    "is-finite": "pred[8,4] is-finite(x)", "compare": "pred[8,4] compare(x, x), direction=GT",
    "select": "f32[8,4] select(b, x, x)", "clamp": "f32[8,4] clamp(s, x, s)",
    "complex": "c64[8,4] complex(x, x)", "real": "f32[8,4] real(c)", "imag": "f32[8,4] imag(c)",
    "convert": "bf16[8,4] convert(x)", "bitcast-convert": "s32[8,4] bitcast-convert(x)",
    "reduce-precision": "f32[8,4] reduce-precision(x), exponent_bits=8, mantissa_bits=7",
    "map": "f32[8,4] map(x, x), dimensions={0,1}, to_apply=add",
    "all-reduce": "f32[8,4] all-reduce(x), to_apply=add", "bitcast": "f32[32] bitcast(x)",
    "broadcast": "f32[8,4,2] broadcast(x), dimensions={0,1}", "transpose": "f32[4,8] transpose(x), dimensions={1,0}",
    "reshape": "f32[32] reshape(x)", "concatenate": "f32[16,4] concatenate(x, x), dimensions={0}",
    "pad": "f32[10,4] pad(x, s), padding=1_1x0_0", "slice": "f32[4,4] slice(x), slice={[0:4], [0:4]}",
    "dynamic-slice": "f32[8,2] dynamic-slice(x, n, n), dynamic_slice_sizes={8,2}",
    "dynamic-update-slice": "f32[8,4] dynamic-update-slice(x, x, n, n)",
    "reverse": "f32[8,4] reverse(x), dimensions={1}",
    "dot": "f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": f"f32[2,8,8,5] convolution(im, k), {WINDOW}",
    "reduce": "f32[8] reduce(x, s), dimensions={1}, to_apply=add",
    "reduce-window": "f32[8,3] reduce-window(x, s), window={size=1x2}, to_apply=add",
    "select-and-scatter": (
        "f32[8,4] select-and-scatter(x, v, s), window={size=1x2 stride=1x2}, select=ge, scatter=add"
    ),
    "sort": "f32[8,4] sort(x), dimensions={1}, to_apply=less", "topk": "(f32[8,2], s32[8,2]) topk(x), k=2",
    "fft": "c64[8,4] fft(c), fft_type=FFT, fft_length={4}", "cholesky": "f32[3,4,4] cholesky(m)",
    "triangular-solve": "f32[3,4,4] triangular-solve(m, m)",
    "gather": (
        "f32[8,5] gather(x, t), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, "
        "slice_sizes={8,1}"
    ),
    "scatter": (
        "f32[8,4] scatter(x, t, u), update_window_dims={0}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add"
    ),
    "rng": "f32[8,4] rng(s, s), distribution=rng_uniform",
    "copy-start": "(f32[8,4], f32[8,4], u32[]) copy-start(x)",
    "all-reduce-start": "f32[8,4] all-reduce-start(x), to_apply=add",
    "call-start": "((f32[8,4], f32[4,6]), f32[8,6], s32[]) call-start(x, w), to_apply=product",
    "async-start": "((f32[8,4], f32[4,6]), f32[8,6], s32[]) async-start(x, w), calls=product",
    "fusion-start": "((f32[8,4], f32[4,6]), f32[8,6], s32[]) fusion-start(x, w), kind=kOutput, calls=product",
    "call": "f32[8,6] call(x, w), to_apply=product", "fusion": "f32[8,6] fusion(x, w), kind=kOutput, calls=product",
}  # fmt: skip
"""Operations that a rule splits."""

FREE = {
    "opt-barrier": "f32[8,4] opt-barrier(x)", "domain": "f32[8,4] domain(x), domain={kind=\"sharding\"}",
    "add-dependency": "f32[8,4] add-dependency(x, a)",
    "set-dimension-size": "f32[8,4] set-dimension-size(x, n), dimensions={0}",
    **{
        target: f'f32[8,4] custom-call(x), custom_call_target="{target}", sharding={{devices=[2,4]<=[8]}}'
        for target in ("Sharding", "annotate_device_placement", "LayoutConstraint", "AssumeGatherIndicesInBound",
                       "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier")
    },
    **{
        target: f'f32[{size},4] custom-call(x), custom_call_target="{target}"'
        for target, size in (("SPMDFullToShardShape", 2), ("SPMDShardToFullShape", 32),
                             ("xla.sdy.GlobalToLocalShape", 2), ("xla.sdy.LocalToGlobalShape", 32))
    },
}  # fmt: skip
"""Operations that compute and move nothing."""

WHOLE = {
    "ragged-dot": (
        "f32[8,6] ragged-dot(x, e, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}", DOT_FLOPS),
    "ragged-dot of contracted rows": (
        "f32[3,4,6] ragged-dot(x, o, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}",
        2 * 4 * 6 * 8),
    "scaled-dot": (
        "f32[8,6] scaled-dot(x, w, x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", DOT_FLOPS),
    "gemm": (f'(f32[8,6], s8[99]) custom-call(x, w), custom_call_target="__cublas$gemm", {CONFIG}', DOT_FLOPS),
    "matmul": (f'f32[8,6] custom-call(x, w), custom_call_target="__cublas$lt$matmul", {CONFIG}', DOT_FLOPS),
    "matmul of another config": (
        f'f32[4,4] custom-call(x, x), custom_call_target="__cublas$gemm", {TRANSPOSED}',
        2 * 4 * 4 * 8),
    "convForward": (
        f'(f32[2,8,8,5], u8[9]) custom-call(im, k), custom_call_target="__cudnn$convForward", {WINDOW}',
        2 * 2 * 8 * 8 * 5 * 9 * 3),
    "convBackwardInput": (
        f'(f32[2,8,8,3], u8[9]) custom-call(og, k), custom_call_target="__cudnn$convBackwardInput", {WINDOW}',
        2 * 2 * 8 * 8 * 5 * 9 * 3),
    "convBackwardFilter": (
        f'(f32[3,3,3,5], u8[9]) custom-call(im, og), custom_call_target="__cudnn$convBackwardFilter", {WINDOW}',
        2 * 2 * 8 * 8 * 5 * 9 * 3),
    "fmha": (
        f'(f32[2,3,7,16], u8[9]) custom-call(at, at, at), custom_call_target="__cudnn$fmhaSoftmax", {FMHA}',
        2 * 2 * 2 * 3 * 7 * 7 * 16),
    "potrf": ('(f32[3,4,4], s32[]) custom-call(m), custom_call_target="lapack_spotrf_ffi"', 3 * 4**3 // 3),
    "trsm": ('f32[4,4] custom-call(m4, m4), custom_call_target="lapack_strsm_ffi"', 4**3),
    "batch-norm-inference": ("f32[8,4] batch-norm-inference(x, r, r, r, r), epsilon=0.1, feature_index=1", 0),
    "all-gather": ("f32[16,4] all-gather(x), dimensions={0}", 0),
    "all-gather-start": ("(f32[8,4], f32[16,4]) all-gather-start(x), dimensions={0}", 0),
    "collective-permute-start": ("(f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(x)", 0),
    "kernel": ('f32[8,4] custom-call(x), custom_call_target="my_kernel"', 0),
}  # fmt: skip
"""Operations without a rule, and their FLOPs."""

TYPES = {
    "x": "f32[8,4]", "w": "f32[4,6]", "i": "s32[8,4]", "b": "pred[8,4]", "c": "c64[8,4]", "s": "f32[]", "n": "s32[]",
    "im": "f32[2,8,8,3]", "k": "f32[3,3,3,5]", "og": "f32[2,8,8,5]", "v": "f32[8,2]", "m": "f32[3,4,4]",
    "m4": "f32[4,4]", "t": "s32[5,1]", "u": "f32[8,5]", "e": "f32[3,4,6]", "g": "s32[3]", "o": "f32[8,6]",
    "at": "f32[2,3,7,16]", "r": "f32[4]", "a": "token[]",
}  # fmt: skip
DEFAULT_FLOPS = {
    "dot": DOT_FLOPS, "convolution": 2 * 2 * 8 * 8 * 5 * 9 * 3, "fft": 5 * 8 * 4 * 2, "cholesky": 3 * 64 // 3,
    "triangular-solve": 3 * 64, "call-start": DOT_FLOPS, "async-start": DOT_FLOPS, "fusion-start": DOT_FLOPS,
    "call": DOT_FLOPS, "fusion": DOT_FLOPS,
}  # fmt: skip


def graph_of(instruction):
    """A step of the operation, and where it starts something asynchronous of its end."""
    parameters = [f"  {name} = {kind} parameter({number})" for number, (name, kind) in enumerate(TYPES.items())]
    lines = [*parameters, f"  y = {instruction}"]
    for name in ("copy", "all-reduce", "call", "async", "fusion", "all-gather", "collective-permute"):
        if f"{name}-start(" in instruction:
            shape = {"copy": "f32[8,4]", "all-reduce": "f32[8,4]", "all-gather": "f32[16,4]"}.get(name, "f32[8,6]")
            shape = "f32[8,4]" if name == "collective-permute" else shape
            lines.append(f"  z = {shape} {name}-done(y)")
    lines[-1] = lines[-1].replace("  ", "  ROOT ", 1)
    text = f"HloModule one\n{COMPUTATIONS}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"
    return step_graph(parse_hlo(text, "one.hlo"), "one.hlo")


def flops(graph):
    return sum(flops_of(each, graph.values) for each in graph.operations)


@pytest.mark.parametrize("name", SPLIT)
def test_operations_with_a_rule_are_split_and_have_their_flops(name):
    graph = graph_of(SPLIT[name])
    assert whole_operations(graph, step_factors(graph)) == []
    assert flops(graph) == DEFAULT_FLOPS.get(name, 0)
    assert len(graph.operations) == 1


@pytest.mark.parametrize("name", FREE)
def test_annotations_cost_nothing(name):
    graph = graph_of(FREE[name])
    rules = step_factors(graph)
    assert whole_operations(graph, rules) == []
    assert all(each.forwards for each in graph.operations)
    read, stored = Storage(graph).read, Storage(graph).stored
    assert [sum(row) for row in read] == [1] * len(graph.operations) or not graph.operations
    assert stored is not None


@pytest.mark.parametrize("name", WHOLE)
def test_operations_without_a_rule_cost_their_flops_and_are_named(name):
    instruction, expected = WHOLE[name]
    graph = graph_of(instruction)
    assert flops(graph) == expected
    (row,) = whole_operations(graph, step_factors(graph))
    assert row["flops"] == expected
    note = whole_note(row)
    assert row["names"][0] in note
    assert (f"{expected:,} FLOPs" in note) == (expected > 0)
    assert ("unknown" in note) == (expected == 0)


def test_an_annotation_between_two_operations_changes_no_price():
    def work_ps(text):
        from dse.parallel.prices import Prices

        step = problem(step_graph(parse_hlo(text, "y.hlo"), "y.hlo"), "1")
        return sum(row[0].work_ps for row in Prices(step).priced if row)

    plain = """HloModule y
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] add(x, x)
  ROOT r = f32[64,64] multiply(y, y)
}
"""
    annotated = plain.replace(
        "  ROOT",
        '  z = f32[64,64] custom-call(y), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}\n  ROOT',
    )
    assert work_ps(plain) == work_ps(annotated) == work_ps(annotated.replace("multiply(y, y)", "multiply(z, y)"))


def test_the_same_of_shardy_in_stablehlo():
    text = """module @m {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %y = stablehlo.add %x, %x : tensor<64x64xf32>
    %z = ANNOTATION : tensor<64x64xf32>
    %r = stablehlo.multiply %z, %y : tensor<64x64xf32>
    return %r : tensor<64x64xf32>
  }
}
"""
    for annotation in (
        'sdy.sharding_constraint %y <@mesh, [{"x"}, {}]>',
        'sdy.reshard %y <@mesh, [{"x"}, {}]>',
        "sdy.propagation_barrier %y allowed_direction=BACKWARD",
        'stablehlo.custom_call @Sharding(%y) {mhlo.sharding = "{devices=[2,2]<=[4]}"}',
    ):
        graph = step_graph(parse_stablehlo(text.replace("ANNOTATION", annotation), "m.mlir"), "m.mlir")
        assert [each.opcode for each in graph.operations] == ["add", "multiply"]


BAD_TILES = ["[2,2]<=[16]", "[4,4]<=[2,4]", "[8]<=[4,2]T(0,0)", "[8]<=[4,2]T(0)", "[2,2]0,1,2", "[2,2]0,1,2,2"]


@pytest.mark.parametrize("tiles", BAD_TILES)
def test_tiles_that_are_not_all_devices_are_refused(tiles):
    with pytest.raises(InputError, match=r"one.hlo: line \d+: .*(as many tiles as|must transpose each)"):
        graph_of(f'f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={{devices={tiles}}}')
    text = f"""module @m {{
  func.func public @main(%x: tensor<8xf32> {{mhlo.sharding = "{{devices={tiles}}}"}}) -> tensor<8xf32> {{
    return %x : tensor<8xf32>
  }}
}}
"""
    with pytest.raises(InputError, match=r"m.mlir: line 2: .*(as many tiles as|must transpose each)"):
        parse_stablehlo(text, "m.mlir")


def test_a_device_that_is_listed_twice_is_counted_once():
    with pytest.raises(InputError, match="got 4 tiles and 4 devices, of which 3 are distinct"):
        graph_of('f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,2]0,1,2,2}')


@pytest.mark.parametrize(
    "tiles", ["[2,4]<=[8]", "[4,2]<=[2,4]T(1,0)", "[2,1,4]<=[8] last_tile_dim_replicate", "[2,1]0,1"]
)
def test_consistent_tiles_pass(tiles):
    graph_of(f'f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={{devices={tiles}}}')


def test_tiles_in_json_are_judged_too():
    import copy

    document = copy.deepcopy(HLO_JSON)
    module = document.get("hloModule", document)
    module["computations"][-1]["instructions"][0]["sharding"] = {
        "type": "OTHER", "tileAssignmentDimensions": ["2", "2"], "iotaReshapeDims": ["16"], "iotaTransposePerm": [0],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"sharding: \[2,2\]<=\[16\]: there must be as many tiles as devices"):
        module_from_document(document, "m.json")
    for devices, words in ((["0", "1", "2"], "4 tiles and 3 devices"), (["0", "1", "2", "2"], "3 are distinct")):
        module["computations"][-1]["instructions"][0]["sharding"] = {
            "type": "OTHER", "tileAssignmentDimensions": ["2", "2"], "tileAssignmentDevices": devices,
        }  # fmt: skip
        with pytest.raises(InputError, match=rf"sharding: devices=\[2,2\]: .*{words}"):
            module_from_document(document, "m.json")


def test_a_start_without_the_shape_of_a_start_is_refused():
    with pytest.raises(InputError, match="copy-start must have a tuple of the shapes of its operands and result"):
        graph_of("f32[8,4] copy-start(x)")
