"""Tuning of rules: budgets, proposals, journals, and that it gets better."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dse.fabric.rules import MIXTURE, RULES, RuleWeights
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.setting import Setting, read_tuned
from dse.fabric.tuning import judge
from dse.fabric.tuning.judge import Judge
from dse.fabric.tuning.options import TuningOptions
from dse.fabric.tuning.plan import TuningPlan
from dse.fabric.tuning.study import SPACE, SettingStudy
from dse.fabric.tuning.tuning import Tuning, tune
from dse.run.journal import Journal
from dse.run.progress import StoppedError
from hardware.inputs import InputError

PLAN = TuningPlan(
    "plasticine-8x16", simulations=100, graphs=4, graphs_per_trial=2, finalists=3, moves_per_unit=20, seed=5
)


def pretended(task):
    """Shares of the bound that are best where `route` weighs about 1 and chains begin cold; graphs are unlike hard."""
    setting = task.setting
    distance = math.log10(setting.weights.route) ** 2 + math.log10(setting.initial_temperature / 0.01) ** 2
    return [0.9 - 0.1 * graph - 0.05 * distance for graph in task.graphs]


def ended(tuning, tasks=math.inf):
    """Judge so many tasks, as if one after the other."""
    done = []
    while len(done) < tasks and (task := tuning.ask()) is not None:
        tuning.tell(task, pretended(task))
        done.append(task)
    return done


def test_all_stages_together_cost_no_more_than_the_budget(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        tuning = Tuning(PLAN, journal)
        tasks = ended(tuning)
    simulations = sum(len(task.graphs) for task in tasks)
    assert tuning.simulations == (simulations, simulations)
    assert PLAN.simulations - PLAN.graphs_per_trial < simulations <= PLAN.simulations
    assert Counter(task.stage for task in tasks) == {"mixture": 1, "trial": PLAN.trials, "final": PLAN.finalists}
    judged = Counter(graph for task in tasks if task.stage == "trial" for graph in task.graphs)
    assert max(judged.values()) - min(judged.values()) <= 1
    seeds = [PLAN.chain_seed(task, graph) for task in tasks for graph in task.graphs]
    assert len(set(seeds)) == len(seeds)


def test_what_is_tuned_is_better_than_where_it_began(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        tuning = Tuning(PLAN, journal)
        tasks = ended(tuning)
    assert pretended(tasks[1])[0] == pytest.approx(pretended(tasks[0])[0], abs=0.05)
    tuned = tuning.result()
    assert tuned.share_of_bound > tuned.mixture_share_of_bound + 0.1
    best = tuned.setting.setting()
    finals = [task for task in tasks if task.stage == "final"]
    assert best in [task.setting for task in finals]
    assert tuned.share_of_bound == pytest.approx(max(np.mean(pretended(task)) for task in finals))


def test_the_untuned_setting_wins_where_the_luck_of_the_others_does_not_last(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        tuning = Tuning(PLAN, journal)
        while (task := tuning.ask()) is not None:
            is_lucky = task.stage == "trial" and task.number > 0
            is_untuned = task.stage == "mixture" or task.number == 0
            tuning.tell(task, [0.9 if is_lucky else 0.8 if is_untuned else 0.7 for _ in task.graphs])
    tuned = tuning.result()
    assert tuned.setting.setting().weights.wirelength == MIXTURE.wirelength
    assert tuned.share_of_bound == pytest.approx(0.8)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The tasks of a run that was not interrupted, and its result."""
    with Journal(tmp_path_factory.mktemp("whole") / "journal") as journal:
        tuning = Tuning(PLAN, journal)
        return ended(tuning), tuning.result()


@pytest.mark.parametrize("tasks", [0, 1, 7, 40, 47])
def test_a_run_that_was_interrupted_goes_on_as_if_it_had_not_been(undisturbed, tmp_path, tasks):
    whole, result = undisturbed
    with Journal(tmp_path / "parts") as journal:
        first = ended(Tuning(PLAN, journal), tasks)
    with Journal(tmp_path / "parts") as journal:
        tuning = Tuning(PLAN, journal)
        rest = ended(tuning)
        assert [*first, *rest] == whole
        assert tuning.result() == result
    with Journal(tmp_path / "parts") as journal:
        again = Tuning(PLAN, journal)
        assert again.ask() is None
        assert again.result() == result


def test_tasks_under_way_at_the_same_time_are_told_in_any_order_and_lost_ones_are_judged_again(tmp_path):
    random = np.random.default_rng(0)
    with Journal(tmp_path / "journal") as journal:
        tuning, under_way, told = Tuning(PLAN, journal, parallel=3), [], Counter()
        while not tuning.is_finished:
            while (task := tuning.ask()) is not None:
                under_way.append(task)
            assert 1 <= len(under_way) <= 3
            task = under_way.pop(int(random.integers(len(under_way))))
            if random.random() < 0.2:
                tuning.ask_again(task)
            else:
                tuning.tell(task, pretended(task))
                told[task.key] += 1
    assert set(told.values()) == {1}
    assert len(told) == 1 + PLAN.trials + PLAN.finalists
    assert tuning.result().share_of_bound > tuning.result().mixture_share_of_bound


def test_a_journal_of_another_plan_counts_for_nothing(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        ended(Tuning(PLAN, journal))
        other = TuningPlan("plasticine-8x16", simulations=100, graphs=4, graphs_per_trial=2, finalists=3, seed=6)
        assert Tuning(other, journal).simulations[0] == 0


def test_a_damaged_entry_is_named_by_its_line(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        ended(Tuning(PLAN, journal), 1)
        key = next(iter(journal))
        journal.append(key.replace("mixture", "trial"), {"setting": {}, "shares": []})
        with pytest.raises(InputError, match="line 2"):
            Tuning(PLAN, journal)


def test_settings_are_proposed_within_the_space_and_by_the_seed():
    one, same, other = SettingStudy(1), SettingStudy(1), SettingStudy(2)
    for number in range(15):
        setting = one.ask(number)
        assert setting == same.ask(number)
        assert number == 0 or setting != other.ask(number)
        parameters = {name: getattr(setting.weights, name) for name in RULES}
        parameters |= {name: getattr(setting, name) for name in SPACE if name not in RULES}
        assert all(SPACE[name].low <= value <= SPACE[name].high for name, value in parameters.items())
        for study in (one, same):
            study.tell(number, float(number))


def test_a_tiny_run_with_the_simulator(tmp_path):
    plan = TuningPlan("plasticine-8x16", simulations=7, graphs=1, graphs_per_trial=1, finalists=2, moves_per_unit=5)
    with Journal(tmp_path / "journal") as journal:
        tuned = tune(Tuning(plan, journal))
    assert 0 < tuned.share_of_bound <= 1.05
    finals = [plan.final_task(number, tuned.setting.setting()) for number in range(plan.trials)]
    assert tuned.share_of_bound in [Judge(plan)(final)[0] for final in finals]
    with Journal(tmp_path / "other") as journal, pytest.raises(StoppedError, match="enough"):
        tune(Tuning(plan, journal), stop=lambda: "enough")


def test_a_stop_ends_a_task_between_its_graphs_and_amid_a_chain(tmp_path, monkeypatch):
    judged, plain = [], judge.throughput

    def counted(*arguments):
        judged.append(None)
        return plain(*arguments)

    monkeypatch.setattr(judge, "throughput", counted)
    with Journal(tmp_path / "journal") as journal:
        with pytest.raises(StoppedError, match="enough"):
            tune(Tuning(PLAN, journal), stop=lambda: "enough" if judged else None)
        assert (len(judged), len(journal)) == (1, 0)
        # Asked before the task, before the graph, and then during its chain.
        asked = iter([None, None, "enough", "enough"])
        with pytest.raises(StoppedError, match="enough"):
            tune(Tuning(replace(PLAN, moves_per_unit=10**6), journal), stop=lambda: next(asked, "enough"))
        assert (len(judged), len(journal)) == (1, 0)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"simulations": 10}, "`simulations` must be at least 704"),
        ({"graphs": 8}, "`graphs_per_trial <= graphs` must hold, but got 16 and 8"),
        ({"fabric": "plasticine"}, "plasticine-8x16"),
        ({"slots": "no"}, "slots"),
    ],
)
def test_bad_options_are_refused(given, rule):
    with pytest.raises(InputError, match=rule):
        TuningOptions(**given).plan(0)


WRITTEN = {
    "schema": "dse.fabric-rules/1",
    "fabric": "plasticine-8x16",
    "simulator": "sha256:" + "0" * 64,
    "first_graph": 0,
    "graphs": 4,
    "moves_per_unit": 20,
    "simulations": 100,
    "seed": 5,
    "share_of_bound": 0.9,
    "mixture_share_of_bound": 0.8,
    "setting": {
        "weights": {"route": 1.0, "wirelength": 0.5},
        "initial_temperature": 0.1,
        "final_temperature": 0.01,
        "final_reach": 0.1,
        "attraction": 0.5,
    },
}


def test_a_tuned_setting_is_read(tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps(WRITTEN))
    setting = read_tuned(tmp_path / "tuned.json").setting.setting()
    assert setting == Setting(RuleWeights(wirelength=0.5, route=1.0), 0.1, 0.01, 0.1, 0.5)
    settings = setting.schedule(AnnealSettings(7, routing="xy"))
    assert (settings.moves, settings.routing) == (7, "xy")
    assert (settings.initial_temperature, settings.final_temperature) == (0.1, 0.01)
    assert (settings.final_reach, settings.attraction) == (0.1, 0.5)


@pytest.mark.parametrize(
    ("place", "value", "key"),
    [
        (("schema",), "dse.fabric-rules/2", "schema"),
        (("simulator",), "sha256:0", "simulator"),
        (("extra",), 1, "extra"),
        (("setting", "weights", "speed"), 1.0, "setting.weights"),
        (("setting", "weights", "route"), -1.0, "setting.weights.route"),
        (("setting", "weights"), {"route": 0.0}, "setting.weights"),
        (("setting", "final_reach"), 0.0, "setting.final_reach"),
        (("setting", "attraction"), 2.0, "setting.attraction"),
        (("setting", "final_temperature"), "cold", "setting.final_temperature"),
    ],
)
def test_broken_files_are_refused_with_their_key(tmp_path, place, value, key):
    document = json.loads(json.dumps(WRITTEN))
    inner = document
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    (tmp_path / "tuned.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as raised:
        read_tuned(tmp_path / "tuned.json")
    assert f"tuned.json: {key}" in str(raised.value)
