"""Whether a student places better than rules alone: said of graphs that are simulated, with an interval."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from dse.fabric.cases import block_case
from dse.run.progress import StoppedError, never_stop, silent
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric import placing as placing_module
from policies.fabric.data.collection import provenance_of
from policies.fabric.methods import SHIPPED
from policies.fabric.placing import Placing, placing
from policies.fabric.student_checkpoint import load_student
from policies.fabric.study.intervals import Interval
from tests.extras import needs

pytestmark = needs("sklearn")

FABRIC, SLOTS = fabric("plasticine-8x16"), operator_slots()


@pytest.fixture(scope="module")
def pipelines():
    return [block_case(seed, FABRIC, SLOTS).expansion.pipeline for seed in range(6)]


@pytest.fixture
def student(monkeypatch):
    monkeypatch.setattr("policies.fabric.placing.STUDENT_MOVES", 30)
    monkeypatch.setattr("policies.fabric.placing.RULE_MOVES", 30)
    return load_student(SHIPPED, provenance_of(FABRIC, SLOTS))


def placed(trained, pipelines):
    return placing(trained, pipelines, FABRIC, 0, never_stop, silent)


@pytest.fixture
def slots_of(monkeypatch):
    """Slots between samples under the rules and under the student, given once for each graph; nothing is annealed."""
    given = {False: [], True: []}

    class Annealed:
        def __init__(self, pipeline, _fabric, _weights, settings, _stop, student):
            self.placement = (student is not None, settings.moves / len(pipeline.units))

        def __call__(self, _chain):
            return self

    class Measured:
        def __init__(self, _simulator, placement):
            is_guided, moves = placement
            assert moves == (placing_module.STUDENT_MOVES if is_guided else placing_module.RULE_MOVES)
            self.interval_slots = given[is_guided].pop(0)

    monkeypatch.setattr("policies.fabric.placing.Annealing", Annealed)
    monkeypatch.setattr("policies.fabric.placing.throughput", Measured)
    return given


def test_a_slower_student_is_said_to_place_worse_and_a_faster_one_better(student, pipelines, slots_of):
    slots_of[False], slots_of[True] = [100.0] * 6, [125.0] * 6
    worse = placed(student, pipelines)
    assert (worse.graphs, worse.gain.value) == (6, pytest.approx(-0.2))
    assert "places worse than the rules" in worse.verdict
    slots_of[False], slots_of[True] = [110.0] * 6, [100.0] * 6
    assert (
        "places better than the rules in about the same time: throughput +10.0%" in placed(student, pipelines).verdict
    )


def test_a_student_of_next_to_no_weight_cannot_be_told_apart_from_the_rules(student, pipelines):
    none = placed(replace(student, student=replace(student.student, weight=1e-300)), pipelines)
    assert none.gain == Interval(0.0, 0.0, 0.0)
    assert "shows no clear difference from the rules" in none.verdict


def test_graphs_beyond_the_range_of_a_student_are_not_placed_and_few_say_nothing(student, pipelines):
    narrow = replace(student, low=student.high + 1.0, high=student.high + 2.0)
    assert placed(narrow, pipelines) == Placing(0, None)
    assert placed(student, pipelines[:4]).gain is None
    assert "too few unseen graphs (4)" in placed(student, pipelines[:4]).verdict


def test_the_range_of_a_graph_is_looked_at_when_its_turn_comes(student, pipelines, slots_of, monkeypatch):
    """With thousands of unseen graphs, those that are not placed cost nothing."""
    monkeypatch.setattr("policies.fabric.placing.MAX_GRAPHS", 2)
    slots_of[False], slots_of[True], seen = [100.0] * 2, [100.0] * 2, []

    class Watched(type(student)):
        def out_of_range(self, pipeline, fabric):
            seen.append(pipelines.index(pipeline))
            return super().out_of_range(pipeline, fabric)

    watched = Watched(student.student, student.rules, student.low, student.high)
    assert placed(watched, pipelines).graphs == 2
    assert seen == [0, 1]


def test_progress_ends_at_its_total_where_graphs_are_out_of_range(student, pipelines, slots_of, monkeypatch):
    slots_of[False], slots_of[True], heard = [100.0] * 2, [100.0] * 2, []

    class Narrow(type(student)):
        def out_of_range(self, pipeline, _fabric):
            return pipeline is not pipelines[1] and pipeline is not pipelines[3]

    narrow = Narrow(student.student, student.rules, student.low, student.high)
    placing(narrow, pipelines[:4], FABRIC, 0, never_stop, lambda *each: heard.append(each))
    assert [counts[0] for _, *counts in heard] == [0, 1, 2]
    assert heard[-1] == ("held-out graphs placed", 2, 2)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_nothing_is_said_of_chains_that_were_stopped(student, pipelines, last):
    begun = []

    def stop():
        return "interrupted" if begun and (begun[-1] == len(pipelines) - 1 or not last) else None

    with pytest.raises(StoppedError, match="interrupted"):
        placing(student, pipelines, FABRIC, 0, stop, lambda _what, number, _of: begun.append(number))
    assert begun[-1] == (len(pipelines) - 1 if last else 0)


def test_the_verdict_goes_by_the_interval():
    assert "places better than the rules" in Placing(9, Interval(0.02, 0.01, 0.03)).verdict
    assert "+2.0% [+1.0%, +3.0%] on 9" in Placing(9, Interval(0.02, 0.01, 0.03)).verdict
    assert "shows no clear difference" in Placing(9, Interval(0.02, -0.01, 0.03)).verdict


def test_deadlocks_count_against_the_student_and_under_the_rules_not_at_all(student, pipelines, slots_of):
    slots_of[False], slots_of[True] = [100.0] * 5 + [None], [None] * 5
    result = placed(student, pipelines)
    assert (result.graphs, result.gain) == (5, Interval(-1.0, -1.0, -1.0))
