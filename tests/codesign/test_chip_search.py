"""The search over chips against brute force on random small spaces, for each objective."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dse.codesign.chips.boxes import BoxFigures
from dse.codesign.chips.problem import Limits
from dse.codesign.chips.search import ChipSearch
from dse.codesign.chips.sensitivity import after_changes
from dse.codesign.objective import Objective
from dse.run.executor import Executor, applied
from dse.run.journal import Journal
from hardware.chip_space import chip_space
from tests.codesign.chip_spaces import OBJECTIVES, best_of_all, random_problem, stops_at


@pytest.mark.parametrize("per", OBJECTIVES)
@pytest.mark.parametrize("seed", range(10))
def test_no_chip_of_a_random_space_is_better_than_the_answer(seed, per):
    problem = random_problem(100 * OBJECTIVES.index(per) + seed, per)
    best, _ = best_of_all(problem)
    outcome = ChipSearch(problem).run()
    assert outcome.score == outcome.bound == pytest.approx(best, rel=1e-9)
    assert bool(outcome.best) == (best > 0)


@pytest.mark.parametrize("seed", range(3))
def test_every_chip_within_a_share_of_the_best_is_listed(seed):
    problem = replace(random_problem(1000 + seed, "per-dollar"), within=0.1)
    best, near = best_of_all(problem, within=0.1)
    outcome = ChipSearch(problem).run()
    assert outcome.score == pytest.approx(best, rel=1e-9)
    assert len(outcome.near(0.1)) == near


@pytest.mark.parametrize("mean", ["geometric", "arithmetic"])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_chip_of_two_models_is_found(seed, mean):
    problem = random_problem(2000 + seed, "per-watt", models=("llama3-8b", "llama2-7b"))
    problem = replace(problem, objective=Objective("per-watt", mean, (1.0, 2.0)))
    best, _ = best_of_all(problem)
    assert ChipSearch(problem).run().score == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_no_chip_is_better_than_the_bound_of_a_search_that_is_stopped_anywhere(seed):
    problem = random_problem(3000 + seed, "throughput")
    problem = replace(problem, limits=Limits())
    best = ChipSearch(problem).run().score
    for asked in (1, 2, 3, 5, 8, 13, 21, 34):
        outcome = ChipSearch(problem, stops_at(asked)).run()
        assert outcome.bound >= best * (1 - 1e-9), asked
        if outcome.stopped is None:
            break


def test_no_memory_and_no_realisation_of_a_box_takes_less_than_the_box():
    problem, space = random_problem(4000, "per-dollar"), chip_space("chips-2026")
    memories = [each.model_copy(update={"stacks": [4, 6, 8]}) for each in space.memories]
    kept = {"memories": memories, "dies": space.dies.model_copy(update={"values": [1, 4]})}
    problem = replace(problem, space=problem.space.model_copy(update=kept), limits=Limits(power_w=1000.0))
    figures = BoxFigures(problem)
    box = next(figures.roots())
    whole = figures.corner(box)
    least, seen = np.full((2, len(figures.cores)), np.inf)
    least[whole.box.cores] = whole.divisor
    for memory in box.memories:
        for number in box.realisations:
            part = figures.corner(replace(box, memories=(memory,), realisations=(number,)))
            if part is not None:
                seen[part.box.cores] = np.minimum(seen[part.box.cores], part.divisor)
    assert np.isfinite(seen).any()
    assert np.all(least <= seen * (1 + 1e-12))


class Elsewhere(Executor):
    """Does its items as workers do that end in any order: with copies of function and items, the last one first."""

    def __init__(self):
        self.done = 0

    workers = 3

    def outcomes(self, function, items, stop=None, arrived=lambda _: None):
        there, done = pickle.loads(pickle.dumps(function)), []
        for item in reversed(list(items)):
            done.append(applied(there, pickle.loads(pickle.dumps(item))))
            arrived([(item, done[-1])])
            self.done += 1
        yield from reversed(done)


def _told(outcome):
    """What of an outcome is the same whoever does the work."""
    return outcome.score, outcome.bound, outcome.plans, outcome.counts, outcome.best


@pytest.fixture(scope="module")
def searched():
    """Problems with their outcomes in this process."""
    problems = [random_problem(3000 + seed, per) for seed, per in ((10, "throughput"), (1, "per-dollar"))]
    return [(problem, ChipSearch(problem).run()) for problem in problems]


def test_workers_that_end_in_any_order_change_nothing(searched):
    for problem, here in searched:
        there = ChipSearch(problem, executor=Elsewhere()).run()
        assert _told(there) == _told(here)
        assert there.found.keys() == here.found.keys()


def test_a_journalled_box_is_not_opened_again(searched, tmp_path):
    for number, (problem, whole) in enumerate(searched):
        path, done = tmp_path / f"{number}.jsonl", []
        for asked in (4, 9, None):
            executor = Elsewhere()
            with Journal(path) as journal:
                stop = stops_at(asked) if asked else lambda: None
                outcome = ChipSearch(problem, stop, executor=executor, journal=journal).run()
            done.append(executor.done)
        assert _told(outcome) == _told(whole)
        assert sum(done) == len(path.read_text().splitlines())
        assert done[0] > 0 < done[1]


def test_searches_of_a_changed_question_are_journalled_too(searched, tmp_path):
    (problem, whole), done = searched[0], []
    for _ in range(2):
        executor = Elsewhere()
        with Journal(tmp_path / "journal.jsonl") as journal:
            after = after_changes(problem, whole.best[0].chip, executor=executor, journal=journal)
        done.append((executor.done, after))
    assert done[0][0] > 0 == done[1][0]
    assert done[0][1] == done[1][1]


def test_a_journal_of_another_question_is_of_no_use(searched, tmp_path):
    (problem, whole), executor = searched[0], Elsewhere()
    with Journal(tmp_path / "journal.jsonl") as journal:
        ChipSearch(replace(problem, limits=Limits(usd=1.0)), journal=journal).run()
        outcome = ChipSearch(problem, executor=executor, journal=journal).run()
    assert _told(outcome) == _told(whole)
    assert journal.hits == 0 < executor.done


def test_a_search_without_time_has_a_chip_and_a_bound(searched):
    for problem, whole in searched:
        outcome = ChipSearch(problem, lambda: "time limit").run()
        assert outcome.stopped == "time limit"
        assert 0 < outcome.score <= whole.score <= outcome.bound < np.inf


@pytest.mark.parametrize("per", ["throughput", "per-kg"])
def test_limits_and_fewer_chips_are_never_better(per):
    problem = random_problem(5000 + OBJECTIVES.index(per), per)
    free = replace(problem, limits=Limits())
    best = ChipSearch(free).run().score
    assert best >= ChipSearch(problem).run().score
    axes = problem.space.units, problem.space.lanes, problem.space.clock_hz
    for name, axis in zip(("units", "lanes", "clock_hz"), axes, strict=True):
        fewer = axis.model_copy(update={"values": axis.values[:1]})
        space = problem.space.model_copy(update={name: fewer})
        assert ChipSearch(replace(free, space=space)).run().score <= best * (1 + 1e-12)
