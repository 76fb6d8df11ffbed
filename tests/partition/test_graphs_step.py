"""Steps of HLO as graphs that are partitioned."""

import json

import numpy as np
import pytest

from dse.graph.step_work import flops_of
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo, read_hlo
from dse.partition.graphs import graph_of
from dse.partition.graphs.from_step import graph_from_step
from dse.sources.steps import resolve_step, step_of
from hardware.inputs import InputError
from tests.fuzz.examples import HLO_JSON, LOOP, STABLEHLO
from tests.parallel.problems import DUMPS, MLP
from tests.partition.graph_rows import rows


def test_operators_of_a_small_step_are_those_counted_by_hand(tmp_path):
    """Four bytes each; every array by its rows × columns."""
    (tmp_path / "step.hlo").write_text(MLP)
    x, y, h, o, w1, w2 = 64 * 16 * 4, 64 * 8 * 4, 64 * 32 * 4, 64 * 8 * 4, 16 * 32 * 4, 32 * 8 * 4
    assert rows(graph_of(tmp_path / "step.hlo")) == {
        "batch['x']": (x, 0, 0, x, []),
        "h": (h, w1, 2 * 64 * 32 * 16, x + w1 + h, ["batch['x']"]),
        "a": (h, 0, 64 * 32, 2 * h, ["h"]),
        "o": (o, w2, 2 * 64 * 8 * 32, h + w2 + o, ["a"]),
        "batch['y']": (y, 0, 0, y, []),
        "e": (o, 0, 64 * 8, 3 * o, ["o", "batch['y']"]),
        "g2": (w2, 0, 2 * 32 * 8 * 64, h + o + w2, ["a", "e"]),
        "d": (h, w2, 2 * 64 * 32 * 8, o + w2 + h, ["e"]),
        "g1": (w1, 0, 2 * 16 * 32 * 64, x + h + w1, ["batch['x']", "d"]),
        "n1": (w1, w1, 16 * 32, 3 * w1, ["g1"]),
        "n2": (w2, w2, 32 * 8, 3 * w2, ["g2"]),
        "q": (o, 0, 64 * 8, 3 * o, ["e"]),
        "l": (4, 0, 64 * 8, o + 4, ["q"]),
    }


def test_every_form_of_a_step_is_one_graph(tmp_path):
    (tmp_path / "step.hlo").write_text(MLP)
    (tmp_path / "step.txt").write_text(MLP)
    (tmp_path / "step.json").write_text(json.dumps(HLO_JSON))
    (tmp_path / "step.mlir").write_text(STABLEHLO)
    expected = list(rows(graph_of(tmp_path / "step.hlo")).values())
    for name in ("step.txt", "step.json"):
        assert list(rows(graph_of(tmp_path / name)).values()) == expected
    stable = rows(graph_of(tmp_path / "step.mlir"))
    assert sorted(cells[:4] for cells in stable.values()) == sorted(cells[:4] for cells in expected)
    assert list(rows(graph_of(step_of(resolve_step(tmp_path / "step.hlo")))).values()) == expected


def test_a_loop_is_one_operator_with_all_of_its_passes():
    graph = graph_from_step(step_graph(parse_hlo(LOOP, "loop"), "loop"))
    found = list(rows(graph).values())
    names = list(graph.names)
    size = 4 * 8 * 4
    assert len(found) == 5  # the input, a, two loops, the result
    assert found[1][4] == [names[0]]
    output, held, flops, moved, producers = found[2]
    assert (output, held, producers) == (size, 8 * 8 * 4, [names[1]])
    assert flops == 5 * (1 + 3 * (1 + 32) + 2 * 4 * 8 * 8)  # counters, tanh, product
    assert moved == 5 * (8 + 3 * (8 + 2 * size) + 2 * size + 8 * 8 * 4)
    assert found[3] == (size, 0, 3 * 33, 3 * (8 + 2 * size), [names[2]])
    assert found[4][4] == [names[3]]


@pytest.mark.parametrize("name", ["vgg-tiny.hlo", "dlrm-tiny.hlo", "rare.hlo", "vgg-tiny.opt.hlo", "rare.mlir"])
def test_real_steps_keep_their_products(name):
    step = step_of(resolve_step(DUMPS / name))
    graph = graph_of(DUMPS / name)
    products = sum(each.repeats * flops_of(each, step.values) for each in step.operations)
    assert graph.flops.sum() > products > 0.2 * graph.flops.sum()
    weights = [step.values[each.value].size_bytes for each in step.arguments if each.role != "input"]
    assert graph.weight_bytes.sum() >= sum(weights)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert len(set(graph.names)) == len(graph)
    assert not np.isnan(graph.flops).any()
    returned = sum(step.values[each].size_bytes for each in set(step.results))
    assert graph.output_bytes.sum() > returned


def test_the_command_partitions_a_step(dse, tmp_path):
    asked = ("--package", "mcm-4", "--method", "greedy", "--workers", "0", "--quiet")
    out = tmp_path / "run"
    answer = dse("partition", DUMPS / "rare.hlo", *asked, "--out", out, "--json")
    assert answer.code == 0, answer.err
    solution = json.loads(answer.out)["solution"]["chip"]
    assert "batch['image']" in solution
    checked = dse("check", out / "result.json")
    assert checked.code == 0, checked.out + checked.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("f32[64,32] dot", "f32[63,32] dot"), "h: dot: "),
        (("dot(x, w1)", "dot(x, w3)"), "line 12: w3: an operand must be an earlier instruction"),
        (("ENTRY step", "step"), "must contain an ENTRY computation"),
        (("HloModule", "Module"), "must be HLO text"),
    ],
)
def test_faults_are_one_clear_line(tmp_path, change, words):
    (tmp_path / "step.hlo").write_text(MLP.replace(*change, 1))
    with pytest.raises(InputError, match=words) as error:
        graph_of(tmp_path / "step.hlo")
    assert len(error.value.faults) == 1


def test_sizes_of_a_step_cannot_be_chosen(tmp_path):
    (tmp_path / "step.hlo").write_text(MLP)
    with pytest.raises(InputError, match="microbatch: 2: must not be given"):
        graph_of(tmp_path / "step.hlo", microbatch=2)


def test_a_step_that_computes_nothing_is_refused(tmp_path):
    (tmp_path / "step.hlo").write_text("HloModule m\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n")
    with pytest.raises(InputError, match="must compute something from its arguments"):
        graph_of(tmp_path / "step.hlo")
    assert read_hlo(tmp_path / "step.hlo").entry == "e"
