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
        ("add(a.1, b.1)", "add(a.1, c.1)", "line 6: c.1: an operand must be an instruction before"),
        ("n.1 = s32[] constant(7)", "r.1 = s32[] constant(7)", "line 15: r.1: an instruction of this name"),
        ("f32[4]{0} reduce", "q32[4]{0} reduce", r"line 14: q32\[4\]: the element type"),
        ("f32[4]{0} reduce", "f32[-4]{0} reduce", r"line 14: f32\[-4\]"),
        ("f32[4]{0} reduce(", "f32[4]{0} (", "line 14"),
        ("parameter(1)", "parameter(2)", "parameters must be numbered from 0"),
        ("tuple(r.1, n.1)\n}", "tuple(r.1, n.1)", "cut off"),
        ("{ 3, 4 } })", "{ 3, 4 } }", "line 15|line 16|line 17"),
        ("region.1 {\n", "main.2 {\n", "line 9|of this name"),
    ],
)
def test_what_breaks_a_rule_is_named_with_its_line(old, new, message):
    assert old in SHORT
    with pytest.raises(InputError, match=message):
        parse_hlo(SHORT.replace(old, new, 1), "f.hlo")


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
        ("a = f32[4,6]", "a = f32[4,7]", "f.hlo: line 3: a: must have the shape of what it stands for, f32[4,6], but"),
        ("c = f32[4,6]", "c = f32[4,7]", "f.hlo: line 13: c: must have the shape of what it stands for, f32[4,6], but"),
        (
            "(f32[4,8], f32",
            "(f32[4,9], f32",
            "f.hlo: line 14: t: must have the shape of what it stands for, (f32[4,8], ",
        ),
        ("g = f32[4,6]", "g = s32[4,6]", "f.hlo: line 15: g: must have the shape of what it stands for, f32[4,6], but"),
        ("s = f32[2,6]", "s = f32[3,6]", "f.hlo: line 16: s: slice: the result must have the sizes of the ranges"),
        ("[0:4:2]", "[0:5:2]", "f.hlo: line 16: s: slice: 0:5:2 must be a range of 4"),
        ("1_0x0_0", "1_0x0_1", "f.hlo: line 17: p: pad: the result must have the padded sizes"),
        ("1_0x0_0", "1_0", "f.hlo: line 17: p: pad: must have a padding for each dimension"),
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
        ("f = f32[4,6]", "f = f32[4,5]", "f.hlo: line 24: f: scatter: the result must have the shape of what is"),
        ("scatter(g, q, l)", "scatter(g, q, s)", "f.hlo: line 24: f: scatter: updates must have the sizes of the"),
    ],
)
def test_shapes_that_disagree_are_named_with_their_line(old, new, message):
    assert old in DISAGREEING
    with pytest.raises(InputError) as refused:
        step_factors(step_graph(parse_hlo(DISAGREEING.replace(old, new, 1), "f.hlo"), "f.hlo"), "f.hlo")
    assert str(refused.value).startswith(message)


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
