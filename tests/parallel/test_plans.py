"""Plans: the checker agrees with what is searched, linkage plans with enumeration, and broken plans are found."""

import itertools
import json
import re
from dataclasses import replace
from importlib import resources
from itertools import combinations, product
from math import prod
from random import Random

import pytest

from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.solve import Status
from dse.algorithms.pairwise.solve import solve as solve_pairwise
from dse.parallel import sharded
from dse.parallel.baselines import data_parallel
from dse.parallel.check import account
from dse.parallel.choice_graph import ChoiceGraph
from dse.parallel.choices import Cut
from dse.parallel.contract import PROBLEM
from dse.parallel.formats import Stated, plan_document, stated_from_document
from dse.parallel.linkage_plans import linkage_plan, min_state_bytes
from dse.parallel.mesh import WHOLE, mesh_of
from dse.parallel.options import ParallelOptions
from dse.parallel.plan import Plan, hidden_of, picoseconds_of, sent_by, split_dimensions, state_bytes_of
from dse.parallel.prices import Prices
from dse.parallel.resharding import Collective, Fabric
from dse.parallel.solve import solve
from dse.parallel.stopped import mark_faults
from dse.results.result import PROOF_TOLERANCE, Result, seal_of
from dse.run.run import Run
from hardware.inputs import InputError
from hardware.network_specs import network
from tests.parallel.problems import DUMPS as DUMPS_OF
from tests.parallel.problems import MLP, dump, mlp, mlp_text

DUMPS = ["vgg-tiny.hlo", "dlrm-tiny.hlo", "rare.hlo"]
MESHES = ["2", "data=2,model=2"]


def drawn(problem, prices, draw):
    """Any plan: every operation and argument as it comes."""
    return Plan(
        tuple(draw.randrange(len(priced)) if priced else 0 for priced in prices.priced),
        tuple(draw.choice(problem.layouts_of_argument(number)) for number in range(len(problem.graph.arguments))),
    )


def stated(problem, prices, plan):
    return stated_from_document(problem, plan_document(problem, prices, plan), "result")


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("overlap", [False, True])
def test_the_checker_and_the_search_price_every_plan_the_same(name, mesh, overlap):
    pairs = replace(network("ethernet-25g"), inner=network("nvlink2"), inner_accelerators=2)
    problem = dump(name, mesh, network=pairs, overlap=overlap)
    prices, draw = Prices(problem), Random(3)
    graph = ChoiceGraph(problem, prices)
    pairwise = graph.pairwise()
    for _ in range(5):
        choices = [draw.randrange(len(costs)) for costs in pairwise.costs]
        plan = graph.plan(choices)
        found = account(problem, stated(problem, prices, plan))
        assert found.faults == []
        assert found.step_ps == picoseconds_of(problem, prices, plan)
        assert found.step_ps == evaluate(pairwise, choices).cost
        assert found.state_bytes == state_bytes_of(problem, plan.arguments)
        assert found.split_dimensions == split_dimensions(problem, plan.arguments)
        assert found.hidden_ps == hidden_of(problem, prices, plan) <= found.communication_ps
        assert (found.hidden_ps > 0) == overlap


def enumerated(problem, prices):
    """(picoseconds, split dimensions, state bytes) of all plans in which nothing is resharded but by linkage groups.

    Every set of groups is tried that splits no value and no operation twice on an axis, from the plan's own choices.
    """
    linkage = problem.linkage
    allowed = [
        [
            axes
            for count in range(len(problem.mesh.axes) + 1)
            for axes in combinations(range(len(problem.mesh.axes)), count)
            if not axes or group.allows(prod(problem.mesh.axes[axis].size for axis in axes))
        ]
        for group in linkage.groups
    ]
    for splits in product(*allowed):
        plan = plan_of(problem, prices, linkage, splits)
        if plan is not None:
            assert not any(sent.cause != "terms" for sent in sent_by(problem, prices, plan))
            yield (
                picoseconds_of(problem, prices, plan),
                split_dimensions(problem, plan.arguments),
                state_bytes_of(problem, plan.arguments),
            )


def plan_of(problem, prices, linkage, splits):
    """The plan in which each group is split on some axes; None where an array or operation excludes it."""

    def layout(value):
        found = [WHOLE] * len(problem.mesh.axes)
        for dim in range(len(problem.graph.values[value].dims)):
            for axis in splits[linkage.group_of[value, dim]] if (value, dim) in linkage.group_of else ():
                if found[axis] != WHOLE:
                    return None
                found[axis] = dim
        return tuple(found)

    layouts = [None if value.constant else layout(number) for number, value in enumerate(problem.graph.values)]
    if any(each is None and not value.constant for each, value in zip(layouts, problem.graph.values, strict=True)):
        return None
    choices = []
    for operation, priced in zip(problem.graph.operations, prices.priced, strict=True):
        fitting = [
            number
            for number, each in enumerate(priced)
            if all(cut.scattered == WHOLE for cut in each.choice)
            and all(
                layouts[value] in (None, taken)
                for value, taken in zip(
                    (*operation.operands, *operation.results),
                    (*each.layouts.operands, *each.layouts.results),
                    strict=True,
                )
            )
        ]
        if priced and not fitting:
            return None
        choices.append(min(fitting, key=lambda number: priced[number].picoseconds) if priced else 0)
    return Plan(tuple(choices), tuple(layouts[argument.value] for argument in problem.graph.arguments))


@pytest.mark.parametrize("mesh", ["4", "data=2,model=4"])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.35])
def test_linkage_plans_are_those_of_enumeration(mesh, share):
    problem = mlp(mesh)
    prices = Prices(problem)
    limit = int(share * state_bytes_of(problem, [problem.mesh.whole] * len(problem.graph.arguments)))
    fitting = [each for each in enumerated(problem, prices) if each[2] <= limit]
    for objective, best in (("cost", min(each[0] for each in fitting)), ("count", max(each[1] for each in fitting))):
        asked = mlp(mesh, objective=objective, state_bytes=limit)
        found = linkage_plan(asked, Prices(asked))
        assert found.value == found.bound == best
        cost = picoseconds_of(asked, Prices(asked), found.plan)
        assert state_bytes_of(asked, found.plan.arguments) <= limit
        if objective == "cost":
            assert cost == best
        else:
            assert split_dimensions(asked, found.plan.arguments) == best
            assert cost == min(each[0] for each in fitting if each[1] == best)
    least = min(each[2] for each in enumerated(problem, prices))
    assert min_state_bytes(problem, prices) == least
    none = mlp(mesh, state_bytes=least - 1)
    assert linkage_plan(none, Prices(none)).plan is None


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("objective", ["cost", "count"])
def test_linkage_plans_of_real_steps_reshard_nothing(name, mesh, objective):
    problem = dump(name, mesh, objective=objective)
    prices = Prices(problem)
    found = linkage_plan(problem, prices)
    assert not any(sent.cause != "terms" for sent in sent_by(problem, prices, found.plan))
    cost = picoseconds_of(problem, prices, found.plan)
    count = split_dimensions(problem, found.plan.arguments)
    assert found.value == found.bound == (cost if objective == "cost" else count)
    whole = Plan((0,) * len(problem.graph.operations), (problem.mesh.whole,) * len(problem.graph.arguments))
    assert objective == "count" or cost <= picoseconds_of(problem, prices, whole)


def test_data_parallelism_splits_the_batch_of_every_input():
    problem = mlp("data=2,model=2")
    plan = data_parallel(problem, Prices(problem))
    layouts = {argument.name: layout for argument, layout in zip(problem.graph.arguments, plan.arguments, strict=True)}
    assert layouts == {
        "params['w1']": (WHOLE, WHOLE),
        "params['w2']": (WHOLE, WHOLE),
        "batch['x']": (0, 0),
        "batch['y']": (0, 0),
    }
    sent = sent_by(problem, Prices(problem), plan)
    assert {each.collective.kind for each in sent} == {"all_reduce"}
    names = {problem.graph.values[each.value].name for each in sent}
    assert names == {"g1", "g2", "l"}


def altered(stated, number=None, cuts=None, layout=None):
    """A solution with other cuts of one operation, or another layout of the first argument."""
    all_cuts = list(stated.cuts)
    if cuts is not None:
        all_cuts[number] = cuts
    arguments = stated.arguments if layout is None else (layout, *stated.arguments[1:])
    return Stated(tuple(all_cuts), arguments)


@pytest.mark.parametrize(
    ("name", "cuts", "rule"),
    [
        ("h", (Cut(7), Cut()), "but is 7"),
        ("h", (Cut(0), Cut(0)), "must be a multiple of"),
        ("g1", (Cut(2, 5), Cut()), "cannot be scattered along dimension 5"),
        ("h", (Cut(0, 1), Cut()), "only partial sums can be scattered"),
        ("g1", (Cut(2, 1), Cut(1)), "axes must scatter a dimension in mesh order"),
        ("l", (Cut(0, 0), Cut()), "cannot be scattered along dimension 0"),
    ],
)
def test_each_rule_of_operations_is_checked(name, cuts, rule):
    problem = mlp("data=2,model=3") if name == "h" else mlp("data=2,model=2")
    prices = Prices(problem)
    whole = stated(problem, prices, Plan((0,) * len(problem.graph.operations), ((WHOLE, WHOLE),) * 4))
    assert account(problem, whole).faults == []
    number = next(
        place
        for place, operation in enumerate(problem.graph.operations)
        if problem.graph.values[operation.results[0]].name == name
    )
    assert any(rule in fault for fault in account(problem, altered(whole, number, cuts)).faults)


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (
            {0: (1,), 1: (1,)},
            "on model, dimension 0 of params['w2'] is split because of dimension 1 of params['w1']",
        ),
        ({0: (0,), 3: (0,)}, "on model, dimension 0 of batch['y'] must not be split, because in "),
    ],
)
def test_a_pin_that_conflicts_says_with_what(pins, words):
    problem = mlp("4", pins=pins)
    with pytest.raises(InputError, match=re.escape(words)):
        solve(problem, Prices(problem), "linkage")


def test_arguments_are_checked():
    problem = mlp("data=2,model=3", state_bytes=9_000, pins={1: (WHOLE, WHOLE)})
    whole = Stated(((Cut(), Cut()),) * len(problem.graph.operations), ((WHOLE, WHOLE),) * 4)
    assert any("9,000" in fault for fault in account(problem, whole).faults)
    faults = account(problem, altered(whole, layout=(WHOLE, 1))).faults
    assert any("dimension 1 of size 32 must be a multiple of 3" in fault for fault in faults)
    pinned = mlp("data=2,model=2", pins={0: (0, WHOLE)})
    assert any("pin" in fault for fault in account(pinned, altered(whole, layout=(WHOLE, WHOLE))).faults)
    assert not any("pin" in fault for fault in account(pinned, altered(whole, layout=(0, WHOLE))).faults)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mesh": "model=8"}, "the mesh in the settings"),
        ({"operations": {"hh": [[0, -1]]}}, "must be the first result of an operation"),
        ({"operations": {"h": [[0, -1], [0, -1]]}}, "an entry for each of 1 axes"),
        ({"operations": {"h": [[-1, -1]]}}, "must be left out"),
        ({"operations": {"h": [[-1, 0]]}}, "must not be scattered"),
        ({"arguments": {}}, "must have an entry for each"),
        ({"arguments": {"params['w1']": [["model"], ["model"]]}}, "must split at most one dimension"),
        ({"arguments": {"params['w1']": [["modle"], []]}}, "must name axes of model=4"),
    ],
)
def test_malformed_solutions_name_the_entry_and_the_rule(change, words):
    problem = mlp()
    prices = Prices(problem)
    document = plan_document(problem, prices, drawn(problem, prices, Random(1)))
    merged = {
        key: {**value, **change[key]}
        if key in change and isinstance(value, dict) and change[key]
        else change.get(key, value)
        for key, value in document.items()
    }
    with pytest.raises(InputError, match=words):
        stated_from_document(problem, merged, "result")


@pytest.mark.parametrize("mesh", MESHES)
def test_a_memory_limit_that_the_best_plan_keeps_changes_nothing_and_a_tighter_one_binds(mesh):
    free = mlp(mesh)
    best = solve(free, Prices(free), "exact")
    needed = state_bytes_of(free, best.plan.arguments)
    loose = mlp(mesh, state_bytes=needed)
    assert solve(loose, Prices(loose), "exact") == best
    tight = mlp(mesh, state_bytes=needed - 1)
    found = solve(tight, Prices(tight), "exact")
    directly = solve_pairwise(ChoiceGraph(tight, Prices(tight)).pairwise())
    assert directly.status is Status.OPTIMAL
    assert (found.value, found.bound) == (directly.value, directly.bound)
    assert found.value >= best.value
    assert state_bytes_of(tight, found.plan.arguments) < needed


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--pin", "params['w1']=model,-", "--pin", "params['w1']=-,-"), "params['w1'] must be pinned only once"),
        (("--pin", "params['w1']=model+data,-"), "model+data must name axes from the outermost inwards"),
        (("--pin", "params['w9']=-,-"), "params['w9']"),
        (("--pin", "params"), "must be NAME=SPEC"),
        (("--memory-gb", "inf"), "inf: must be a number in plain digits"),
        (("--memory-gb", "1e30"), "must be at most 1,073,741,824"),
        (("--mesh", "1000000"), "at most 3 axes and 65,536 devices"),
        (("--mesh", "0"), "--mesh: 0: must have at least one device"),
        (("--mesh", "data=0"), "--mesh: data=0: must have at least one device along data"),
        (("--mesh", "data="), "--mesh: data=: must give the number of devices along data, such as data=4"),
        (("--mesh", "data"), "--mesh: data: must be a number of devices, or axes from the outermost inwards"),
        (("--emit-iopddl", "e.txt"), "--emit-iopddl: e.txt: must end in .json or .json.gz"),
        (("--emit-iopddl", "e.gz"), "--emit-iopddl: e.gz: must end in .json or .json.gz"),
    ],
)
def test_options_that_break_a_rule_are_one_line(dse, tmp_path, asked, words):
    (tmp_path / "step.hlo").write_text(MLP)
    answer = dse("parallel", tmp_path / "step.hlo", "--mesh", "data=2,model=2", *asked)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert words in answer.err


def forged(dse, tmp_path, change, *asked):
    """The result of ``asked``, changed and sealed again, as the check sees it."""
    path = tmp_path / "asked" / "result.json"
    assert dse("parallel", *asked, "--out", path.parent, "--quiet").code == 0
    document = json.loads(path.read_text())
    change(document)
    document["seal"] = seal_of(document)
    path.write_text(json.dumps(document))
    return dse("check", path)


def test_a_plan_with_resharding_is_no_plan_of_linkage(dse, tmp_path):
    exact = tmp_path / "exact" / "result.json"
    common = (DUMPS_OF / "vgg-tiny.hlo", "--mesh", "4", "--memory-gb", "0.0002")
    assert dse("parallel", *common, "--out", exact.parent, "--quiet").code == 0
    better = json.loads(exact.read_text())

    def change(document):
        assert better["objective"]["value"] < document["objective"]["value"]
        document.update({key: better[key] for key in ("solution", "metrics", "objective", "bound", "gap")})

    answer = forged(dse, tmp_path, change, *common, "--method", "linkage")
    assert answer.code == 1
    assert "must not be resharded with method linkage" in answer.out + answer.err


def test_more_split_dimensions_than_are_possible_are_refused(dse, tmp_path):
    def change(document):
        arguments = document["solution"]["arguments"]
        name = next(n for n, split in arguments.items() if n.startswith("parameters") and not any(split))
        arguments[name][0] = ["model"]
        document["objective"]["value"] += 1
        document["bound"] += 1

    answer = forged(dse, tmp_path, change, DUMPS_OF / "dlrm-tiny.hlo", "--mesh", "4", "--objective", "count")
    assert answer.code == 1
    assert (
        "must not be resharded with method linkage" in answer.out + answer.err
        or "must be a multiple of" in answer.out + answer.err
    )


@pytest.fixture(scope="module")
def optimum():
    """A problem, and the value of its best plan."""
    posed = PROBLEM.pose(ParallelOptions(str(DUMPS_OF / "vgg-tiny.hlo"), mesh="data=2,model=2"))
    return posed, PROBLEM.answer(posed, Run()).objective.value


@pytest.mark.parametrize("moment", [1, 3, 30, 300, 3000])
def test_a_stop_at_any_phase_leaves_a_plan_and_a_bound(optimum, moment):
    """In the making of the choices, in the reduction, and later."""
    posed, best = optimum
    questions = itertools.count(1)
    stopped = PROBLEM.answer(posed, Run(stop=lambda: "time limit" if next(questions) >= moment else None))
    assert 0 < stopped.bound <= best * (1 + PROOF_TOLERANCE)
    assert best <= stopped.objective.value * (1 + PROOF_TOLERANCE)


def test_a_bound_of_work_alone_is_checked_without_a_search_and_a_tighter_one_by_it(optimum, monkeypatch):
    posed, best = optimum
    questions = itertools.count(1)
    stopped = PROBLEM.answer(posed, Run(seed=5, stop=lambda: "time limit" if next(questions) >= 3 else None))
    searched = []
    real = sharded.solve
    monkeypatch.setattr(sharded, "solve", lambda *given: searched.append(1) or real(*given))
    assert PROBLEM.faults(stopped, posed) == []
    assert PROBLEM.faults(stopped.model_copy(update={"bound": None, "gap": None}), posed) == []
    assert not searched
    tighter = stopped.model_copy(update={"bound": (stopped.bound + best) / 2})
    assert PROBLEM.faults(tighter, posed) == []
    forged = stopped.model_copy(update={"bound": best * 1.01})
    assert any("must not be tighter" in fault for fault in PROBLEM.faults(forged, posed))
    without = forged.model_copy(update={"status": "interrupted", "solution": {}, "metrics": {}, "gap": None})
    assert any("must not be tighter" in fault for fault in PROBLEM.faults(without, posed))
    assert searched


def test_a_time_limit_leaves_the_best_plan_so_far_and_a_bound(dse, tmp_path):
    """Stopped before anything was found: a plan without resharding, which needs no search."""
    answer = dse("parallel", DUMPS_OF / "vgg-tiny.hlo", "--mesh", "data=2,model=2", "--time-limit", "1e-9", "--json")
    assert answer.code == 0
    stopped = json.loads(answer.out)
    assert stopped["status"] in ("interrupted", "feasible")
    assert stopped["solution"]
    (tmp_path / "result.json").write_text(answer.out)
    assert dse("check", tmp_path / "result.json").code == 0


STOPPED = {
    "sharding": {"mesh": "data=2,model=2"},
    "all": {"mesh": "4", "strategy": "all"},
}


@pytest.mark.parametrize("asked", STOPPED.values(), ids=STOPPED)
def test_an_answer_that_a_time_limit_ended_says_so(dse, tmp_path, asked):
    """In the result, in the terminal, on the page; and the mark cannot be forged."""
    step, out = DUMPS_OF / "vgg-tiny.hlo", tmp_path / "run"
    options = [word for key, value in asked.items() for word in (f"--{key}", value)]
    shown = dse("parallel", step, *options, "--time-limit", "1e-9", "--out", out)
    assert shown.code == 0, shown.err
    assert "stopped early (time limit)" in " ".join(shown.out.split())
    assert "stopped early (time limit)" in (out / "report.html").read_text()
    result = Result.model_validate_json((out / "result.json").read_text())
    assert result.status == "feasible"
    assert result.metrics["stopped"] == "time limit"
    assert dse("check", out / "result.json").out == "ok\n"
    posed = PROBLEM.pose(ParallelOptions(str(step), **asked))
    assert PROBLEM.faults(result, posed) == []
    for reason in ("interrupted", "weather", None):
        forged = result.model_copy(update={"metrics": {**result.metrics, "stopped": reason}})
        assert any("metrics.stopped" in fault for fault in PROBLEM.faults(forged, posed)), reason


@pytest.mark.parametrize(("strategy", "moment"), [("pipeline", 3), ("hybrid", 300)])
def test_stages_of_a_stopped_search_say_so(strategy, moment):
    options = ParallelOptions(str(DUMPS_OF / "vgg-tiny.hlo"), mesh="4", strategy=strategy, stages=4, microbatches=8)
    posed = PROBLEM.pose(options)
    questions = itertools.count(1)
    result = PROBLEM.answer(posed, Run(stop=lambda: "time limit" if next(questions) >= moment else None))
    assert (result.status, result.metrics["stopped"]) == ("feasible", "time limit")
    assert PROBLEM.faults(result, posed) == []
    view = PROBLEM.view(result, posed, {})
    assert view.verdict.endswith("; stopped early (time limit)")
    assert list(view.page())


def test_a_proven_answer_is_not_called_stopped(dse):
    """The search had ended when the limit passed."""
    posed = PROBLEM.pose(ParallelOptions(str(DUMPS_OF / "vgg-tiny.hlo"), mesh="2"))
    result = PROBLEM.answer(posed, Run())
    assert result.status == "optimal"
    assert "stopped" not in result.metrics
    forged = result.model_copy(update={"metrics": {**result.metrics, "stopped": "time limit"}})
    assert any("metrics.stopped" in fault for fault in PROBLEM.faults(forged, posed))


@pytest.mark.parametrize("strategy", ["sharding", "all"])
def test_stopped_answers_are_compared_as_others_are(strategy):
    posed = PROBLEM.pose(ParallelOptions(str(DUMPS_OF / "vgg-tiny.hlo"), mesh="2", strategy=strategy))
    stopped = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    assert stopped.metrics["stopped"] == "time limit"
    whole = stopped.model_copy(update={"metrics": {k: v for k, v in stopped.metrics.items() if k != "stopped"}})
    assert PROBLEM.compared([stopped, whole]) == PROBLEM.compared([whole, whole])
    assert PROBLEM.compared([whole, whole])


@pytest.mark.parametrize("status", ["optimal", "infeasible", "unknown"])
def test_only_a_plan_without_proof_is_called_stopped(status):
    posed = PROBLEM.pose(ParallelOptions(str(DUMPS_OF / "vgg-tiny.hlo"), mesh="2"))
    stopped = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    faults = mark_faults(stopped.model_copy(update={"status": status}))
    assert faults == [f"metrics.stopped must not be given with status {status}"]


@pytest.mark.parametrize(
    ("rate", "asked", "words"),
    [
        (1, (), "slow.yaml: hbm_bytes_per_s: 1: must be 1e+06 to 1e+16 bytes per second"),
        (1e6, ("--strategy", "hybrid", "--mesh", "4", "--stages", "1", "--microbatches", "8192"),
         "--accelerator: v100: is too slow: all operations together must take"),
    ],
)  # fmt: skip
def test_an_accelerator_in_other_units_is_one_line(dse, tmp_path, rate, asked, words):
    (tmp_path / "step.hlo").write_text(mlp_text(64))
    spec = resources.files("hardware").joinpath("specs/chips/v100.yaml").read_text()
    (tmp_path / "slow.yaml").write_text(spec.replace("value: 0.9e+12", f"value: {rate}"))
    answer = dse("parallel", tmp_path / "step.hlo", "--accelerator", tmp_path / "slow.yaml", "--mesh", "8", *asked)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert words in answer.err


@pytest.mark.parametrize("strategy", ["sharding", "pipeline", "hybrid"])
def test_a_loop_of_more_time_than_can_be_counted_is_one_line(dse, tmp_path, strategy):
    text = (DUMPS_OF / "rare.hlo").read_text().replace("constant(3)", "constant(2000000000)")
    (tmp_path / "step.hlo").write_text(text)
    spec = resources.files("hardware").joinpath("specs/chips/v100.yaml").read_text()
    (tmp_path / "slow.yaml").write_text(spec.replace("value: 0.9e+12", "value: 1e6"))
    asked = ("--accelerator", tmp_path / "slow.yaml", "--mesh", "4", "--strategy", strategy)
    answer = dse("parallel", tmp_path / "step.hlo", *asked)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert "--accelerator: v100: is too slow: 2,000,000,000 runs of one operation take 8,000 s" in answer.err


def test_a_network_in_other_units_is_one_line():
    slow = Fabric(mesh_of("8"), replace(network("ethernet-25g"), bytes_per_s=3.125))
    with pytest.raises(InputError, match=r"--network: ethernet-25g: is too slow: one operation takes"):
        slow.picoseconds(Collective("all_reduce", (0,), 4096))
