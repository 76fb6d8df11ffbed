"""Which cost `dse fabric place` takes, and the cost whose chains follow a student and whose judge is the simulator."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse.cli.methods import upper_document, upper_methods, with_upper_defaults
from dse.fabric import setting
from dse.fabric.cases import block_case
from dse.fabric.contract import FabricType
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import SearchContext, by_simulator
from dse.fabric.model import placement_faults
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.setting import tuned_for
from dse.graph.dataflow.formats import graph_document
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop, silent
from dse.testing import conformance
from hardware.fabric_specs import fabric
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric import methods
from policies.fabric.methods import SHIPPED, LearnedFor, weights_digest
from policies.fabric.student_checkpoint import STUDENT, STUDENTS
from policies.learning.checkpoint import CARD_FILE, WEIGHTS_FILE
from tests.policies.fabric.from_above import FromAbove

NAME = "learned+simulator"
TUNED = Path(setting.__file__).parent / setting.SHIPPED
FABRIC = fabric("plasticine-8x16")
CASE = block_case(2, FABRIC, operator_slots())
PIPELINE = CASE.expansion.pipeline
MANY = len(PIPELINE.units) ** 2


@pytest.fixture
def graph_file(tmp_path):
    (tmp_path / "graph.json").write_text(json.dumps(graph_document(CASE.expansion.graph)))
    return tmp_path / "graph.json"


def options_for(graph_file, **others):
    asked = {"fabric": "plasticine-8x16", "fill": CASE.fill, "chains": 2, "moves": MANY} | others
    return FabricType.Options(str(graph_file), **asked)


def context_of(moves, **others):
    context = SearchContext(
        pipeline=PIPELINE,
        fabric=FABRIC,
        settings=AnnealSettings(moves=moves),
        rounds=2,
        tuned=tuned_for(FABRIC, None),
        chains=3,
        seed=(0, 0),
        label="piece 1",
        executor=InProcessExecutor(),
        progress=silent,
        stop=never_stop,
    )
    return replace(context, **others)


def search_of(graph_file, **others):
    return upper_methods("fabric", options_for(graph_file, cost=NAME, **others), InProcessExecutor(), None)[NAME]


def narrow_checkpoint(folder):
    """The checkpoint of the package, whose student has seen graphs of no size."""
    from safetensors.numpy import load_file

    from policies.learning.checkpoint import Checkpoint

    shutil.copytree(SHIPPED, folder)
    tensors = load_file(folder / STUDENT / WEIGHTS_FILE)
    tensors["low"], tensors["high"] = tensors["low"] + 1e3, tensors["high"] + 1e3
    loaded = STUDENTS.load(folder / STUDENT)
    STUDENTS.save(folder / STUDENT, Checkpoint(loaded.settings, tensors, loaded.provenance))
    return folder


def test_its_chains_follow_the_student_and_the_simulator_puts_the_fastest_first(graph_file):
    candidates = search_of(graph_file)(context_of(MANY, rounds=0))
    trained = LearnedFor(None, "plasticine-8x16", "streaming").student()
    settings = trained.rules.schedule(AnnealSettings(moves=MANY))
    annealing = Annealing(PIPELINE, FABRIC, trained.rules.weights, settings, student=trained.student)
    chains = [annealing(Chain(each)) for each in np.random.default_rng((0, 0)).integers(2**63, size=3).tolist()]
    slots = [throughput(Simulator(PIPELINE, FABRIC), each.placement).interval_slots for each in chains]
    assert sorted(each.chain for each in candidates) == [0, 1, 2]
    assert [each.interval_slots for each in candidates] == sorted(slots)
    for each in candidates:
        assert each.placement.site.tolist() == chains[each.chain].placement.site.tolist()


def test_the_fastest_is_refined(graph_file):
    search = search_of(graph_file)
    unrefined, refined = (search(context_of(MANY, rounds=rounds)) for rounds in (0, 16))
    assert refined[0].interval_slots < unrefined[0].interval_slots
    assert (len(unrefined), refined[0].chain) == (3, 3)
    assert placement_faults(PIPELINE, refined[0].placement, FABRIC) == []


def test_rounds_go_on_with_the_rules_of_the_student_where_none_were_tuned_for_the_fabric(graph_file):
    untuned = tuned_for(fabric("sn10"), None)
    assert untuned.note
    search = search_of(graph_file)
    candidates, expected = (search(context_of(MANY, rounds=16, **given)) for given in ({}, {"tuned": untuned}))
    assert candidates[0].chain == 3
    for each, same in zip(candidates, expected, strict=True):
        assert (same.chain, same.cost, same.interval_slots, same.note) == (
            each.chain,
            each.cost,
            each.interval_slots,
            "",
        )


def test_where_moves_are_few_it_does_what_the_simulators_cost_does_and_that_is_said(graph_file):
    context = context_of(100)
    assert context.has_few_moves
    candidates, expected = search_of(graph_file)(context), by_simulator(context)
    assert [(each.cost, each.interval_slots) for each in candidates] == [
        (each.cost, each.interval_slots) for each in expected
    ]
    assert max(each.chain for each in candidates) == context.chains  # what rounds of refinement have made
    said = {each.note for each in candidates}
    assert said == {
        "There are too few moves for this number of units, so the rules were used instead of the learned cost."
    }


def test_graphs_out_of_range_are_left_to_tuned_rules_and_the_simulator_and_that_is_said(graph_file, tmp_path):
    asked = {"chains": 1, "moves": 200, "rounds": 1}
    narrow = str(narrow_checkpoint(tmp_path / "narrow"))
    left = conformance.solved(FromAbove(), options_for(graph_file, cost=NAME, checkpoint=narrow, **asked))
    ruled = conformance.solved(FromAbove(), options_for(graph_file, cost="simulator", **asked))
    (note,) = left.metrics["notes"]
    assert note.startswith("This graph is outside the range of the learned cost (slots of the slowest unit, ")
    assert (left.solution, left.method) == (ruled.solution, NAME)


def test_it_conforms(graph_file, tmp_path):
    problem, options = FromAbove(), options_for(graph_file, cost=NAME)
    result = conformance.solved(problem, options)
    conformance.same_seed_same_answer(problem, options, first=result)
    conformance.stopped_anywhere_is_legal(problem, options, moments=(2,))
    conformance.killed_and_resumed(problem, options, tmp_path, moments=(2,), whole=result)
    assert (result.method, result.metrics["notes"]) == (NAME, [])


@pytest.mark.parametrize(
    ("asked", "cost", "method"),
    [
        ({}, NAME, NAME),
        ({"fabric": "sn10"}, "auto", "simulator"),
        ({"tuned": str(TUNED)}, "auto", "simulator"),
        ({"checkpoint": str(SHIPPED)}, NAME, NAME),
        ({"cost": "simulator"}, "simulator", "simulator"),
        ({"cost": "tuned"}, "tuned", "tuned"),
    ],
)
def test_chains_follow_a_student_where_there_is_one_for_the_fabric(graph_file, asked, cost, method):
    options = with_upper_defaults("fabric", options_for(graph_file, **asked))
    assert (options.cost, options.chosen_cost) == (cost, method)
    assert FabricType().answered_by(options) == (method,)
    assert FabricType().pose(options).problem.fabric.name == asked.get("fabric", FABRIC.name)


def placed_by_its_training(folder, low, high):
    """The checkpoint of the package, with a gain of its student over the rules in its card."""
    shutil.copytree(SHIPPED, folder)
    file = folder / STUDENT / CARD_FILE
    card = json.loads(file.read_text())
    gain = {"value": (low + high) / 2, "low": low, "high": high}
    card["provenance"]["outcome"]["placing"] = {"graphs": 40, "gain": gain}
    file.write_text(json.dumps(card))
    return folder


@pytest.mark.parametrize(
    ("low", "high", "method"), [(-0.05, -0.01, "simulator"), (-0.05, 0.01, NAME), (0.01, 0.05, NAME)]
)
def test_a_student_that_places_worse_than_the_rules_is_not_followed_unless_asked_for(
    graph_file, tmp_path, low, high, method
):
    checkpoint = str(placed_by_its_training(tmp_path / "placed", low, high))
    asked = {"checkpoint": checkpoint, "chains": 1}
    options = with_upper_defaults("fabric", options_for(graph_file, **asked))
    assert options.chosen_cost == method
    result = conformance.solved(FromAbove(), options)
    assert result.method == method
    notes = [
        "The learned cost places worse than the rules in about the same time: throughput -3.0% [-5.0%, -1.0%] on 40 "
        "unseen graphs. Chains therefore followed the rules; --cost learned+simulator makes them follow the student."
    ]
    assert result.metrics["notes"] == (notes if method == "simulator" else [])
    named = with_upper_defaults("fabric", options_for(graph_file, cost=NAME, **asked))
    assert named.chosen_cost == NAME


@pytest.mark.parametrize(
    "placing",
    [3, {"gain": 1}, {"graphs": 40, "gain": {"value": 1}}, {"graphs": 9, "gain": {"value": 1, "low": 1, "high": "a"}}],
)
def test_a_card_that_does_not_say_how_its_student_places_is_refused(graph_file, tmp_path, placing):
    folder = placed_by_its_training(tmp_path / "placed", 0.0, 0.0)
    file = folder / STUDENT / CARD_FILE
    card = json.loads(file.read_text())
    card["provenance"]["outcome"]["placing"] = placing
    file.write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"placed/student/card\.json: provenance\.outcome\.placing: "):
        with_upper_defaults("fabric", options_for(graph_file, checkpoint=str(folder)))


@pytest.mark.parametrize("file", [CARD_FILE, WEIGHTS_FILE])
def test_a_damaged_student_in_the_package_is_said_and_not_passed_over(graph_file, tmp_path, monkeypatch, file):
    shutil.copytree(SHIPPED, tmp_path / "shipped")
    (tmp_path / "shipped" / STUDENT / file).write_bytes(b"{")
    monkeypatch.setattr(methods, "SHIPPED", tmp_path / "shipped")
    for cost in ("auto", NAME):
        asked = options_for(graph_file, cost=cost)
        with pytest.raises(InputError, match=rf"shipped/student/{file}: "):
            conformance.solved(FromAbove(), with_upper_defaults("fabric", asked))


def test_a_checkpoint_for_another_fabric_is_refused(graph_file):
    with pytest.raises(InputError, match=r"provenance\.samples\.simulator"):
        with_upper_defaults("fabric", options_for(graph_file, fabric="sn10", checkpoint=str(SHIPPED)))


@pytest.mark.parametrize("cost", ["rules", "tuned", "learned"])
def test_rounds_are_refused_where_the_simulator_does_not_judge(dse, graph_file, cost):
    refused = dse("fabric", "place", graph_file, "--cost", cost, "--rounds", 3)
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert f"--rounds: applies only to --cost auto or simulator or {NAME}, but --cost is {cost}" in refused.err


def test_tuned_rules_and_a_checkpoint_do_not_go_together(dse, graph_file):
    place = ("fabric", "place", graph_file, "--fabric", "plasticine-8x16", "--fill", CASE.fill, "--tuned", TUNED)
    refused = dse(*place, "--checkpoint", SHIPPED)
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert "must not be given together with --tuned" in refused.err
    refused = dse(*place, "--cost", NAME)
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert f"applies only to --cost tuned or simulator, but --cost is {NAME}" in refused.err


def test_a_run_is_another_one_if_what_its_cost_uses_of_a_checkpoint_is_another(graph_file, tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "checkpoint")
    both = ("learned", NAME)
    before = {cost: weights_digest(tmp_path / "checkpoint", cost) for cost in both}
    assert before == {cost: weights_digest(None, cost) for cost in both}
    asked = options_for(graph_file, cost=NAME, checkpoint=str(tmp_path / "checkpoint"))
    assert upper_document("fabric", asked) == before[NAME]
    assert upper_document("fabric", replace(asked, cost="simulator", checkpoint=None)) is None

    # What `dse fabric train` adds to both cards when it has placed graphs.
    for card in (tmp_path / "checkpoint" / CARD_FILE, tmp_path / "checkpoint" / STUDENT / CARD_FILE):
        document = json.loads(card.read_text())
        document["provenance"]["outcome"]["placing"] = {"graphs": 0, "gain": None}
        card.write_text(json.dumps(document))
    assert {cost: weights_digest(tmp_path / "checkpoint", cost) for cost in both} == before
    card = tmp_path / "checkpoint" / CARD_FILE
    text = card.read_text()
    card.write_text(text.replace('"with_stack": true', '"with_stack": false'))
    assert [weights_digest(tmp_path / "checkpoint", cost) == before[cost] for cost in both] == [False, True]
    card.write_text(text)
    (tmp_path / "checkpoint" / "weights.safetensors").write_bytes(b"others")
    assert [weights_digest(tmp_path / "checkpoint", cost) == before[cost] for cost in both] == [False, True]
    card = tmp_path / "checkpoint" / STUDENT / CARD_FILE
    card.write_text(card.read_text().replace('"sha256": "', '"sha256": "0'))
    assert weights_digest(tmp_path / "checkpoint", NAME) != before[NAME]
    card.write_text("[]")
    assert weights_digest(tmp_path / "checkpoint", NAME) != before[NAME]


def test_it_needs_nothing_of_the_extra(graph_file):
    code = f"""
import sys
for name in ("torch", "sklearn", "torch_geometric", "tensorboardX", "threadpoolctl"):
    sys.modules[name] = None
import dse
result = dse.fabric({str(graph_file)!r}, fabric="plasticine-8x16", fill={CASE.fill}, chains=1, moves={MANY}, workers=0)
print(result.result.method, result.check())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert ran.stdout == f"{NAME} []\n", ran.stderr
