"""HLO text: both printed forms, real dumps, and whatever breaks them."""

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.module import ArrayShape, attributes_of
from dse.importer.hlo.text import parse_hlo, read_hlo
from dse.sharding.hlo.table import step_factors
from dse.sources.steps import resolve_step, step_of
from hardware.inputs import InputError

DUMPS = Path(__file__).parents[2] / "data" / "hlo"

LONG = """HloModule jit_f, entry_computation_layout={(f32[4,2]{1,0:T(8,128)})->(f32[4]{0}, s32[])}

FileNames
1 "steps.py"

%region.1 (a.1: f32[], b.1: f32[]) -> f32[] {
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %sum.1 = f32[] add(f32[] %a.1, f32[] %b.1), metadata={op_name="add, \\"with\\" {braces}"}
}

ENTRY %main.2 (x.1: f32[4,2]) -> (f32[4], s32[]) {
  %x.1 = f32[4,2]{1,0:T(8,128)} parameter(0), metadata={op_name="x['a']"}
  %zero.1 = f32[] constant(0)
  %table.1 = s32[2,2]{1,0} constant({ { 1, 2 }, { 3, 4 } })
  %r.1 = f32[4]{0} reduce(f32[4,2]{1,0} %x.1, f32[] %zero.1), dimensions={1}, to_apply=%region.1
  %n.1 = s32[] constant(7)
  ROOT %out.1 = (f32[4]{0}, /*index=1*/s32[]) tuple(%r.1, %n.1)
}
"""

SHORT = """HloModule jit_f

region.1 {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT sum.1 = f32[] add(a.1, b.1)
}

ENTRY main.2 {
  x.1 = f32[4,2]{1,0} parameter(0)
  zero.1 = f32[] constant(0)
  table.1 = s32[2,2]{1,0} constant({ { 1, 2 },
    { 3, 4 } })
  r.1 = f32[4]{0} reduce(x.1, zero.1), dimensions={1}, to_apply=region.1
  n.1 = s32[] constant(7)
  ROOT out.1 = (f32[4]{0}, s32[]) tuple(r.1, n.1)
}
"""


def essence(module):
    """A module without lines, metadata and blanks."""
    return {
        computation.name: [
            (each.name, each.opcode, each.shape, each.operands, "".join(each.literal.split()))
            for each in computation.instructions.values()
        ]
        for computation in module.computations.values()
    }


def test_both_printed_forms_are_the_same_module():
    long, short = parse_hlo(LONG, "long"), parse_hlo(SHORT, "short")
    assert essence(long) == essence(short)
    assert long.entry == short.entry == "main.2"
    assert long.computations["main.2"].root == "out.1"
    assert long.computations["main.2"].instructions["out.1"].shape == (ArrayShape("f32", (4,)), ArrayShape("s32", ()))
    assert long.computations["main.2"].parameters[0].op_name == "x['a']"
    assert long.computations["region.1"].instructions["sum.1"].op_name == 'add, "with" {braces}'


def test_attributes_may_hold_brackets_and_strings():
    text = ', window={size=2x2 pad=0_0x1_1}, replica_groups={{0,1},{2,3}}, config="a, \\"b\\" }", index=3'
    assert attributes_of(text) == {
        "window": "{size=2x2 pad=0_0x1_1}", "replica_groups": "{{0,1},{2,3}}", "config": '"a, \\"b\\" }"', "index": "3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tensors", "dims", "inputs"),
    [("vgg-tiny.hlo", 10, 19, 2), ("vgg-tiny.opt.hlo", 10, 19, 2), ("dlrm-tiny.hlo", 14, 22, 3), ("rare.hlo", 3, 7, 2)],
)
def test_real_dumps_have_the_tensors_of_their_models(name, tensors, dims, inputs):
    graph = step_graph(read_hlo(DUMPS / name), name)
    assert len(graph.trainable) == tensors
    assert sum(len(graph.values[each.value].dims) for each in graph.trainable) == dims
    assert sum(each.role == "input" for each in graph.arguments) == inputs
    assert len(graph.results) == 3 * tensors + 2  # weights, two moments, the count of steps, the loss
    assert len({value.name for value in graph.values}) == len(graph.values)
    for number, operation in enumerate(graph.operations):
        earlier = {result for before in graph.operations[:number] for result in before.results}
        arguments = {each.value for each in graph.arguments}
        assert set(operation.operands) <= earlier | arguments
        if number > 60:
            break


def test_loops_are_opened_once_and_counted():
    graph = step_graph(read_hlo(DUMPS / "rare.hlo"), "rare.hlo")
    begins = [each for each in graph.operations if each.opcode == "while-begin"]
    assert begins
    assert {each.repeats for each in begins} == {1}
    products = [each.repeats for each in graph.operations if each.opcode == "dot"]
    assert products.count(3) == 3  # the product of a pass, and both of its gradients
    assert not graph.notes
    assert {"conditional", "call", "while", "tuple", "get-tuple-element"}.isdisjoint(
        each.opcode for each in graph.operations
    )


def test_roles_follow_from_use_where_names_say_nothing():
    text = (DUMPS / "vgg-tiny.hlo").read_text()
    for name in ("parameters", "moments", "batch"):
        text = text.replace(f"{name}[", f"x_{name}[").replace(f"{name}__", f"x_{name}__")
    graph = step_graph(parse_hlo(text, "renamed"), "renamed")
    named = step_graph(read_hlo(DUMPS / "vgg-tiny.hlo"), "named")
    matrices = {n for n, each in enumerate(graph.arguments) if len(graph.values[each.value].dims) > 1}
    for number in matrices:
        assert graph.arguments[number].role == named.arguments[number].role


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("HloModule jit_f", "module jit_f", "must be HLO text"),
        ("ENTRY main.2 {", "main.2 {", "ENTRY"),
        ("add(a.1, b.1)", "add(a.1, c.1)", "line 6: c.1: an operand must be an earlier instruction"),
        ("n.1 = s32[] constant(7)", "r.1 = s32[] constant(7)", "line 15: r.1: an instruction with this name"),
        ("f32[4]{0} reduce", "q32[4]{0} reduce", r"line 14: q32\[4\]: the element type"),
        ("f32[4]{0} reduce", "f32[-4]{0} reduce", r"line 14: f32\[-4\]"),
        ("f32[4]{0} reduce", "f32[4194304,4194304,4194304]{2,1,0} reduce", r"line 14: f32\[4194304.* at most 2\^48"),
        ("f32[4]{0} reduce(", "f32[4]{0} (", "line 14"),
        ("parameter(1)", "parameter(2)", "parameters must be numbered from 0"),
        ("tuple(r.1, n.1)\n}", "tuple(r.1, n.1)", "ends here"),
        ("{ 3, 4 } })", "{ 3, 4 } }", "line 12: .*must be closed"),
        ("region.1 {\n", "main.2 {\n", "line 9|with this name"),
    ],
)
def test_what_breaks_a_rule_is_named_with_its_line(old, new, message):
    assert old in SHORT
    with pytest.raises(InputError, match=message):
        parse_hlo(SHORT.replace(old, new, 1), "f.hlo")


def test_what_is_called_to_combine_must_exist():
    text = SHORT.replace("to_apply=region.1", "to_apply=region.9")
    assert text != SHORT
    with pytest.raises(InputError, match=r"line 14: r\.1: calls region\.9, which must be a computation in the module"):
        step_graph(parse_hlo(text, "f.hlo"), "f.hlo")


DISAGREEING = """HloModule m
double {
  a = f32[4,6] parameter(0)
  ROOT b = f32[4,6] add(a, a)
}
ENTRY e {
  x = f32[4,6] parameter(0)
  w = f32[6,8] parameter(1)
  d = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,6] call(x), to_apply=double
  t = (f32[4,8], f32[4,6]) tuple(d, c)
  g = f32[4,6] get-tuple-element(t), index=1
  s = f32[2,6] slice(g), slice={[0:4:2], [0:6]}
  p = f32[5,6] pad(g, z), padding=1_0x0_0
  j = f32[4,14] concatenate(d, g), dimensions={1}
  r = f32[4,6] reverse(g), dimensions={0}
  k = f32[2,6] dynamic-slice(g, i, i), dynamic_slice_sizes={2,6}
  u = f32[4,6] dynamic-update-slice(g, k, i, i)
  o = f32[4,6] sort(g), dimensions={0}, to_apply=double
  l = f32[3,6] gather(g, q), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
  ROOT f = f32[4,6] scatter(g, q, l), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=double
}
""".replace(  # noqa: E501 (each line is an instruction)
    "  x = f32[4,6]",
    "  z = f32[] constant(0)\n  i = s32[] constant(0)\n  q = s32[3,1] constant({{0},{1},{2}})\n  x = f32[4,6]",
)
"""Every kind of instruction whose shapes can disagree; line 10 is the first parameter."""


def test_a_step_of_them_all_is_read():
    graph = step_graph(parse_hlo(DISAGREEING, "f.hlo"), "f.hlo")
    assert len(step_factors(graph, "f.hlo")) == len(graph.operations) == len(graph.places)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("w = f32[6,8]", "w = f32[6,9]", "f.hlo: line 12: d: dot: the result must have batch, left and right"),
        ("w = f32[6,8]", "w = f32[7,8]", "f.hlo: line 12: d: dot: paired dimensions must have the same size"),
        ("add(a, a)", "dot(a, a)", "f.hlo: line 4: b: dot: "),
        (
            "a = f32[4,6]",
            "a = f32[4,7]",
            "f.hlo: line 3: a: must have the shape of the value that it forwards, f32[4,6], but",
        ),
        (
            "c = f32[4,6]",
            "c = f32[4,7]",
            "f.hlo: line 13: c: must have the shape of the value that it forwards, f32[4,6], but",
        ),
        (
            "(f32[4,8], f32",
            "(f32[4,9], f32",
            "f.hlo: line 14: t: must have the shape of the value that it forwards, (f32[4,8], ",
        ),
        (
            "g = f32[4,6]",
            "g = s32[4,6]",
            "f.hlo: line 15: g: must have the shape of the value that it forwards, f32[4,6], but",
        ),
        ("s = f32[2,6]", "s = f32[3,6]", "f.hlo: line 16: s: slice: the result must have the sizes of the ranges"),
        ("[0:4:2]", "[0:5:2]", "f.hlo: line 16: s: slice: 0:5:2 must be a range of 4"),
        ("1_0x0_0", "1_0x0_1", "f.hlo: line 17: p: pad: the result must have the padded sizes"),
        ("1_0x0_0", "1_0", "f.hlo: line 17: p: pad: must have padding for each dimension"),
        ("f32[4,14]", "f32[4,15]", "f.hlo: line 18: j: concatenate: sizes along 1 must add up"),
        ("r = f32[4,6]", "r = f32[4,5]", "f.hlo: line 19: r: reverse: the result must have the shape of the operand"),
        (
            "_sizes={2,6}",
            "_sizes={3,6}",
            "f.hlo: line 20: k: dynamic-slice: the result must have the sizes of the slice",
        ),
        ("u = f32[4,6]", "u = f32[5,6]", "f.hlo: line 21: u: dynamic-update-slice: the result must have the shape of"),
        ("o = f32[4,6]", "o = f32[4,5]", "f.hlo: line 22: o: sort: operands and results must have the same shape"),
        ("l = f32[3,6]", "l = f32[4,6]", "f.hlo: line 23: l: gather: the result must have the sizes of the indices"),
        ("l = f32[3,6]", "l = f32[3,5]", "f.hlo: line 23: l: gather: the result must have the sizes of the slices"),
        ("f = f32[4,6]", "f = f32[4,5]", "f.hlo: line 24: f: scatter: the result must have the shape of the"),
        ("scatter(g, q, l)", "scatter(g, q, s)", "f.hlo: line 24: f: scatter: updates must have the sizes of the"),
    ],
)
def test_shapes_that_disagree_are_named_with_their_line(old, new, message):
    assert old in DISAGREEING
    with pytest.raises(InputError) as refused:
        step_factors(step_graph(parse_hlo(DISAGREEING.replace(old, new, 1), "f.hlo"), "f.hlo"), "f.hlo")
    assert str(refused.value).startswith(message)


WINDOWED = """HloModule m
larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
body {
  p = (s32[], f32[2,6,6,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[2,6,6,8] get-tuple-element(p), index=1
  ROOT n = (s32[], f32[2,6,6,8]) tuple(i, v)
}
condition {
  p = (s32[], f32[2,6,6,8]) parameter(0)
  ROOT t = pred[] constant(true)
}
left {
  ROOT p = f32[2,6,6,8] parameter(0)
}
right {
  ROOT p = f32[2,6,6,8] parameter(0)
}
ENTRY e {
  %x = f32[2,8,8,4] parameter(0)
  %w = f32[3,3,4,8] parameter(1)
  %z = f32[] constant(0)
  %k = s32[] constant(3)
  %c = f32[2,6,6,8] convolution(f32[2,8,8,4] %x, f32[3,3,4,8] %w), window={size=3x3}, dim_labels=b01f_01io->b01f
  %r = f32[2,3,3,8] reduce-window(%c, %z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=larger
  %s = f32[2,6,6,8] select-and-scatter(%c, %r, %z), window={size=1x2x2x1 stride=1x2x2x1}, select=larger, scatter=larger
  %t = (s32[], f32[2,6,6,8]) tuple(%k, %s)
  %l = (s32[], f32[2,6,6,8]) while(%t), condition=condition, body=body
  %v = f32[2,6,6,8] get-tuple-element((s32[], f32[2,6,6,8]) %l), index=1
  %o = f32[2,6,6,8] conditional(%k, %v, %c), branch_computations={left, right}
  %q = pred[2,6,6,8] compare(%o, %c), direction=LT
  %y = f32[2,6,6,8] select(%q, %o, %c)
  ROOT %f = f32[2,6,6,8] add(%y, %v)
}
"""
"""Windows, a loop, branches, and types beside operands; line 24 is the first parameter."""


def test_a_step_of_windows_and_loops_is_read():
    graph = step_graph(parse_hlo(WINDOWED, "f.hlo"), "f.hlo")
    assert {"convolution", "reduce-window", "while-begin", "branch-end"} <= {each.opcode for each in graph.operations}
    assert len(step_factors(graph, "f.hlo")) == len(graph.operations)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "%c = f32[2,6,6,8] conv",
            "%c = f32[2,6,7,8] conv",
            "line 28: c: convolution: a window of 3 has 6 positions on 8 padded elements along 1, but the result has 7",
        ),
        (
            "{size=3x3}",
            "{size=9x3}",
            "line 28: c: convolution: the window must have the kernel's sizes [3, 3], but has ",
        ),
        ("{size=3x3}", "{size=3x3 pad=1_1x0_0}", "line 28: c: convolution: a window of 3 has 8 positions on 10 padded"),
        (
            "{size=3x3}",
            "{size=3x3 rhs_dilate=4x4}",
            "line 28: c: convolution: a window of 9 has 0 positions on 8 padded",
        ),
        ("{size=3x3}", "{size=3x3 lhs_dilate=2x1}", "line 28: c: convolution: a window of 3 has 13 positions on 15"),
        (
            "{size=3x3}",
            "{size=3x3 stride=0x1}",
            "line 28: c: convolution: sizes, strides and dilations must be positive",
        ),
        ("{size=3x3}", "{size=3x3x3}", "line 28: c: convolution: the window must have 2 dimensions"),
        ("%r = f32[2,3,3,8]", "%r = f32[2,3,4,8]", "line 29: r: reduce-window: a window of 2 has 3 positions on 6"),
        ("%c, %r, %z)", "%c, %c, %z)", "line 30: s: select-and-scatter: a window of 2 has 3 positions on 6 padded "),
        (
            "f32[2,8,8,4] %x,",
            "f32[2,8,8,5] %x,",
            "line 28: x: an operand must be stated with its own type, f32[2,8,8,4]",
        ),
        ("f32[2,8,8,4] %x,", "bf16[2,8,8,4] %x,", "line 28: x: an operand must be stated with its own type, f32[2,8,"),
        (
            "((s32[], f32[2,6,6,8]) %l)",
            "((s32[], f32[2,6]) %l)",
            "line 33: l: an operand must be stated with its own t",
        ),
        (
            "%z = f32[] constant(0)",
            "%z = s32[] constant(0)",
            "line 29: r: reduce-window: element types must agree: (f32,",
        ),
        ("%w = f32[3", "%w = s32[3", "line 28: w: an operand must be stated with its own type, s32[3,3,4,8], not f32["),
        ("%q = pred[", "%q = f32[", "line 35: q: compare: element types must agree: (f32, f32) -> (f32)"),
        ("select(%q,", "select(%o,", "line 36: y: select: element types must agree: (f32, f32, f32) -> (f32)"),
        ("add(%y, %v)", "add(%y, %q)", "line 37: f: add: element types must agree: (f32, pred) -> (f32)"),
        (
            "tuple(%k, %s)",
            "tuple(%k, %r)",
            "line 31: t: must have the shape of the value that it forwards, (s32[], f32[2,3,3,8]), but",
        ),
        (
            "ROOT n = (s32[], f32[2,6,6,8]) tuple(i, v)",
            "ROOT n = (s32[], s32[]) tuple(i, i)",
            "line 11: n: the body of l must return the type of its parameter, (s32[], f32[2,6,6,8]), but returns "
            "(s32[], s32[])",
        ),
        (
            "ROOT n = (s32[], f32[2,6,6,8]) tuple(i, v)",
            "ROOT n = ((s32[], f32[2,6,6,8])) tuple(p)",
            "line 11: n: the body of l must return the type of its parameter, (s32[], f32[2,6,6,8]), but returns "
            "((s32[], f32[2",
        ),
        ("while(%t)", "while(%c)", "line 32: l: must receive (s32[], f32[2,6,6,8]), but receives f32[2,6,6,8]"),
        (
            "  p = (s32[], f32[2,6,6,8]) parameter(0)\n  ROOT t",
            "  p = f32[] parameter(0)\n  ROOT t",
            "line 14: p: the condition of l must have the parameter (s32[], f32[2,6,6,8]), but has f32[]",
        ),
        ("t = pred[]", "t = s32[]", "line 15: t: the condition of l must return pred[], but returns s32[]"),
        (
            "right {\n  ROOT p = f32[2,6,6,8] parameter(0)\n",
            "right {\n  q = f32[2,6,6,8] parameter(0)\n  ROOT p = pred[2,6,6,8] compare(q, q), direction=LT\n",
            "line 22: p: every branch of o must return its type, f32[2,6,6,8], but returns pred[2,6,6,8]",
        ),
    ],
)
def test_windows_types_and_loops_that_disagree_are_named_with_their_line(tmp_path, monkeypatch, old, new, message):
    assert old in WINDOWED
    monkeypatch.chdir(tmp_path)
    Path("f.hlo").write_text(WINDOWED.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        step_factors(step_of(resolve_step("f.hlo")), "f.hlo")
    assert str(refused.value).startswith(f"f.hlo: {message}")


def test_constants_are_judged_as_all_else_is():
    text = WINDOWED.replace(
        "%k = s32[] constant(3)", "%k = s32[] constant(3)\n  %h = f32[2] broadcast(%z), dimensions={0}"
    )
    with pytest.raises(InputError, match=r"f\.hlo: line 28: h: broadcast: must map every operand dimension"):
        step_factors(step_graph(parse_hlo(text, "f.hlo"), "f.hlo"), "f.hlo")


def test_floating_point_types_may_be_mixed():
    text = WINDOWED.replace("%y = f32[", "%y = bf16[")
    assert text != WINDOWED
    assert step_graph(parse_hlo(text, "f.hlo"), "f.hlo").operations


def test_the_header_of_a_computation_says_the_type_of_its_root():
    with pytest.raises(
        InputError, match=r"f\.hlo: line 6: region\.1: must have the type of its root sum\.1, f32\[\], but"
    ):
        parse_hlo(LONG.replace("-> f32[] {", "-> f32[4] {"), "f.hlo")
    with pytest.raises(
        InputError, match=r"f\.hlo: line 12: main\.2: must have the type of its root out\.1, \(f32\[4\], "
    ):
        parse_hlo(LONG.replace("-> (f32[4], s32[]) {", "-> (f32[4], f32[]) {"), "f.hlo")


def test_what_is_cut_off_names_the_last_line():
    for count in range(1, SHORT.count("\n")):
        with pytest.raises(InputError, match=rf"f\.hlo: line {count}: "):
            parse_hlo("".join(SHORT.splitlines(keepends=True)[:count]), "f.hlo")


@pytest.mark.parametrize("number", ["9" * 5_000, "²", ""])
def test_numbers_that_are_none_are_refused_or_read(number):
    for match in re.finditer(r"\d+", SHORT):
        with suppress(InputError):
            graph = step_graph(parse_hlo(SHORT[: match.start()] + number + SHORT[match.end() :], "f.hlo"), "f.hlo")
            step_factors(graph, "f.hlo")


DEEP = 3_000


@pytest.mark.parametrize(
    "body",
    [
        "ENTRY e {\n x = " + "(" * DEEP + "f32[]" + ")" * DEEP + " parameter(0)\n}\n",
        "c0 {\n ROOT x = f32[] parameter(0)\n}\n"
        + "".join(f"c{n} {{\n p = f32[] parameter(0)\n ROOT x = f32[] call(p), to_apply=c{n - 1}\n}}\n"
                  for n in range(1, DEEP))
        + f"ENTRY e {{\n p = f32[] parameter(0)\n ROOT x = f32[] call(p), to_apply=c{DEEP - 1}\n}}\n",
    ],
    ids=["types", "calls"],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_refused(body):
    with pytest.raises(InputError, match=r"f\.hlo: types, calls or loops are nested too deeply"):
        step_graph(parse_hlo(f"HloModule m\n{body}", "f.hlo"), "f.hlo")


@pytest.mark.parametrize("name", ["rare.hlo", "vgg-tiny.opt.hlo"])
def test_a_text_that_is_cut_off_or_garbled_is_refused_or_read(name):
    text, draw = (DUMPS / name).read_text(), random.Random(7)
    refused = 0
    for _ in range(60):
        begin = draw.randrange(len(text))
        skipped = begin + draw.randrange(1, 9)
        garbled = draw.choice([text[:begin], text[:begin] + text[skipped:], text[:begin] + "({" + text[begin:]])
        refused += 1
        with suppress(InputError):
            step_graph(parse_hlo(garbled, name), name)
            refused -= 1
    assert refused > 20
