"""``dse reproduce automap``: pipelines beside Tables 7 and 8."""

import re
from functools import cache

import pytest

from dse.reproduce.automap.models import PIPELINED, step_of
from dse.reproduce.automap.pipeline_tables import all_reduces, computing, inference, training
from dse.reproduce.automap.pipelines import (
    OBJECTIVES,
    MemoryTrial,
    PipelineTrial,
    SearchTrial,
    at_boundaries_s,
    batch_of,
    equal_parts_s,
    found_of,
    needed_bytes,
    outcome_of,
    pipelined,
    places_of,
    profile_of_batch,
    searched,
)
from dse.reproduce.automap.published import read_published
from dse.reproduce.automap.study import Machine, Study
from dse.run.executor import InProcessExecutor
from dse.run.run import Run
from tests.reproduce.sections import Kept, assert_whole

MACHINE = ("v100", "v100-ethernet")
PRINTED = read_published().pipelines


@pytest.fixture(scope="module")
def run():
    """Whose pipelines every test of this file finds made."""
    return Run(InProcessExecutor(), journal=Kept())


@cache
def outcome(step, configuration, objective, cutting="equal"):
    return outcome_of(pipelined(PipelineTrial(step, configuration, objective, cutting, *MACHINE)))


def test_rows_of_the_papers_tables_are_of_our_steps():
    assert set(PRINTED.training) == set(PIPELINED.values()) - {"VGG-19"}
    assert PRINTED.row("VGG-19", "A") is None
    assert PRINTED.row("T5-11B", "B") is None
    assert set(PRINTED.inference.models) <= set(PIPELINED.values())
    for rows in PRINTED.training.values():
        for configuration, row in rows.items():
            assert len(row.layers) == len(row.devices) == PRINTED.servers[configuration] - 1


def test_batches_are_those_of_the_paper():
    assert [batch_of(step_of(step)) for step in ("t5-6", "bert-48")] == [16, 8]
    profile = profile_of_batch("t5-6", "v100")
    assert profile.cut_bytes.max() == pytest.approx(64 * 512 * 32128 * 4 * 2, rel=0.01)  # the logits, twice


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("configuration", "AB")
def test_the_papers_plan_is_never_shorter_than_the_best(objective, configuration):
    of = outcome("t5-6", configuration, objective)
    assert of.excess >= -1e-9
    assert of.published.devices == PRINTED.training["T5-base"][configuration].devices


def test_where_computing_alone_counts_the_papers_plan_of_t5_on_two_servers_is_the_best():
    assert outcome("t5-6", "A", "computing").excess == pytest.approx(0, abs=1e-9)


def test_in_the_papers_search_space_t5_is_cut_at_device_22_and_bert_between_servers():
    """Table 7, configuration C: behind device 22 no variable of T5-base is first read."""

    def devices(step):
        return found_of(searched(SearchTrial(step, "C", *MACHINE))["best"]).devices

    assert devices("t5-base")[-1] == PRINTED.row("T5-base", "C").devices[-1] == 22
    assert devices("bert-48") == PRINTED.row("BERT-48", "C").devices


def test_a_convolutional_network_is_cut_at_its_layers():
    best = outcome("vgg19", "B", "length", "near").best
    assert all(layer.startswith(("conv", "fc", "predictions")) for layer in best.layers)
    assert outcome("vgg19", "B", "length", "near").excess is None


def test_the_boundaries_of_bert_are_those_of_table_8():
    """All three within one of 128 points, and equal stages of devices."""
    of = outcome("bert-48", "C", "length", "near")
    ours = [round(share * PRINTED.inference.points) for share in of.best.shares]
    assert all(abs(one - other) <= 1 for one, other in zip(ours, PRINTED.inference.boundaries, strict=True))
    assert of.best.devices == PRINTED.inference.devices
    assert of.excess < 0.05


def test_the_papers_cuts_are_priced_as_ours_are():
    of = outcome("bert-48", "C", "length", "near").best
    trial = PipelineTrial("bert-48", "C", "length", "equal", *MACHINE)
    # Ours has a server for each stage too.
    assert at_boundaries_s(trial, of.shares) == equal_parts_s(trial) == pytest.approx(of.length_s)
    shares = [each / PRINTED.inference.points for each in PRINTED.inference.boundaries]
    assert at_boundaries_s(trial, shares) > of.length_s


def test_boundaries_far_from_the_papers_say_what_the_papers_are_worth(run):
    section = inference(Study((), Machine("8", *MACHINE), run, ("t5-6",)))
    causes = {each.explanation for each in section.comparisons if each.cost_model == "length" and each.differs_much}
    assert len(causes) == 1
    assert re.fullmatch(r"with the paper's boundaries, .*, the pipeline takes [1-9][\d.]* % longer", *causes)


def test_a_layer_that_no_point_has_is_refused():
    with pytest.raises(ValueError, match="`layer` must be the scope of a point"):
        places_of("layer99", ("layer00/up", "layer01"))
    assert places_of("layer1", ("layer1/up", "layer10/up", "layer1/down")) == range(4)


def test_more_that_is_kept_needs_more_memory():
    needed = [
        needed_bytes(MemoryTrial("t5-6", "B", state, activations, *MACHINE))
        for state, activations in (("weights", "none"), ("gradients", "none"), ("gradients", "kept"))
    ]
    assert needed == sorted(needed)
    assert needed[1] == pytest.approx(2 * needed[0], abs=2)


def test_sections_are_whole(run):
    machine = Machine("8", *MACHINE)
    of = Study((), machine, run, ("t5-6",))
    sections = [training(of), inference(of), all_reduces(of), computing(of)]
    assert_whole(sections, ("table7", "table8", "figure11", "figure12"))
    nothing = Study(("vgg19",), machine, run)
    assert training(nothing).skipped == "none of --models is one of bert-48, t5-base, t5-6, t5-3b, t5-11b, vgg19"
