"""What stands beside a value: whose times the rows show, and the deciding chip and the bound only where they apply."""

import json

import pytest

from dse.partition.formats import partition_from_document
from dse.partition.options import PartitionOptions, question_of
from dse.partition.report import loads, view
from dse.partition.tables import CHIP_HEADERS, about, chip_rows
from tests.partition.small import random_graph
from tests.solving import answer

LABEL = "analytical estimate"
ASKED = {
    "throughput": {"chips": 4},
    "latency": {"chips": 4, "objective": "latency"},
    "simulated": {"package": "mcm-4", "evaluator": "simulator", "method": "random"},
    "simulated latency": {"package": "mcm-4", "evaluator": "simulator", "objective": "latency", "method": "random"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "graph.json"
    path.write_text(json.dumps(random_graph(3, 12, 0.3).document()))
    return {name: answer(PartitionOptions(str(path), samples=40, **asked)) for name, asked in ASKED.items()}


@pytest.mark.parametrize("name", ASKED)
def test_the_reference_evaluators_times_are_labelled_next_to_a_simulated_value(results, name):
    result = results[name]
    rows, simulated = chip_rows(result), name.startswith("simulated")
    assert all(len(row) == len(CHIP_HEADERS) for row in rows)
    assert [row[0] for row in rows if row[0]] == [str(number) for number in range(result.metrics["chips_used"])]
    assert any(LABEL in cell for cell in rows[0]) == simulated
    assert (LABEL in loads(result).y.title) == simulated


@pytest.mark.parametrize("name", ASKED)
def test_a_chip_decides_and_a_bound_is_drawn_only_for_the_throughput_of_the_rows(results, name):
    result = results[name]
    assert ("bottleneck" in about(result)) == (name == "throughput")
    chart = loads(result)
    assert ("lower bound" in chart.limits) == (name == "throughput")
    for level, _ in chart.limits.values():
        unit = chart.y.title.split("[")[1].rstrip("]")
        assert level == pytest.approx({"s": 1, "ms": 1e3, "µs": 1e6, "ns": 1e9}[unit] / result.bound)


def test_the_times_of_a_column_are_in_the_unit_that_fits_its_largest(results):
    result = results["throughput"]
    seconds = result.metrics | {"chip_s": [1.0767284, 0.25, 0.0], "link_s": [2.5e-6, 0.0]}
    operators = {f"operator {chip}": chip for chip in range(3)}
    weights = {"chip_weight_bytes": [0.0] * 3}
    rows = chip_rows(result.model_copy(update={"metrics": seconds | weights, "solution": {"chip": operators}}))
    assert [row[2].rstrip("█ ") for row in rows] == ["1.077 s", "0.250 s", "0.000 s"]
    assert [row[3] for row in rows] == ["2.500 µs", "0.000 µs", ""]


@pytest.mark.parametrize("name", ASKED)
def test_the_card_divides_the_time_of_the_busiest_chip(results, name):
    result = results[name]
    question = question_of(PartitionOptions(result.settings["source"], **ASKED[name]))
    (card,) = view(question, result).cards()
    (breakdown,) = card.breakdowns
    chips = partition_from_document(question.problem, result.solution, "result")
    chip_s = result.metrics["chip_s"]
    busiest = chip_s.index(max(chip_s))
    held = [place for place, chip in enumerate(chips) if chip == busiest]
    assert f"Time of chip {busiest}, the busiest" in breakdown.title
    assert (LABEL in breakdown.title) == name.startswith("simulated")
    assert breakdown.total == pytest.approx(max(chip_s))
    assert breakdown.shares[0].amount == pytest.approx(sum(question.problem.graph.latency_s[place] for place in held))
