"""Sweeps over wafers and weights: axes, what points know of each other, fronts by definition, journal, command line."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from dse.problem import pose, problem_type
from dse.run.executor import Failed, InProcessExecutor
from dse.run.journal import Journal
from dse.run.tables import Tables
from dse.testing.conformance import Shared, comparable
from dse.wafer import answer as wafer_answer
from dse.wafer.check import cost, violations
from dse.wafer.documents import placement_from_document
from dse.wafer.files.paint import placement_of, read_paint
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.problem import Cost
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.sweep.axes import axes_of, posed, rounds_of, settings_of
from dse.wafer.sweep.front import Point, PointRun, certain, front, settled, turned
from dse.wafer.sweep.report import chart, rows
from hardware.inputs import InputError
from tests.run.journals import alter
from tests.solving import answer, faults
from tests.wafer.small import chain, conv_line, graph_text, groups_of

MOVES = 500
LABELS = [f"conv[{number}]" for number in (1, 2, 3)]


@pytest.fixture
def path(tmp_path):
    nodes = [conv_line(number, inputs=8, outputs=8) for number in (1, 2, 3)]
    found = tmp_path / "case.kgraph"
    found.write_text(graph_text(nodes, list(pairwise(LABELS)), adapter=2))
    return found


def values_of(text, problem=None):
    (axis,) = axes_of([text], problem or chain(2, adapter=4))
    return axis.values


def test_axes_are_lists_ranges_and_what_is_around_the_header():
    assert values_of("width=5,7,6") == (5, 7, 6)
    assert values_of("height=4:9:2") == (4, 6, 8)
    assert values_of("wlength=0.1:0.3:0.1") == (0.1, 0.2, 0.3)
    assert values_of("width=5,5") == (5,)
    assert values_of("width", chain(2, width=100)) == (50, 71, 100, 141, 200)
    assert values_of("wadapter") == (2, 2.828, 4, 5.657, 8)
    problem = chain(2, width=100, height=25)
    assert values_of("side", problem)[2] == 50
    axes = axes_of(["width=5,7,memlimit, height=1:2:1", "wlength=3"], problem)
    assert [axis.key for axis in axes] == ["width", "memlimit", "height", "wlength"]
    assert len(settings_of(axes)) == 2 * 5 * 2
    there = posed(problem, (("side", 30), ("memlimit", 99), ("wdeltat", 2.5)))
    assert (there.wafer.width_tiles, there.wafer.height_tiles, there.wafer.memory_words) == (30, 30, 99)
    assert there.weights == replace(problem.weights, time=2.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("widht=5", "did you mean width"),
        ("width=", "must be KEY"),
        ("width=a", "must be KEY"),
        ("width=5:9", "must be KEY"),
        ("width=9:5:1", "must be KEY"),
        ("width=5:9:0", "must be KEY"),
        ("width=nan", "must be KEY"),
        ("width=1_0", "must be KEY"),
        ("width=٣", "must be KEY"),
        ("width=1e400", "must be KEY"),
        ("width=5.5", "whole number"),
        ("width=0", "whole number"),
        ("width=-3", "whole number"),
        ("memlimit=1e300", "whole number"),
        ("wadapter=-1", "from 0 to"),
        ("wadapter", "because it is 0 in the header"),
        ("width=1:100000:1", "at most 2,000 points"),
        ("width=1:200:1,height=1:200:1", "at most 2,000 points"),
        ("width,width=5", "must be swept once"),
        ("side,width=5", "must be swept once"),
        ("wdeltat=0,wlength=0", "must be above 0"),
    ],
)
def test_bad_axes_are_one_line(dse, path, tmp_path, text, words):
    path.write_text(path.read_text().replace("wadapter=2", "wadapter=0"))
    shown = dse("wafer", path, "--sweep", text, "--workers", 0, "--out", tmp_path / "run")
    assert shown.code == 2
    assert words in shown.err
    assert all("--sweep" in line for line in shown.error_lines)
    assert "Traceback" not in shown.err
    assert not (tmp_path / "run").exists()


def point(tiles, memory, value, bound, weight=1.0, infeasible=False):
    problem = chain(2, width=tiles, height=1, memory=memory, distance=weight)
    reached = None if value is None else Cost(value, 0, 0, value)
    proof = {"explanation": "no"} if infeasible else None
    return Point((), problem, None, reached, bound, proof, None, None)


def truths(points):
    """All least costs that bounds and costs leave open, at a grid of values; those of the infeasible are infinite."""
    options = []
    for each in points:
        low = 0 if each.bound is None else each.bound
        high = 9 if each.cost is None else each.cost.total
        options.append([np.inf] if each.infeasibility else [v / 2 for v in range(int(2 * low), int(2 * high) + 1)])
    return product(*options)


def on_front(points, costs):
    """By definition, with these least costs."""

    def dominates(b, a):
        sizes = [(points[i].problem.wafer.tiles, points[i].problem.wafer.memory_words) for i in (b, a)]
        no_worse = costs[b] <= costs[a] and sizes[0][0] <= sizes[1][0] and sizes[0][1] <= sizes[1][1]
        return no_worse and (costs[b], *sizes[0]) != (costs[a], *sizes[1])

    same = [[a.problem.weights == b.problem.weights for b in points] for a in points]
    count = range(len(points))
    return [np.isfinite(costs[a]) and not any(dominates(b, a) for b in count if b != a and same[a][b]) for a in count]


def test_fronts_and_certainty_by_definition():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(150):
        points = []
        for _ in range(3):
            value = int(rng.integers(1, 5))
            bound = int(rng.integers(max(0, value - 2), value + 1))
            kind = rng.random()
            size = 30 + int(rng.integers(2)), 50 + int(rng.integers(2))
            weight = float(rng.choice([1, 1, 1, 2]))
            if kind < 0.1:
                points.append(point(*size, None, None, weight, infeasible=True))
            elif kind < 0.2:
                points.append(point(*size, None, bound, weight))
            else:
                points.append(point(*size, value, None if kind < 0.3 else bound, weight))
        found = front(points)
        assert found == on_front(points, [np.inf if each.cost is None else each.cost.total for each in points])
        worlds = [on_front(points, costs) for costs in truths(points)]
        for place, (on, sure) in enumerate(zip(found, certain(points, found), strict=True)):
            always = all(world[place] is on or bool(world[place]) is on for world in worlds)
            # What is said to be sure is; nearly all that is sure is said to be: bounds are looked at one by one.
            assert always or not sure
            seen.add((on, sure, always))
    assert {(True, True, True), (False, True, True), (True, False, False), (False, False, False)} <= seen


def test_a_placement_counts_wherever_it_fits():
    narrow, wide, tall = chain(3, width=9, height=20), chain(3, width=30, height=20), chain(3, width=20, height=9)
    placed = search(SearchContext(narrow, InProcessExecutor(), moves=MOVES))
    heavy = replace(wide, weights=replace(wide.weights, distance=7.0))
    small = replace(narrow, wafer=replace(narrow.wafer, width_tiles=8))
    less = replace(narrow, wafer=replace(narrow.wafer, memory_words=5))
    own = PointRun(("a",), narrow, placed.placement, bound=3.0)
    others = [PointRun((str(n),), each) for n, each in enumerate((wide, tall, heavy, small, less))]
    first, *rest = settled([own, *others])
    assert [each.found_at for each in rest] == [("a",), ("a",), ("a",), None, None]
    for each in rest[:3]:
        assert violations(each.problem, each.placement) == []
        assert each.cost == cost(each.problem, each.placement)
    assert rest[0].cost == rest[1].cost == first.cost
    assert rest[2].cost.total == first.cost.time + 7 * first.cost.distance
    # Bounds go the other way: to wafers inside, with no more memory and no smaller weights.
    assert [each.bound for each in rest] == [None, 3.0, None, 3.0, 3.0]
    bounded = settled([PointRun(("b",), wide, bound=5.0), PointRun(("c",), heavy), PointRun(("d",), narrow)])
    assert [each.bound for each in bounded] == [5.0, 5.0, 5.0]
    assert turned(turned(placed.placement)) == placed.placement


def options_for(path, *texts):
    return WaferOptions(str(path), moves=MOVES, sweep=texts)


@pytest.mark.parametrize(("given", "moves"), [({}, 1_000_000), ({"moves": 7}, 7)])
def test_a_sweep_from_python_has_the_default_of_moves_of_the_command_line(path, monkeypatch, given, moves):
    contexts = []

    def recorded(context):
        contexts.append(context)
        return METHODS["rows"](context)

    monkeypatch.setattr(wafer_answer, "METHODS", {"portfolio": recorded})
    result = answer(WaferOptions(str(path), sweep=("side=20,30",), **given))
    assert {each.moves for each in contexts} == {moves}
    assert result.settings["moves"] == moves
    assert WaferOptions(str(path)).document()["moves"] == 8_000_000


def test_every_point_is_what_it_says(path, tmp_path):
    options = options_for(path, "side=4,9,12,20", "memlimit=20,24576")
    result = answer(options)
    points = result.solution["points"]
    assert list(points) == [f"side-{side}-memlimit-{memory}" for side in (4, 9, 12, 20) for memory in (20, 24576)]
    problem = options.problem()
    for name, each in points.items():
        side, memory = (int(part) for part in name.split("-")[1::2])
        assert (each["width"], each["height"], each["memlimit"], each["tiles"]) == (side, side, memory, side * side)
        if each["kernels"] is None:
            assert each["status"] == "infeasible"
            assert each["infeasibility"]["explanation"]
            assert each["bound"] is None
            continue
        there = posed(problem, (("side", side), ("memlimit", memory)))
        placement = placement_from_document(there, {"kernels": each["kernels"]}, name)
        assert violations(there, placement) == []
        assert cost(there, placement).total == each["cost"] >= each["bound"]
    assert points["side-4-memlimit-24576"]["status"] == "infeasible"
    feasible = [each for each in points.values() if each["cost"] is not None]
    assert len(feasible) >= 4
    assert result.objective.value == min(each["cost"] for each in feasible)
    assert result.bound == min(each["bound"] for each in feasible)
    assert result.metrics["infeasible"] == len(points) - len(feasible)
    for one, other in product(feasible, repeat=2):
        if one["width"] <= other["width"] and one["memlimit"] <= other["memlimit"]:
            assert one["cost"] >= other["cost"]
    assert faults(result) == []


def test_rounds_go_from_the_ends_inwards_and_have_every_point_once():
    problem = chain(2)
    names = [[setting[0][1] for setting in each] for each in rounds_of(axes_of(["width=1:9:1"], problem))]
    assert names == [[1, 9], [5], [3, 7], [2, 4, 6, 8]]
    axes = axes_of(["width=1:5:1", "height=7", "memlimit=1:3:1"], problem)
    rounds = rounds_of(axes)
    assert sorted(point for each in rounds for point in each) == sorted(settings_of(axes))
    assert {(width, memory) for (_, width), _, (_, memory) in rounds[0]} == {(1, 1), (1, 3), (5, 1), (5, 3)}


def test_what_is_proven_by_others_is_not_run(tmp_path):
    path = tmp_path / "one.kgraph"
    path.write_text(graph_text([conv_line(1)], []))
    options = options_for(path, "memlimit=1000:1100:20")
    with Journal(tmp_path / "journal.jsonl") as journal:
        result = answer(options, journal=journal)
        assert len(journal) == 2
    points = result.solution["points"]
    assert len(points) == 6
    for name, each in points.items():
        there = posed(options.problem(), (("memlimit", int(name.split("-")[1])),))
        assert each["status"] == "optimal"
        assert each["reason"] is None
        assert each["cost"] == search(SearchContext(there, InProcessExecutor(), moves=MOVES)).total
    assert [name for name, each in points.items() if each["front"]] == ["memlimit-1000"]
    assert result.metrics["unfinished"] == []
    assert faults(result) == []


def test_turned_wafers_share_a_run(path, tmp_path):
    options = options_for(path, "width=1,9,20", "height=9,20")
    with Journal(tmp_path / "journal.jsonl") as journal:
        result = answer(options, journal=journal)
        assert len(journal) == 5
        assert comparable(answer(options, journal=journal)) == comparable(result)
    points = result.solution["points"]
    lying, standing = points["width-20-height-9"], points["width-9-height-20"]
    assert (lying["cost"], lying["bound"]) == (standing["cost"], standing["bound"])
    assert lying["found_at"] == standing["found_at"]
    assert points["width-1-height-9"]["status"] == "infeasible"
    assert faults(result) == []


def refusals(result):
    try:
        return faults(result)
    except InputError as error:
        return str(error).splitlines()


def changed(result, name, **entries):
    points = result.solution["points"]
    return result.model_copy(update={"solution": {"points": {**points, name: {**points[name], **entries}}}})


def test_a_changed_result_is_refused(path, tmp_path):
    result = answer(options_for(path, "side=4,9,20"))
    assert faults(result) == []
    name = "side-20"
    there = result.solution["points"][name]
    moved = {**there["kernels"], "k1": {**there["kernels"]["k1"], "x": 19}}
    fronts = {True: False, False: True}
    for altered, words in (
        (changed(result, name, kernels=moved), "k1"),
        (changed(result, name, cost=there["cost"] - 1), "cost"),
        (changed(result, name, distance=there["distance"] - 1), "distance"),
        (changed(result, name, width=21), "width"),
        (changed(result, name, tiles=1), "tiles"),
        (changed(result, name, bound=there["cost"] + 1), "bound"),
        (changed(result, name, status="infeasible"), "status"),
        (changed(result, name, front=fronts[there["front"]]), "front"),
        (changed(result, name, certain=fronts[there["certain"]]), "certain"),
        (changed(result, name, more=1), "side-20.more: unknown key"),
        (changed(result, name, reason=""), "side-20.reason"),
        (changed(result, name, bound=-1.0), "side-20.bound"),
        (changed(result, "side-4", cost=1.0), "without a placement"),
        (changed(result, "side-4", bound=1.0), "without a placement"),
        (changed(result, "side-4", infeasibility=None), "infeasibility"),
        (result.model_copy(update={"solution": {"points": {name: there}}}), "solution.points must be"),
        (result.model_copy(update={"bound": result.bound - 1}), "bound"),
        (result.model_copy(update={"metrics": {**result.metrics, "front": []}}), "metrics.front"),
        (result.model_copy(update={"metrics": {**result.metrics, "more": 1}}), "more: unknown key"),
    ):
        found = refusals(altered)
        assert any(words in each for each in found), (words, found)


def test_bounds_are_proven_again_where_they_are_few_or_that_is_asked(path, monkeypatch):
    options = options_for(path, "side=4,9,20")
    result, kind = answer(options), problem_type("wafer")
    posed_sweep = pose(kind, options)
    assert (kind.faults(result, posed_sweep), kind.open_claims(result, posed_sweep)) == ([], {})
    monkeypatch.setattr("dse.wafer.sweep.check.cost_bound", lambda _problem, best: 0.9 * best.total)
    for found in (kind.faults(result, posed_sweep), kind.proof_faults(result, posed_sweep)):
        assert [each.split(" must be at most ")[0] for each in found] == [
            "solution.points.side-9.bound", "solution.points.side-20.bound",
        ]  # fmt: skip
    monkeypatch.setattr("dse.wafer.sweep.check._AFFORDABLE_KERNELS", 0)
    assert kind.faults(result, posed_sweep) == []
    assert {*kind.open_claims(result, posed_sweep)} == {"bound", "metrics", "solution.points"}


def shown(options):
    kind = problem_type("wafer")
    return kind.view(answer(options), pose(kind, options), Tables())


def test_the_card_of_a_sweep_has_its_cheapest_point_and_its_front(path):
    options = options_for(path, "side=4,9,20")
    result = answer(options)
    (card,) = shown(options).cards()
    figures = dict(card.figures[:2])
    best = result.solution["points"]["side-20"]
    assert best["cost"] == result.objective.value
    assert figures == {
        f"{best['cost']:,.10g}": f"lowest total cost, at side-20 ({best['status']})",
        "81 tiles": "smallest wafer with a placement, side-9",
    }
    assert (
        f"{len(result.metrics['front'])} of 3",
        "points on the Pareto front of cost, tiles and memory",
    ) in card.figures
    assert ("1", "points proven infeasible") in card.figures
    (breakdown,) = card.breakdowns
    assert breakdown.total == pytest.approx(best["cost"])
    assert [share.amount for share in breakdown.shares] == [best["time"], best["distance"], 2 * best["adapter"]]


@pytest.mark.parametrize(("bound", "standing"), [(1.0, "front, proven"), (0.935, "front")])
def test_a_point_of_the_front_is_proven_only_without_a_gap(path, bound, standing):
    options = options_for(path, "side=9")
    result = answer(options)
    ((name, point),) = result.solution["points"].items()
    assert (point["front"], point["certain"]) == (True, True)
    changed = {"points": {name: point | {"bound": bound * point["cost"]}}}
    (row,) = rows(options.problem(), options, result.model_copy(update={"solution": changed}))
    assert row[-1].split(";")[0] == standing


@pytest.mark.parametrize(("ratio", "scale"), [(1.1, "linear"), (50.0, "log")])
def test_costs_are_on_a_logarithmic_axis_only_where_they_span_a_decade(path, ratio, scale):
    result = answer(options_for(path, "side=9,20"))
    first, second = result.solution["points"].items()
    points = dict([first, (second[0], second[1] | {"cost": first[1]["cost"] * ratio})])
    assert chart(result.model_copy(update={"solution": {"points": points}})).y.logarithmic is (scale == "log")


def test_the_card_of_an_infeasible_answer_says_what_is_missing(path):
    for options in (options_for(path, "side=2,3"), WaferOptions(str(path), width=3, height=3)):
        (card,) = shown(options).cards()
        assert card.title == "Proven infeasible"
        assert card.figures == [
            ("18 tiles", "required"),
            ("9 tiles", "available"),
            ("at least 9 more tiles", "could make it fit"),
            ("more memory per tile", "could make it fit"),
        ]


def test_an_interrupted_sweep_goes_on(path, tmp_path):
    options = options_for(path, "side=6,9,12,20")
    whole = answer(options)
    with Journal(tmp_path / "journal.jsonl") as journal:
        asked = []

        def stop():
            asked.append(len(journal))
            return "interrupted" if len(journal) >= 2 else None

        first = answer(options, stop=stop, journal=journal)
        assert first.status == "interrupted"
        # The ends of the row come first, and what fits the smallest wafer fits the others.
        assert first.metrics["unfinished"] == ["side-9", "side-12"]
        assert first.solution["points"]["side-12"]["cost"] == first.solution["points"]["side-6"]["cost"]
        assert faults(first) == []
        kept = dict(journal)
        again = answer(options, journal=journal)
        assert comparable(again) == comparable(whole)
        assert {key: journal[key] for key in kept} == kept
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert comparable(answer(options, journal=journal, stop=lambda: None)) == comparable(whole)
    alter(tmp_path / "journal.jsonl", lambda value: value | {"ended": 1} if value["ended"] is True else value)
    with Journal(tmp_path / "journal.jsonl") as journal, pytest.raises(InputError, match="line 1"):
        answer(options, journal=journal)


class Failing(InProcessExecutor):
    """One point is beyond the workers."""

    def outcomes(self, function, items, stop=None, arrived=None):
        for item in items:
            outcome = Failed("a worker died") if item == (("side", 9),) else function(item)
            arrived([(item, outcome)])
            yield outcome


def test_a_point_that_fails_is_named_and_the_others_stand(path, tmp_path):
    found = answer(options_for(path, "side=6,9,20"), executor=Failing())
    assert found.metrics["unfinished"] == ["side-9"]
    assert found.solution["points"]["side-9"]["reason"] == "a worker died"
    assert found.solution["points"]["side-20"]["reason"] is None
    assert faults(found) == []


def test_the_same_for_any_number_of_workers(path, tmp_path, ray_executor):
    # So many kernels have several placements of least cost, and another seed finds another one.
    labels = [f"conv[{number}]" for number in range(1, 9)]
    nodes = [conv_line(number, inputs=8, outputs=8) for number in range(1, 9)]
    (tmp_path / "longer.kgraph").write_text(graph_text(nodes, list(pairwise(labels)), adapter=2))
    swept = options_for(path, "side=6,9,20", "wadapter=0,5")
    single = WaferOptions(str(tmp_path / "longer.kgraph"), moves=600)
    answers, searches = [], []
    for crew in (InProcessExecutor(), Shared(ray_executor)):
        answers.append(comparable(answer(swept, crew)))
        with crew as executor:
            searches.append(search(SearchContext(single.problem(), executor, moves=single.moves)))
    assert answers[0] == answers[1]
    assert searches[0] == searches[1]


def test_the_command_shows_keeps_and_reports(dse, path, tmp_path):
    out = tmp_path / "run"
    asked = ("wafer", path, "--sweep", "side=4,9,20,wadapter=0,2", "--moves", MOVES, "--workers", 0, "--out", out)
    shown = dse(*asked)
    assert shown.code == 0, shown.err
    assert "on the Pareto front of cost, tiles and memory" in shown.out
    assert "infeasible: " in shown.out
    result = json.loads((out / "result.json").read_text())
    problem = WaferOptions(str(path)).problem()
    for name in result["metrics"]["front"]:
        _, side, _, adapter = name.split("-")
        there = posed(problem, (("side", int(side)), ("wadapter", float(adapter))))
        read = placement_of(there, read_paint(out / "points" / f"{name}.paint"), name)
        assert cost(there, read).total == result["solution"]["points"][name]["cost"]
    assert (out / "tables" / "points.parquet").exists()
    page = (out / "report.html").read_text()
    assert page.count('class="wafer"') == len(result["metrics"]["front"])
    assert dse("check", out / "result.json").code == 0
    (out / "report.html").unlink()
    assert dse("report", out).code == 0
    again = (out / "report.html").read_text()
    assert again[again.index("<table>") :] == page[page.index("<table>") :]
    assert dse(*asked, "--resume").code == 0
    assert dse(*asked[:-4], "--workers", 0, "--out", out, "--moves", 1, "--resume").code == 2


def test_no_wafer_that_is_large_enough(dse, path):
    shown = dse("wafer", path, "--sweep", "side=2,3", "--workers", 0, "--json")
    assert shown.code == 1
    result = json.loads(shown.out)
    assert result["status"] == "infeasible"
    assert "on none of the 2 wafers; with side-3: " in result["infeasibility"]["explanation"]


def test_pictures_and_reports_of_one_placement(dse, path, tmp_path):
    out = tmp_path / "run"
    assert dse("wafer", path, "--moves", MOVES, "--workers", 0, "--out", out).code == 0
    assert (out / "case.png").read_bytes().startswith(b"\x89PNG")
    picture, page = (out / "case.svg").read_text(), (out / "report.html").read_text()
    assert len(groups_of(picture)["edges"]) == 2
    assert "cost " in picture
    (out / "report.html").unlink()
    assert dse("report", out).code == 0
    assert (out / "report.html").read_text() == page
    # The result carries its case.
    path.write_text(path.read_text().replace("wlength=1", "wlength=2"))
    assert dse("report", out).code == 0
    assert (out / "report.html").read_text() == page
