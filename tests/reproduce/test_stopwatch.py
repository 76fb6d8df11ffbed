"""The clock changes no answer, keeps the order, and leaves nothing behind."""

import numpy as np
import pytest

from dse.codesign.context import SearchContext
from dse.codesign.evaluation import pricing
from dse.codesign.search import exhaustive
from dse.reproduce.phaze.stopwatch import PhaseSeconds, TimedExecutor, TimedWorker
from dse.run.executor import InProcessExecutor
from tests.codesign.test_exhaustive import TINY_MODEL, small


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return small(path).problem()


def test_the_search_is_the_same_with_a_clock(problem):
    machines = problem.machines()
    plain = exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {}))
    timed = TimedExecutor(InProcessExecutor(), TimedWorker())
    clocked = exhaustive.search(SearchContext(problem, machines, timed, {}))
    assert clocked.best == plain.best
    assert clocked.evaluated == plain.evaluated
    assert timed.work
    for work in timed.work:
        spent = work.seconds
        phases = (spent.estimation_s, spent.scheduling_s, spent.placement_s)
        assert all(phase > 0 for phase in phases)
        assert sum(phases) <= spent.total_s


def test_a_failed_item_leaves_no_clock_behind(problem):
    before = pricing.estimate, pricing.PricedGraph.scheduled
    timed = TimedExecutor(InProcessExecutor(), TimedWorker())
    with pytest.raises(ZeroDivisionError):
        list(timed.map(lambda item: 1 // item, [1, 0]))
    assert (pricing.estimate, pricing.PricedGraph.scheduled) == before
    assert [work.item for work in timed.work] == [1]


def test_items_are_drawn_as_answers_arrive():
    arrived = []

    def items():
        for number in range(4):
            assert len(arrived) == number
            yield number

    timed = TimedExecutor(InProcessExecutor(), TimedWorker())
    for answer in timed.map(np.negative, items()):
        arrived.append(answer)
    assert arrived == [0, -1, -2, -3]


def test_one_worker_serves_one_function_after_the_other():
    worker = TimedWorker()
    first, second = (TimedExecutor(InProcessExecutor(), worker) for _ in range(2))
    assert list(first.map(abs, [-1, -2])) == [1, 2]
    assert list(second.map(str, [-1])) == ["-1"]
    assert list(first.map(abs, [-3])) == [3]


def test_on_ray_the_clock_sees_the_workers(problem, ray_executor):
    machines = problem.machines()
    timed = TimedExecutor(ray_executor, TimedWorker())
    clocked = exhaustive.search(SearchContext(problem, machines, timed, {}))
    assert clocked.evaluated == exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {})).evaluated
    assert all(work.seconds.estimation_s > 0 for work in timed.work)


def test_shares_add_up():
    spent = PhaseSeconds(1.0, 2.0, 3.0, 8.0) + PhaseSeconds(1.0, 0.0, 1.0, 2.0)
    assert [spent.percent(phase) for phase in ("estimation", "scheduling", "placement")] == [20, 20, 40]
    assert PhaseSeconds().percent("placement") == 0
