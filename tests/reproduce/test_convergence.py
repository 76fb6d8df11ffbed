"""Every level's stop, read off one long walk, against a walk of its own."""

import pytest

from dse.codesign.context import SearchContext
from dse.codesign.search import hysteresis
from dse.codesign.search.hysteresis import DecreasingRule, NoNewBestRule
from dse.reproduce.phaze.context import Answered
from dse.reproduce.phaze.convergence import BothRules, Walk, ends
from dse.reproduce.phaze.stopwatch import TimedExecutor, TimedWorker
from dse.run.executor import InProcessExecutor
from tests.codesign.test_exhaustive import TINY_MODEL, small


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return small(path, hbm_gb="1", microbatch="1", tensor_parallel="1", cost_model="phaze-2024").problem()


@pytest.fixture(scope="module")
def walk(problem):
    machines = problem.machines()
    timed = TimedExecutor(InProcessExecutor(), TimedWorker())
    outcome = hysteresis.search(SearchContext(problem, machines, timed, {}), level=5, rule=BothRules)
    return Walk(Answered(None, outcome, machines, tuple(timed.work), 0.0))


@pytest.mark.parametrize("rule", [NoNewBestRule, DecreasingRule])
@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_a_stop_is_that_of_a_walk_at_its_level(problem, walk, rule, level):
    machines = problem.machines()
    outcome = hysteresis.search(SearchContext(problem, machines, InProcessExecutor(), {}), level=level, rule=rule)
    stop = walk.stop(rule(level))
    assert stop.architectures == len(outcome.evaluated)
    assert stop.score == max(outcome.evaluated.values())
    assert machines.area_mm2[stop.best] == machines.area_mm2[outcome.best]


@pytest.mark.parametrize("level", [1, 3])
def test_a_level_that_ends_before_the_optimum_says_at_which_area(problem, walk, level):
    machines = problem.machines()
    outcome = hysteresis.search(
        SearchContext(problem, machines, InProcessExecutor(), {}), level=level, rule=NoNewBestRule
    )
    stop = walk.stop(NoNewBestRule(level))
    assert stop.last_mm2 == min(machines.area_mm2[index] for index in outcome.evaluated)
    assert f"{stop.last_mm2:.1f} mm², before" in ends(stop.last_mm2, stop.last_mm2 - 1)
    # The walk came by the optimum: that it ended too early is no cause.
    assert ends(stop.last_mm2, stop.last_mm2) == ends(stop.last_mm2, float(machines.area_mm2[stop.best])) == ""


def test_work_grows_with_the_level(walk):
    for rule in (NoNewBestRule, DecreasingRule):
        stops = [walk.stop(rule(level)) for level in range(1, 6)]
        assert [stop.seconds for stop in stops] == sorted(stop.seconds for stop in stops)
        assert stops[0].seconds > 0
    total = sum(work.seconds.total_s for work in walk.answered.work)
    assert max(stop.seconds for stop in stops) <= total * (1 + 1e-9)


def test_a_level_beyond_the_walk_is_unknown(walk, problem):
    if len(walk.answered.outcome.evaluated) < len(problem.machines()):
        assert walk.stop(NoNewBestRule(10**6)) is None


@pytest.mark.parametrize("scores", [(5, 4, 3, 2, 1), (1, 2, 3, 4, 5), (3, 3, 3, 3), (0, 0, 5, 4, 5, 3, 2)])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_both_rules_stop_with_the_later_one(scores, level):
    both, rules = BothRules(level), [NoNewBestRule(level), DecreasingRule(level)]
    for score in scores:
        both.tell(score)
        for rule in rules:
            rule.tell(score)
        assert both.finished == all(rule.finished for rule in rules)
