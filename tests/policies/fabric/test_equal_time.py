"""The default beside tuned rules at equal CPU time: moves that a budget allows, graphs that are not placed again."""

from collections import Counter

import pytest

pytest.importorskip("torch")

from benchmarks import fabric_default
from benchmarks.fabric_default import BUDGETS_S, GRAPHS, SEEDS, Speed, affordable, key_of, shares, tabulate
from benchmarks.fabric_unseen import FABRIC
from benchmarks.recording import Results
from dse.fabric.options import FabricOptions
from dse.run.journal import Journal
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.methods import SHIPPED
from policies.fabric.student_checkpoint import load_student
from tests.extras import needs

pytestmark = needs("sklearn")


@pytest.fixture(scope="module")
def graphs():
    return dict(fabric_default.graphs_of_families(load_student(SHIPPED, provenance_of(FABRIC, operator_slots()))))


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield journal


def measured(journal, number, budget_s, method, share):
    for seed in range(SEEDS):
        journal.append(key_of(number, budget_s, method, seed), {"share": share, "used_s": budget_s, "moves": 1})


@pytest.mark.parametrize("budget_s", BUDGETS_S)
def test_the_default_has_the_moves_that_a_budget_allows(budget_s):
    speed = Speed(move_s=2e-6, start_s=0.01, simulation_s=0.02, change_s=0.006)
    effort = affordable(speed, budget_s)
    changes = 2 + effort.chains * effort.rounds if effort.rounds else 0
    simulations = effort.chains + 1 if effort.rounds else 0
    chains_s = effort.chains * (speed.start_s + effort.moves * speed.move_s)
    used_s = chains_s + simulations * speed.simulation_s + changes * speed.change_s
    assert 0.6 * budget_s < used_s <= budget_s
    own = effort.moves if effort.chains > 1 else effort.moves // 4
    assert FabricOptions("", moves=own).effort == effort


def test_a_graph_at_the_bound_is_not_placed_with_more_time(journal):
    measured(journal, 1, 0.3, "tuned", 1.0)
    measured(journal, 2, 0.3, "tuned", 0.9)
    assert shares(journal, 1, 10.0, "tuned") == [1.0] * SEEDS
    assert shares(journal, 2, 0.3, "tuned") == [0.9] * SEEDS
    assert shares(journal, 2, 1.0, "tuned") is None
    assert shares(journal, 1, 1.0, "default") is None


def test_each_family_has_as_many_graphs_and_a_row_has_those_that_both_have_placed(journal, graphs, capsys):
    families = Counter((number - min(graphs)) // 6 for number in graphs)
    assert set(families.values()) == {GRAPHS}
    for place, number in enumerate(graphs):
        for budget_s in BUDGETS_S:
            measured(journal, number, budget_s, "tuned", 0.5)
            if budget_s < BUDGETS_S[-1] or place % 2:
                measured(journal, number, budget_s, "default", 0.6)
            if budget_s < BUDGETS_S[-1]:
                measured(journal, number, budget_s, "student", 0.6)
    results = Results(fabric_default.RECORD)
    tabulate(journal, graphs, results)
    first, *_, last = results.rows["main"]
    assert first[1:8] == [30, "0.500", "0.600", "0.600", "+20.0 % [+20.0, +20.0]", "+100.0 %", "+0.0 % [+0.0, +0.0]"]
    assert last[1:8] == [15, "0.500", "0.600", None, "+20.0 % [+20.0, +20.0]", "+100.0 %", None]
