"""``dse reproduce automap``: Tables 1 and 2, the claims of the text, and the curves of training."""

import re

import pytest

from dse.reproduce.automap.claims import claims
from dse.reproduce.automap.convergence import Learned, operator_curve, pipeline_curve, smoothed
from dse.reproduce.automap.parts import paper
from dse.reproduce.automap.setup_tables import machines, models
from dse.reproduce.automap.study import Machine, Study
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.run import Run
from tests.reproduce.sections import assert_shown

MACHINE = Machine("8", "v100", "v100-ethernet")


@pytest.fixture
def study(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield Study(("vgg19", "t5-6"), MACHINE, Run(InProcessExecutor(), journal=journal), ("t5-6",))


def test_parameters_are_near_those_of_table_1_where_the_model_is_the_papers(study):
    section = models(study)
    assert_shown(section, machines(study))
    numbers = {each.model: each for each in section.comparisons}
    assert numbers["vgg19"].ratio == pytest.approx(1.05, abs=0.01)
    assert numbers["t5-6"].ours == pytest.approx(60.6e6, rel=0.01)


def test_servers_are_joined_as_in_table_2(study):
    assert [each.ratio for each in machines(study).comparisons] == [pytest.approx(1.0)] * 3


def test_the_last_layers_of_vgg_have_most_parameters_and_little_time(study):
    shares = {(each.model, each.quantity): each for each in claims(study).comparisons}
    assert shares["fc1, fc2, predictions", "share of parameters"].ratio == pytest.approx(1.0, abs=0.01)
    assert 0 < shares["fc1, fc2", "share of time"].ours < 0.05
    assert claims(Study((), MACHINE, study.run)).skipped


def test_claims_of_search_spaces_memory_and_cuts_stand_beside_what_steps_have(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        run = Run(InProcessExecutor(), journal=journal)
        section = claims(Study((), MACHINE, run, ("t5-3b",)))
        assert_shown(section)
        spaces, memory, cuts = section.tables
        numbers = {(each.model, each.quantity): each for each in section.comparisons}
        assert spaces.rows[0][:4] == ("t5-3b", "2^1116", "2^1454", "2^1114")
        dimensions = numbers["t5-3b", "log₂ of the number of operator plans, dimensions"]
        assert dimensions.ratio == pytest.approx(1, abs=0.002)
        # 2.853 billion parameters of four bytes, three times with Adam's moments, on 32 GB.
        assert memory.rows[0][2:] == ("10.63 GB", "1", "1")
        assert [row[1] for row in cuts.rows] == ["1 of 1", "2 of 2", "3 of 3"]
        for each, row in zip(("A", "B", "C"), cuts.rows, strict=True):
            assert numbers[f"t5-3b on {each}", "cuts between servers"].ours == int(row[2].split()[0])
            assert_priced_if_inside(numbers[f"t5-3b on {each}", "cuts between servers"])
            assert 1 <= numbers[f"t5-3b on {each}", "max/mean stage compute"].ours < 1.5


def assert_priced_if_inside(cuts):
    """Where a cut lies inside of a server, what it costs to have all between servers."""
    if cuts.ours == cuts.paper:
        assert not cuts.cause
    else:
        assert re.fullmatch(r"with cuts only between servers, the shortest pipeline takes [\d.]+ % longer", cuts.cause)


@pytest.mark.parametrize(("make", "proven"), [(operator_curve, "176"), (pipeline_curve, None)])
def test_curves_stand_beside_the_proven_optimum(study, make, proven):
    asked = []

    def curve(trial):
        asked.append(trial)
        return {"scores": [1.0, 2.0, 3.0], "losses": [None, 0.5, 0.25], "best": 1.0, "episodes": 48}

    section = make(study, Learned(curve, dict, 0), 3)
    assert_shown(section)
    assert asked[0].rounds == 3
    assert section.charts[0].series[0].y == (1.0, 1.5, 2.0)
    assert section.charts[1].series[0].y == (None, 0.5, 0.25)
    (row,) = section.tables[0].rows
    assert len(row) == len(section.tables[0].headers)
    if proven is not None:
        assert proven in row
    make(study, Learned(curve, dict, 0), 3)
    assert len(asked) == 1  # the journal has it


def test_a_mesh_of_two_axes_has_no_curve_of_operators(study):
    two = Study(study.steps, Machine("a=2,b=4", "v100", "v100-ethernet"), study.run)
    assert operator_curve(two, Learned(dict, dict, 0), 1).skipped


def test_curves_are_missing_where_nothing_trains():
    assert paper().parts["figure16"].missing
    assert paper(Learned(dict, dict, 0)).parts["figure17"].missing is None


def test_scores_are_means_of_five_rounds():
    assert smoothed([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]) == (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
