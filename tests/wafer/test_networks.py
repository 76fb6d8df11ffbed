"""The contest's networks by name: the graphs of the official files, and headers from the command line."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from dse.wafer.files.formats import problem_of, read_problem
from dse.wafer.files.kgraph import parse_kgraph, read_kgraph, write_kgraph
from dse.wafer.kernels import contest_library
from dse.wafer.networks import NETWORKS
from dse.wafer.options import WaferOptions
from hardware.inputs import InputError
from tests.shared_data import case_of_others
from tests.wafer.small import conv_line, graph_text

OFFICIAL = {
    "A": "resnet50-blocks",
    "C": "resnet50x2-conv",
    "D": "resnet50-conv",
    "E": "resnet50-blocks",
    "I": "resnet75-blocks",
    "K": "resnet50-lean-blocks",
    "N": "fcnet",
    "P": "resnet75-conv",
    "Q": "resnet50-lean-blocks",
    "S": "unet-conv",
}
SIZES = {
    "resnet50-blocks": (16, 15),
    "resnet50x2-blocks": (32, 31),
    "resnet50x2-conv": (100, 131),
    "resnet50-conv": (52, 67),
    "resnet75-blocks": (25, 24),
    "resnet75-conv": (79, 103),
    "resnet50-lean-blocks": (16, 15),
    "resnet50-lean-conv": (52, 67),
    "unet-conv": (23, 26),
    "fcnet": (26, 25),
}
"""Kernels and edges, as the contest counts them."""


@pytest.mark.parametrize("case", OFFICIAL)
def test_a_network_is_the_official_graph(case):
    name = OFFICIAL[case]
    official = read_kgraph(case_of_others("ispd2020", f"{case}.kgraph"), contest_library())
    made = NETWORKS[name].graph(name)
    assert made.nodes == official.nodes
    # No image has the shape that the official U-Net gives to what goes up for the first time.
    wrong = ("conv", 10, "y"), ("conv", 11, "x"), (8, 1024, 1024)
    edges = [(edge.source, edge.target, edge.shape) for edge in official.edges]
    ours = [(edge.source, edge.target, edge.shape) for edge in made.edges]
    assert [(*edge[:2], (32, 32, 1024)) if edge == wrong else edge for edge in edges] == ours
    assert [*made.header] == [*official.header]
    # The writer gives the official file, byte for byte, once it has its title, weights and spaces.
    text = case_of_others("ispd2020", f"{case}.kgraph").read_bytes().decode()
    dressed = replace(made, header=official.header, style=official.style)
    assert write_kgraph(dressed).splitlines() == [line.replace("[8][1024]", "[32][32]") for line in text.splitlines()]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_a_problem(name):
    problem = WaferOptions(name).problem()
    assert problem.name == name
    assert (len(problem.kernels), len(problem.edges)) == SIZES[name]
    assert (problem.wafer.width_tiles, problem.wafer.height_tiles, problem.wafer.memory_words) == (633, 633, 24576)
    graph = NETWORKS[name].graph(name)
    again = parse_kgraph(write_kgraph(graph), name, contest_library())
    assert again.nodes == graph.nodes
    assert again.edges == graph.edges


@pytest.mark.parametrize("name", [name for name in NETWORKS if name.endswith("-blocks")])
def test_blocks_and_their_convolutions_are_the_same_work(name):
    written = name.replace("-blocks", "-conv")
    whole, parts = WaferOptions(name).problem(), WaferOptions(written).problem()
    assert Counter(each for kernel in whole.kernels for each in kernel.convolutions) == Counter(
        each for kernel in parts.kernels for each in kernel.convolutions
    )


def test_a_lean_network_has_a_sixteenth_of_the_features():
    whole, lean = (WaferOptions(name).problem() for name in ("resnet50-conv", "resnet50-lean-conv"))
    assert whole.edges == lean.edges
    for kernel, thin in zip(whole.kernels, lean.kernels, strict=True):
        (wide,), (narrow,) = kernel.convolutions, thin.convolutions
        assert (wide.inputs, wide.outputs) == (16 * narrow.inputs, 16 * narrow.outputs)
        assert (wide.height, wide.window_height, wide.stride) == (narrow.height, narrow.window_height, narrow.stride)


def test_a_misspelt_name_gets_the_nearest():
    for given, meant in (("resnet50-bloks", "resnet50-blocks"), ("fcnte", "fcnet"), ("mobilnet-v2", "mobilenet-v2")):
        with pytest.raises(InputError, match=f"did you mean {meant}"):
            WaferOptions(given).problem()
    with pytest.raises(InputError, match=r"missing\.kgraph: cannot be read"):
        WaferOptions("missing.kgraph").problem()


def test_the_networks_are_listed(dse):
    shown = dse("wafer", "--help").out
    assert all(name in shown for name in NETWORKS)


def test_own_kernel_types_may_not_fit_a_network(tmp_path):
    path = tmp_path / "kernels.yaml"
    shape = "{H: n, W: n, R: 1, S: 1, C: f, K: f}"
    path.write_text(f"schema: dse.kernels/1\nkernels:\n  conv: {{parameters: [n, f], convolutions: [{shape}]}}\n")
    assert WaferOptions("resnet50-blocks", str(path)).problem() == WaferOptions("resnet50-blocks").problem()
    with pytest.raises(InputError, match=r"fcnet: line \d+: W: must be a parameter of conv"):
        WaferOptions("fcnet", str(path)).problem()


def test_options_stand_for_the_header(tmp_path):
    path = tmp_path / "case.kgraph"
    path.write_text(graph_text([conv_line(1)], []))
    plain, changed = WaferOptions(str(path)), WaferOptions(str(path), width=30, wdeltat=2.5, wadapter=1e-3)
    assert plain.problem() == read_problem(path)
    problem = changed.problem()
    assert (problem.wafer.width_tiles, problem.wafer.height_tiles) == (30, 20)
    assert (problem.weights.time, problem.weights.distance, problem.weights.adapter) == (2.5, 1.0, 1e-3)
    assert problem.kernels == plain.problem().kernels
    # What is written of it says the same without the options.
    written = write_kgraph(changed.graph())
    assert problem_of(parse_kgraph(written, "case", contest_library()), "case", contest_library()) == problem
    with pytest.raises(InputError, match="must be above 0"):
        WaferOptions("fcnet", wdeltat=0, wlength=0).problem()


def test_a_network_is_placed_kept_and_checked(dse, tmp_path):
    out = tmp_path / "run"
    asked = ("--moves", 200, "--workers", 0, "--wlength", 4, "--height", 600)
    shown = dse("wafer", "resnet50-lean-blocks", *asked, "--out", out)
    assert shown.code == 0, shown.err
    kept = read_problem(out / "resnet50-lean-blocks.kgraph")
    assert (kept.wafer.height_tiles, kept.weights.distance) == (600, 4.0)
    assert dse("check", out / "result.json").out.strip() == "ok"
    assert dse("check", out / "result.json", out / "resnet50-lean-blocks.kgraph").out.strip() == "ok"
    assert dse("check", out / "result.json", "fcnet").code != 0
    assert json.loads((out / "result.json").read_text())["problem"]["name"] == "resnet50-lean-blocks"
    assert dse("wafer", "fcnet", "--width", 0).code == 2
    assert dse("wafer", "fcnet", "--wlength", -1).code == 2
