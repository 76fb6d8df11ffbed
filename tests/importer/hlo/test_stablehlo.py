"""StableHLO text: the plan of XLA's own HLO of the same step, both printed forms, and whatever breaks them."""

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from dse.importer.hlo.file import read_module
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.stablehlo import parse_stablehlo
from dse.importer.hlo.text import parse_hlo
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from dse.sharding.hlo.table import step_factors
from hardware.inputs import InputError
from tests.fuzz.examples import STABLEHLO
from tests.parallel.problems import DUMPS, MLP, problem


def graph_of(path):
    return step_graph(read_module(path), path)


def graph_of_text(text):
    return step_graph(parse_stablehlo(text, "f.mlir"), "f.mlir")


def essence(graph):
    """What a graph is but for names of values: constants apart, of which XLA makes others."""
    dims = [value.dims for value in graph.values]
    return [
        (each.opcode, [dims[v] for v in each.operands], [dims[v] for v in each.results], each.attributes, each.repeats)
        for number, each in enumerate(graph.operations)
        if not graph.is_constant(number)
    ]


def value_of(graph, mesh, method):
    posed = problem(graph, mesh)
    return solve(posed, Prices(posed), method, 0).value


def test_a_small_step_is_the_graph_of_its_hlo():
    stable, hlo = graph_of_text(STABLEHLO), step_graph(parse_hlo(MLP, "mlp"), "mlp")
    assert essence(stable) == essence(hlo)
    assert [(each.name, each.role) for each in stable.arguments] == [(each.name, each.role) for each in hlo.arguments]


@pytest.mark.parametrize("mesh", ["4", "data=2,model=2"])
@pytest.mark.parametrize("method", ["linkage", "exact"])
def test_a_real_step_has_the_plan_of_its_hlo(mesh, method):
    stable, hlo = graph_of(DUMPS / "rare.mlir"), graph_of(DUMPS / "rare.hlo")
    assert [(each.name, each.role) for each in stable.arguments] == [(each.name, each.role) for each in hlo.arguments]
    assert stable.notes == hlo.notes == ()
    assert value_of(stable, mesh, method) == value_of(hlo, mesh, method)


@pytest.mark.parametrize("name", ["vgg-tiny", "t5-tiny", "bert-tiny", "dlrm-tiny", "rare"])
def test_every_printed_form_of_jax_is_one_graph(tmp_path, name):
    pytest.importorskip("jax")
    from benchmarks.hlo.steps import lowered

    step = lowered(name)
    operation = step.compiler_ir("stablehlo").operation
    forms = {
        "pretty": step.as_text(),
        "located": step.as_text(debug_info=True),
        "generic": operation.get_asm(print_generic_op_form=True, enable_debug_info=True),
        "hlo": step.compiler_ir("hlo").get_hlo_module().to_string(),
    }
    graphs = {}
    for form, text in forms.items():
        (tmp_path / form).write_text(text)
        graphs[form] = graph_of(tmp_path / form)
    assert essence(graphs["pretty"]) == essence(graphs["located"]) == essence(graphs["generic"])
    assert graphs["generic"].arguments == graphs["located"].arguments
    assert [each.name for each in graphs["located"].arguments] == [each.name for each in graphs["hlo"].arguments]
    # XLA simplifies additions of 0, so that a lookup or two less is stored.
    values = [value_of(graphs[form], "data=2,model=4", "linkage") for form in ("located", "hlo")]
    assert values[0] == pytest.approx(values[1], rel=1e-3 if name == "dlrm-tiny" else 0)


def jax_steps():
    """Steps of one weight each, by what is rare in them; XLA simplifies nothing of them."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def grouped(p, b):
        return lax.conv_transpose(b, p, (2, 2), "SAME")

    losses = {
        "top_k": lambda p, b: lax.top_k(b @ p, 4)[0],
        "remat": lambda p, b: jax.checkpoint(lambda x: jnp.tanh(jnp.tanh(x @ p) @ p))(b),
        "fft": lambda p, b: jnp.abs(jnp.fft.rfft(b @ p)),
        "scan": lambda p, b: lax.scan(lambda c, x: (jnp.tanh(c @ p + x), c), b, b[None] * jnp.ones((5, 1, 1)))[0],
        "fori": lambda p, b: lax.fori_loop(0, 4, lambda i, s: s @ p + i, b),
        "switch": lambda p, b: lax.switch(b[0, 0].astype(int), [lambda x: x @ p, jnp.sin, lambda x: x], b),
        "flip and pad": lambda p, b: jnp.flip(b @ p, 0) + jnp.pad(jnp.clip(b @ p, 0, 1), ((1, 0), (0, 2)))[:8, :16],
        "convolution": grouped,
    }
    for name, loss in losses.items():
        kernel = name == "convolution"
        shapes = [jax.ShapeDtypeStruct(dims, jnp.float32)
                  for dims in (((3, 3, 4, 8), (4, 8, 8, 4)) if kernel else ((16, 16), (8, 16)))]  # fmt: skip

        def step(params, batch, loss=loss):
            value, gradient = jax.value_and_grad(lambda p: jnp.sum(loss(p, batch)))(params)
            return params - 0.1 * gradient, value

        yield name, jax.jit(step).trace(*shapes).lower(lowering_platforms=("cpu",))


def test_what_is_rare_in_steps_has_the_plan_of_its_hlo(tmp_path):
    pytest.importorskip("jax")
    for name, lowered in jax_steps():
        graphs = []
        for text in (
            lowered.compiler_ir("hlo").get_hlo_module().to_string(),
            lowered.as_text(),
            lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True),
        ):
            (tmp_path / "step").write_text(text)
            graphs.append(graph_of(tmp_path / "step"))
        assert essence(graphs[1]) == essence(graphs[2]), name
        assert None not in problem(graphs[1], "2").rules, name
        hlo, stable = (value_of(graph, "data=2,model=2", "linkage") for graph in graphs[:2])
        assert hlo == stable, name


LOOP = """
module @m {
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<8x4xf32>, %arg2: tensor<i32>) -> tensor<8x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %x = %arg1) : tensor<i32>, tensor<8x4xf32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.dot_general %x, %arg0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8x4xf32>
    }
    %3 = "stablehlo.case"(%arg2) ({
      %4 = stablehlo.negate %0#1 : tensor<8x4xf32>
      stablehlo.return %4 : tensor<8x4xf32>
    }, {
      stablehlo.return %arg1 : tensor<8x4xf32>
    }) : (tensor<i32>) -> tensor<8x4xf32>
    %5:2 = call @both(%3) : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
    return %5#1 : tensor<8x4xf32>
  }
  func.func private @both(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %0 = stablehlo.abs %arg0 : tensor<8x4xf32>
    return %arg0, %0 : tensor<8x4xf32>, tensor<8x4xf32>
  }
}
"""  # noqa: E501 (lines as they are printed)


def test_regions_may_read_what_stands_outside():
    graph = graph_of_text(LOOP)
    assert not graph.notes
    by_opcode = {each.opcode: each for each in graph.operations}
    assert by_opcode["dot"].repeats == 5
    names = {argument.value: argument.name for argument in graph.arguments}
    begins = [each for each in graph.operations if each.opcode == "while-begin"]
    read = {names.get(each.operands[0]) for each in begins}
    assert {"arg0", "arg1"} <= read  # arg0 is read inside, and carried unchanged
    assert graph.values[graph.results[0]].dims == (8, 4)
    assert graph.operations[-1].opcode == "abs"
    (end,) = [each for each in graph.operations if each.opcode == "branch-end"]
    assert len(end.operands) == 2


TANH = "stablehlo.tanh %0 : tensor<64x32xf32>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("module @mlp {", "modul @mlp {", "must be an MLIR module"),
        ("@main", "@other", None),  # the only public function
        ("public @main", "private @other", "must have a function @main"),
        (TANH, "stablehlo.tanh %77 : tensor<64x32xf32>", "%77: an operand must be a value defined earlier"),
        (TANH, "stablehlo.tanh %0", "must have a type"),
        (TANH, "stablehlo.tanh %0 : tensor<64x?xf32>", "tensor<64x\\?xf32>: .*fixed shapes"),
        (TANH, "stablehlo.tanh %0 : tensor<64x32xq7>", "tensor<64x32xq7>: the element type must be"),
        (TANH, "= :", "must be an operation"),
        (TANH, "stablehlo.broadcast_in_dim %0, dims = [0, 7] : (tensor<64x32xf32>) -> tensor<2x64x32xf32>",
         "stablehlo.broadcast_in_dim: must map every dimension"),

        (TANH, 'stablehlo.while(%i = %0) : tensor<64x32xf32>', "must have a condition and a body"),
        ("call @loss", "call @lost", "@lost: must be a function in the module"),
        ("call @loss", "call @main", "@main: a function must not call itself"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_named_with_its_line(old, new, message):
    assert old in STABLEHLO
    text = STABLEHLO.replace(old, new, 1)
    if message is None:
        assert essence(graph_of_text(text)) == essence(graph_of_text(STABLEHLO))
        return
    line = 1 + STABLEHLO[: STABLEHLO.index(old)].count("\n")
    place = f"f.mlir: line {line}: " if not message.startswith("must be an MLIR") and "@main" not in old else "f.mlir: "
    with pytest.raises(InputError, match=f"^{place}.*{message}"):
        graph_of_text(text)


@pytest.mark.parametrize("cut", ["    return %7", "  func.func private"])
def test_a_text_without_its_end_names_the_last_line(cut):
    text = STABLEHLO[: STABLEHLO.index(cut)]
    last = max(number for number, line in enumerate(text.splitlines(), 1) if line.strip())
    with pytest.raises(InputError, match=f"f.mlir: line {last}: every brace must be closed, but the text ends here"):
        graph_of_text(text)


@pytest.mark.parametrize("bounds", ["#stablehlo.bounds<64, ?>", "#stablehlo.type_extensions<bounds = [64, ?]>"])
def test_sizes_with_bounds_count_at_them_and_are_told(bounds):
    fixed = graph_of_text(STABLEHLO)
    bounded = graph_of_text(STABLEHLO.replace("tensor<64x16xf32>", f"tensor<?x16xf32, {bounds}>"))
    assert "tensor<64x16xf32>" in STABLEHLO
    assert [value[1:] for value in bounded.values] == [value[1:] for value in fixed.values]
    assert "of dynamic size (line " in bounded.notes[0]
    assert fixed.notes == ()
    with pytest.raises(InputError, match="sizes must be numbers or have bounds"):
        graph_of_text(STABLEHLO.replace("tensor<64x16xf32>", "tensor<?x16xf32>"))


def test_a_region_must_end_with_a_return():
    with pytest.raises(InputError, match="line 18: loss: a function or region must end with a return"):
        graph_of_text(STABLEHLO.replace("    return %2 : tensor<f32>\n", ""))


def test_an_operation_without_a_result_is_nothing():
    line = "    stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<64x32xf32>) -> tensor<64x32xf32>\n"
    text = STABLEHLO.replace("    return %7", f"{line}    return %7")
    assert essence(graph_of_text(text)) == essence(graph_of_text(STABLEHLO))


def test_functions_may_have_names_in_quotes():
    assert essence(graph_of_text(STABLEHLO.replace("@loss", '@"<lambda>"'))) == essence(graph_of_text(STABLEHLO))


@pytest.mark.parametrize("number", ["9" * 5_000, "²", ""])
def test_numbers_that_are_none_are_refused_or_read(number):
    for match in re.finditer(r"\d+", STABLEHLO):
        with suppress(InputError):
            graph = graph_of_text(STABLEHLO[: match.start()] + number + STABLEHLO[match.end() :])
            step_factors(graph, "f.mlir")


def test_what_is_nested_too_deeply_is_refused():
    functions = [
        f"func.func @{'main' if n == 0 else f'f{n}'}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"%0 = call @f{n + 1}(%a) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}}\n"
        for n in range(3_000)
    ]
    with pytest.raises(InputError, match=r"f\.mlir: types, calls or loops are nested too deeply"):
        graph_of_text(f"module @m {{\n{''.join(functions)}}}\n")
    with pytest.raises(InputError, match="line 201: regions must be nested at most 200 deep"):
        graph_of_text("module @m {\n" + '"a.b"() ({\n' * 300)


def test_shapes_that_disagree_are_refused_by_the_rule_of_their_operation(dse, tmp_path):
    (tmp_path / "step.mlir").write_text(STABLEHLO.replace("tensor<32x8xf32>", "tensor<31x8xf32>"))
    answer = dse("parallel", tmp_path / "step.mlir", "--mesh", "4")
    assert answer.code == 2
    assert "paired dimensions must have the same size" in answer.err


def test_unknown_operations_are_counted(dse, tmp_path):
    (tmp_path / "step.mlir").write_text(STABLEHLO.replace("stablehlo.tanh %0 :", "my.kernel %0 :"))
    answer = dse("parallel", tmp_path / "step.mlir", "--mesh", "4", "--json")
    assert answer.code == 0, answer.err
    (whole,) = json.loads(answer.out)["metrics"]["whole_operations"]
    assert (whole["opcode"], whole["count"], whole["flops"]) == ("kernel", 1, 0)


def test_a_text_that_is_cut_off_or_garbled_is_refused_or_read():
    text, draw = (DUMPS / "rare.mlir").read_text(), random.Random(7)
    refused = 0
    for _ in range(60):
        begin = draw.randrange(len(text))
        skipped = begin + draw.randrange(1, 9)
        garbled = draw.choice([text[:begin], text[:begin] + text[skipped:], text[:begin] + "({" + text[begin:]])
        refused += 1
        with suppress(InputError):
            graph_of_text(garbled)
            refused -= 1
    assert refused > 20


@pytest.mark.parametrize(
    "before", ["", "\n// by hand\n", "#loc = loc(unknown)\n", "#a.b = #stablehlo<precision DEFAULT>\n"]
)
def test_a_file_is_known_by_how_it_begins(tmp_path, before):
    (tmp_path / "step").write_text(before + STABLEHLO)
    assert essence(graph_of(tmp_path / "step")) == essence(graph_of_text(STABLEHLO))
    (tmp_path / "step").write_text("a: 3\n")
    with pytest.raises(
        InputError, match=r"step: a: 3: must be HLO text \(starting with HloModule NAME\), HLO as JSON, or"
    ):
        graph_of(tmp_path / "step")


def test_the_command_reads_stablehlo(dse, tmp_path):
    (tmp_path / "step.mlir").write_text(STABLEHLO)
    (tmp_path / "step.hlo").write_text(MLP)
    answers = [dse("parallel", Path(tmp_path, name), "--mesh", "4", "--json") for name in ("step.mlir", "step.hlo")]
    assert [answer.code for answer in answers] == [0, 0], answers[0].err
    results = [json.loads(answer.out) for answer in answers]
    assert results[0]["objective"] == results[1]["objective"]
    assert results[0]["solution"]["arguments"] == results[1]["solution"]["arguments"]


WINDOWED = """
module @m {
  func.func public @main(%arg0: tensor<2x8x8x4xf32>, %arg1: tensor<3x3x4x8xf32>, %arg2: tensor<2x6x6x8xi1>) -> (tensor<2x3x3x8xf32> {jax.result_info = "a -> b"}, tensor<2x6x6x8xf32>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x6x6x8xf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%0, %c) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %5 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<2x6x6x8xf32>, tensor<f32>) -> tensor<2x3x3x8xf32>
    %2 = stablehlo.select %arg2, %0, %0 : tensor<2x6x6x8xi1>, tensor<2x6x6x8xf32>
    %3 = stablehlo.complex %0, %2 : tensor<2x6x6x8xcomplex<f32>>
    %4 = stablehlo.real %3 : (tensor<2x6x6x8xcomplex<f32>>) -> tensor<2x6x6x8xf32>
    return %1, %4 : tensor<2x3x3x8xf32>, tensor<2x6x6x8xf32>
  }
}
"""  # noqa: E501 (lines as they are printed)


def test_windows_are_those_of_hlo():
    graph = graph_of_text(WINDOWED)
    windows = {each.opcode: each.attributes["window"] for each in graph.operations if "window" in each.attributes}
    assert windows == {"convolution": "{size=3x3}", "reduce-window": "{size=1x2x2x1 stride=1x2x2x1}"}
    dilated = WINDOWED.replace(
        "pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1]", "pad = [[1, 0], [2, 0]], lhs_dilate = [2, 1]"
    )
    (convolution,) = [each for each in graph_of_text(dilated).operations if each.opcode == "convolution"]
    assert convolution.attributes["window"] == "{size=3x3 pad=1_0x2_0 lhs_dilate=2x1}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "pad = [[0, 0], ",
            "pad = [[1, 0], ",
            "line 4: 0: convolution: a window of 3 has 7 positions on 9 padded elements",
        ),
        (
            "strides = array<i64: 1, 2, 2",
            "strides = array<i64: 1, 2, 3",
            "line 6: 1: reduce-window: a window of 2 has 2",
        ),
        ("(tensor<2x8x8x4xf32>, t", "(tensor<2x8x8x5xf32>, t", "line 4: %arg0: an operand must be stated with its own"),
        ("select %arg2, %0, %0", "select %arg2, %0, %1", "line 11: %1: an operand must be stated with its own type, "),
        ("%arg2, %0, %0 : tensor<2x6x6x8xi1>", "%0, %0, %0 : tensor<2x6x6x8xf32>", "line 11: 2: select: element types"),
        (
            "return %1, %4 : ",
            "return %4, %1 : ",
            "line 14: %4: an operand must be stated with its own type, f32[2,6,6,8]",
        ),
        (
            "return %1, %4 : tensor<2x3x3x8xf32>",
            "return %4, %4 : tensor<2x6x6x8xf32>",
            "line 14: main: must return what the function declares, (f32[2,3,3,8], f32[2,6,6,8]), but returns (f32[2,",
        ),
        (
            ", tensor<2x6x6x8xf32>) {",
            ") {",
            "line 14: main: must return what the function declares, (f32[2,3,3,8]), but returns (f32[2,3,3,8], f32[2,6",
        ),
    ],
)
def test_types_and_windows_that_disagree_are_named_with_their_line(old, new, message):
    assert old in WINDOWED
    with pytest.raises(InputError) as refused:
        step_factors(graph_of_text(WINDOWED.replace(old, new, 1)), "f.mlir")
    assert str(refused.value).startswith(f"f.mlir: {message}")


def test_a_loop_must_give_what_it_takes():
    text = LOOP.replace(
        "stablehlo.return %1, %2 : tensor<i32>, tensor<8x4xf32>", "stablehlo.return %1, %1 : tensor<i32>, tensor<i32>"
    )
    assert text != LOOP
    with pytest.raises(
        InputError,
        match=r"f\.mlir: line 14: return: the body of 0~2 must return the type of its parameter, \(s32\[\], f3",
    ):
        graph_of_text(text)
