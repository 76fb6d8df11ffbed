"""``dse check`` on results of ``dse partition``: what the command says passes, and nothing that was falsified does."""

import copy
import json

import pytest

from dse.partition.answer import BALANCED
from dse.partition.bound_check import bound_state
from dse.partition.check import cost_s
from dse.partition.options import PartitionOptions
from dse.results.check import check_result
from dse.results.result import relative_gap
from hardware.inputs import InputError
from tests.partition.small import random_graph, random_problem, valid_partitions
from tests.solving import answer, resealed

ASKED = {
    "throughput": {"chips": 4},
    "latency": {"chips": 4, "objective": "latency"},
    "proven": {"chips": 2},
    "open": {"chips": 4, "method": "greedy"},
    "several": {"chips": 4, "method": "portfolio, greedy,random"},
    "all": {"chips": 3, "method": "all"},
    "simulated": {"package": "mcm-4", "evaluator": "simulator"},
    "simulated latency": {"package": "mcm-4", "evaluator": "simulator", "objective": "latency", "method": "random"},
    "held": {"package": "coral-8", "method": "greedy,hill-climb"},
}
NO_ANSWER = {
    "impossible": ({"package": "coral-8"}, {"weight_bytes": 1e9}, "infeasible"),
    "never running": ({"package": "mcm-4", "evaluator": "simulator"}, {"output_bytes": 1e9}, "infeasible"),
    "too full": (
        {"package": "mcm-4", "evaluator": "simulator", "samples": 5, "method": "random,greedy"},
        {"output_bytes": 1.4e7},
        "unknown",
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The document of each result as it is read from its file."""
    folder = tmp_path_factory.mktemp("graphs")
    path = folder / "graph.json"
    path.write_text(json.dumps(random_graph(3, 12, 0.3).document()))
    with pytest.MonkeyPatch.context() as patch:  # what is checked is the result, not how good it is
        patch.setattr("dse.partition.search.order_search._MAX_STEPS", 50)
        found = {
            name: json.loads(answer(PartitionOptions(str(path), samples=40, **asked)).to_json())
            for name, asked in ASKED.items()
        }
    for name, (asked, change, status) in NO_ANSWER.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(full_graph(change)))
        found[name] = json.loads(answer(PartitionOptions(str(path), **asked)).to_json())
        assert found[name]["status"] == status
    assert found["proven"]["status"] == "optimal"
    assert found["open"]["status"] == "feasible"
    return found


def full_graph(change):
    nodes = [{"name": f"n{number}", "latency_s": 1e-5, "output_bytes": 1e3} | change for number in range(6)]
    edges = [[f"n{number}", f"n{number + step}"] for step in (1, 2) for number in range(6 - step)]
    return {"schema": "dse.graph/1", "name": "full", "nodes": nodes, "edges": edges}


@pytest.fixture
def check(tmp_path):
    def faults(document):
        path = tmp_path / "result.json"
        path.write_text(json.dumps(resealed(document)))
        return check_result(path)

    return faults


@pytest.fixture
def refusals(check):
    """What is wrong with a document: the violations, or what of its solution or metrics is malformed."""

    def lines(document):
        try:
            return check(document)
        except InputError as error:
            return [f"{fault.file.rpartition(': ')[2]}.{fault.key}: {fault.rule}" for fault in error.faults]

    return lines


@pytest.mark.parametrize("name", [*ASKED, *NO_ANSWER])
def test_every_result_of_the_command_passes(results, check, name):
    assert check(results[name]) == []


def test_a_search_that_was_stopped_passes(results, check, tmp_path):
    path = results["throughput"]["settings"]["source"]
    for reason, before in (("interrupted", 1), ("time limit", 1), ("interrupted", 0)):
        calls = iter([None] * before)
        options = PartitionOptions(path, chips=4, method="greedy,random", samples=40)
        stopped = answer(options, stop=lambda calls=calls, reason=reason: next(calls, reason))
        assert check(json.loads(stopped.to_json())) == []


@pytest.mark.parametrize("name", ["throughput", "several"])
def test_counts_of_the_solver_that_cannot_be_are_found(results, refusals, name):
    evaluations = results[name]["evaluations"]
    for partitions, fall_backs in ((evaluations + 1, 0), (evaluations, evaluations + 1), (0, 0), (2, -1)):
        lie = with_metric(results[name], "solver", {"partitions": partitions, "fall_backs": fall_backs})
        assert any("metrics.solver" in fault for fault in refusals(lie)), (partitions, fall_backs)


@pytest.mark.parametrize("name", ASKED)
def test_no_altered_figure_of_a_partition_passes(results, refusals, name):
    result = results[name]
    for key, value in result["metrics"].items():
        if key in ("methods", "solver"):
            continue
        for path in [(key,)] if not isinstance(value, list) else [(key, 0), (key, len(value) - 1)] if value else []:
            for other in others(at(result["metrics"], path)):
                lie = copy.deepcopy(result)
                at(lie["metrics"], path[:-1])[path[-1]] = other
                assert any(f"metrics.{key}" in fault for fault in refusals(lie)), (path, other)
        for lie in (without(result, key), with_metric(result, key, value + value if isinstance(value, list) else None)):
            if lie != result:
                assert any(f"metrics.{key}" in fault for fault in refusals(lie)), key
    assert any("metrics.speed" in fault for fault in refusals(with_metric(result, "speed", 1.0)))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def others(value):
    if isinstance(value, str):
        return value + "1", "link 0 → 9", None
    return value + 1, value * (1 - 1e-6) or 1e-9, None


def without(result, key):
    return result | {"metrics": {name: value for name, value in result["metrics"].items() if name != key}}


def with_metric(result, key, value):
    return result | {"metrics": result["metrics"] | {key: value}}


def objective(**changes):
    return lambda result: result["objective"].update(changes)


def scaled(key, factor):
    return lambda result: result["objective"].update({key: result["objective"][key] * factor})


def bounded(factor):
    """A bound that agrees with value, gap and status, and closes the gap where ``factor`` is 1."""

    def change(result):
        value = result["objective"]["value"]
        bound = value * factor
        status = "optimal" if factor == 1 else "feasible"
        result.update(bound=bound, gap=relative_gap(value, bound), status=status)

    return change


PROOF = {
    "resource": "memory_bytes", "demand": 2.0, "limit": 1.0, "unit": "bytes", "levers": [], "explanation": "no",
    "where": {},
}  # fmt: skip


def infeasible_with_a_solution(result):
    result.update(status="infeasible", infeasibility=PROOF)


FALSIFIED = [
    *(
        (name, change, words)
        for name in ("throughput", "latency", "simulated")
        for change, words in (
            (lambda result: result.update(status="infeasible"), "status must be"),
            (infeasible_with_a_solution, "infeasibility must not"),
            (lambda result: result.update(status="unknown"), "status must be"),
            (objective(unit="ms"), "objective must be"),
            (objective(name="speed"), "objective must be"),
            (scaled("value", 1 + 1e-6), "objective.value"),
            (scaled("value", -1), "objective.value"),
            (objective(value=None), "must be given together"),
            (lambda result: result.update(evaluations=-1), "evaluations must"),
            (lambda result: result.update(seconds=-1.0), "seconds must"),
            (lambda result: result.update(method="magic"), "method must"),
            (lambda result: result.update(method="greedy"), "method must"),
            (lambda result: result.update(solution={}), "without a solution"),
            (lambda result: result["problem"].update(name="other"), "problem.name"),
            (lambda result: result["problem"].update(digest="sha256:0"), "problem.digest"),
        )
    ),
    ("throughput", objective(sense="min"), "objective must be"),
    ("latency", objective(sense="max"), "objective must be"),
    ("simulated", objective(sense="min"), "objective must be"),
    ("proven", lambda result: result.update(status="feasible"), "status must be optimal"),
    ("proven", lambda result: result.update(status="interrupted"), "status must be optimal"),
    ("open", lambda result: result.update(status="optimal"), "status"),
    ("throughput", lambda result: result.update(method=BALANCED), "method must"),
    ("simulated", bounded(1), "must not be given with the simulator"),
    ("simulated", bounded(2), "must not be given with the simulator"),
    ("simulated", lambda result: result.update(status="optimal"), "status must be feasible"),
    ("simulated latency", bounded(0.5), "must not be given with the simulator"),
    ("throughput", lambda result: result["settings"].update(objective="latency"), "objective must be"),
    ("several", lambda result: result.update(method="dp"), "method must"),
    ("several", lambda result: result.update(evaluations=result["evaluations"] + 1), "evaluations must"),
    ("several", lambda result: result["metrics"]["methods"].pop(0), "metrics.methods must"),
    ("several", lambda result: result["metrics"]["methods"][1].update(method="dp"), "metrics.methods must"),
    ("several", lambda result: result["metrics"]["methods"][1].update(evaluations=-1), "metrics.methods.1.evaluations"),
    ("several", lambda result: result["metrics"]["methods"][1].update(seconds="1"), "metrics.methods.1.seconds"),
    ("several", lambda result: result["metrics"]["methods"][1].update(value=-1.0), "metrics.methods.1.value"),
    ("several", lambda result: result["metrics"]["methods"][1].pop("gap"), "metrics.methods.1.gap: the key is missing"),
    ("several", lambda result: result["metrics"]["methods"][1].update(speed=1.0), "methods.1.speed: unknown key"),
    ("several", lambda result: result["metrics"].update(unfinished="random"), "metrics.unfinished"),
    ("several", lambda result: result["metrics"]["methods"][1].update(gap=0.5), "gap"),
    ("several", lambda result: result["metrics"]["methods"][1].update(value=1e9, bound=None, gap=None), "better"),
    ("several", lambda result: result["metrics"]["methods"][1].update(bound=1.0, gap=0.9), "must not be worse"),
    ("simulated", lambda result: result["metrics"].update(methods=[]), "metrics.methods must"),
    ("several", lambda result: result["metrics"].update(unfinished=["magic"]), "metrics.unfinished must be at the end"),
    ("all", lambda result: result["metrics"]["methods"].pop(), "metrics.unfinished must include"),
    ("impossible", lambda result: result.update(status="unknown"), "status must be infeasible"),
    ("impossible", lambda result: result.update(infeasibility=None), "but it is not given"),
    ("impossible", lambda result: result["infeasibility"].update(demand=2e9), "infeasibility.demand"),
    ("impossible", lambda result: result["infeasibility"]["where"]["operators"].pop(), "infeasibility.where.operators"),
    ("impossible", lambda result: result.update(bound=1.0), "bound must not"),
    ("impossible", objective(sense="min"), "objective must be"),
    ("impossible", objective(value=1.0), "must be given together"),
    ("impossible", lambda result: result["metrics"].update(chips_used=1), "metrics.chips_used"),
    ("never running", lambda result: result["infeasibility"].update(unit="MB"), "infeasibility.unit"),
    ("too full", lambda result: result.update(status="infeasible"), "but it is not given"),
    ("too full", lambda result: result.update(status="infeasible", infeasibility=PROOF), "without a proof"),
    ("too full", lambda result: result["metrics"]["misfit"].update(needed_bytes="all"), "metrics.misfit.needed_bytes"),
    ("too full", lambda result: result["metrics"]["misfit"]["operators"][0].pop(), "metrics.misfit.operators.0"),
    ("throughput", lambda result: result["solution"]["chip"].popitem(), "must have a chip"),
    ("throughput", lambda result: result["solution"].update(chips=4), "solution.chips: unknown key"),
    ("too full", lambda result: result.update(evaluations=-1), "evaluations must"),
    ("too full", lambda result: result.update(method="magic"), "method must"),
    ("too full", objective(unit="1/h"), "objective must be"),
    ("too full", lambda result: result.update(bound=1e9), "must not be given with the simulator"),
]


@pytest.mark.parametrize(("name", "change", "words"), FALSIFIED)
def test_no_falsified_result_passes(results, refusals, name, change, words):
    lie = copy.deepcopy(results[name])
    change(lie)
    faults = refusals(lie)
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize(
    "setting", [{"method": "magic"}, {"evaluator": "oracle"}, {"objective": "fame"}, {"chips": "3"}, {"speed": 1}]
)
def test_invalid_settings_are_an_input_error(results, check, setting):
    lie = copy.deepcopy(results["throughput"])
    lie["settings"].update(setting)
    with pytest.raises(InputError, match=next(iter(setting)) + "|malformed"):
        check(lie)


def test_a_simulated_answer_that_cannot_run_is_refused(results, check):
    """The value is that of the partition, but a chip's memory does not hold it."""
    lie = copy.deepcopy(results["too full"])
    found = results["simulated"]
    lie.update(status="feasible", method="random", solution={"chip": {f"n{number}": 0 for number in range(6)}})
    lie["metrics"] = {}
    lie["objective"]["value"] = found["objective"]["value"]
    assert any(fault.startswith("(5) chip 0 must fit in") for fault in check(lie))


def test_a_bound_tighter_than_that_of_every_method_is_refused(results, check):
    lie = copy.deepcopy(results["held"])
    lie.update(status="optimal", bound=lie["objective"]["value"], gap=0.0)
    for attempt in lie["metrics"]["methods"]:
        attempt["bound"] = attempt["value"] * 2
        attempt["gap"] = 0.5
    assert any("tighter than all" in fault for fault in check(lie))


def claimed(document, value, bound):
    """The document with a value and a bound, and with everything that follows from them."""
    lie = copy.deepcopy(document)
    lie["objective"]["value"], lie["bound"], lie["gap"] = value, bound, relative_gap(value, bound)
    lie["status"] = "optimal" if value == bound else "feasible"
    return lie


def test_a_slow_partition_of_a_small_graph_that_claims_to_be_optimal_is_found(results, check, tmp_path):
    graph = {"schema": "dse.graph/1", "name": "four", "nodes": [], "edges": [["a", "b"], ["b", "c"], ["c", "d"]]}
    graph["nodes"] = [{"name": name, "latency_s": 1e-6, "output_bytes": 1.0} for name in "abcd"]
    path = tmp_path / "four.json"
    path.write_text(json.dumps(graph))
    best = json.loads(answer(PartitionOptions(str(path), chips=2)).to_json())
    assert best["status"] == "optimal"
    # All operators on one chip, as an honest search that found no more would state it, but for the claim.
    slow = json.loads(answer(PartitionOptions(str(path), chips=1)).to_json())
    lie = claimed({**best, "solution": slow["solution"], "metrics": slow["metrics"]}, *[slow["objective"]["value"]] * 2)
    of_the_problem = ("chips", "chips_usable", "chips_usable_linear")
    lie["metrics"] = {**lie["metrics"], **{key: best["metrics"][key] for key in of_the_problem}}
    assert any(line.startswith("bound ") and "must not be beaten" in line for line in check(lie)), check(lie)


@pytest.mark.parametrize("objective", ["throughput", "latency"])
@pytest.mark.parametrize("seed", range(4))
def test_a_bound_is_proven_up_to_the_optimum_of_all_partitions_and_refuted_beyond(seed, objective):
    problem = random_problem(seed, objective=objective)
    optimum_s = min((cost_s(problem, chip) for chip in valid_partitions(problem)), default=None)
    if optimum_s is not None:
        assert bound_state(problem, optimum_s)[0] == "proven"
        state, best_s = bound_state(problem, 1.01 * optimum_s)
        assert state == "refuted"
        assert best_s == pytest.approx(optimum_s)
