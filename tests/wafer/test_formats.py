"""The contest's formats: what is read is written back byte for byte, and one fault for each thing that is wrong."""

import json
from dataclasses import replace

import pytest

from dse.wafer.check import cost, violations
from dse.wafer.documents import placement_document, placement_from_document
from dse.wafer.files.formats import problem_of, read_problem
from dse.wafer.files.kgraph import Style, parse_kgraph, read_kgraph, write_kgraph
from dse.wafer.files.paint import PaintKernel, paint_of, parse_paint, placement_of, write_paint
from dse.wafer.kernels import contest_library
from dse.wafer.problem import PlacedKernel, WaferPlacement
from hardware.inputs import InputError
from tests.shared_data import case_of_others
from tests.wafer.small import blocks_text, chain, conv_line, graph_text, problem_from

SIZES = {
    "A": (16, 15),
    "C": (100, 131),
    "D": (52, 67),
    "E": (16, 15),
    "I": (25, 24),
    "K": (16, 15),
    "N": (26, 25),
    "P": (79, 103),
    "Q": (16, 15),
    "S": (23, 26),
}


def test_a_graph_of_our_own_comes_back_byte_for_byte():
    text = blocks_text(adapter=5)
    graph = parse_kgraph(text, "g", contest_library())
    assert write_kgraph(graph) == text
    problem = problem_of(graph, "g", contest_library())
    assert (len(problem.kernels), problem.weights.adapter) == (5, 5)


OUR_PAINT = """include "common.paint"
k1 = conv( 4 4 4 4 1 1 1 1 1 1 2 2 )
k1 : name('k1)
k1 : place(0 0 R0)
k2 = conv( 4 4 4 4 1 1 1 1 1 1 2 2 )
k2 : name('k2)
k2 : place(6 0 R90)
kmap = union( k1 k2 )
"""


def test_a_layout_of_our_own_comes_back_byte_for_byte_and_costs_what_it_costs_by_hand():
    painted = parse_paint(OUR_PAINT, "p")
    assert write_paint(painted) == OUR_PAINT
    problem = chain(2, adapter=1)
    placed = placement_of(problem, painted, "p")
    assert violations(problem, placed) == []
    # 4/1 · 4/1 · ⌈4/2⌉ ⌈4/2⌉ of work; centres (3, 1.5) and (7.5, 3).
    found = cost(problem, placed)
    assert (found.time, found.distance, found.adapter) == (64, 6.0, 0)


@pytest.mark.parametrize("case", SIZES)
def test_official_graphs_come_back_byte_for_byte(case):
    path = case_of_others("ispd2020", f"{case}.kgraph")
    text = path.read_bytes().decode()
    graph = parse_kgraph(text, path, contest_library())
    assert write_kgraph(graph) == text
    problem = problem_of(graph, path, contest_library())
    assert (len(problem.kernels), len(problem.edges)) == SIZES[case]
    assert (problem.wafer.width_tiles, problem.wafer.memory_words) == (633, 24576)


def test_the_official_layout_comes_back_byte_for_byte():
    path = case_of_others("ispd2020", "D.example.paint")
    text = path.read_bytes().decode()
    assert write_paint(parse_paint(text, path)) == text


def test_every_style_is_read_as_it_is_written():
    text = graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")])
    graph = parse_kgraph(text, "g", contest_library())
    for width in (1, 3):
        for arrow in (" -> ", "\t->\t"):
            for newline in (True, False):
                style = Style(width, False, arrow, newline)
                written = write_kgraph(type(graph)(graph.header, graph.nodes, graph.edges, style))
                again = parse_kgraph(written, "g", contest_library())
                assert again.style == style
                assert (again.nodes, again.edges) == (graph.nodes, graph.edges)
                assert written.endswith("\n") == newline


def test_a_placement_survives_both_of_its_formats():
    problem = chain(3)
    placement = WaferPlacement(
        tuple(PlacedKernel(1, 2, (number + 1,), (2,), 7 * number, 0, "R90") for number in range(3))
    )
    text = write_paint(paint_of(problem, placement))
    assert "k2 = conv( 4 4 4 4 1 1 1 1 1 2 2 2 )" in text
    assert "k2 : place(7 0 R90)" in text
    assert placement_of(problem, parse_paint(text, "p"), "p") == placement
    document = json.loads(json.dumps(placement_document(problem, placement)))
    assert placement_from_document(problem, document, "r") == placement


def named(*names):
    nodes = [conv_line(number).replace(f"name='k{number}'", f"name='{name}'") for number, name in enumerate(names)]
    return problem_from(graph_text(nodes, []))


@pytest.mark.parametrize(
    ("names", "painted"),
    [
        (("k1", "k10", "k100"), ("k001", "k010", "k100")),
        (("k10", "k100", "k105"), ("k10", "k100", "k105")),
        (("k1", "k01", "k001"), ("k1", "k01", "k001")),
        (("k0", "k10"), ("k000", "k10")),
        (("a1b01", "a1b1"), ("a1b01", "a1b1")),
    ],
)
def test_kernels_of_a_layout_are_found_by_name_whatever_zeros_lead(names, painted):
    problem = named(*names)
    placed = WaferPlacement(tuple(PlacedKernel(1, 1, (2,), (2,), 7 * x, 0, "R0") for x in range(len(names))))
    shown = [replace(each, name=name) for each, name in zip(paint_of(problem, placed), painted, strict=True)]
    for order in (shown, shown[::-1]):
        assert placement_of(problem, order, "p") == placed


def test_a_name_whose_zeros_leave_two_kernels_open_is_refused():
    problem = named("k1", "k01")
    one, _ = paint_of(problem, WaferPlacement((PlacedKernel(1, 1, (2,), (2,), 0, 0, "R0"),) * 2))
    with pytest.raises(InputError, match="k001: must be a kernel of the graph"):
        placement_of(problem, [replace(one, name="k001")], "p")
    with pytest.raises(InputError, match="k01: k1 must be placed once"):
        placement_of(named("k1"), [one, replace(one, name="k01")], "p")


GOOD = graph_text(
    [conv_line(1), "dblock[2] f=8 h=4 w=4 name='k2'", "cblock[3] f=8 h=4 w=4 name='k3'"],
    [("conv[1]", "dblock[2]"), ("dblock[2]", "cblock[3]")],
)

BROKEN = {
    "no header": (lambda text: text[text.index("*)") + 2 :].replace("(* Node Definitions *)", ""), "must begin with"),
    "key missing": (lambda text: text.replace("memlimit=24576\n", ""), "header.memlimit: the key is missing"),
    "key unknown": (lambda text: text.replace("wlength=", "wlenght="), "line 6: wlenght: unknown key.*wlength"),
    "key twice": (lambda text: text.replace("wlength=1", "wlength=1\nwlength=2"), "line 7.*must be given once"),
    "weight negative": (lambda text: text.replace("wlength=1", "wlength=-1"), "header.wlength: -1: .*from 0 to"),
    "weight huge": (
        lambda text: text.replace("wlength=1", "wlength=1e300"),
        "1e300: must be a number from 0 to 1e\\+12",
    ),
    "weight not finite": (lambda text: text.replace("wlength=1", "wlength=inf"), "header.wlength: inf"),
    "weight no number": (lambda text: text.replace("wlength=1", "wlength=x"), "header.wlength: x"),
    "nothing counts": (
        lambda text: text.replace("wdeltat=1", "wdeltat=0").replace("wlength=1", "wlength=0"),
        "must be above 0",
    ),
    "width zero": (lambda text: text.replace("width=20", "width=0"), "header.width: 0: must be a whole number"),
    "width of many digits": (lambda text: text.replace("width=20", "width=" + "9" * 5000), "header.width"),
    "header no pair": (lambda text: text.replace("test=small", "small"), "line 2: small: .*KEY=VALUE"),
    "comment open": (
        lambda text: text.replace("(* Connectivity *)", "(* Connectivity"),
        "line 16: .*Conn.*must have a matching",
    ),
    "first comment open": (lambda text: text.replace("*)", "", 1), r"line 1: `\(\*` must have a matching `\*\)`"),
    "no comment ends": (lambda text: text.replace("*)", ""), r"line 1: `\(\*` must have a matching `\*\)`"),
    "empty": (lambda _text: "", "line 1: the file must begin with a comment"),
    "zeros": (lambda text: text + "\0\0", r"line 19: \\x00\\x00: must be a node"),
    "width of Python": (
        lambda text: text.replace("width=20", "width=2_0"),
        "line 3: header.width: 2_0: .*whole number",
    ),
    "weight of Python": (lambda text: text.replace("wlength=1", "wlength=1_0"), "line 6: header.wlength: 1_0: must be"),
    "weight in other digits": (lambda text: text.replace("wlength=1", "wlength=٣"), "line 6: header.wlength: ٣"),
    "width in other digits": (lambda text: text.replace("width=20", "width=٣"), "line 3: header.width: ٣"),
    "parameter of Python": (lambda text: text.replace(" C=4", " C=1_6"), "line 12: C=1_6: must be KEY=VALUE"),
    "parameter in other digits": (lambda text: text.replace(" C=4", " C=٣"), "line 12: C=٣: must be KEY=VALUE"),
    "number of Python": (lambda text: text.replace("conv[1] W", "conv[1_0] W"), "line 12: .*must be a node"),
    "comment shut": (lambda text: text.replace("(* Connectivity *)", "Connectivity *)"), "must have a matching"),
    "line malformed": (lambda text: text.replace("conv[1] W=4", "conv 1 W=4"), "line 12: .*must be a node"),
    "kind unknown": (lambda text: text.replace("dblock[2] f", "dblok[2] f"), "dblok: unknown kernel type.*dblock"),
    "parameter missing": (lambda text: text.replace(" C=4", ""), r"conv\[1\]: .*missing: C"),
    "parameter unknown": (lambda text: text.replace(" C=4", " C=4 Q=1"), "Q: must be a parameter of conv"),
    "parameter twice": (lambda text: text.replace(" C=4", " C=4 C=8"), "C=8: C must be given once"),
    "parameter zero": (lambda text: text.replace(" C=4", " C=0"), "C=0: must be a positive whole number"),
    "parameter text": (lambda text: text.replace(" C=4", " C=four"), "C=four: must be KEY=VALUE"),
    "strides differ": (lambda text: text.replace("U=1", "U=2"), "T and U must be equal"),
    "no division": (lambda text: text.replace("dblock[2] f=8", "dblock[2] f=6"), "f / 4 must be a whole number"),
    "name missing": (lambda text: text.replace(" name='k2'", ""), "must have name='NAME'"),
    "name of other letters": (
        lambda text: text.replace("name='k2'", "name='é'"),
        "line 13: é: a name must consist of ASCII letters, digits and underscores",
    ),
    "name of the placement": (
        lambda text: text.replace("name='k2'", "name='kmap'"),
        "line 13: kmap: must not be used as a kernel name",
    ),
    "name of two words": (lambda text: text.replace("name='k2'", "name='k 2'"), "line 13: k 2: a name must consist of"),
    "number of many digits": (lambda text: text.replace("conv[1] W", f"conv[{'9' * 5000}] W"), "line 12: .*a node"),
    "shape of many digits": (lambda text: text.replace("[4]", f"[{'9' * 5000}]", 1), "line 17: .*an edge must be"),
    "name twice": (lambda text: text.replace("name='k2'", "name='k1'"), "k1: must be unique, but line 12"),
    "node twice": (
        lambda text: text.replace("cblock[3] f", "dblock[2] f"),
        r"line 14: dblock\[2\]: must be unique, but line 13",
    ),
    "edge malformed": (lambda text: text.replace(", shape", " shape", 1), "an edge must be"),
    "edge to nowhere": (
        lambda text: text.replace("-> dblock[2]", "-> dblock[9]"),
        r"line 17: dblock\[9\]: an edge must join two nodes of the graph$",
    ),
    "cycle": (
        lambda text: text.replace("dblock[2]:y -> cblock[3]", "dblock[2]:y -> conv[1]"),
        r"line 1[78]: .*must not form a cycle",
    ),
    "no kernels": (lambda text: text[: text.index("conv[1]")], "at least one kernel"),
    "into an input": (
        lambda text: (
            text.replace("conv[1] W", "input[0] n=[1 1 1] name='i'\nconv[1] W") + "conv[1]:y -> input[0]:x, shape:[1]\n"
        ),
        "an edge must not enter an input",
    ),
}


def test_the_text_that_is_broken_below_is_good():
    assert len(problem_from(GOOD).edges) == 2


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_graph_is_refused_with_file_and_rule(name):
    change, words = BROKEN[name]
    assert change(GOOD) != GOOD
    with pytest.raises(InputError, match=words) as raised:
        problem_from(change(GOOD))
    assert all(fault.file == "small.kgraph" for fault in raised.value.faults)


ALONE = (
    "first comment open",
    "no comment ends",
    "empty",
    "comment open",
    "parameter of Python",
    "parameter text",
    "line malformed",
    "number of Python",
    "kind unknown",
    "name missing",
)


@pytest.mark.parametrize("name", ALONE)
def test_a_fault_that_explains_others_stands_alone(name):
    with pytest.raises(InputError) as raised:
        problem_from(BROKEN[name][0](GOOD))
    assert len(raised.value.faults) == 1


def faults_of(text):
    with pytest.raises(InputError) as raised:
        problem_from(text)
    return raised.value.faults


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ("wlength=1", "wlength=1\nwlength=1", "line 7: wlength repeats an earlier line with the same value."),
        (" C=4", " C=4 C=4", "line 12: conv[1] repeats C=4."),
    ],
)
def test_what_stands_twice_alike_is_noted(before, after, note):
    graph = parse_kgraph(GOOD.replace(before, after), "g.kgraph", contest_library())
    assert problem_of(graph, "g.kgraph", contest_library(), "small") == problem_from(GOOD)
    assert graph.notes == (note,)


@pytest.mark.parametrize(
    ("stated", "note"),
    [
        ("n=[ 1 1 7 ] ", "has size 1×1×7, but its edge has 1; the difference is ignored."),
        ("", "has no readable sizes (none); they are ignored."),
        ("H=7 W=7 F=512 ", "has no readable sizes (H=7 W=7 F=512); they are ignored."),
        ("n=[ ] ", "has no readable sizes (n=[ ]); they are ignored."),
        (f"n=[ {'9' * 50} ] ", f"has no readable sizes (n=[ {'9' * 50} ]); they are ignored."),
    ],
)
def test_sizes_of_inputs_and_outputs_decide_nothing_and_are_noted(stated, note):
    """As in a public copy of the contest's case B, whose output states other sizes than what feeds it."""
    text = GOOD.replace("conv[1] W", f"output[0] {stated}name='o'\nconv[1] W") + "conv[1]:y -> output[0]:_, shape:[1]\n"
    graph = parse_kgraph(text, "g.kgraph", contest_library())
    assert problem_of(graph, "g.kgraph", contest_library(), "small") == problem_from(GOOD)
    (line,) = [number for number, each in enumerate(text.split("\n"), 1) if each.startswith("output[0]")]
    assert graph.notes == (f"line {line}: output[0] {note}",)
    assert parse_kgraph(write_kgraph(graph), "g.kgraph", contest_library()) == graph


def test_the_answer_says_so(dse, tmp_path):
    text = GOOD.replace("conv[1] W", "output[0] n=[ 2 ] name='o'\nconv[1] W") + "conv[1]:y -> output[0]:_, shape:[1]\n"
    (tmp_path / "g.kgraph").write_text(text)
    answer = dse("wafer", tmp_path / "g.kgraph", "--notes")
    assert answer.code == 0
    assert "output[0] has size 2, but its edge has 1; the difference is ignored" in " ".join(answer.out.split())


@pytest.mark.parametrize("spelt", ["dblock[2]", "dblok[2]"])
def test_the_edges_of_an_unknown_kind_are_no_further_fault_however_they_spell_it(spelt):
    text = GOOD.replace("dblock[2] f", "dblok[2] f")
    text = text.replace("dblock[2]:", f"{spelt}:")
    assert [(fault.value, fault.suggestion) for fault in faults_of(text)] == [("dblok", "dblock")]


def test_no_hint_leads_to_an_unknown_kind():
    text = GOOD.replace("dblock[2] f", "dblok[2] f").replace("-> dblock[2]", "-> dblok[4]")
    hints = {fault.value: fault.suggestion for fault in faults_of(text)}
    assert hints.keys() == {"dblok", "dblok[4]"}
    assert hints["dblok[4]"] != "dblok[2]"


def test_a_hint_leads_to_a_node_that_is_at_fault_itself():
    text = GOOD.replace(" name='k2'", "").replace("-> dblock[2]", "-> dblok[2]")
    assert [(fault.value, fault.suggestion) for fault in faults_of(text)][1:] == [("dblok[2]", "dblock[2]")]


def test_an_edge_to_nowhere_is_a_fault_beside_a_node_without_a_name():
    text = GOOD.replace(" name='k1'", "").replace("-> cblock[3]", "-> cblock[9]")
    assert [fault.value for fault in faults_of(text)][1:] == ["cblock[9]"]


def test_inputs_may_be_called_as_the_placement_is():
    assert problem_from(GOOD.replace("conv[1] W", "input[0] n=[ 1 1 1 ] name='kmap'\nconv[1] W"))


@pytest.mark.parametrize(
    "encoded",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    ],
)
def test_a_mark_and_other_ends_of_lines_change_nothing(tmp_path, encoded):
    path = tmp_path / "small.kgraph"
    path.write_bytes(encoded(GOOD))
    assert read_problem(path) == problem_from(GOOD)
    assert read_kgraph(path, contest_library()).header_lines["wlength"] == 6


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD.encode("utf-16"), "line 1: is not UTF-8 text"),
        (GOOD.replace("Node", "Nöde").encode("latin-1"), "line 11: is not UTF-8 text"),
        (bytes(range(256)), "line 2: is not UTF-8 text"),
    ],
)
def test_what_is_no_text_is_one_line_with_file_and_line(tmp_path, content, words):
    path = tmp_path / "small.kgraph"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as raised:
        read_problem(path)
    assert len(raised.value.faults) == 1
    assert raised.value.faults[0].file == str(path)


def test_a_folder_is_no_graph(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}: cannot be read: Is a directory"):
        read_problem(tmp_path)


def test_lines_are_counted_as_editors_do():
    with pytest.raises(InputError, match="line 13: conv 9"):
        problem_from(GOOD.replace("name='k1'", "name='k1'\x0c").replace("dblock[2] f", "conv 9 f"))


def test_every_fault_is_reported_at_once():
    with pytest.raises(InputError) as raised:
        problem_from(GOOD.replace(" C=4", "").replace("name='k3'", "").replace("wlength", "wlen"))
    assert len(raised.value.faults) >= 3


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_problem(tmp_path / "none.kgraph")


@pytest.mark.parametrize("names", [("xkmap", "k1"), ("kmap", "xkmap"), ("union", "kmap2")])
def test_a_layout_of_kernels_called_like_the_placement_survives(names):
    painted = tuple(PaintKernel(name, "union", (1, 2), 0, 0, "R0") for name in names)
    assert parse_paint(write_paint(painted), "p") == painted


@pytest.mark.parametrize("length", range(1, 90))
def test_a_union_survives_wherever_its_lines_are_broken(length):
    painted = tuple(PaintKernel(name, "conv", (1, 2), 0, 0, "R0") for name in ("a" * length, "b"))
    assert parse_paint(write_paint(painted), "p") == painted
    assert parse_paint(write_paint(painted[:1]), "p") == painted[:1]


BROKEN_PAINT = {
    "number of many digits": (lambda text: text.replace("conv( 4", f"conv( {'9' * 5000}"), "line 2: .*each once"),
    "number in other digits": (lambda text: text.replace("place(0", "place(٣"), "line 4: .*each once"),
    "no union": (lambda text: text[: text.index("kmap")], "kmap = union"),
    "not in the union": (lambda text: text.replace("union( k1", "union("), "k1: must have a call"),
    "no place": (lambda text: text.replace("k1 : place(0 0 R0)\n", ""), "k1: must have a call"),
    "rotation": (lambda text: text.replace("R0", "R180"), "line 4"),
    "place twice": (lambda text: text.replace("k1 : place(0 0 R0)", "k1 : place(0 0 R0)\nk1 : place(0 0 R0)"), "once"),
    "formal parameters": (lambda text: text.replace("conv( 4", "conv( 5"), "must be conv"),
    "too few numbers": (lambda text: text.replace(" 2 2 )", " 2 )"), "more numbers"),
    "unknown kernel": (lambda text: text.replace("k1", "k7"), "must be a kernel of the graph"),
}


@pytest.mark.parametrize("name", BROKEN_PAINT)
def test_each_broken_layout_is_refused(name):
    problem = chain(1)
    good = write_paint(paint_of(problem, WaferPlacement((PlacedKernel(1, 1, (2,), (2,), 0, 0, "R0"),))))
    assert placement_of(problem, parse_paint(good, "p.paint"), "p.paint")
    change, words = BROKEN_PAINT[name]
    with pytest.raises(InputError, match=words):
        placement_of(problem, parse_paint(change(good), "p.paint"), "p.paint")


def test_a_layout_without_its_end_is_one_fault():
    painted = tuple(PaintKernel(f"k{number}", "conv", (1, 2), 0, 0, "R0") for number in range(9))
    text = write_paint(painted)
    with pytest.raises(InputError, match="must end in") as raised:
        parse_paint(text[: text.index("kmap")], "p.paint")
    assert len(raised.value.faults) == 1


def test_a_layout_of_another_graph_is_refused():
    one = chain(1)
    painted = paint_of(one, WaferPlacement((PlacedKernel(1, 1, (2,), (2,), 0, 0, "R0"),)))
    with pytest.raises(InputError, match="k2: must be placed"):
        placement_of(chain(2), painted, "p")
