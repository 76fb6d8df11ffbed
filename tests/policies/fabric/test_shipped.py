"""The cost model in the package is for today's fabric, simulator and features, and as accurate as its card says."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.fabric_ood import judged
from benchmarks.fabric_unseen import unseen
from dse.fabric.cases import block_case
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, provenance_of, samples_in
from policies.fabric.data.distribution import ALL_KINDS
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.methods import SHIPPED
from policies.fabric.model.checkpoint import load_for
from policies.fabric.model.ensemble import Ensemble
from policies.fabric.student_checkpoint import STUDENT, load_student
from policies.fabric.study.labelled import Labelled
from policies.fabric.train import VALIDATION_EVERY
from policies.learning.checkpoint import CARD_FILE

HELD_OUT = (22, 23, 44)
"""Graphs that it has not learned from, of both passes."""


def test_the_shipped_model_predicts_graphs_that_it_has_not_seen(tmp_path):
    here, slots = fabric("plasticine-8x16"), operator_slots()
    checkpoint = load_for(SHIPPED, provenance_of(here, slots))
    assert not {*HELD_OUT} & {*checkpoint.provenance["graphs"]}
    with Journal(tmp_path / "journal.jsonl") as journal:
        pieces = [Piece(0, graph, 4, seed=1) for graph in HELD_OUT]
        collect(journal, Collector(here, slots, RandomAnnealer(5000), ALL_KINDS), pieces, InProcessExecutor())
        labelled = Labelled(samples_in(journal), here, with_encodings=True)
    predicted = labelled.throughput_of(Ensemble.of(checkpoint.settings, checkpoint.tensors).predict(labelled.examples))
    stated = json.loads((SHIPPED / CARD_FILE).read_text())["provenance"]["outcome"]["validation"]["model"]["error"]
    assert np.mean(np.abs(predicted / labelled.label - 1)) < 3 * stated


def test_the_card_says_first_how_well_the_model_predicts_families_that_it_has_not_learned_from():
    labelled = unseen()
    checkpoint = load_for(SHIPPED, labelled.samples.provenance)
    assert not {*labelled.samples.graphs} & {*checkpoint.provenance["graphs"]}
    assert next(iter(checkpoint.provenance)) == "out_of_distribution"
    verdict = judged(Ensemble.of(checkpoint.settings, checkpoint.tensors).predict(labelled.examples), labelled)
    stated = checkpoint.provenance["out_of_distribution"]
    assert stated["error_by_family"] == pytest.approx(verdict.document()["error_by_family"], rel=1e-3)
    for name in ("error", "correlation", "within"):
        assert stated[name] == pytest.approx(verdict.document()[name], rel=1e-3)


def test_the_shipped_student_is_for_the_graphs_that_the_model_is_for():
    here, slots = fabric("plasticine-8x16"), operator_slots()
    labelled_by = provenance_of(here, slots)
    trained = load_student(SHIPPED, labelled_by)
    assert trained.student.weight > 0
    model, student = (json.loads((SHIPPED / part / CARD_FILE).read_text())["provenance"] for part in ("", STUDENT))
    assert student["samples"] == model["samples"]
    assert next(iter(student)) == "out_of_distribution"
    for graph in HELD_OUT:
        assert not trained.out_of_range(block_case(graph, here, slots).expansion.pipeline, here)


def test_the_card_names_the_graphs_that_are_learned_from_and_counts_the_others():
    provenance = json.loads((SHIPPED / CARD_FILE).read_text())["provenance"]
    graphs, outcome = provenance["graphs"], provenance["outcome"]
    assert outcome["graphs"] == len(graphs)
    others = outcome["validation"]["model"]["placements"] * len(graphs) // outcome["placements"]
    assert graphs == [graph for graph in range(len(graphs) + others) if graph // 2 % VALIDATION_EVERY]
    assert provenance["kinds"] == list(ALL_KINDS.kinds)
