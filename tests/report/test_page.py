"""``dse report``: the page of a run again, from its result and its input; what has none is refused in one line."""

import json

import pytest

from tests.codesign.tiny import MODEL
from tests.solving import resealed
from tests.wafer.small import conv_line, graph_text

GRAPH = {
    "schema": "dse.graph/1",
    "name": "chain",
    "nodes": [{"name": f"n{number}", "latency_s": 1e-5, "output_bytes": 1000.0} for number in range(6)],
    "edges": [[f"n{number}", f"n{number + 1}"] for number in range(5)],
}


@pytest.fixture
def runs(dse, tmp_path):
    """Runs of the commands whose pages are made of the input again: ``runs("partition")`` gives (input, directory)."""

    def made(command):
        out = tmp_path / command
        if command == "partition":
            path = tmp_path / "graph.json"
            path.write_text(json.dumps(GRAPH))
            answer = dse("partition", path, "--chips", 3, "--workers", 0, "--out", out)
        else:
            path = tmp_path / "case.kgraph"
            path.write_text(graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")]))
            answer = dse("wafer", path, "--moves", 500, "--workers", 0, "--out", out)
        assert answer.code == 0, answer.err
        return path, out

    return made


@pytest.mark.parametrize("command", ["partition", "wafer"])
def test_a_page_is_made_again(dse, runs, command):
    _, out = runs(command)
    page = (out / "report.html").read_text()
    (out / "report.html").unlink()
    shown = dse("report", out)
    assert shown.code == 0, shown.err
    assert str(out / "report.html") in shown.out
    assert (out / "report.html").read_text() == page


@pytest.mark.parametrize(("command", "before", "after"), [("partition", "1e-05", "2e-05"), ("wafer", "K=4", "K=8")])
def test_a_page_is_of_the_input_that_was_answered(dse, runs, command, before, after):
    """The result carries its input: a file that has changed since says nothing; another input in the result does."""
    path, out = runs(command)
    page = (out / "report.html").read_text()
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert dse("report", out).code == 0
    assert (out / "report.html").read_text() == page
    result = json.loads((out / "result.json").read_text())
    for file in result["inputs"].values():
        file["text"] = file["text"].replace(before, after)
    (out / "result.json").write_text(json.dumps(resealed(result)))
    refused = dse("report", out)
    assert refused.code == 2
    assert "has changed since this run" in refused.err
    assert len(refused.error_lines) == 1


def test_a_run_without_an_answer_and_a_command_without_pages(dse, runs, tmp_path):
    _, out = runs("wafer")
    result = json.loads((out / "result.json").read_text())
    for change, words in (
        ({"status": "unknown", "solution": {}, "objective": {**result["objective"], "value": None}}, "no report"),
        ({"command": "waver"}, "did you mean wafer"),
    ):
        (out / "result.json").write_text(json.dumps(resealed(result | change)))
        refused = dse("report", out)
        assert refused.code == 2
        assert words in refused.err
        assert len(refused.error_lines) == 1


def test_a_page_of_co_search_opens_with_its_verdict_and_an_answer_card(dse, tmp_path):
    out, path = tmp_path / "run", tmp_path / "tiny.yaml"
    path.write_text(MODEL.format(name="tiny", layers=3, hidden=64))
    asked = ("--fixed", "a100-sxm", "--accelerators", 4, "--global-batch", 8, "--microbatch", 1, "--workers", 0)
    assert dse("codesign", path, *asked, "--out", out).code == 0
    body = (out / "report.html").read_text().partition("<body")[2]
    parts = ("<h1>", "class='verdict'", "<section class='card'>", "<svg class='plan'", "class='bar'", "<table")
    places = [body.index(part) for part in parts]
    assert places == sorted(places)


def test_charts_to_zoom_into_are_written_on_request(dse, runs):
    _, out = runs("partition")
    assert not (out / "charts.html").exists()
    assert dse("report", out, "--interactive").code == 0
    charts = (out / "charts.html").read_text()
    assert charts.count('class="plotly-graph-div"') == (out / "report.html").read_text().count("<figure>") == 2
    assert "<script src='plotly.min.js'" in charts
    assert "https://" not in charts.replace("https://plot.ly", "")
    assert (out / "plotly.min.js").stat().st_size > 10**6
    _, wafer = runs("wafer")
    shown = dse("report", wafer, "--interactive")
    assert shown.code == 0
    assert "no charts" in shown.err
    assert not (wafer / "charts.html").exists()
