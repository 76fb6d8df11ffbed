"""The kernel library: the contest's types as its document has them, and types of users in YAML and Python."""

import pytest

from dse.wafer.kernels import KernelRuleError, KernelType, contest_library, read_library
from dse.wafer.problem import Convolution
from hardware.inputs import InputError
from tests.wafer.small import graph_text, problem_from


def test_blocks_consist_of_the_contests_convolutions():
    written, convolutions = contest_library()["cblock"].build({"f": 64, "h": 28, "w": 14})
    assert written == (28, 14, 64)
    assert convolutions == (
        Convolution(28, 14, 1, 1, 32, 16, 1),
        Convolution(28, 14, 3, 3, 16, 16, 2),
        Convolution(14, 7, 1, 1, 16, 64, 1),
        Convolution(28, 14, 1, 1, 32, 64, 2),
    )
    written, convolutions = contest_library()["dblock"].build({"f": 64, "h": 28, "w": 14})
    assert written == (28, 14, 64)
    assert convolutions == (
        Convolution(28, 14, 1, 1, 64, 16, 1),
        Convolution(28, 14, 3, 3, 16, 16, 1),
        Convolution(28, 14, 1, 1, 16, 64, 1),
    )


def test_a_convolution_is_written_in_the_order_of_layouts():
    values = {"W": 1, "H": 2, "R": 3, "S": 4, "C": 5, "K": 6, "T": 7, "U": 7}
    written, (convolution,) = contest_library()["conv"].build(values)
    assert written == (2, 1, 5, 6, 3, 4, 7, 7)
    assert convolution == Convolution(2, 1, 3, 4, 5, 6, 7)


YAML = """schema: dse.kernels/1
kernels:
  pair:
    parameters: [h, f]
    convolutions:
      - {H: h, W: h, R: 3, S: 3, C: f, K: 2 * f}
      - {H: h, W: h, R: 1, S: 1, C: 2 * f, K: f, T: 1, U: 1}
"""


def test_users_add_types_in_yaml(tmp_path):
    path = tmp_path / "kernels.yaml"
    path.write_text(YAML)
    library = read_library(path)
    assert library["pair"].build({"h": 8, "f": 3})[1] == (
        Convolution(8, 8, 3, 3, 3, 6),
        Convolution(8, 8, 1, 1, 6, 3),
    )
    assert "conv" in library
    problem = problem_from(graph_text(["pair[1] h=8 f=3 name='p'"], []), library)
    assert problem.kernels[0].kind == "pair"


def test_users_add_types_in_python():
    pointwise = KernelType("pointwise", ("h", "w", "f"), lambda p: [Convolution(p["h"], p["w"], 1, 1, p["f"], p["f"])])
    problem = problem_from(
        graph_text(["pointwise[1] h=8 w=4 f=3 name='p'"], []), contest_library().with_types([pointwise])
    )
    assert problem.kernels[0].convolutions == (Convolution(8, 4, 1, 1, 3, 3),)
    assert problem.kernels[0].written == (8, 4, 3)


def test_a_type_without_convolutions_is_refused():
    with pytest.raises(KernelRuleError):
        KernelType("nothing", ("h",), lambda _p: []).build({"h": 1})


SIZES = (4, 4, 1, 1, 4, 4, 1)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "must return a sequence of Convolution, but returned None"),
        (Convolution(*SIZES), r"must return a sequence of Convolution, but returned Convolution\(height=4"),
        ([SIZES], r"convolution 1 must be a Convolution, but got \(4, 4"),
        ([Convolution(*SIZES), None], "convolution 2 must be a Convolution, but got None"),
        ([Convolution(*SIZES[:-1], 0)], "T of convolution 1 must be a whole number from 1 to 1048576, but got 0"),
        ([Convolution(*SIZES), Convolution(-4, *SIZES[1:])], "H of convolution 2 must be .*, but got -4"),
        ([Convolution(4, 4, 1, 1, 4.0, 4)], r"C of convolution 1 must be .*, but got 4\.0"),
        ([Convolution(4, 4, 1, 1, 4, True)], "K of convolution 1 must be .*, but got True"),
        ([Convolution(4, 4, "3", 1, 4, 4)], "R of convolution 1 must be .*, but got '3'"),
        ([Convolution(4, 2**20 + 1, 1, 1, 4, 4)], "W of convolution 1 must be .*, but got 1048577"),
    ],
)
def test_a_function_that_gives_no_convolutions_is_refused_with_file_and_line(found, words):
    library = contest_library().with_types([KernelType("own", ("h",), lambda _p: found)])
    with pytest.raises(InputError, match=rf"small\.kgraph: line 12: own\[1\]: {words}"):
        problem_from(graph_text(["own[1] h=1 name='p'"], []), library)


def test_the_largest_sizes_are_allowed():
    largest = [Convolution(2**20, 1, 1, 1, 1, 2**20)]
    assert KernelType("own", ("h",), lambda _p: largest).build({"h": 1}) == ((1,), tuple(largest))


def test_one_stride_is_both(tmp_path):
    path = tmp_path / "kernels.yaml"
    path.write_text(YAML.replace("K: 2 * f}", "K: 2 * f, T: f}"))
    assert [each.stride for each in read_library(path)["pair"].build({"h": 8, "f": 3})[1]] == [3, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema: dse.kernels/1", "schema: dse.kernels/2", "schema"),
        ("C: f,", "C: g,", "kernels.pair.convolutions.0.C: g: no parameter"),
        ("2 * f}", "2 ** f}", "kernels.pair.convolutions.0.K: .*must be an expression"),
        ("2 * f}", "1_0 * f}", "must be an expression"),
        ("2 * f}", "0x10 * f}", "must be an expression"),
        ("2 * f}", "__import__('os')}", "must be an expression"),
        ("2 * f}", "(2 *}", "must be an expression"),
        ("2 * f}", "2 * f" + " + 0" * 3000 + "}", "at most 200 characters"),
        ("H: h, W: h, R: 3", "H: h, R: 3", "W: the key is missing"),
        ("[h, f]", "[h, h]", "parameters must be unique"),
        ("  pair:", "  input:", "must not be"),
        ("  pair:", "  é:", "kernels.é: must be a word of ASCII letters"),
        ("  pair:", "  my-pair:", "kernels.my-pair: must be a word of ASCII letters"),
        ("[h, f]", "[h, f, n-x]", "kernels.pair.parameters.2: n-x: must be a word of .* KEY=VALUE"),
        ("[h, f]", "[h, f, 2n]", "kernels.pair.parameters.2: 2n: must be a word of"),
        ("[h, f]", "[h, f, é]", "kernels.pair.parameters.2: é: must be a word of"),
        ("T: 1, U: 1", "T: 1, U: 1.5", "convolutions.1.U: 1.5: must be a whole number or an expression"),
        ("    convolutions", "    written: [h]\n    convolutions", "a permutation of the parameters"),
        ("{H: h, W: h, R: 3", "{H: 1.5, W: h, R: 3", "whole number or an expression"),
    ],
)
def test_each_broken_library_is_refused(tmp_path, old, new, words):
    path = tmp_path / "kernels.yaml"
    assert old in YAML
    path.write_text(YAML.replace(old, new, 1))
    with pytest.raises(InputError, match=words):
        read_library(path)


def test_sizes_that_come_out_wrong_are_refused(tmp_path):
    path = tmp_path / "kernels.yaml"
    path.write_text(YAML.replace("K: 2 * f}", "K: f - 3}"))
    with pytest.raises(KernelRuleError, match="f - 3 must be from 1"):
        read_library(path)["pair"].build({"h": 1, "f": 3})
