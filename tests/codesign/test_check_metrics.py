"""The check of what a result says beside its answer: what a search says passes, and no altered figure does."""

import copy
import dataclasses
import functools
import json

import pytest

from dse.codesign.check_metrics import faults
from dse.codesign.check_metrics.faults import metric_faults
from dse.codesign.check_metrics.front import front_faults
from dse.codesign.check_metrics.optimum import unanswered_faults
from dse.codesign.check_metrics.reevaluation import Allowance
from dse.codesign.check_metrics.sensitivity import sensitivity_faults
from dse.codesign.check_metrics.takeovers import takeover_faults
from dse.codesign.context import SearchContext
from dse.codesign.documents import Front, FrontPoint, Metrics, Solution
from dse.codesign.pareto.document import front_document
from dse.codesign.pareto.front import pareto_front
from dse.codesign.sensitivity.analysis import takeover_tasks
from dse.codesign.sensitivity.probe import Prober
from dse.codesign.sensitivity.table import sensitivity_document, sensitivity_from_document
from dse.results.result import Result
from dse.run.executor import InProcessExecutor
from hardware.inputs import InputError
from tests.codesign.test_extras import StopIn
from tests.codesign.tiny import tiny_options
from tests.solving import faults as check_of
from tests.solving import solve

SMALL = {"tensor_parallel": "1", "microbatch": "1", "area_budget": "1.6759"}
TWO = (("tiny", 3, 64), ("short", 2, 64))


@pytest.fixture(scope="module", autouse=True)
def few_settings():
    """Every knob is turned by ± 10 % only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dse.codesign.sensitivity.analysis.FACTORS", (0.9, 1.1))
        yield


@pytest.fixture(scope="module", autouse=True)
def kept_baselines():
    """The checker makes the baselines of a model once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "baselines", functools.cache(faults.baselines))
        yield


def answered(options):
    """What was asked, the problem, its space, and the result as it is read from its file."""
    problem = options.problem()
    result = Result.model_validate(json.loads(solve(options)[0].to_json()))
    return options, problem, problem.machines(), result


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return answered(tiny_options(tmp_path_factory.mktemp("one"), pareto=True, sensitivity=True, **SMALL))


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    options = {"objective": "per-mm2", "mean": "arithmetic", "weights": "3,1", "pareto": True, "hbm_gb": "1"}
    return answered(tiny_options(tmp_path_factory.mktemp("two"), TWO, **options, **SMALL))


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    return answered(tiny_options(tmp_path_factory.mktemp("walk"), search="hysteresis", hysteresis=1, **SMALL))


def leaves(value, path=()):
    """The paths of all figures; of lists the first entry and the last."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index in sorted({0, len(value) - 1}):
            yield from leaves(value[index], (*path, index))
    else:
        yield path


def at(document, path):
    for key in path:
        document = document[key]
    return document


def changed(document, path, value):
    document = copy.deepcopy(document)
    at(document, path[:-1])[path[-1]] = value
    return document


def others(value):
    """What a figure might be altered to: something near, and something of another type."""
    match value:
        case bool():
            return not value, None
        case int():
            return value + 1, float(value)
        case float():
            return value * (1 + 1e-6) or 1e-3, None
        case str():
            return value + "x", None
        case list():
            return [value], None
        case None:
            return 7.5, "x"


def unnoticed(document, check, form=None):
    """Alterations (path, value) that leave the document in its ``form`` (a model), and that ``check`` lets pass."""
    return [
        (path, value)
        for path in leaves(document)
        for value in others(at(document, path))
        if not noticed(check, changed(document, path, value), form)
    ]


def noticed(check, document, form):
    """The faults; of a malformed document the error, which the check of a whole result makes a fault of."""
    try:
        if form is not None:
            form.model_validate(document)
        return check(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        return [repr(error)]


def first_settings(result, count):
    """The metrics of an analysis that was stopped after some settings."""
    whole = sensitivity_from_document(result.metrics["sensitivity"])
    cut = dataclasses.replace(whole, points=whole.points[:count], takeovers=(), stopped="time limit")
    return {**result.metrics, "sensitivity": sensitivity_document(cut), "unfinished": ["sensitivity"]}


def depth_of(point):
    return max(plan["schedule_nodes"] for plan in point["models"].values())


def test_what_searches_say_passes(single, common, walked):
    for options, problem, _, result in (single, common, walked):
        assert metric_faults(options, problem, result) == []
    assert {depth_of(point) for point in single[3].metrics["pareto"]["points"]} == {1_000, 20_000}


def test_a_plan_for_a_fixed_accelerator_passes(tmp_path):
    fixed = {"fixed": "a100-sxm", "area_budget": None, "hbm_gb": None, "objective": "per-watt", "sensitivity": True}
    options, problem, _, result = answered(tiny_options(tmp_path, **SMALL | fixed))
    assert result.metrics["sensitivity"]["points"]
    assert metric_faults(options, problem, result) == []


@pytest.mark.parametrize("reason", ["interrupted", "time limit"])
@pytest.mark.parametrize("phase", ["Pareto front", "sensitivity"])
def test_what_was_cut_short_passes(tmp_path, phase, reason):
    options = tiny_options(tmp_path, pareto=True, sensitivity=True, **SMALL)
    stop = StopIn(phase, reason)
    result = Result.model_validate(json.loads(solve(options, progress=stop.progress, stop=stop)[0].to_json()))
    assert "sensitivity" in result.metrics["unfinished"]
    assert metric_faults(options, options.problem(), result) == []


@pytest.mark.parametrize(("changes", "status"), [({}, "unknown"), ({"hbm_gb": "0.0001"}, "infeasible")])
def test_no_altered_figure_passes_where_there_is_no_answer(tmp_path, changes, status):
    options = tiny_options(tmp_path, pareto=True, **SMALL | changes)
    result, _ = solve(options, stop=lambda: "time limit")
    assert result.status == status

    def check(metrics):
        altered = result.model_copy(update={"metrics": metrics})
        return unanswered_faults(options, options.problem(), options.problem().machines(), altered)

    assert check(result.metrics) == []
    assert unnoticed(result.metrics, check, Metrics) == []
    assert check({**result.metrics, "optimum_by_hbm": {"1": 5.0}})


def test_no_altered_figure_of_a_front_passes(single, common):
    for _, problem, machines, result in (single, common):
        document = result.metrics["pareto"]
        # Part of a front is one as well, for that none is missing is not checked.
        deepest = max((point for point in document["points"] if depth_of(point) <= 20_000), key=depth_of)
        points = [point for point in document["points"] if point is deepest or depth_of(point) == 1_000][:2]

        def check(altered, problem=problem, machines=machines):
            return front_faults(problem, machines, altered)

        assert check({**document, "points": points}) == []
        assert unnoticed({**document, "points": points}, check, Front) == []


def test_points_that_agree_with_themselves_are_still_recomputed(single):
    _, problem, machines, result = single
    document = result.metrics["pareto"]
    points = document["points"][:3]
    faster = copy.deepcopy(points[0])
    plan = faster["models"]["tiny"]
    plan["batch_s"] /= 1.001
    plan["throughput_per_s"] = faster["score"] = problem.jobs[0].global_batch / plan["batch_s"]
    another = {"architecture": points[1]["architecture"], "area_mm2": points[1]["area_mm2"]}
    for lies, said in (
        ([faster, *points[1:]], "score must be"),
        ([{**points[0], "power_w": points[0]["power_w"] * 0.999}, *points[1:]], "power_w must be"),
        ([points[1], points[0]], "must be sorted by decreasing score"),
        ([points[0], points[0]], "listed twice"),
        ([{**points[0], **another}, points[2]], "score must be"),
        ([{**points[0], "proven": False}, *points[1:]], "where the search ends"),
    ):
        unproven = document["proven"] and all(point["proven"] for point in lies)
        found = front_faults(problem, machines, {**document, "points": lies, "proven": unproven})
        assert any(said in fault for fault in found), (said, found)
    shallow = next(point for point in document["points"] if depth_of(point) == 1_000)
    others_of = [point for point in points if point is not shallow]
    undecided = {**document, "points": others_of, "undecided": [shallow["architecture"]], "proven": False}
    assert any("proven not to be on the front" in fault for fault in front_faults(problem, machines, undecided))


def test_a_point_is_searched_no_deeper_than_its_proof_needs(single):
    _, problem, machines, result = single
    document = result.metrics["pareto"]
    for stated, deeper in ((1_000, 20_000), (20_000, 100_000)):
        number = next(number for number, point in enumerate(document["points"]) if depth_of(point) == stated)
        lie = changed(document, ("points", number, "models", "tiny", "schedule_nodes"), deeper)
        (fault,) = front_faults(problem, machines, lie)
        assert "schedule_nodes must be lower" in fault


def test_a_dominated_point_is_found(single):
    """A point that is honest in itself, but of an architecture that another one beats."""
    _, problem, machines, result = single
    document = result.metrics["pareto"]
    listed = [point["architecture"] for point in document["points"]]
    for index in range(len(machines)):
        one = machines.take([index])
        (point,) = front_document(problem, one, pareto_front(SearchContext(problem, one, InProcessExecutor(), {})))[
            "points"
        ]
        if point["architecture"] not in listed:
            break
    points = sorted([*document["points"], point], key=lambda each: -each["score"])
    found = front_faults(problem, machines, {**document, "points": points})
    assert found == [f"metrics.pareto.points[{points.index(point)}] is dominated by another point"]


def test_a_front_that_is_not_proven_says_so(single, monkeypatch):
    _, problem, machines, _ = single
    for module in ("dse.codesign.pareto.front", "dse.codesign.check_metrics.front"):
        monkeypatch.setattr(f"{module}.NODES", (1_000,))
    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}))
    document = json.loads(json.dumps(front_document(problem, machines, found)))
    unproven = next(number for number, point in enumerate(document["points"]) if not point["proven"])
    assert front_faults(problem, machines, document) == []
    claimed = changed(document, ("points", unproven, "proven"), True)
    assert any(f"points[{unproven}].proven" in fault for fault in front_faults(problem, machines, claimed))


def test_what_would_take_too_long_is_confined(single, monkeypatch):
    """Without an allowance deep points are evaluated to the least depth, whose bound no plan can beat."""
    _, problem, machines, result = single
    document = result.metrics["pareto"]
    monkeypatch.setattr("dse.codesign.check_metrics.front.Allowance", lambda: Allowance(0))
    assert front_faults(problem, machines, document) == []
    deep = next(point for point in document["points"] if depth_of(point) > 1_000)

    def check(altered):
        return front_faults(problem, machines, {**document, "points": [altered]})

    # Power is that of other stages, if of as many; and a pipeline of one stage recomputes nothing.
    free = {("power_w", deep["power_w"] * (1 + 1e-6)), ("recompute", not deep["models"]["tiny"]["recompute"])}
    assert {(path[-1], value) for path, value in unnoticed(deep, check, FrontPoint)} <= free
    for factor in (0.9, 1.1):
        lie = copy.deepcopy(deep)
        plan = lie["models"]["tiny"]
        plan["batch_s"] *= factor
        plan["throughput_per_s"] = lie["score"] = problem.jobs[0].global_batch / plan["batch_s"]
        assert any("batch_s must be in" in fault for fault in check(lie))


def test_no_altered_figure_of_a_setting_passes(single):
    _, problem, machines, result = single
    metrics = first_settings(result, 1)

    def check(altered):
        cut = result.model_copy(update={"metrics": {**metrics, "sensitivity": altered}})
        return sensitivity_faults(problem, machines, cut)

    assert check(metrics["sensitivity"]) == []
    assert unnoticed(metrics["sensitivity"], check) == []


def derived(result, **changes):
    """The metrics with an altered analysis, and all that follows from its points made to agree."""
    whole = sensitivity_from_document(result.metrics["sensitivity"])
    return {**result.metrics, "sensitivity": sensitivity_document(dataclasses.replace(whole, **changes))}


def test_settings_that_agree_with_themselves_are_still_recomputed(single):
    _, problem, machines, result = single
    points = list(sensitivity_from_document(result.metrics["sensitivity"]).points)
    first, fitting = (
        points[0],
        next(point for point in points if point.architecture not in (None, points[0].architecture)),
    )
    raised = {"score": first.score * 1.001, "bound": first.score * 1.001}
    optima = tuple(optimum * 1.001 if optimum == first.score else optimum for optimum in first.optima)
    nothing = {"score": None, "bound": None, "architecture": None, "plans": (), "today_score": None, "today_plans": ()}
    none = {"status": "infeasible", "optima": (0.0,) * len(optima), "reached_by": (None,) * len(optima)}
    for place, lie, said in (
        (0, {**raised, "optima": optima}, "score must be"),
        (0, {"bound": first.score * 0.99}, "bound must be at least"),
        (0, {"bound": first.score * 1.01}, "status must be feasible"),
        (0, {"optima": tuple(optimum * (1 + 1e-7) for optimum in first.optima)}, "optima"),
        (0, {"reached_by": (None, *first.reached_by[1:])}, "reached_by[0] must name the architecture"),
        (0, {"today_score": first.today_score * 0.99}, "today_score must be"),
        (0, {"architecture": fitting.architecture}, "score"),
        (0, {**nothing, **none}, "score must be given unless nothing fits"),
        (points.index(fitting), {"today_score": None, "today_plans": ()}, "for today's architecture, with a score"),
    ):
        altered = [*points]
        altered[place] = dataclasses.replace(points[place], **lie)
        cut = tuple(altered[: place + 1])
        metrics = derived(result, points=cut, takeovers=(), stopped="time limit")
        found = sensitivity_faults(problem, machines, result.model_copy(update={"metrics": metrics}))
        assert any(said in fault for fault in found), (said, found)


def test_settings_are_complete_and_in_order(single):
    _, problem, machines, result = single
    whole = sensitivity_from_document(result.metrics["sensitivity"])
    for lie in (
        {"points": whole.points[1:]},
        {"points": whole.points[:-1]},
        {"points": (whole.points[1], whole.points[0], *whole.points[2:])},
        {"takeovers": whole.takeovers[:-1]},
        {"takeovers": whole.takeovers[::-1] + whole.takeovers},
        {"points": (), "takeovers": (), "stopped": ""},
    ):
        found = sensitivity_faults(problem, machines, result.model_copy(update={"metrics": derived(result, **lie)}))
        assert found
        assert all("must be for the knobs" in f or "must be those of" in f or "state the reason" in f for f in found)


def test_takeovers_are_ends_of_their_bisections(single):
    _, problem, machines, result = single
    whole = sensitivity_from_document(result.metrics["sensitivity"])
    prober = Prober(problem, machines, whole.today.architecture)
    pairs = list(zip(takeover_tasks(whole.today, whole.points), whole.takeovers, strict=True))
    assert len(pairs) == 2
    elsewhere = whole.today.architecture
    for task, takeover in pairs:
        assert takeover_faults(prober, task, takeover) == []
        middle = (takeover.same * takeover.other) ** 0.5
        for lie in (
            {"same": middle},
            {"other": middle},
            {"same": task.same, "other": middle},
            {"other": takeover.other * 1.001},
            {"same": takeover.other, "other": takeover.same},
            {"searches": takeover.searches + 1},
            {"architecture": None},
            {"architecture": dataclasses.replace(takeover.architecture, area_mm2=3.0)},
            {"architecture": dataclasses.replace(takeover.architecture, tensor_cores=3)},
            {"architecture": elsewhere} if takeover.other < takeover.same else {"knob": "hbm_size"},
        ):
            assert takeover_faults(prober, task, dataclasses.replace(takeover, **lie)), lie


OF_THE_ANSWER = ("score", "models", "architectures_in_space", "area_budget_used", "interface_mm2")
"""Figures that the checker of the answer recomputes."""


def test_no_other_altered_figure_passes(single):
    options, problem, _, result = single
    options = dataclasses.replace(options, pareto=False)
    metrics = {key: value for key, value in first_settings(result, 0).items() if key != "pareto"}
    whole = {**result.model_dump(), "metrics": metrics}
    judged = {key: value for key, value in metrics.items() if key not in (*OF_THE_ANSWER, "sensitivity")}

    def check(altered):
        document = {**whole, "evaluations": altered["evaluations"], "metrics": {**metrics, **altered["metrics"]}}
        models = changed(whole["solution"]["models"], ("tiny", "schedule_nodes"), altered["depth"])
        document["solution"] = {**whole["solution"], "models": models}
        for form, part in ((Solution, "solution"), (Metrics, "metrics")):
            form.model_validate(document[part])
        return metric_faults(options, problem, Result.model_validate(document))

    depth = whole["solution"]["models"]["tiny"]["schedule_nodes"]
    figures = {"metrics": judged, "evaluations": whole["evaluations"], "depth": depth}
    assert check(figures) == []
    # Whole numbers of the result itself may be written with a point.
    assert unnoticed(figures, check) in ([], [(("evaluations",), float(whole["evaluations"]))])


def test_an_optimum_is_what_the_architecture_beside_it_scores(walked):
    options, problem, _, result = walked
    optima, best = result.metrics["optimum_by_hbm"], result.metrics["score"]
    assert list(optima) == ["0.004", "0.02", "1"]
    assert optima["0.004"] < 0.98 * best == pytest.approx(0.98 * optima["0.02"])

    def check(altered):
        metrics = {**result.metrics, "optimum_by_hbm": {**optima, **altered}}
        return " ".join(metric_faults(options, problem, result.model_copy(update={"metrics": metrics})))

    assert check({}) == ""
    assert "must be at least" in check({"0.004": optima["0.004"] * 0.5})
    assert "must not decrease" in check({"1": best * 0.999})
    assert "the answer must be at 1 GB" in check({"1": best * 1.02})
    assert "the answer must be at 0.004 GB" in check({"0.004": best})
    assert "all models fit" in check({"2": best})
    assert "must be" in check({"1": best * 1.005})


def test_counts_of_a_walk_are_those_of_its_evaluations(walked):
    options, problem, _, result = walked
    evaluated = result.metrics["architectures_evaluated"]
    for changes, evaluations in (({"architectures_pruned": 1}, evaluated), ({}, evaluated + 1)):
        metrics = {**result.metrics, **changes}
        altered = result.model_copy(update={"metrics": metrics, "evaluations": evaluations})
        assert len(metric_faults(options, problem, altered)) == 1


def test_the_front_has_the_answer(single, common, monkeypatch):
    monkeypatch.setattr(faults, "front_faults", lambda *_: [])
    monkeypatch.setattr(faults, "sensitivity_faults", lambda *_: [])
    for options, problem, _, result in (single, common):
        front, best = result.metrics["pareto"], result.solution["architecture"]
        without = [point for point in front["points"] if point["architecture"] != best]
        assert len(without) < len(front["points"])
        metrics = {**result.metrics, "pareto": {**front, "points": without}}
        (fault,) = metric_faults(options, problem, result.model_copy(update={"metrics": metrics}))
        assert "the best point must have the optimum" in fault


def test_what_was_asked_is_there_or_unfinished(single):
    options, problem, _, result = single
    metrics = {key: value for key, value in result.metrics.items() if key not in ("pareto", "sensitivity")}

    def check(asked, **changes):
        return metric_faults(asked, problem, result.model_copy(update={"metrics": {**metrics, **changes}}))

    assert check(options) == ["metrics.unfinished must have 2 entries"]
    assert check(options, unfinished=["pareto", "sensitivity"]) == []
    neither = dataclasses.replace(options, pareto=False, sensitivity=False)
    assert check(neither, unfinished=["pareto"]) == ["metrics.unfinished must have 0 entries"]
    assert "metrics.pareto was not requested" in check(neither, pareto=result.metrics["pareto"])


def refusals(result):
    """What the check of a whole result says of it, line by line."""
    try:
        return check_of(result)
    except InputError as error:
        return [str(fault) for fault in error.faults]


@pytest.mark.parametrize("other", [None, "x", {}, [], {"points": 3, "stopped": None}], ids=str)
def test_a_malformed_part_is_named(walked, other):
    *_, result = walked
    for part in ("pareto", "baselines", "best_by_hbm", "architectures_evaluated"):
        altered = result.model_copy(update={"metrics": {**result.metrics, part: other}})
        lines = refusals(altered)
        assert any(part in line for line in lines), (part, lines)
        assert all("\n" not in line for line in lines)
