"""``dse wafer`` as its user sees it: answers, files, proofs that nothing fits, and one line for each bad input."""

import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from dse.results.infeasibility import Infeasibility
from dse.run.run import Run
from dse.wafer.check import cost, violations
from dse.wafer.documents import placement_from_document
from dse.wafer.files.formats import read_problem
from dse.wafer.files.paint import parse_paint, placement_of, read_paint
from dse.wafer.files.saved import save_placement, saved_placement
from dse.wafer.kernels import contest_library
from dse.wafer.options import WaferOptions
from dse.wafer.shortfall import infeasibility
from hardware.inputs import InputError
from tests.solving import answer, faults
from tests.wafer.small import blocks_text, conv_line, graph_text, problem_from


@pytest.fixture
def case(tmp_path):
    def write(name="case.kgraph", nodes=None, **header):
        lines = nodes or [conv_line(number, inputs=8, outputs=8) for number in (1, 2, 3)]
        edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, len(lines))]
        path = tmp_path / name
        path.write_text(graph_text(lines, edges, **header))
        return path

    return write


FEW = ("--moves", 200, "--workers", 0)


def test_an_answer_is_shown_kept_and_checked(dse, case, tmp_path):
    path, out = case(adapter=3), tmp_path / "run"
    shown = dse("wafer", path, *FEW, "--out", out)
    assert shown.code == 0, shown.err
    assert "total cost" in shown.out
    document = json.loads((out / "result.json").read_text())
    problem = read_problem(path)
    placement = placement_of(problem, read_paint(out / "case.paint"), "case.paint")
    assert violations(problem, placement) == []
    assert document["command"] == "wafer"
    assert document["objective"]["name"] == "total_cost"
    metrics = document["metrics"]
    assert document["objective"]["value"] == metrics["time"] + metrics["distance"] + 3 * metrics["adapter"]
    assert document["bound"] <= document["objective"]["value"]
    drawing, page = (out / "case.svg").read_text(), (out / "report.html").read_text()
    for name in ("k1", "k2", "k3"):
        assert f">{name}</text>" in drawing
        assert f">{name}</text>" in page
    again = dse("wafer", path, *FEW, "--json")
    found = json.loads(again.out)
    assert found["solution"] == document["solution"]


def test_an_answer_that_is_kept_and_printed_is_drawn_once(dse, case, tmp_path, monkeypatch):
    from dse.report.drawn import DrawnFigure  # with matplotlib: only where it is needed

    drawn, saved = [], DrawnFigure._saved
    monkeypatch.setattr(DrawnFigure, "_saved", lambda figure, kind: drawn.append(kind) or saved(figure, kind))
    shown = dse("wafer", case(), *FEW, "--out", tmp_path / "run")
    assert "case.png" in "".join(shown.out.split())
    assert sorted(drawn) == ["png", "svg"]


def test_a_better_placement_is_on_disk_at_once(tmp_path, monkeypatch):
    path = tmp_path / "case.kgraph"
    path.write_text(blocks_text(adapter=5))
    options, texts = WaferOptions(str(path), moves=1000), []
    problem, write = options.problem(), Run.write

    def recorded(run, name, content):
        write(run, name, content)
        if name == "case.paint":
            texts.append((tmp_path / name).read_text())

    monkeypatch.setattr(Run, "write", recorded)
    best = answer(options, directory=tmp_path)
    totals = [cost(problem, placement_of(problem, parse_paint(text, "p"), "p")).total for text in texts]
    assert len(totals) > 1
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] == best.objective.value


def test_a_stopped_run_has_an_answer_or_says_that_it_has_none(dse, case, tmp_path):
    stopped = dse("wafer", case(), "--workers", 0, "--moves", 10**9, "--time-limit", 1, "--json")
    # On a busy machine a second may be too short for any answer.
    assert (stopped.code, json.loads(stopped.out)["status"]) in ((0, "feasible"), (0, "optimal"), (3, "unknown"))


def test_a_run_that_goes_on_is_never_worse_than_what_it_has_kept(dse, tmp_path):
    path, out = tmp_path / "blocks.kgraph", tmp_path / "run"
    path.write_text(blocks_text(adapter=5))
    command = ("wafer", path, "--workers", 0, "--moves", 200, "--out", out)
    assert dse(*command).code == 0
    first = json.loads((out / "result.json").read_text())["objective"]["value"]
    (out / "result.json").unlink()
    assert dse(*command[:-2], "--time-limit", 1e-9).code == 3
    again = json.loads(dse(*command, "--resume", "--time-limit", 1e-9, "--json").out)
    assert again["objective"]["value"] == first
    problem = read_problem(path)
    assert cost(problem, placement_of(problem, read_paint(out / "blocks.paint"), "p")).total == first


DAMAGES = {
    "must end in `kmap = union": lambda text: text[:100],
    "outside the 20 × 20 grid": lambda text: text.replace("place(", "place(9"),
    "k7: must be a kernel of the graph": lambda text: text.replace("k1", "k7"),
}


def test_a_saved_placement_that_is_damaged_is_not_overwritten(dse, case, tmp_path):
    out = tmp_path / "run"
    paint = out / "case.paint"
    assert dse("wafer", case(), *FEW, "--out", out).code == 0
    whole = paint.read_text()
    (out / "result.json").unlink()
    for words, damage in DAMAGES.items():
        paint.write_text(damage(whole))
        refused = dse("wafer", case(), *FEW, "--out", out, "--resume")
        assert refused.code == 2
        assert words in refused.err
        assert all(line.startswith(f"error: {paint}: ") for line in refused.error_lines)
        assert refused.error_lines[-1].endswith("move it away and use --resume")
        assert paint.read_text() == damage(whole)
        assert not (out / "result.json").exists()
    paint.unlink()
    assert dse("wafer", case(), *FEW, "--out", out, "--resume").code == 0
    assert paint.read_text() == whole


def test_a_run_goes_on_whatever_its_kernels_are_called(case, tmp_path):
    path = case(nodes=[conv_line(number).replace("'k", "'xkmap") for number in (1, 2)])
    path.write_text(path.read_text().replace("'xkmap1'", "'xkmap'"))
    problem = read_problem(path)
    found = answer(WaferOptions(str(path), moves=2000), problem=problem).solution
    placement = placement_from_document(problem, found, "r")
    assert saved_placement(tmp_path, problem) is None
    save_placement(Run(directory=tmp_path), problem.name, problem, placement)
    assert saved_placement(tmp_path, problem) == placement


def test_nothing_is_kept_that_is_worse_than_what_is_known(case, tmp_path, monkeypatch):
    options, written = WaferOptions(str(case()), moves=4000), []
    best = answer(options, directory=tmp_path)
    monkeypatch.setattr("dse.wafer.answer.save_placement", lambda *given: written.append(given))
    again = answer(options, directory=tmp_path)
    assert written == []
    assert again == best.model_copy(update={"seconds": again.seconds})
    (tmp_path / "case.paint").unlink()
    answer(options, directory=tmp_path)
    assert written


def test_the_search_may_end_before_the_bound(tmp_path):
    path = str(tmp_path / "blocks.kgraph")
    Path(path).write_text(blocks_text(adapter=5))
    # The search has nine tenths of the time, and nineteen twentieths have passed.
    limits = {"began_s": time.monotonic() - 0.95e6, "time_limit_s": 1e6}
    result = answer(WaferOptions(path, moves=10**9), **limits)
    assert result.metrics["unfinished"] == ["search"]
    assert result.bound == answer(WaferOptions(path, moves=0)).bound


def test_a_whole_result_is_checked_again(case):
    path = case(adapter=3)
    result = answer(WaferOptions(str(path), moves=2000))
    assert faults(result) == []
    assert faults(result, str(path)) == []
    kernels = result.solution["kernels"]
    moved = {"kernels": {**kernels, "k1": {**kernels["k1"], "x": 15}}}
    none = Infeasibility(resource="tiles", demand=2, limit=1, unit="tiles", levers=[], explanation="no", where={})
    for change, words in (
        ({"solution": moved}, "k1"),
        ({"objective": result.objective.model_copy(update={"value": 1.0})}, "objective.value"),
        ({"metrics": {**result.metrics, "distance": 1.0}}, "metrics.distance"),
        ({"problem": result.problem.model_copy(update={"digest": "sha256:0"})}, "problem.digest"),
        ({"method": "rows"}, "method must be"),
        ({"status": "infeasible"}, "not be infeasible"),
        ({"infeasibility": none}, "infeasibility"),
    ):
        found = faults(result.model_copy(update=change))
        assert any(words in each for each in found), (words, found)
    with pytest.raises(InputError, match=r"metrics: placement\.more: unknown key"):
        faults(result.model_copy(update={"metrics": {**result.metrics, "more": 1.0}}))


def test_a_result_has_the_same_inputs_whatever_was_read_before(case):
    path = str(case())
    contest_library.cache_clear()
    first, second = (answer(WaferOptions(path, moves=0)) for _ in range(2))
    assert [*first.inputs] == [*second.inputs] == [path]


def test_rows_alone_are_a_method(case):
    path = str(case())
    rows, best = (answer(WaferOptions(path, method=method, moves=4000)) for method in ("rows", "portfolio"))
    assert rows.method == "rows"
    assert best.objective.value <= rows.objective.value


def test_a_kernel_that_needs_more_memory_than_a_tile_has(dse, case):
    line = conv_line(1, height=1, width=1, inputs=64, outputs=64)
    problem = problem_from(graph_text([line], [], width=12, height=12, memory=20))
    proof = infeasibility(problem)
    assert proof["resource"] == "tile_memory_words"
    assert proof["kernel"] == "k1"
    # c + 1 ≤ 12 and 3·k ≤ 12: ⌊64/11 · 64/4 + 64/4⌋.
    assert proof["demand"] == 109
    fitting = problem_from(graph_text([line], [], width=12, height=12, memory=109))
    assert infeasibility(fitting) is None
    shown = dse("wafer", case(nodes=[line], width=12, height=12, memory=20), *FEW)
    assert shown.code == 1
    assert "Proven infeasible: k1 (conv): no parameters fit the 12 × 12 grid" in shown.out
    assert "109 words" in shown.out


def test_every_kernel_that_fits_nowhere_is_named():
    lines = [conv_line(number, height=1, width=1, inputs=64, outputs=64) for number in (1, 2, 4)]
    proof = infeasibility(problem_from(graph_text([*lines, conv_line(3)], [], width=12, height=12, memory=20)))
    assert (proof["kernel"], proof["kernels"]) == ("k1", ["k1", "k2", "k4"])
    assert "k1 (conv) and 2 more like it" in proof["explanation"]


def test_a_grid_that_is_too_small():
    line = "dblock[1] f=8 h=2 w=2 name='k1'"
    assert infeasibility(problem_from(graph_text([line], [], width=9, height=2))) is None
    proof = infeasibility(problem_from(graph_text([line], [], width=8, height=8)))
    assert proof["resource"] == "tiles"
    assert "at least 9 × 2 tiles" in proof["explanation"]


def test_kernels_that_are_too_many_together(dse, case):
    nodes = [conv_line(number) for number in range(1, 8)]
    shown = dse("wafer", case(nodes=nodes, width=6, height=6), *FEW, "--json")
    assert shown.code == 1
    proof = json.loads(shown.out)["infeasibility"]
    assert (proof["demand"], proof["limit"]) == (42, 36)
    assert "wafer" not in dse("wafer", case(nodes=nodes[:6], width=6, height=6), *FEW).error_lines


def test_own_kernel_types(dse, case, tmp_path):
    library = tmp_path / "kernels.yaml"
    library.write_text(
        "schema: dse.kernels/1\nkernels:\n  square:\n    parameters: [n, f]\n    convolutions:\n"
        "      - {H: n, W: n, R: 3, S: 3, C: f, K: f}\n"
    )
    path = case(nodes=["square[1] n=4 f=4 name='k1'"])
    assert dse("wafer", path, *FEW).code == 2
    shown = dse("wafer", path, "--kernels", library, *FEW, "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["solution"]["kernels"].keys() == {"k1"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must begin with a comment"),
        ("(*\nwidth=5\n*)\nconv[1] name='k'\n", "line 4"),
        ("(*\nwidth=x\nheight=5\nwdeltat=1\nwlength=1\nwadapter=0\nmemlimit=1\n*)\n", "header.width|at least one"),
    ],
)
def test_bad_input_is_one_line_for_each_fault(dse, tmp_path, text, words):
    path = tmp_path / "bad.kgraph"
    path.write_text(text)
    out = tmp_path / "run"
    refused = dse("wafer", path, *FEW, "--out", out)
    assert refused.code == 2
    assert refused.error_lines
    assert any(word in refused.err for word in words.split("|"))
    assert "Traceback" not in refused.err
    assert not out.exists()


def test_a_header_is_blamed_by_its_line_and_an_option_by_its_name(dse, case):
    path = case(distance="1_0")
    assert dse("wafer", path, *FEW).error_lines == [
        f"error: {path}: line 6: header.wlength: 1_0: must be a number from 0 to 1e+12"
    ]
    assert dse("wafer", path, "--wlength", 2, *FEW).code == 0
    assert dse("wafer", path, "--wlength", "2e12", *FEW).error_lines == [
        "error: dse wafer: --wlength: 2000000000000: must be a number from 0 to 1e+12"
    ]
    (error,) = dse("wafer", path, "--wlength", "inf", *FEW).error_lines
    assert error.endswith("Invalid value for '--wlength': inf: must be a number in plain digits")


def test_unknown_options_are_refused(case):
    with pytest.raises(InputError, match=r"dse wafer: --method: best: .*portfolio"):
        WaferOptions(str(case()), method="best")
    with pytest.raises(InputError, match="did you mean moves"):
        WaferOptions.from_document({"case": "x", "move": 1}, "r", "k")


def test_points_fit_a_terminal_of_eighty_columns(dse, case, monkeypatch):
    monkeypatch.setattr("dse.cli.terminal.console", lambda: Console(highlight=False, width=80))
    shown = dse("wafer", case(), "--sweep", "side=4,20,memlimit=20000,24576", *FEW)
    assert shown.code == 0, shown.err
    assert "…" not in shown.out
    for word in ("memlimit", "cost", "gap", "front", "24,576", "infeasible: needs"):
        assert word in shown.out
