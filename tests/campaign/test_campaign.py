"""Campaigns: cells as alone, for any number of workers, kept by content, and compared as they should be."""

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dse as package
from dse.campaign import check
from dse.campaign.contract import PROBLEM
from dse.campaign.options import CampaignOptions
from dse.campaign.rows import rows_of
from dse.problem import pose, problem_type
from dse.results.result import digest
from dse.results.session import Session, answer
from dse.run.executor import Failed, InProcessExecutor
from dse.run.run import Run
from dse.testing import conformance
from hardware.input_files import no_code, runs_code
from hardware.inputs import InputError, fail
from tests.campaign.files import campaign, layer, write_campaign, write_layers


@pytest.fixture
def paths(tmp_path):
    return write_layers(tmp_path)


@pytest.fixture
def file(tmp_path, paths):
    return write_campaign(tmp_path, paths)


def answered(file, **settings):
    return answer(PROBLEM, CampaignOptions(str(file)), Session(**settings))


class Counting(InProcessExecutor):
    """Notes the cells that are answered; after ``limit`` of them the process dies."""

    def __init__(self, limit=math.inf):
        self.cells, self._limit = [], limit

    def outcomes(self, function, items, *others):
        def noted(item):
            if len(self.cells) == self._limit:
                raise conformance.Killed
            self.cells.append(item[1])
            return function(item)

        return super().outcomes(noted, items, *others)


def counted_run(file, out, limit=math.inf):
    """The cells that a run in ``out`` answers, and its answer; None where it dies."""
    executor = Counting(limit)
    try:
        made = answered(file, out=out, resume=True, executor=lambda *_: executor)
    except conformance.Killed:
        made = None
    return executor.cells, made


def test_each_cell_is_as_alone(file, paths):
    cells = answered(file).solution["cells"]
    assert cells["axes"] == {
        "layer": [str(path) for path in paths.values() for _ in range(2)],
        "method": ["auto", "cp-sat"] * 3,
    }
    for number, (name, method) in enumerate(zip(*cells["axes"].values(), strict=True)):
        alone = package.schedule(name, method=method)
        assert cells["value"][number] == alone.value
        assert cells["bound"][number] == alone.bound
        assert (cells["status"][number], cells["problem"][number]) == (alone.status, alone.posed.name)
        assert cells["answer"][number] == digest(alone.solution).removeprefix("sha256:")[:16]


def test_all_settled_is_optimal(file):
    whole = answered(file)
    assert (whole.value, whole.bound, whole.status) == (6, 6, "optimal")
    assert whole.metrics["counts"]["optimal"] == 6
    assert whole.check() == []


def test_a_cell_that_is_refused_is_a_row(file, paths, monkeypatch):
    kind = problem_type("schedule")
    posed_by = type(kind).pose

    def pose_some(self, options):
        if (options.layer, options.method) == (str(paths[2]), "auto"):
            raise fail("layer", "method", "auto", "must be another one\nfor this layer")
        return posed_by(self, options)

    monkeypatch.setattr(type(kind), "pose", pose_some)
    made = answered(file)
    assert made.solution["cells"]["status"] == ["optimal", "optimal", "failed", "optimal", "optimal", "optimal"]
    assert made.solution["cells"]["reason"][2].startswith("layer: method: auto: must be another one")
    assert (made.value, made.bound, made.status) == (5, 6, "feasible")
    assert made.check() == []


def test_a_cell_that_breaks_is_a_row(file, paths, monkeypatch):
    kind = problem_type("schedule")
    answered_by = type(kind).answer

    def answer_some(self, posed, run):
        if posed.options.layer == str(paths[3]):
            raise ZeroDivisionError("no cores")
        return answered_by(self, posed, run)

    monkeypatch.setattr(type(kind), "answer", answer_some)
    made = answered(file)
    assert made.solution["cells"]["status"] == ["optimal"] * 4 + ["failed"] * 2
    assert made.solution["cells"]["reason"][5] == "ZeroDivisionError: no cores"
    assert made.check() == []


def test_a_killed_campaign_answers_no_cell_twice(file, tmp_path):
    whole = answered(file)
    first, made = counted_run(file, tmp_path / "run", limit=2)
    assert (len(first), made) == (2, None)
    second, made = counted_run(file, tmp_path / "run", limit=3)
    assert (len(second), made) == (3, None)
    third, made = counted_run(file, tmp_path / "run")
    assert len(third) == 1
    assert conformance.comparable(made.result) == conformance.comparable(whole.result)
    assert {json.dumps(cell) for cell in [*first, *second, *third]} == {
        json.dumps(cell) for cell in counted_run(file, tmp_path / "new")[0]
    }


def test_a_changed_file_answers_what_is_new(tmp_path, paths):
    out = tmp_path / "run"
    counted_run(write_campaign(tmp_path, paths), out)
    more = write_layers(tmp_path, (1, 2, 3, 4))
    cells, made = counted_run(write_campaign(tmp_path, more), out)
    assert [cell["layer"] for cell in cells] == [str(more[4])] * 2
    assert len(made.solution["cells"]["value"]) == 8
    cells, made = counted_run(write_campaign(tmp_path, {4: more[4]}), out)
    assert (cells, len(made.solution["cells"]["value"]), made.check()) == ([], 2, [])


def test_a_file_may_move_and_a_dictionary_in_python_may_change(tmp_path, paths):
    out = tmp_path / "run"
    counted_run(write_campaign(tmp_path, paths), out)
    assert counted_run(write_campaign(tmp_path, paths, name="moved.yaml", check_share=0.5), out)[0] == []
    fewer = {"layer": [str(paths[1])], "method": ["auto", "cp-sat"]}
    made = package.campaign(campaign(paths, axes=fewer), workers=0, out=str(out), resume=True)
    assert (made.value, len(made.solution["cells"]["status"])) == (2, 2)


def test_a_changed_input_is_answered_again(tmp_path, paths):
    out, file = tmp_path / "run", write_campaign(tmp_path, paths)
    before = counted_run(file, out)[1]
    paths[2].write_text(json.dumps(layer(4)))
    cells, after = counted_run(file, out)
    assert [cell["layer"] for cell in cells] == [str(paths[2])] * 2
    assert after.solution["cells"]["problem"][2] == "4 cores"
    assert after.solution["cells"]["value"][:2] == before.solution["cells"]["value"][:2]
    paths[2].write_text(json.dumps(layer(2)))
    cells, again = counted_run(file, out)
    assert (cells, again.solution) == ([], before.solution)


def test_a_directory_of_another_campaign_is_refused(tmp_path, paths):
    counted_run(write_campaign(tmp_path, paths), tmp_path / "run")
    with pytest.raises(InputError, match="problem: an input has changed"):
        counted_run(other(tmp_path), tmp_path / "run")


def other(folder):
    path = folder / "campaign.yaml"
    path.write_text(path.read_text().replace('"name": "layers"', '"name": "others"'))
    return path


def test_the_table_has_the_command_of_each_cell(file, tmp_path, dse):
    answered(file, out=tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "tables" / "cells.parquet").to_pylist()
    command = table[3]["command"].split()
    assert command[:2] == ["dse", "schedule"]
    alone = json.loads(dse(*command[1:], "--json").out)
    assert alone["objective"]["value"] == table[3]["value"]
    assert (tmp_path / "run" / "cells.csv").read_text().splitlines()[0].startswith("layer,method,baseline,status")


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"axes": {"layr": ["x"]}, "choose": None}, r"axes\.layr: x: dse schedule: layr: no such option.*mean layer"),
        ({"axes": {"layer": ["none.json"]}}, r"axes\.layer: none\.json: .*cannot be read"),
        ({"axes": {}}, r"axes: {}: must not be empty"),
        ({"axes": {"layer": []}}, r"axes\.layer: must have at least one value"),
        ({"axes": {"layer": 3}}, r"axes\.layer: 3: must be a list, a range"),
        ({"axes": {"layer": ["a", "a"]}}, r"axes\.layer: a: must not be given twice"),
        ({"axes": {"layer": [{"a": 3}]}}, r"axes\.layer\[0\]: .*must be a value, or options by label"),
        ({"axes": {"chips": {"from": 1}}}, r"axes\.chips\.to: the key is missing"),
        ({"axes": {"chips": {"from": 2, "to": 1, "step": 1}}}, r"axes\.chips\.to: 1: must be at least from"),
        ({"axes": {"chips": {"from": 1, "to": 2}}}, r"axes\.chips: must have one of step, factor and count"),
        ({"axes": {"chips": {"from": 1, "to": 2, "step": 0}}}, r"axes\.chips\.step: 0: must be above 0"),
        ({"axes": {"chips": {"from": 0, "to": 2, "factor": 2}}}, r"axes\.chips\.factor: 2: must be above 1"),
        ({"axes": {"chips": {"from": "a", "to": 2, "step": 1}}}, r"axes\.chips\.from: a: must be a number"),
        ({"axes": {"chips": {"from": 0, "to": 1e9, "step": 1}}}, r"axes\.chips: 1,000,000,001 values: must have"),
        ({"problem": "shedule"}, r"problem: .*shedule: no problem of this name.*did you mean schedule"),
        ({"problem": None}, r"axes.*: problem: must be given|problem: must be given"),
        ({"problem": "campaign"}, r"must not be a campaign itself"),
        ({"fixed": {"method": "auto"}}, r"axes\.method: .*: sets method, which fixed sets too"),
        ({"fixed": {"problem": "plan"}}, r"fixed\.problem: plan: must not be given beside problem"),
        ({"choose": ["chip"]}, r"choose: chip: no axis of this name"),
        ({"exclude": [{"method": "none"}]}, r"exclude\[0\]\.method: none: no value of this name"),
        ({"exclude": [{"methods": "auto"}]}, r"exclude\[0\]: methods: no axis .*did you mean method"),
        ({"exclude": [{}]}, r"exclude\[0\]: must have at least one axis"),
        ({"exclude": [{"method": ["auto", "cp-sat"]}]}, r"exclude: leaves no cell"),
        ({"only": [{"method": "auto"}], "exclude": [{"method": "auto"}]}, r"only: leaves no cell"),
        ({"baselines": {"old": {"method": "auto"}}}, r"baselines\.old: method: must have a value for each axis"),
        ({"baselines": {"old": {"layer": "none.json"}}}, r"baselines\.old\.layer: .*cannot be read"),
        ({"weights": {"method": {"atuo": 1}}}, r"weights\.method: atuo: no value of this name"),
        ({"weights": {"method": {"auto": 0}}}, r"weights\.method\.auto: 0.*: must be greater than 0"),
        ({"pareto": {"value": "min"}}, r"pareto: value: must have two or three columns"),
        ({"check_share": 2}, r"check_share: 2: must be at most 1"),
        ({"cell_time_limit_s": -1}, r"cell_time_limit_s: -1: must be greater than 0"),
        ({"nme": 3}, r"nme: unknown key; .*did you mean name"),
        ({"schema": "dse.campaign/2"}, r"schema: dse\.campaign/2: must be 'dse\.campaign/1'"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_line(tmp_path, paths, changed, rule, dse):
    file = write_campaign(tmp_path, paths, **changed)
    shown = dse("campaign", file)
    assert (shown.code, len(shown.error_lines)) == (2, 1), shown.err
    line = shown.error_lines[0]
    assert line.startswith(f"error: {file}: "), line
    with pytest.raises(InputError, match=rule):
        pose(PROBLEM, CampaignOptions(str(file)))


def test_a_value_that_only_its_last_cells_can_have_is_no_slip(tmp_path, monkeypatch):
    kind = problem_type("schedule")
    posed_by = type(kind).pose
    paths = write_layers(tmp_path, range(1, 7))

    def pose_some(self, options):
        if options.method == "cp-sat" and options.layer != str(paths[6]):
            raise fail("layer", "method", "cp-sat", "must be another one")
        return posed_by(self, options)

    monkeypatch.setattr(type(kind), "pose", pose_some)
    axes = {"method": ["auto", "cp-sat"], "layer": [str(path) for path in paths.values()]}
    file = write_campaign(tmp_path, paths, axes=axes, choose=["layer"])
    assert len(pose(PROBLEM, CampaignOptions(str(file))).problem.cells) == 12


def test_an_absurd_product_is_refused(tmp_path, paths, dse):
    axes = {"model": ["bert-large"], "accelerators": {"from": 1, "to": 20_000, "step": 1}}
    file = write_campaign(tmp_path, paths, problem="plan", axes=axes, choose=None)
    (line,) = dse("campaign", file).error_lines
    assert line.startswith(f"error: {file}: axes: 20,000 cells, about ")
    assert line.endswith(" hours on one core: more than 10,000 cells or 100 hours need --yes")
    assert len(pose(PROBLEM, CampaignOptions(str(file), yes=True)).problem.cells) == 20_000
    axes = axes | {"global_batch": {"from": 1, "to": 20_000, "step": 1}}
    file = write_campaign(tmp_path, paths, problem="plan", axes=axes, choose=None)
    assert "400,000,000 cells: must be at most 5,000,000" in dse("campaign", file, "--yes").err


def test_a_campaign_in_python(paths):
    document = {"schema": "dse.campaign/1", "name": "inline", "problem": "schedule", "axes": {"layer": [str(paths[1])]}}
    made = package.campaign(document)
    assert (made.value, made.status, made.check()) == (1, "optimal", [])


def test_a_stopped_cell_is_tried_again(tmp_path, paths):
    file = write_campaign(tmp_path, paths, cell_time_limit_s=1e-9)
    made = answered(file, out=tmp_path / "run")
    stopped = made.metrics["counts"]["stopped"]
    assert made.check() == []
    again = Counting()
    answered(file, out=tmp_path / "run", resume=True, executor=lambda *_: again)
    assert len(again.cells) == stopped


def test_an_altered_value_of_a_stopped_cell_is_no_proof(tmp_path, paths):
    made = answered(write_campaign(tmp_path, paths))
    cells = made.result.solution["cells"]
    cells["status"][3], cells["gap"][3] = "stopped", None
    cells["bound"][3] = None

    def faults():
        return [fault for fault in PROBLEM.proof_faults(made.result, made.posed) if fault.startswith("cell 3")]

    assert faults() == []
    optimum = cells["value"][3]
    cells["value"][3] = optimum / 2
    (fault,) = faults()
    assert ".value: the value 0.00018 is better than the bound 0.00036" in fault
    cells["value"][3], cells["bound"][3] = None, 2 * optimum
    (fault,) = faults()
    assert ".bound: the value 0.00036 is better than the bound 0.00072" in fault


def test_problem_is_registered():
    assert problem_type("campaign") is PROBLEM
    assert Run().seed == 0


def test_a_share_of_many_cells_is_answered_again_and_all_to_prove(tmp_path, paths, monkeypatch):
    monkeypatch.setattr(check, "MIN_CELLS", 1)
    out = tmp_path / "run"
    made = answered(write_campaign(tmp_path, paths, check_share=0.5), out=out)
    kind, result = PROBLEM, made.result
    assert len(check.sample(rows_of(result.solution["cells"], {}), made.posed, 0)) == 3
    assert "3 of 6 cells were answered again" in kind.open_claims(result, made.posed)["solution.cells"]
    result.solution["cells"]["answer"] = ["0" * 16] * 6
    assert len(kind.faults(result, made.posed)) == 3
    assert len(kind.proof_faults(result, made.posed)) == 6


def test_campaigns_are_compared_by_cell(tmp_path, paths, dse):
    answered(write_campaign(tmp_path, paths), out=tmp_path / "one")
    slower = layer(2) | {"operators": [each | {"all_cores_s": each["single_s"]} for each in layer(2)["operators"]]}
    paths[2].write_text(json.dumps(slower))
    answered(write_campaign(tmp_path, paths), out=tmp_path / "two")
    shown = dse("compare", tmp_path / "one", tmp_path / "two")
    assert shown.code == 0
    cells = json.loads(dse("compare", tmp_path / "one", tmp_path / "two", "--json").out)["found"]
    assert sum(str(paths[2]) in key for key in cells) == 2


def test_the_page_has_choices_conditions_and_fronts(tmp_path, paths):
    pareto = {"value": "min", "method": "min"}
    made = answered(write_campaign(tmp_path, paths, pareto=pareto, baselines={"old": {"layer": str(paths[1])}}))
    titles = [table.title for table in made.view.tables]
    assert titles[:2] == ["choices", "the best choice by method"]
    assert "pareto: method: no cell has a number of this name; cells have value" in " ".join(made.view.notes)
    page = made.html()
    assert all(text in page for text in ("Pareto fronts", "What one choice for all conditions loses", "over old"))


class Losing(InProcessExecutor):
    """Loses the worker of one cell."""

    def outcomes(self, function, items, stop, arrived):
        for item in items:
            outcome = Failed("took longer than 3 s") if item[1]["layer"].endswith("2.json") else function(item)
            arrived([(item, outcome)])
            yield outcome


def test_a_cell_whose_worker_is_lost_is_a_row_and_tried_again(file, tmp_path):
    made = answered(file, out=tmp_path / "run", executor=lambda *_: Losing())
    assert made.solution["cells"]["status"] == ["optimal", "optimal", "stopped", "stopped", "optimal", "optimal"]
    assert made.solution["cells"]["reason"][2:4] == ["took longer than 3 s"] * 2
    assert (made.status, made.check()) == ("feasible", [])
    cells, made = counted_run(file, tmp_path / "run")
    assert (len(cells), made.status) == (2, "optimal")


def test_a_lost_directory_is_resumed_from_its_mirror_and_another_campaign_is_refused(file, tmp_path):
    mirror = (tmp_path / "copy").as_uri()
    whole = answered(file, out=tmp_path / "run", mirror=mirror)
    executor = Counting()
    again = answered(file, out=tmp_path / "new", mirror=mirror, resume=True, executor=lambda *_: executor)
    assert (executor.cells, again.result.seal) == ([], whole.result.sealed().seal)
    other(tmp_path)
    with pytest.raises(InputError, match=r"copy.*problem|--mirror"):
        answered(file, out=tmp_path / "third", mirror=mirror)


def test_the_command_prints_choices_and_reports_again(file, tmp_path, dse):
    out = tmp_path / "run"
    shown = dse("campaign", file, "--out", out, "--workers", 0)
    assert shown.code == 0
    assert "layers: 6 cells: 6 proven optimal, 0 proven infeasible" in shown.out
    assert f"in {out}: cells.csv, report.html" in shown.out
    page = (out / "report.html").read_text()
    assert dse("report", out).code == 0
    assert (out / "report.html").read_text() == page
    assert dse("check", out / "result.json").out == "ok\n"
    assert dse("campaign", file, "--out", out).error_lines == [
        f"error: {out}: already contains this run; --resume continues it"
    ]


def test_a_cell_whose_code_is_not_run_is_not_checked(tmp_path, paths, monkeypatch):
    code = tmp_path / "net.py"
    code.write_text(json.dumps(layer(3)))
    made = answered(write_campaign(tmp_path, {"x": code, **paths}))
    kind = type(problem_type("schedule"))
    posed_by = kind.pose

    def pose_some(self, options):
        if options.layer == str(code) and not runs_code():
            raise fail(code, "", "", "its code must not be run")
        return posed_by(self, options)

    monkeypatch.setattr(kind, "pose", pose_some)
    made.result.solution["cells"]["answer"][:4] = ["0" * 16] * 4
    with no_code():
        assert len(PROBLEM.faults(made.result, made.posed)) == 2
        assert "--run-code" in str(PROBLEM.open_claims(made.result, made.posed))
    assert len(PROBLEM.faults(made.result, made.posed)) == 4


@pytest.mark.parametrize(("name", "cells"), [("campaign.yaml", 20), ("campaign-mix.yaml", 45)])
def test_examples_pose(name, cells):
    file = Path(__file__).parents[2] / "docs" / "examples" / name
    assert len(pose(PROBLEM, CampaignOptions(str(file))).problem.cells) == cells
