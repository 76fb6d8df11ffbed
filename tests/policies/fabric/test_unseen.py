"""What all cost models are judged by: placements of families that none has learned from, and figures of predictions."""

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks import fabric_unseen
from benchmarks.fabric_ood import judged, number, shown
from benchmarks.fabric_sn10 import HERE, KINDS, SCALE
from benchmarks.fabric_unseen import DATA, FABRIC, FAMILIES, FIRST_GRAPH, FOLLOWED, GRAPHS, RANDOM, drawn, unseen
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import placement_faults
from dse.models.dataflow_blocks import BlockKind
from hardware.operator_slots import operator_slots
from policies.fabric.data.tables import read_samples
from policies.fabric.study.intervals import Interval


@pytest.fixture(scope="module")
def samples():
    return read_samples(DATA)


def test_ten_families_with_sixty_graphs_have_sixteen_placements_each(samples):
    kinds = [graph.kind for graph in samples.graphs.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(FAMILIES, GRAPHS)
    assert sorted(samples.graphs) == list(range(FIRST_GRAPH, FIRST_GRAPH + 10 * GRAPHS))
    placed = [(sample.graph, sample.round) for sample in samples.samples]
    assert {placed.count((graph, 0)) for graph in samples.graphs} == {RANDOM}
    assert {placed.count((graph, 1)) for graph in samples.graphs} == {FOLLOWED}
    assert not {*FAMILIES} & {*get_args(BlockKind)}


def test_half_of_the_graphs_of_a_family_are_training_steps(samples):
    trained = [graph.kind for graph in samples.graphs.values() if graph.graph_pass == "training"]
    assert {kind: trained.count(kind) for kind in FAMILIES} == dict.fromkeys(FAMILIES, GRAPHS // 2)


def test_they_are_small_enough_for_the_repository():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 1e6


@pytest.mark.parametrize("place", [0, 333, 959])
def test_labels_are_what_the_simulator_says_of_legal_placements(samples, place):
    sample = samples.samples[place]
    pipeline = samples.graphs[sample.graph].pipeline
    assert not placement_faults(pipeline, sample.placement, FABRIC)
    assert sample.interval_slots == throughput(Simulator(pipeline, FABRIC), sample.placement).interval_slots


@pytest.mark.parametrize(("family", "place"), [("multi query", 1), ("convolutions", 2), ("state space", 5)])
def test_a_graph_is_drawn_again_as_it_was(samples, family, place):
    again = drawn(family, place)
    assert again.document() == samples.graphs[again.number].document()


def test_graphs_of_a_larger_fabric_have_larger_sizes_in_as_many_parts():
    small, large = (drawn("gated", 1, *settings) for settings in ((), (HERE, SCALE)))
    units = sum(kind != "io" for kind in HERE.grid.site_kind)
    assert (small.graph_pass, large.graph_pass) == ("training", "training")
    assert len(large.pipeline.units) > 0.3 * units > len(small.pipeline.units)
    assert "patches" not in KINDS


def test_labels_of_another_simulator_are_refused(monkeypatch):
    present = {"simulator": "sha256:other", "operator_slots": "sha256:other"}
    monkeypatch.setattr(fabric_unseen, "provenance_of", lambda *_: present)
    with pytest.raises(ValueError, match="simulator has changed; simulate them again"):
        unseen()


def test_the_table_of_slots_is_todays(samples):
    assert fabric_unseen.provenance_of(FABRIC, operator_slots())["simulator"] == samples.provenance["simulator"]


# The judge ------------------------------------------------------------------------------------------------------------


def labelled_as(label, graph, kinds):
    """Placements with these labels, [S], as far as the judge looks at them; a kind for each graph."""
    graphs = {each: SimpleNamespace(kind=kind) for each, kind in enumerate(kinds)}
    return SimpleNamespace(
        label=label,
        kind=np.array([kinds[each] for each in graph]),
        examples=SimpleNamespace(graph=graph),
        samples=SimpleNamespace(graphs=graphs),
        throughput_of=np.exp,
    )


GRAPH = np.repeat(np.arange(6), 5)
LABEL = np.linspace(0.1, 0.9, 30)
LABELLED = labelled_as(LABEL, GRAPH, ["a", "a", "a", "b", "b", "b"])


def test_labels_themselves_are_without_error():
    verdict = judged(np.log(LABEL), LABELLED)
    assert verdict.error.high == pytest.approx(0)
    assert verdict.correlation == Interval(1, 1, 1)
    assert verdict.within == Interval(1, 1, 1)
    assert verdict.families == {"a": (pytest.approx(0), 1, 1), "b": (pytest.approx(0), 1, 1)}


def test_errors_and_orders_are_of_each_family_and_of_all():
    backwards = LABEL.reshape(6, 5)[:, ::-1].ravel()
    predicted = np.where(GRAPH < 3, 1.2 * LABEL, backwards)
    verdict = judged(np.log(predicted), LABELLED)
    error, correlation, within = verdict.families["a"]
    assert (error, correlation, within) == (pytest.approx(0.2), 1, 1)
    assert verdict.families["b"][2] == -1
    assert verdict.within.value == 0
    assert verdict.within.low < 0 < verdict.within.high
    stated = verdict.document()
    assert stated["within"] == [verdict.within.value, verdict.within.low, verdict.within.high]
    assert stated["error_by_family"]["a"] == error
    errors = np.abs(predicted / LABEL - 1)
    assert verdict.error.value == pytest.approx(errors.mean())
    assert verdict.error.low < errors.mean() < verdict.error.high


def test_graphs_that_would_not_count_alike_are_refused():
    fewer = labelled_as(LABEL[1:], GRAPH[1:], ["a"] * 6)
    with pytest.raises(ValueError, match=r"as many placements, but have \[4, 5, 5, 5, 5, 5\]"):
        judged(np.log(LABEL[1:]), fewer)


def test_shares_are_written_without_a_zero():
    assert number(0.0712) == ".071"
    assert number(1.25) == "1.250"
    assert shown(Interval(0.07123, 0.065, 1.0), 4) == ".0712 [.0650, 1.0000]"
