"""``dse compare``: made-up results for each message, two real runs for what a user sees."""

import json

import pytest

from dse.results.compare import compare, comparison_document, option_rows, outcome_rows, read_run, verdict
from dse.results.infeasibility import Infeasibility
from dse.results.result import Objective, ProblemReference, Result
from tests.codesign.test_exhaustive import TINY_MODEL

SIZES = {"tensor_cores": 2, "global_buffer_bytes": 16 * 2**20}


def made_up(folder, *, settings=None, **changes):
    """A run directory that holds a made-up result."""
    fields = {
        "command": "codesign",
        "problem": ProblemReference(name="p", digest="sha256:0"),
        "status": "optimal",
        "objective": Objective(name="throughput", value=100.0, unit="samples/s", sense="max"),
        "bound": 100.0,
        "gap": 0.0,
        "settings": settings or {"models": ["a"], "network": None},
        "solution": {"architecture": SIZES},
        "method": "exhaustive",
        "versions": {"dse": "1"},
    }
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(Result(**(fields | changes)).to_json())
    return folder


def value(number, **changes):
    return {"objective": Objective(name="throughput", value=number, unit="samples/s", sense="max"), **changes}


def test_options_and_outcomes_that_differ_are_shown_and_no_others(tmp_path):
    first = made_up(tmp_path / "a")
    other = made_up(
        tmp_path / "b",
        settings={"models": ["a"], "network": "tpuv4"},
        problem=ProblemReference(name="p", digest="sha256:1"),
        solution={
            "architecture": SIZES | {"tensor_cores": 4},
            "models": {"bert": {"pipeline": 3, "stages": [1, 2, 3], "layers": {"block": {}}}},
        },
        **value(150.0, bound=160.0, gap=1 / 16, status="feasible"),
    )
    comparison = compare([read_run(first), read_run(other / "result.json")])
    assert comparison.names == ("a", "b")
    assert comparison.options == {"network": (None, "tpuv4")}
    assert option_rows(comparison) == [("network", "", "tpuv4")]
    rows = {row[0]: row[1:] for row in outcome_rows(comparison)}
    assert rows["status"] == ("optimal", "feasible")
    assert rows["ratio to the first"] == ("1.0000", "1.5000")
    assert rows["gap"] == ("0 %", "6.25 %")
    assert rows["tensor cores"] == ("2", "4")
    assert rows["bert stages"] == ("", "3")
    assert "global buffer [MB]" not in rows  # the same in both
    assert verdict(comparison) == ["Different problems."]
    document = json.loads(json.dumps(comparison_document(comparison), allow_nan=False))
    assert document["found"]["ratio to the first"] == [1.0, 1.5]
    assert document["runs"] == [str(first), str(other / "result.json")]


def test_bytes_are_shown_in_megabytes(tmp_path):
    solution = {"architecture": {"global_buffer_bytes": 32 * 2**20}}
    runs = [made_up(tmp_path / "a"), made_up(tmp_path / "b", solution=solution)]
    rows = {row[0]: row[1:] for row in outcome_rows(compare(list(map(read_run, runs))))}
    assert rows["global buffer [MB]"] == ("16", "32")


def test_one_problem_is_recognised_and_two_proofs_that_disagree_are_reported(tmp_path):
    runs = [read_run(made_up(tmp_path / name)) for name in "abc"]
    assert verdict(compare(runs)) == ["Same problem."]
    wrong = read_run(made_up(tmp_path / "d", **value(101.0, bound=101.0)))
    (sentence,) = verdict(compare([*runs, wrong]))
    assert sentence.startswith("Same problem, but")
    assert "dse check" in sentence
    open_ = read_run(made_up(tmp_path / "e", **value(90.0, gap=0.1, status="feasible")))
    assert verdict(compare([*runs, open_])) == ["Same problem."]


def test_a_changed_file_under_the_same_options_is_reported(tmp_path):
    changed = made_up(tmp_path / "b", problem=ProblemReference(name="p", digest="sha256:1"))
    (sentence,) = verdict(compare([read_run(made_up(tmp_path / "a")), read_run(changed)]))
    assert "file has changed" in sentence


def test_an_infeasible_run_has_no_ratio(tmp_path):
    proof = Infeasibility.of(
        {"resource": "hbm_bytes", "demand": 9, "limit": 4, "unit": "bytes", "explanation": "e", "excess_bytes": 5}
    )
    none = {"infeasibility": proof, "solution": {}, "bound": None, "gap": None}
    runs = [made_up(tmp_path / "a"), made_up(tmp_path / "b", **value(None, status="infeasible", **none))]
    comparison = compare(list(map(read_run, runs)))
    assert comparison.outcomes["ratio to the first"] == (1.0, None)
    assert comparison.outcomes["infeasibility demand"] == (None, 9)
    assert comparison.outcomes["infeasibility excess_bytes"] == (None, 5)
    assert compare(list(map(read_run, reversed(runs)))).outcomes["ratio to the first"] == (None, None)


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path):
    runs = [made_up(tmp_path / part / "run") for part in ("x", "y")]
    assert compare(list(map(read_run, runs))).names == tuple(map(str, runs))


def objective(**changes):
    fields = {"name": "throughput", "value": 1.0, "unit": "samples/s", "sense": "max"}
    return {"objective": Objective(**(fields | changes))}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"command": "place"}, "command: place"),
        (objective(name="per-mm2"), "objective.name: per-mm2"),
        (objective(unit="s"), "objective.unit: s"),
        (objective(sense="min"), "objective.sense: min"),
    ],
)
def test_runs_of_different_kinds_are_refused(tmp_path, dse, changes, key):
    runs = [made_up(tmp_path / "a"), made_up(tmp_path / "b", **changes)]
    answer = dse("compare", *runs)
    assert answer.code == 2
    (line,) = answer.error_lines
    assert f"{runs[1]}: {key}: must equal that of {runs[0]}" in line


def test_what_is_no_finished_run_is_refused_in_one_line(tmp_path, dse):
    good, empty, begun = made_up(tmp_path / "good"), tmp_path / "empty", tmp_path / "begun"
    edited = made_up(tmp_path / "edited")
    (edited / "result.json").write_text((edited / "result.json").read_text().replace("100.0", "200.0"))
    stopped = made_up(tmp_path / "stopped", **value(None, status="interrupted", bound=None, gap=None))
    empty.mkdir()
    begun.mkdir()
    (begun / "run.yaml").write_text("command: codesign\n")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    cases = {
        tmp_path / "nowhere": "no such run directory",
        empty: "is not a run directory",
        begun: "is not finished",
        stopped: "ended without an answer",
        edited: "edited after it was written",
        broken: "not well-formed JSON",
    }
    for path, rule in cases.items():
        answer = dse("compare", good, path)
        assert (answer.code, answer.out) == (2, "")
        (line,) = answer.error_lines
        assert rule in line
        assert str(path) in line
    assert "at least two" in dse("compare", good).error_lines[0]


def test_two_real_runs_differ_in_the_option_that_was_changed(tmp_path, dse):
    model = tmp_path / "tiny.yaml"
    model.write_text(TINY_MODEL)
    options = ("--fixed", "tpuv4", "--accelerators", 8, "--global-batch", 16, "--microbatch", "1", "--workers", 0)
    runs = [tmp_path / "flat", tmp_path / "tpu"]
    for path, network in zip(runs, ("phaze-flat", "tpuv4"), strict=True):
        run = dse("codesign", model, *options, "--network", network, "--out", path, "--quiet")
        assert run.code == 0, run.err
    answer = dse("compare", *runs, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["asked"] == {"network": ["phaze-flat", "tpuv4"]}
    assert not document["same_problem"]
    stored = [json.loads((path / "result.json").read_text())["objective"]["value"] for path in runs]
    assert document["found"]["throughput [samples/s]"] == stored
    assert document["found"]["ratio to the first"][1] == pytest.approx(stored[1] / stored[0])
    shown = dse("compare", *runs)
    assert "Different problems." in shown.out
    assert "tiny throughput per s" in shown.out
    assert "Same problem." in dse("compare", runs[0], runs[0] / "result.json", "--out", tmp_path / "c.html").out
    page = (tmp_path / "c.html").read_text()
    assert "<figure>" in page
    assert "Same problem." in page
