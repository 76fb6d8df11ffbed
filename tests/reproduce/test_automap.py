"""``dse reproduce automap``: the steps, the paper's plans, and the command."""

import json
import re
from dataclasses import replace
from functools import cache
from math import prod

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.mesh import WHOLE, mesh_of
from dse.reproduce.automap.models import BUILT_IN, FAMILIES, family_of, step_of, text_of_step, variables_of
from dse.reproduce.automap.published import PlanPaper, read_published
from dse.reproduce.automap.study import (
    DATA_PARALLEL,
    RULES,
    CheckedPlan,
    Machine,
    Outcome,
    Study,
    Trial,
    is_as_published,
    planned,
    problem_of,
    published_pins,
    rules_of,
)
from dse.reproduce.automap.tables import counts, data_parallel, plans, worth_of_paper
from dse.run.executor import InProcessExecutor
from dse.run.run import Run
from hardware.inputs import InputError, validate
from tests.reproduce.sections import Kept, assert_whole
from tests.shared_data import shared_data

PAPER = read_published()
SERVER = Machine("8", "v100", "v100-ethernet")
TINY = str(shared_data("hlo") / "vgg-tiny.hlo")


def outcome_of(step, rules, machine=SERVER):
    (outcome,) = study((step,), machine).outcomes((rules,)).values()
    return outcome


def study(steps, machine=SERVER):
    """Of plans that every test of this file finds made: they depend on nothing but their trial."""
    return Study(steps, machine, Run(InProcessExecutor(), journal=kept(machine)))


@cache
def kept(machine):
    return Kept()


def dimensions(step):
    return sum(len(step_of(step).values[each.value].dims) for each in step_of(step).trainable)


@pytest.mark.parametrize(
    ("step", "variables", "dims"), [("vgg19", 38, 89), ("t5-base", 188, 288), ("t5-6", 187, 286), ("t5-11b", 727, 1114)]
)
def test_the_built_in_steps_are_whole_steps(step, variables, dims):
    graph = step_of(step)
    assert (len(graph.trainable), dimensions(step)) == (variables, dims)
    assert "others" not in variables_of(step)
    assert {each.role for each in graph.arguments} == {"parameter", "state", "input"}
    assert "source_file" not in text_of_step(step)
    assert "stack_frame_id" not in text_of_step(step)


def test_every_variable_of_the_papers_tables_is_one_of_ours():
    for family in FAMILIES:
        assert set(PAPER.tables[family.name]) <= set(family.variables)
        assert set(family.layers) <= set(PAPER.tables[family.name])
        assert all(PAPER.tables[family.name][name] == WHOLE for name in family.layers)
    assert set(BUILT_IN.values()) <= set(PAPER.models)


def test_the_papers_plans_split_as_many_dimensions_as_it_counts():
    """Table 5's counts of VGG-19 and T5-11B follow from Tables 3 and 4."""
    for step in ("vgg19", "t5-11b"):
        plan = PAPER.plan(family_of(step).name)
        split = {name: len(names) for name, names in variables_of(step).items() if plan.get(name, WHOLE) != WHOLE}
        left_out = split.pop("embedding_weights", 0) if step == "t5-11b" else 0
        assert sum(split.values()) == PAPER.models[BUILT_IN[step]].counts.found
        assert left_out == (step == "t5-11b")


def test_t5_base_is_as_large_as_the_papers_and_has_its_variables():
    variables = PAPER.models["T5-base"].variables
    graph = step_of("t5-base")
    sizes = [prod(graph.values[each.value].dims) for each in graph.trainable]
    assert len(sizes) == variables.count
    assert sum(sizes) == pytest.approx(PAPER.parameters["T5-base"], rel=0.01)
    layers = [each for each in graph.trainable if re.search(r"\['layer\d+'\]", each.name)]
    vectors = sum(len(graph.values[each.value].dims) == 1 for each in layers)
    # 188 variables of at most two dimensions with 314 together have at most 62 vectors.
    assert vectors == 84 > 2 * variables.count - variables.dimensions


@pytest.mark.parametrize(("step", "split"), [("t5-6", 111), ("t5-base", 112)])
def test_table_3_is_the_fastest_plan_where_the_inputs_are_whole(step, split):
    outcome = outcome_of(step, "cost*")
    assert outcome.best.is_proven
    assert outcome.best.split_dimensions == split
    assert outcome.is_published_optimal
    for variable, names in variables_of(step).items():
        if variable in PAPER.tables["T5"]:
            assert is_as_published(outcome.best, names, PAPER.tables["T5"][variable]), variable


def test_the_reward_alone_splits_more_than_table_3():
    outcome = outcome_of("t5-6", "count")
    assert outcome.best.value == 175
    assert outcome.published.value == 111
    assert not outcome.is_published_optimal
    assert outcome.published.step_s < outcome.best.step_s


def test_table_4_is_the_optimum_where_the_convolutions_are_whole():
    outcome = outcome_of("vgg19", "count*")
    assert outcome.best.is_proven
    assert outcome.best.split_dimensions == PAPER.models["VGG-19"].counts.found == 5
    assert outcome.is_published_optimal
    for variable, dim in PAPER.plan("VGG").items():
        assert is_as_published(outcome.best, variables_of("vgg19")[variable], dim), variable


def test_only_what_the_paper_leaves_whole_without_need_is_a_rule():
    assert {family.name: rules_of(family) for family in FAMILIES} == {
        "T5": ("count", "cost", "cost*", "reshard"),
        "VGG": tuple(RULES),
    }


@pytest.mark.parametrize("rules", [*RULES])
def test_a_fixed_plan_is_never_better_than_a_free_one(rules):
    for step in ("vgg19", TINY):
        outcome = outcome_of(step, rules)
        assert outcome.best.is_proven
        if RULES[rules].objective == "count":
            assert outcome.published.value <= outcome.best.value
        else:
            assert outcome.published.value >= outcome.best.value


def test_a_mesh_that_does_not_divide_has_no_published_plan():
    assert published_pins("vgg19", mesh_of("24"), 0) is None
    outcome = outcome_of("vgg19", "cost*", Machine("24", "v100", "v100-ethernet"))
    assert outcome.published is None
    assert not outcome.is_published_optimal


def test_the_papers_plan_lies_on_one_axis():
    pins = published_pins("vgg19", mesh_of("servers=2,model=8"), 1)
    names = {step_of("vgg19").arguments[number].name: layout for number, layout in pins.items()}
    assert names["parameters['fc1']['kernel']"] == (WHOLE, 1)
    assert names["parameters['fc2']['kernel']"] == (WHOLE, 0)
    assert "parameters['fc2']['bias']" not in names


def test_between_servers_the_last_layers_are_split_and_inside_the_batch():
    """Section 5.2.1: on several servers "the effective way is to partition the last MLP block"."""
    outcome = outcome_of("vgg19", "cost", Machine("servers=4,model=8", "v100", "v100-ethernet"))
    assert outcome.best.is_proven
    variables, plan = variables_of("vgg19"), PAPER.plan("VGG")
    for variable in ("conv/kernel", "conv/bias", "fc1/kernel", "fc1/bias", "fc2/kernel"):
        assert is_as_published(outcome.best, variables[variable], plan[variable]), variable
        on_servers = [outcome.best.arguments[name][0] for name in variables[variable]]
        assert set(on_servers) == {plan[variable]}
    assert outcome.best.arguments["batch['image']"] == [WHOLE, 0]
    assert outcome.best.value < outcome.published.value < 1.1 * outcome.best.value


def test_sections_are_whole():
    of = study(("vgg19", TINY))
    sections = [plans(of, "table4", "VGG"), counts(of), data_parallel(of)]
    assert_whole(sections, ("table4", "table5", "table6"))
    skipped = plans(of, "table3", "T5")
    assert skipped.skipped == "none of --models is T5"
    ours = {(each.model, each.cost_model, each.quantity): each for each in sections[2].comparisons}
    inputs = ours["vgg19", "data parallel", "inputs split"]
    assert (inputs.ours, inputs.paper) == (2, 2)
    assert inputs.reason  # the paper's step has four inputs
    assert ours["vgg-tiny", "data parallel", "inputs split"].paper is None


def test_what_the_papers_plan_is_worth_is_what_it_takes():
    ours, theirs = CheckedPlan(1.0, True, 1.0, 0.0, 12, 0, {}), CheckedPlan(2.0, False, 2.0, 0.0, 5, 0, {})
    amounts = "the paper's plan splits 5 dimensions and takes 2 s per step, ours 12 dimensions and takes 1 s"
    assert worth_of_paper(Outcome(ours, theirs, 1.0)) == f"under these rules {amounts}"
    assert "as good as ours" in worth_of_paper(Outcome(ours, replace(theirs, value=1.0), 1.0))
    assert "no plan can split variables as in the paper's table" in worth_of_paper(Outcome(ours, None, 1.0))
    assert worth_of_paper(Outcome(None, theirs, 1.0)) == ""


def test_a_trial_depends_on_nothing_but_itself():
    trial = Trial(TINY, "reshard", Machine("2", "v100", "dapple"), 0)
    one, other = planned(trial), planned(trial)
    assert one.pop("seconds") > 0
    assert other.pop("seconds") > 0
    assert one == other == json.loads(json.dumps(one))


def test_the_seconds_of_a_plan_include_the_reading_of_its_step(monkeypatch):
    events = []
    monkeypatch.setattr(
        "dse.reproduce.automap.study.perf_counter", lambda: events.append("clock") or float(len(events))
    )
    monkeypatch.setattr(step_of, "cache_clear", lambda: events.append("forgotten"))
    monkeypatch.setattr(
        "dse.reproduce.automap.study.problem_of", lambda trial: events.append("read") or problem_of(trial)
    )
    outcome = planned(Trial(TINY, DATA_PARALLEL, SERVER, 0))
    assert events == ["clock", "forgotten", "read", "clock"]
    assert outcome["seconds"] == 3.0


def test_other_pins_leave_what_is_known_of_the_step():
    problem, pins = problem_of(Trial(TINY, "cost", SERVER, 0)), published_pins(TINY, mesh_of("8"), 0)
    known = problem.linkage
    pinned = problem.pinned(pins)
    assert pinned == replace(problem, pins=pins) != problem
    assert pinned.linkage is known
    assert pinned.linkage == replace(problem, pins=pins).linkage


def test_nothing_is_optimal_that_is_not_proven():
    outcome = outcome_of(TINY, "count*")
    assert outcome.is_published_optimal
    assert not Outcome(None, outcome.published, 1.0).is_published_optimal
    assert not Outcome(outcome.best, None, 1.0).is_published_optimal


def test_the_command_prints_our_plans_beside_the_papers(dse, tmp_path):
    tables, figures = (f"table{number}" for number in range(1, 9)), ("figure11", "figure12")
    parts = [*tables, *figures, "claims"]
    arguments = ("reproduce", "automap", *parts, "--models", TINY, "--mesh", "2", "--out", tmp_path / "run")
    done = dse(*arguments, "--workers", 0)
    assert done.code == 0, done.err
    assert "Table 4" in done.out
    assert "none of --models is T5" in " ".join(done.out.split())
    document = json.loads((tmp_path / "run" / "reproduction.json").read_text())
    assert {section["part"] for section in document["sections"]} == {*parts}
    assert document["settings"]["network"] == "v100-ethernet"
    again = dse(*arguments, "--workers", 0, "--resume", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["sections"] == document["sections"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--models", "vgg-19"), "did you mean vgg19"),
        (("--models", "vgg19,vgg19"), "steps must be unique"),
        (("--models", "vgg19,,t5-6"), "steps must be unique"),
        (("--models", "gone.hlo"), "gone.hlo"),
        (
            ("--models", str(shared_data("hlo") / "dlrm-tiny.hlo")),
            "argument names must be as in benchmarks/hlo/steps.py",
        ),
        (("--mesh", "model"), "--mesh"),
        (("--network", "dappel"), "did you mean dapple"),
        (("--accelerator", "v100x"), "did you mean v100"),
        (("table9",), "no table or figure"),
        (("--moves", "5"), "is an option of gigaplacer"),
    ],
    ids=str,
)
def test_bad_usage_is_one_line(dse, arguments, expected):
    refused = dse("reproduce", "automap", *arguments)
    assert refused.code == 2
    (line,) = refused.error_lines
    assert expected in line


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "dse.parallel-paper/2"),
        (("tables", "T5", "q"), -2),
        (("tables", "BERT"), {}),
        (("uncounted", "VGG"), ["fc3/bias"]),
        (("models", "VGG-19", "counts", "seconds"), 0),
        (("sources", "tables"), ""),
    ],
    ids=str,
)
def test_broken_numbers_are_refused(path, value):
    document = PAPER.model_dump(mode="json", by_alias=True)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError):
        validate(PlanPaper, document, "published.yaml")


def test_places_are_taken_out_of_dumps():
    benchmarks = pytest.importorskip("benchmarks.hlo.dumps", exc_type=ImportError)
    text = (shared_data("hlo") / "vgg-tiny.hlo").read_text()
    cleaned = benchmarks.without_places(text)
    for place in ("FileNames", "StackFrames", "steps.py", "stack_frame_id"):
        assert place in text
        assert place not in cleaned
    assert step_graph(parse_hlo(cleaned, "tiny"), "tiny") == step_graph(parse_hlo(text, "tiny"), "tiny")
