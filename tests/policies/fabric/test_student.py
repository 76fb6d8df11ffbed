"""Students: what they learn, who follows them, their checkpoints, and the cost ``learned`` from end to end."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from dse.cli.methods import upper_methods
from dse.fabric.cases import block_case
from dse.fabric.contract import FabricType
from dse.fabric.methods import SearchContext
from dse.fabric.model import placement_faults
from dse.fabric.rules import MIXTURE
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.describe import Describer
from dse.fabric.search.student import CONSTANTS, FEATURES
from dse.fabric.setting import ChosenRules, Setting
from dse.graph.dataflow.formats import graph_document
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop, silent
from dse.testing import conformance
from hardware.fabric_specs import fabric, fabric_spec
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, provenance_of, samples_in
from policies.fabric.data.placers import RandomAnnealer, StudentAnnealer
from policies.fabric.model.checkpoint import COST, load_for
from policies.fabric.model.cost import LearnedCost
from policies.fabric.model.ensemble import Ensemble, EnsembleLearner
from policies.fabric.model.settings import CostSettings
from policies.fabric.student import StudentExamples, StudentLearner, student_examples
from policies.fabric.student_checkpoint import TrainedStudent, load_student, save_student
from policies.fabric.student_settings import StudentSettings
from policies.fabric.study.labelled import Labelled
from policies.learning.checkpoint import Checkpoint
from tests.policies.fabric.from_above import FromAbove
from tests.policies.fabric.quick import QUICK_STACK

FABRIC = fabric("plasticine-8x16")
QUICK = StudentSettings(members=2, width=4, second=2, steps=40)
TINY = CostSettings(layers=1, width=4, epochs=1, members=2, graphs_in_batch=4)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    collector = Collector(FABRIC, operator_slots(), RandomAnnealer(max_moves=200))
    with Journal(tmp_path_factory.mktemp("samples") / "journal.jsonl") as journal:
        collect(journal, collector, [Piece(0, graph, 4, seed=0) for graph in range(3)], InProcessExecutor())
        return samples_in(journal)


@pytest.fixture(scope="module")
def trained(samples):
    examples = student_examples(samples, FABRIC)
    return TrainedStudent.of(StudentLearner(QUICK).fit(examples, weight=5.0), Setting.untuned(), examples)


@pytest.fixture(scope="module")
def checkpoint(samples, trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    provenance = {"samples": provenance_of(FABRIC, operator_slots())}
    ensemble = EnsembleLearner(TINY, stack=QUICK_STACK).fit(Labelled(samples, FABRIC, with_encodings=True).examples)
    COST.save(folder, Checkpoint(TINY, ensemble.tensors(), provenance))
    save_student(folder, QUICK, trained, provenance)
    return folder


def test_constants_of_a_fabric_are_a_part_of_the_student_for_it():
    """Of placements on two fabrics, of which one is always slower by a fifth."""
    plain = synthetic(400, 0)
    constant = np.arange(400) % 2.0
    examples = replace(
        plain, features=np.column_stack([plain.features, constant]), target=plain.target + 0.2 * constant
    )
    networks = StudentLearner(replace(QUICK, steps=200, learning_rate=0.02)).networks(examples)
    faster, slower = (networks.student(1.0, np.array([each])).predict(plain.features) for each in (0.0, 1.0))
    assert (slower - faster).mean() == pytest.approx(0.2, abs=0.05)


def synthetic(count, seed):
    """Placements of a few graphs whose log slots are a smooth function of two features."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, len(FEATURES)))
    target = 0.3 * features[:, 8] + np.maximum(0.0, features[:, 9]) * 0.5
    return StudentExamples(features, target, np.arange(count) % 10)


@pytest.mark.parametrize("ranking_weight", [0.0, 0.5])
def test_a_student_learns_what_depends_on_its_features(ranking_weight):
    learner = StudentLearner(
        StudentSettings(members=2, max_gap=9.0, steps=150, learning_rate=0.02, ranking_weight=ranking_weight)
    )
    student, unseen = learner.fit(synthetic(600, 0)), synthetic(200, 1)
    error = np.abs(student.predict(unseen.features) - unseen.target).mean()
    assert error < 0.4 * np.abs(unseen.target - unseen.target.mean()).mean()


def test_placements_far_behind_the_fastest_of_their_graph_are_not_learned_from():
    examples, settings = synthetic(200, 0), StudentSettings(members=1, width=3, second=2, steps=10, max_gap=0.3)
    fastest = np.array([examples.target[examples.graph == graph].min() for graph in examples.graph])
    near = examples.at(examples.target - fastest <= 0.3)
    assert 0 < len(near.target) < len(examples.target)
    every, some = (StudentLearner(settings).fit(each) for each in (examples, near))
    np.testing.assert_array_equal(every.predict(examples.features), some.predict(examples.features))


def test_members_side_by_side_predict_their_mean():
    settings, unseen = StudentSettings(members=3, width=5, second=2, steps=20), synthetic(20, 1).features
    together = StudentLearner(settings, seed=4).fit(synthetic(100, 0))
    alone = [
        StudentLearner(replace(settings, members=1), seed=4 + number).fit(synthetic(100, 0)) for number in range(3)
    ]
    mean = np.mean([each.predict(unseen) for each in alone], axis=0)
    np.testing.assert_allclose(together.predict(unseen), mean)


def test_ranks_alone_are_learned_too():
    settings = StudentSettings(members=2, max_gap=9.0, steps=150, learning_rate=0.02, ranking_weight=100.0)
    student, unseen = StudentLearner(settings).fit(synthetic(600, 0)), synthetic(200, 1)
    first, second = np.triu_indices(200, 1)
    differs = np.abs(unseen.target[first] - unseen.target[second]) > 0.1
    predicted = student.predict(unseen.features)
    agrees = (predicted[first] > predicted[second]) == (unseen.target[first] > unseen.target[second])
    assert agrees[differs].mean() > 0.8


def test_examples_are_slots_in_slots_of_the_slowest_unit(samples):
    examples = student_examples(samples, FABRIC)
    sample = samples.samples[5]
    describer = Describer(samples.graphs[sample.graph].pipeline, FABRIC)
    assert examples.target[5] == pytest.approx(np.log(sample.interval_slots / describer.base_slots))
    np.testing.assert_array_equal(examples.features[5], describer(sample.placement))


def test_annealers_follow_a_student_the_same_for_a_seed(samples, trained):
    pipeline, placer = samples.graphs[1].pipeline, StudentAnnealer(trained.student, MIXTURE, max_moves=300)
    first, again, other = (placer(pipeline, FABRIC, seed) for seed in (0, 0, 1))
    assert placement_faults(pipeline, first.placement, FABRIC) == []
    assert first.placement.site.tolist() == again.placement.site.tolist()
    assert (first.placer == again.placer, first.placer == other.placer) == (True, False)
    assert StudentAnnealer(trained.student, MIXTURE)(pipeline, FABRIC, 2).placer["student"] >= 0.1 * 5.0


def test_a_student_comes_back_as_it_was_saved(trained, checkpoint):
    labelled_by = provenance_of(FABRIC, operator_slots())
    back = load_student(checkpoint, labelled_by)
    features = synthetic(20, 3).features
    np.testing.assert_array_equal(back.student.predict(features), trained.student.predict(features))
    assert (back.rules, back.student.weight) == (trained.rules, trained.student.weight)
    with pytest.raises(InputError, match=r"provenance\.samples\.simulator"):
        load_student(checkpoint, labelled_by | {"simulator": "sha256:other"})


def test_pipelines_unlike_those_learned_from_are_out_of_range(samples, trained):
    assert all(trained.out_of_range(graph.pipeline, FABRIC) == () for graph in samples.graphs.values())
    large = replace(trained, high=trained.high - 10 * (trained.high - trained.low + 1))
    assert large.out_of_range(samples.graphs[0].pipeline, FABRIC) == CONSTANTS


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"width": "8"}, {"learning_rate": -1.0}, {"width": 900}, {"new": 1}]
)
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings)) if "width" not in settings else "width|weights"):
        StudentSettings.from_document(StudentSettings().document() | settings)


@pytest.fixture
def graph_file(tmp_path):
    case = block_case(2, FABRIC, operator_slots())
    (tmp_path / "graph.json").write_text(json.dumps(graph_document(case.expansion.graph)))
    return tmp_path / "graph.json", case


def options_for(graph_file, checkpoint, **others):
    file, case = graph_file
    asked = {
        "fill": case.fill,
        "cost": "learned",
        "checkpoint": checkpoint and str(checkpoint),
        "chains": 2,
        "moves": 100,
    } | others
    return FabricType.Options(str(file), fabric="plasticine-8x16", **asked)


def test_a_search_follows_the_student_and_puts_first_what_the_ensemble_ranks_first(graph_file, checkpoint, trained):
    options, pipeline = options_for(graph_file, checkpoint), graph_file[1].expansion.pipeline
    chosen = ChosenRules(Setting.untuned())
    settings, seed = AnnealSettings(moves=200), (0, 0)
    context = SearchContext(
        pipeline, FABRIC, settings, 0, chosen, 2, seed, "piece", InProcessExecutor(), silent, never_stop
    )
    learned = upper_methods("fabric", options, InProcessExecutor(), None)["learned"]
    found = learned(context)
    annealing = Annealing(pipeline, FABRIC, MIXTURE, settings, student=trained.student)
    chains = [annealing(Chain(each)) for each in np.random.default_rng(seed).integers(2**63, size=2).tolist()]
    loaded = load_for(checkpoint, provenance_of(FABRIC, operator_slots()))
    model = Ensemble.of(loaded.settings, loaded.tensors)
    assert [each.chain for each in found] == LearnedCost(model, pipeline, FABRIC).ranked(
        [each.placement for each in chains]
    )
    assert [each.cost for each in found] == [chains[each.chain].cost for each in found]


def test_learned_costs_conform(graph_file, checkpoint, tmp_path):
    problem, options = FromAbove(), options_for(graph_file, checkpoint)
    result = conformance.solved(problem, options)
    conformance.same_seed_same_answer(problem, options, first=result)
    conformance.stopped_anywhere_is_legal(problem, options, moments=(2,))
    conformance.killed_and_resumed(problem, options, tmp_path, moments=(2,), whole=result)
    assert (result.method, result.metrics["notes"]) == ("learned", [])


def test_the_command_places_by_a_checkpoint_and_names_what_it_cannot_use(dse, graph_file, checkpoint, tmp_path):
    file, case = graph_file
    command = ("fabric", "place", file, "--fill", case.fill, "--chains", 2, "--moves", 100, "--workers", 0)
    place = (*command, "--fabric", "plasticine-8x16", "--cost", "learned", "--json")
    answered = dse(*place, "--checkpoint", checkpoint, "--out", tmp_path / "run", "--quiet")
    assert answered.code == 0, answered.err
    assert json.loads(answered.out)["metrics"]["notes"] == []
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"

    # Of the same name: what counts is how its simulator labels placements.
    document = fabric_spec("plasticine-8x16").model_dump(mode="json", exclude_none=True)
    document["links"]["hop_slots"]["value"] += 1
    (tmp_path / "another.json").write_text(json.dumps(document))
    elsewhere = ("--fabric", tmp_path / "another.json", "--cost", "learned", "--json")
    left = dse(*command, *elsewhere)
    assert left.code == 0, left.err
    assert "The package has no learned cost for plasticine-8x16" in left.err
    refused = dse(*command, *elsewhere, "--checkpoint", checkpoint)
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert "provenance.samples.simulator" in refused.err


def test_what_is_out_of_range_is_left_to_the_tuned_rules_and_said(graph_file, checkpoint, trained, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "narrow")
    narrow = replace(trained, low=trained.low + 10, high=trained.high + 10)
    save_student(tmp_path / "narrow", QUICK, narrow, {"samples": provenance_of(FABRIC, operator_slots())})
    asked = {"chains": 1, "moves": 100}
    left = conformance.solved(FromAbove(), options_for(graph_file, tmp_path / "narrow", **asked))
    ruled = conformance.solved(FromAbove(), options_for(graph_file, None, **asked, cost="tuned"))
    (note,) = left.metrics["notes"]
    assert note.startswith("This graph is outside the range of the learned cost (slots of the slowest unit, ")
    assert note.endswith(", stages on the longest path), so the rules were used.")
    assert note.count(",") == len(CONSTANTS)
    assert left.solution == ruled.solution
