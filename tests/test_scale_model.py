"""The simulation of the map: what it must keep to whatever things cost."""

import numpy as np
import pytest

from actors.windowed_map import WindowedMap
from benchmarks.scale_costs import map_over
from benchmarks.scale_model import Costs, Policy, SimulatedMap

COSTS = Costs(
    send_s=2e-4, send_item_s=1e-6, take_s=2e-4, take_item_s=1e-5, loop_s=1e-4, loop_call_s=1e-6, fill_seat_s=1e-7,
    journal_s=1e-3, journal_item_s=2e-5, latency_s=3e-4, call_s=2e-4, item_s=1e-4, link_byte_s=1e-9,
)  # fmt: skip
ONE = Policy(max_items=1)


def items(count, mean_s=0.05):
    return np.random.default_rng(count).lognormal(np.log(mean_s), 0.5, count)


@pytest.mark.parametrize("policy", [ONE, Policy()])
@pytest.mark.parametrize("workers", [1, 7, 100])
def test_no_work_is_lost_or_invented(workers, policy):
    items_s = items(20 * workers)
    model = SimulatedMap(items_s, [0.0] * workers, COSTS, policy)
    usage = model.run()
    assert usage.work_s == pytest.approx(items_s.sum())
    assert model._measured_s == pytest.approx(items_s.sum() + len(items_s) * COSTS.item_s)
    assert model._sent == model._done == len(items_s)
    assert usage.efficiency(workers) < 1
    assert usage.dispatch_s + usage.journal_s <= usage.wall_s
    assert usage.writes <= usage.calls <= len(items_s)


def test_without_costs_one_worker_takes_the_sum_and_more_take_less_than_a_longest_item_above_their_share():
    items_s = items(200)
    assert SimulatedMap(items_s, [0.0], Costs(), ONE).run().wall_s == pytest.approx(items_s.sum())
    # The bound of list scheduling, which has a queue for all; a call that waits at a worker may add its own time.
    wall_s = SimulatedMap(items_s, [0.0] * 4, Costs(), ONE).run().wall_s
    assert items_s.sum() / 4 <= wall_s <= items_s.sum() / 4 + 2 * items_s.max()


def test_one_worker_takes_its_items_and_what_is_around_them_and_hides_the_driver():
    items_s = items(100)
    around_s = len(items_s) * (COSTS.call_s + COSTS.item_s)
    # Outside the items: the start taken in, the first call on its way, and the last answer taken and written.
    start_s = COSTS.loop_s + COSTS.loop_call_s + COSTS.take_s + 2 * COSTS.fill_seat_s
    first_s = COSTS.send_s + COSTS.send_item_s + COSTS.latency_s
    last_s = COSTS.latency_s + COSTS.take_s + COSTS.take_item_s + COSTS.journal_s + COSTS.journal_item_s
    modelled_s = SimulatedMap(items_s, [0.0], COSTS, ONE).run().wall_s
    expected_s = items_s.sum() + around_s + start_s + first_s + last_s
    assert modelled_s == pytest.approx(expected_s, abs=2 * COSTS.loop_s)
    assert modelled_s > items_s.sum() + around_s


def test_a_window_of_one_waits_for_the_driver_between_two_items():
    items_s = items(100)
    two, one = (SimulatedMap(items_s, [0.0], COSTS, Policy(window=w, max_items=1)).run().wall_s for w in (2, 1))
    turn_s = 2 * COSTS.latency_s + COSTS.loop_s + COSTS.take_s + COSTS.journal_s + COSTS.send_s
    assert one - two == pytest.approx(99 * turn_s, rel=0.15)


@pytest.mark.parametrize("workers", [50, 400])
def test_a_full_driver_finishes_calls_at_the_rate_of_its_dispatch(workers):
    costs = Costs(send_s=3e-4, take_s=2e-4, take_item_s=1e-4)
    count = 100 * workers
    usage = SimulatedMap(items(count, 0.01), [0.0] * workers, costs, ONE).run()
    busy_s = count * (costs.send_s + costs.take_s + costs.take_item_s) + workers * costs.take_s
    assert busy_s * (1 - 1e-9) <= usage.wall_s <= 1.01 * busy_s
    assert usage.shares()["driver dispatch"] > 0.99


def test_batching_removes_the_bottleneck_of_the_driver():
    workers, items_s = 400, items(400 * 400, 0.05)
    one, many = (SimulatedMap(items_s, [0.0] * workers, COSTS, policy).run() for policy in (ONE, Policy()))
    assert one.efficiency(workers) < 0.4 < 0.8 < many.efficiency(workers)
    assert max(one.shares(), key=one.shares().get) == "driver dispatch"


def test_answers_that_fill_the_link_are_told_from_the_driver_and_the_journal():
    usage = SimulatedMap(items(2000), [0.0] * 50, COSTS, ONE, answer_bytes=5_000_000).run()
    assert usage.shares()["object store"] > 0.95
    assert usage.wall_s == pytest.approx(2000 * 5_000_000 * COSTS.link_byte_s, rel=0.05)
    slow_disk = Costs(journal_s=0.01)
    usage = SimulatedMap(items(2000, 0.001), [0.0], slow_disk, ONE).run()
    assert max(usage.shares(), key=usage.shares().get) == "journal"


def test_a_worker_that_starts_late_takes_part_from_then_on():
    items_s = np.full(300, 0.1)
    both, late, alone = (
        SimulatedMap(items_s, starts_s, COSTS, ONE).run().wall_s for starts_s in ([0, 0], [0, 10], [0])
    )
    assert both < late < alone
    # The other does alone what both would have done in the 10 s.
    assert late == pytest.approx(both + 5, rel=0.02)


def test_calls_that_at_most_double_are_not_misled_by_the_first_items_being_the_shortest():
    workers, items_s = 1000, items(12_000, 0.5)
    wild, tame = (
        SimulatedMap(items_s, [0.0] * workers, COSTS, Policy(dispatch_s=0.001, driver_share=0.25, growth=growth)).run()
        for growth in (float("inf"), 2.0)
    )
    assert wild.wall_s > 1.3 * tame.wall_s


@pytest.mark.parametrize(("last", "left", "max_items"), [(0, 100, 2.0), (8, 10_000, 16.0), (8, 100, 2.5), (8, 3, 1.0)])
def test_a_call_has_no_more_items_than_its_policy_allows(last, left, max_items):
    assert Policy(growth=2.0, parts=4).max_call_items(workers=10, last=last, left=left) == max_items
    assert Policy().max_call_items(workers=10, last=last, left=left) == float("inf")


@pytest.mark.parametrize("workers", [1, 10, 8000])
def test_calls_are_sized_as_the_map_sizes_them(workers):
    real = map_over([], None)
    assert isinstance(real, WindowedMap)
    real._workers = workers
    for done, work_s in ((0, 0.0), (1, 0.0), (7, 1e-3), (100, 100.0), (1000, 3.0), (3, 1e5)):
        real._done, real._work_s = done, work_s
        assert Policy().items_of_a_call(workers, done, work_s) == real._items_of_a_call()
