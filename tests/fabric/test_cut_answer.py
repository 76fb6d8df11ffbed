"""Graphs that are cut, end to end: turns, their times and bounds, the check of a cut, and the page."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.cli.interface import solve
from dse.fabric import answer
from dse.fabric.answer import bound_of, value_of
from dse.fabric.batch_bound import batch_bound_slots
from dse.fabric.contract import _MOVE_OF_A_UNIT_S, PROBLEM
from dse.fabric.cut_check import cut_faults
from dse.fabric.evaluators import simulator
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.figures import PlacedPiece
from dse.fabric.formats import placements_from_document
from dse.fabric.methods import Candidate, by_rules
from dse.fabric.options import FabricOptions
from dse.fabric.problem import FabricProblem, Turn
from dse.fabric.report import verdict
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import random_sites
from dse.fabric.turns import min_times
from dse.models.dataflow_blocks import Block, block_graph
from dse.results.check import faults_of
from dse.run.run import Run
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from tests.fabric.cases import SMALL_FABRICS, placed, random_pipeline
from tests.fabric.documents import FEED_FORWARD, fabric_document

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
PLASTICINE = fabric("plasticine-8x16")
SMALL = replace(PLASTICINE, name="small", rows=4, columns=8, memory_bytes=16 * PLASTICINE.flit_bytes)
SLOTS = operator_slots()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(FEED_FORWARD))
    (tmp_path / "fabric.json").write_text(json.dumps(fabric_document(rows=2, columns=4)))
    return tmp_path


OPTIONS = {"fabric": "fabric.json", "chains": 2, "moves": 200, "workers": 0}


@RELAXED
@given(SMALL_FABRICS, st.integers(0, 2**32), st.integers(1, 9))
def test_no_batch_is_faster_than_its_bound(machine, seed, batch):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, machine)
    outcome = Simulator(pipeline, machine).simulate(placed(pipeline, machine, random), batch, fed_samples=batch)
    if not outcome.is_deadlock:
        assert batch_bound_slots(pipeline, machine, batch) <= outcome.departures[-1] + 1


def problem_of_a_block(kind="ffn", graph_pass="forward", batch=16, layers=1):
    graph = block_graph(Block(kind, tokens=64, width=256, inner=256, heads=4, depth=layers), graph_pass)
    return FabricProblem.of(graph, SMALL, SLOTS, 1.0, batch)


@pytest.mark.parametrize(("kind", "graph_pass"), [("ffn", "forward"), ("mha", "forward"), ("ffn", "training")])
def test_a_cut_passes_its_check(kind, graph_pass):
    problem = problem_of_a_block(kind, graph_pass)
    assert len(problem.turns) > 1
    assert cut_faults(problem) == []


def test_layers_that_are_alike_share_pieces():
    problem = problem_of_a_block(layers=4)
    assert len(problem.pieces) < len(problem.turns)
    assert cut_faults(problem) == []


def without_first(problem):
    return problem.turns[1:]


def backwards(problem):
    return problem.turns[::-1]


def twice(problem):
    return problem.turns + problem.turns[-1:]


def of_another_piece(problem):
    return tuple(replace(turn, piece=(turn.piece + 1) % len(problem.pieces)) for turn in problem.turns)


def light(problem):
    return (replace(problem.turns[0], load_slots=problem.turns[0].load_slots - 1), *problem.turns[1:])


def misnamed(problem):
    first, second, *others = problem.turns
    swapped = Turn(first.piece, first.graph, second.operators, first.load_slots)
    return (swapped, replace(second, operators=first.operators), *others)


@pytest.mark.parametrize("forged", [without_first, backwards, twice, of_another_piece, light, misnamed])
def test_a_cut_that_was_tampered_with_does_not(forged):
    problem = problem_of_a_block()
    assert cut_faults(replace(problem, turns=forged(problem))) != []


def test_an_answer_in_pieces_adds_up_and_passes_its_check(folder):
    answer = solve("fabric", "graph.json", **OPTIONS)
    problem, metrics = answer.posed.problem, answer.metrics
    cut = metrics["cut"]
    assert answer.check() == []
    assert [turn["piece"] for turn in answer.solution["turns"]] == [turn["piece"] for turn in cut["turns"]]
    names = [name for turn in answer.solution["turns"] for name in turn["operators"]]
    assert len(names) == len(set(names))
    seconds = [turn["configuration_s"] + turn["load_s"] + turn["run_s"] for turn in cut["turns"]]
    assert answer.value == pytest.approx(problem.batch / sum(seconds))
    assert answer.value <= cut["bound_per_s"] <= answer.result.bound
    assert answer.status == "feasible"
    pieces = [
        PlacedPiece(piece.pipeline, placement, problem.fabric)
        for piece, placement in zip(
            problem.pieces, placements_from_document(problem, answer.solution, "solution"), strict=True
        )
    ]
    assert value_of(problem, pieces) == pytest.approx(answer.value)
    for turn, least in zip(problem.turns, min_times(problem), strict=True):
        assert pieces[turn.piece].latency_s(problem.batch) >= least.run_s


def noted(label, notes):
    """The untuned rules, which say something of the piece of this label."""

    def search(context):
        return [replace(each, note=notes.get(context.label, "")) for each in by_rules(context)]

    return {label: search}


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ({}, []),
        ({1: "One."}, ["Piece 1: One."]),
        ({1: "One.", 2: "One."}, ["One."]),
        ({1: "One.", 2: "Other."}, ["Piece 1: One.", "Piece 2: Other."]),
    ],
)
def test_notes_name_the_pieces_that_they_hold_for(folder, notes, said):
    posed = PROBLEM.pose(FabricOptions("graph.json", fabric="fabric.json", cost="rules", chains=1, moves=10))
    assert len(posed.problem.pieces) == 2
    labelled = {f"piece {number}": note for number, note in notes.items()}
    result = PROBLEM.answer(posed, Run(methods=noted("rules", labelled)))
    assert result.metrics["notes"] == said


def test_relief_is_simulated_for_the_piece_that_takes_most_of_the_time(folder, monkeypatch):
    monkeypatch.setattr("dse.fabric.relief.MIN_GAIN", -0.9)  # so that bounds rule nothing out
    metrics = solve("fabric", "graph.json", **OPTIONS).metrics
    spent = [0.0] * len(metrics["pieces"])
    for turn in metrics["cut"]["turns"]:
        spent[turn["piece"] - 1] += turn["configuration_s"] + turn["load_s"] + turn["run_s"]
    assert [bool(piece["relief"]) for piece in metrics["pieces"]] == [each == max(spent) for each in spent]


def test_the_verdict_on_a_cut_has_both_gaps(folder):
    answer = solve("fabric", "graph.json", **OPTIONS)
    own_gap = 1 - answer.value / answer.metrics["cut"]["bound_per_s"]
    any_gap = 1 - answer.value / answer.result.bound
    assert 0 < own_gap < any_gap
    assert answer.result.gap == pytest.approx(any_gap)
    assert re.findall(r"gap ([0-9.]+) %", verdict(answer.result)) == [f"{100 * gap:.2f}" for gap in (own_gap, any_gap)]


def test_the_bound_of_every_cut_is_below_that_of_one_cut():
    for batch in (1, 16, 1024):
        problem = problem_of_a_block(batch=batch)
        assert bound_of(problem, []) >= batch / sum(time.total_s for time in min_times(problem))


def test_never_cut_names_the_units_that_are_missing_and_offers_the_cut(dse, folder):
    arguments = ("graph.json", "--fabric", "fabric.json", "--cut", "never", "--workers", "0")
    refused = dse("fabric", "place", *arguments, "--json", "--quiet")
    assert refused.code == 1
    proof = json.loads(refused.out)["infeasibility"]
    assert " missing (" in proof["explanation"]
    assert proof["levers"][0].startswith("--cut auto")


def test_a_graph_that_fits_is_not_cut(folder):
    (folder / "fabric.json").write_text(json.dumps(fabric_document()))
    answers = [solve("fabric", "graph.json", **OPTIONS, cut=cut) for cut in ("auto", "never")]
    assert answers[0].solution == answers[1].solution
    assert answers[0].metrics["cut"] is None


def test_a_run_directory_has_a_grid_for_each_piece_and_the_turns_in_time(dse, folder):
    command = ("fabric", "place", "graph.json", "--fabric", "fabric.json", "--chains", "2", "--moves", "200")
    answered = dse(*command, "--workers", "0", "--out", "run")
    assert answered.code == 0, answered.err
    files = {path.name for path in (folder / "run").iterdir()}
    result = json.loads((folder / "run" / "result.json").read_text())
    pieces, turns = len(result["solution"]["pieces"]), result["metrics"]["cut"]["turns"]
    assert {f"piece-{number}.svg" for number in range(1, pieces + 1)} <= files
    trace = json.loads((folder / "run" / "turns-trace.json").read_text())
    ends_s = [1e-6 * (each["ts"] + each["dur"]) for each in trace["traceEvents"] if each["ph"] == "X"]
    assert max(ends_s) == pytest.approx(result["metrics"]["cut"]["batch_s"], abs=2e-9)
    assert sum(each["ph"] == "X" and each["cat"] == "run" for each in trace["traceEvents"]) == len(turns)
    assert (folder / "run" / "turns.svg").read_text().count("Turn 1,") == 3  # configuration, load, run
    assert "takes the largest share of the time" in answered.out


@pytest.mark.parametrize("cost", ["simulator", "tuned"])
def test_the_predicted_time_grows_with_the_rounds_of_every_piece(folder, cost):
    def posed(rounds, moves):
        asked = {"fabric": "fabric.json", "cost": cost, "chains": 2, "moves": moves, "rounds": rounds}
        return PROBLEM.pose(FabricOptions("graph.json", **asked))

    pieces = posed(0, 20).problem.pieces
    many = max(len(piece.pipeline.units) for piece in pieces) ** 2
    assert len(pieces) > 1
    none, three, six = (PROBLEM.predicted_s(posed(rounds, 20)) for rounds in (0, 3, 6))
    assert (three > none) == (cost == "simulator")
    assert six - none == pytest.approx(2 * (three - none))
    assert PROBLEM.predicted_s(posed(6, many)) - PROBLEM.predicted_s(posed(0, many)) == pytest.approx(six - none)
    units = sum(len(piece.pipeline.units) for piece in pieces)
    assert PROBLEM.predicted_s(posed(0, 40)) - none == pytest.approx(2 * 20 * units * _MOVE_OF_A_UNIT_S)


@pytest.mark.parametrize(("rows", "pieces_are_many"), [(2, True), (4, False)])
def test_a_stopped_answer_is_simulated_once_and_passes_its_check(folder, monkeypatch, rows, pieces_are_many):
    """Of a graph that is cut only as long as a batch lasts."""
    (folder / "fabric.json").write_text(json.dumps(fabric_document(rows=rows, columns=2 * rows)))
    posed = PROBLEM.pose(FabricOptions(graph="graph.json", fabric="fabric.json", chains=2, moves=10**9))
    calls, plain = [], simulator.run

    def counted(*arguments):
        calls.append(None)
        return plain(*arguments)

    monkeypatch.setattr(simulator, "run", counted)
    result = PROBLEM.answer(posed, Run(stop=lambda: "interrupted"))
    PROBLEM.view(result, posed, Run().tables).page()
    pieces = len(posed.problem.pieces)
    assert (pieces > 1) == pieces_are_many
    assert len(calls) == (2 * pieces if pieces > 1 else 3)
    assert (result.status, result.metrics["unfinished"]) == ("interrupted", ["chains", "relief"])
    assert 0 < result.objective.value <= result.bound
    assert faults_of(result, posed) == []


def test_a_cut_graph_has_an_answer_before_its_search(folder, monkeypatch):
    """After a stop no batch is simulated again."""
    posed = PROBLEM.pose(FabricOptions(graph="graph.json", fabric="fabric.json", chains=2, moves=10**9))
    pieces, batch = len(posed.problem.pieces), posed.problem.batch
    samples, plain = [], Simulator.simulate

    def noted(self, placement, count, fed_samples=None):
        samples.append(count)
        return plain(self, placement, count, fed_samples)

    monkeypatch.setattr(Simulator, "simulate", noted)
    result = PROBLEM.answer(posed, Run(stop=lambda: "interrupted" if len(samples) >= pieces else None))
    assert samples == [batch] * pieces + [1] * pieces
    assert (result.status, faults_of(result, posed)) == ("interrupted", [])


def test_after_a_stop_no_further_candidate_is_judged_by_its_batch(folder, monkeypatch):
    posed = PROBLEM.pose(FabricOptions(graph="graph.json", fabric="fabric.json"))
    piece, machine = posed.problem.pieces[0], posed.problem.fabric
    sites = [random_sites(piece.pipeline, machine, np.random.default_rng(seed)) for seed in range(3)]
    candidates = [
        Candidate(number, routed(piece.pipeline, site, machine, "xy"), 0.0, 0) for number, site in enumerate(sites)
    ]
    seconds = iter([3.0, 1.0, 2.0])
    judged = []

    def latency_s(_piece, samples):
        judged.append(samples)
        return next(seconds)

    monkeypatch.setattr(PlacedPiece, "latency_s", latency_s)
    ranked = answer._by_batch(posed.problem, piece, candidates, lambda: "stopped" if len(judged) == 2 else None)
    assert judged == [posed.problem.batch] * 2
    assert [each.chain for each in ranked] == [1, 0, 2]
