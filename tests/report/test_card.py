"""The answer card: what it says is in the page, its bars are as long as their parts, its colours mean one thing."""

import re
from itertools import combinations

import pytest

from dse.report.card import card, plan_svg
from dse.report.palette import CATEGORIES, OPERATOR_CLASSES, PART_COLOURS
from dse.report.render import fragment
from dse.report.view import Breakdown, Card, Plan, Share, StageBox, View

TIME = Breakdown(
    "Time of a batch",
    "s",
    [Share("forward", 1e-3, "forward"), Share("recomputation", 0.0, "recomputation"), Share("bubble", 3e-3, "bubble")],
)


def widths(text):
    return [float(width) for width in re.findall(r"width:([\d.]+)%", text)]


def test_a_bar_shows_each_part_by_its_share_and_leaves_out_what_is_nothing():
    text = card(Card([("4 ms", "a batch")], breakdowns=[TIME]))
    assert widths(text) == [25.0, 75.0]
    assert "Time of a batch: 4 ms" in text
    assert "forward 1 ms (25.0 %)" in text
    assert "recomputation" not in text


def test_a_bar_with_a_limit_leaves_the_rest_free():
    memory = Breakdown("Memory", "bytes", [Share("weights", 2**30, "weights")], limit=4 * 2**30)
    text = card(Card([], breakdowns=[memory]))
    assert widths(text) == [25.0]
    assert "Memory: 1 GB of 4 GB" in text


def test_nothing_to_divide_has_no_bar():
    assert "class='bar'" not in card(Card([], breakdowns=[Breakdown("Time", "s", [Share("forward", 0.0, "forward")])]))


@pytest.mark.parametrize(("stages", "boxes"), [(1, 1), (8, 8), (9, 7), (33, 7)])
def test_a_long_pipeline_shows_its_ends_and_says_how_many_are_left_out(stages, boxes):
    plan = Plan([StageBox(2, f"layer{at}", 4) for at in range(stages)], data=3, tensor=4)
    text = plan_svg(plan)
    assert text.count("<g><title>") == boxes
    assert f"stage {stages}<" in text
    assert (f"{stages - boxes} more" in text) == (stages > boxes)
    assert f"{12 * stages:,} accelerators in total" in text


def test_names_of_the_user_are_escaped():
    plan = Plan([StageBox(1, "<layer> & 'it'", 1)])
    text = card(Card([("<b>", "a & b")], plan, [Breakdown("<t>", "", [Share("<s>", 1.0, "time")])], "<title>"))
    for raw in ("<layer>", "<title>&", "<t>", "<s>", "a & b", "<b><b>"):
        assert raw not in text


def test_a_notebook_shows_the_card_too():
    view = View("title", "verdict", cards=lambda: [Card([("42", "things")])])
    assert "<b>42</b><span>things</span>" in fragment(view)


def test_colours_are_distinct_where_they_stand_side_by_side():
    assert len(set(CATEGORIES)) == len(CATEGORIES)
    classes = [colour for _, colour in OPERATOR_CLASSES.values()]
    # All parts that one bar may show: two of them never share a colour.
    times = [
        *OPERATOR_CLASSES,
        "several",
        "waiting",
        "recomputation",
        "transfer",
        "synchronisation",
        "update",
        "bubble",
    ]
    memory = ["state", "activations", "stash"]
    for kinds in (times, ["forward", "backward", *times[6:]], memory, ["time", "distance", "adapter"]):
        assert [pair for pair in combinations(kinds, 2) if PART_COLOURS[pair[0]] == PART_COLOURS[pair[1]]] == []
    assert len(set(classes)) == len(classes)
