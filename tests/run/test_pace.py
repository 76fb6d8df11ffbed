"""Remaining time is told only where there is ground for it, and never falls short of the recent pace."""

import pytest

from dse.run.pace import MIN_ITEMS, Pace, duration_text


def paced(moments, total):
    pace = Pace(0.0)
    for second, done in moments:
        pace.update(second, done, total)
    return pace


def test_even_work_is_estimated_by_its_pace():
    pace = paced([(second, second) for second in range(11)], 100)
    assert pace.left_s(10.0) == 90
    assert pace.rate(10.0) == "1/s"


def test_there_is_no_estimate_from_too_few_items_or_at_the_end():
    assert paced([(1.0, MIN_ITEMS - 1)], 100).left_s(1.0) is None
    assert paced([(1.0, 100)], 100).left_s(1.0) is None
    assert Pace(0.0).rate(5.0) == ""


def test_there_is_no_estimate_where_the_total_grows():
    pace = paced([(second, second) for second in range(1, 6)], 10)
    pace.update(6.0, 6, 20)
    assert pace.left_s(6.0) is None
    pace.update(7.0, 7, 20)
    assert pace.left_s(7.0) is None


def test_the_slow_end_counts_and_so_does_waiting():
    quick = [(second / 100, second) for second in range(1, 91)]
    slowing = [*quick, *((1 + 5 * number, 90 + number) for number in range(1, 5))]
    pace = paced(slowing, 100)
    assert pace.left_s(21.0) >= 6 * 1.0
    assert pace.left_s(921.0) >= 6 * 900


@pytest.mark.parametrize(("now_s", "rate", "left_s"), [(22.0, "1.4 s each", 11), (44.0, "2.8 s each", 22)])
def test_the_rate_and_the_remaining_time_agree_for_items_that_finish_together(now_s, rate, left_s):
    pace = paced([(11.0, 8), (22.0, 16)], 24)
    assert (pace.rate(now_s), pace.left_s(now_s)) == (rate, left_s)


def test_items_that_are_finished_when_the_phase_begins_say_nothing_of_its_pace():
    pace = paced([(0.0, 4096)], 59_748)
    assert (pace.rate(0.0), pace.left_s(0.0)) == ("", None)
    assert (pace.rate(5.0), pace.left_s(5.0)) == ("", None)
    pace.update(8.0, 8192, 59_748)
    assert (pace.rate(8.0), pace.left_s(8.0)) == ("512/s", (59_748 - 8192) / 512)


def test_durations_have_units_of_their_size():
    assert [duration_text(each) for each in (0.2, 40, 200, 9000)] == ["1 s", "40 s", "3 min", "2.5 h"]
