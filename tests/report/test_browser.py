"""Every kind of answer on a terminal, and its page in a headless browser, dark and narrow: tables fit, every chart is
drawn, no label is covered or cut.
"""

import json
import re
from pathlib import Path

import pytest

from dse.cli.problem_command import print_view
from dse.report.chart import Axis, BarChart, Bars
from dse.report.charts import first_chart
from dse.report.page import document, figure
from tests import terminal
from tests.fabric.documents import FEED_FORWARD, fabric_document
from tests.report.browser import MAX_BYTES, browser
from tests.testing.test_problems import one_io_unit_a_switch
from tests.wafer.small import conv_line, graph_text

DATA = Path(__file__).parent.parent / "data"

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "accelerator.yaml"

GRAPH = {
    "schema": "dse.graph/1",
    "name": "diamonds",
    "nodes": [{"name": f"n{at}", "latency_s": 1e-5 * (1 + at % 3), "output_bytes": 1000.0} for at in range(12)],
    "edges": [[f"n{at}", f"n{at + 1}"] for at in range(11)] + [[f"n{at}", f"n{at + 3}"] for at in range(0, 9, 3)],
}


def inputs(kind, folder):
    """The command line of each kind of page."""
    (folder / "graph.json").write_text(json.dumps(GRAPH))
    (folder / "case.kgraph").write_text(graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")]))
    (folder / "flow.json").write_text(json.dumps(FEED_FORWARD))
    (folder / "fabric.json").write_text(json.dumps(fabric_document()))
    small = one_io_unit_a_switch(fabric_document(rows=2, columns=4))
    (folder / "small-fabric.json").write_text(json.dumps(small))
    step = ("parallel", DATA / "hlo" / "vgg-tiny.hlo")
    training = ("llama3-8b", "--on", "h100-sxm", "--global-batch", 64)
    return {
        "schedule": ("schedule", DATA / "schedule" / "heads2.json"),
        "place": ("place", DATA / "placement" / "03_gpt2xl_40L_mb1_hbm32.json"),
        "partition": ("partition", folder / "graph.json", "--chips", 4, "--method", "greedy,random", "--samples", 50),
        "wafer": ("wafer", folder / "case.kgraph", "--moves", 500),
        "sweep": ("wafer", folder / "case.kgraph", "--moves", 200, "--sweep", "side=10,14"),
        "codesign": ("codesign", "bert-large", "--microbatch", 4),
        "modern": ("codesign", "bert-large", "--plans", "modern", "--fixed", EXAMPLE, "--accelerators", 64),
        "parallel": (*step, "--mesh", "data=2,model=2", "--memory-gb", 0.0002),
        "pipeline": (*step, "--strategy", "pipeline", "--mesh", 4),
        "hybrid": (*step, "--strategy", "hybrid", "--mesh", 4),
        "all": ("parallel", DATA / "hlo" / "mlp.json", "--strategy", "all", "--mesh", "server=2,model=2"),
        "predict": ("predict", *training, "--accelerators", 16, "--plan", "tensor=2,pipeline=4,interleave=2,data=2"),
        "plan": ("plan", *training, "--accelerators", 8),
        "fabric": ("fabric", "place", folder / "flow.json", "--fabric", folder / "fabric.json", "--moves", 200),
        "cut": ("fabric", "place", folder / "flow.json", "--fabric", folder / "small-fabric.json", "--moves", 200),
    }[kind]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One browser for all pages: to start it takes as long as several pages."""
    with browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


SERIAL = {"partition", "wafer", "sweep", "codesign", "modern", "fabric", "cut"}
"""Problems that would start workers."""


KINDS = (
    "schedule", "place", "partition", "wafer", "sweep", "codesign", "modern", "parallel", "pipeline", "hybrid", "all",
    "predict", "plan", "fabric", "cut",
)  # fmt: skip

RUNS = {}
"""By kind, what a run printed, its view and its page: the tests of a kind share one run."""


@pytest.fixture
def run(dse, monkeypatch, tmp_path):
    """Runs a kind of problem on a terminal of 80 columns."""

    def answered(kind):
        if kind not in RUNS:
            out, views = tmp_path / "out", []
            with monkeypatch.context() as patch:
                terminal.set_width(patch, 80)
                patch.setattr(
                    "dse.cli.problem_command.print_view", lambda *view: views.append(view) or print_view(*view)
                )
                workers = ("--workers", 0) if kind in SERIAL else ()
                answer = dse(*inputs(kind, tmp_path), *workers, "--out", out)
            assert answer.code == 0, answer.err
            RUNS[kind] = answer.out, views[0][0], (out / "report.html").read_text()
        return RUNS[kind]

    return answered


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_shows_the_answer_first_and_its_tables_fit(run, kind):
    text, view, _ = run(kind)
    assert terminal.faults(text, 80) == []
    assert view.verdict[:20] in " ".join(terminal.plain(text).split())[:200]
    assert terminal.view_faults(view) == []
    assert first_chart(view) is not None, "what answer.figure() draws"
    assert all(bar.title[0].isupper() for card in view.cards() for bar in card.breakdowns)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_renders_without_errors_and_its_labels_are_legible(run, chromium, tmp_path, kind):
    _, _, page = run(kind)
    assert len(page.encode()) <= MAX_BYTES
    assert "<script" not in page, "a page that is sent alone shows everything without scripts"
    addresses = re.findall(r"(?:src|href)=['\"](.*?)['\"]|url\((.*?)\)", page.replace("<a href", "<a "))
    assert all(address.startswith(("data:", "#")) for pair in addresses for address in pair if address), addresses
    for scheme, width in (("light", 1600), ("dark", 800)):
        logged, seen = chromium.rendered(page, tmp_path, scheme, width)
        assert logged == []
        assert seen["charts"] == page.count("<figure>")
        assert seen["covered"] == seen["cut"] == []
        assert seen["narrow"] == 0, "a chart that was folded up must fill the page once it is opened"
        assert not seen["wide"]
        assert seen["dark"] is (scheme == "dark")
        assert seen["faint"] == 0


def test_the_browser_sees_errors_and_covered_labels(chromium, tmp_path):
    svg = "<svg width='200' height='50'><text x='9' y='20'>first label</text><text x='12' y='22'>second</text></svg>"
    wide = "<div style='width:5000px'>x</div><script>throw new Error('broken chart')</script>"
    other = "<img src='missing.png'><script>console.warn('odd', 7); setTimeout(() => nothing.at.all, 900)</script>"
    logged, seen = chromium.rendered(document("broken", [svg, wide, other], ""), tmp_path)
    for said in ("broken chart", "ERR_FILE_NOT_FOUND", "odd 7", "nothing is not defined"):
        assert sum(said in line for line in logged) == 1, logged
    assert seen["covered"] == [["first label", "second"]]
    assert seen["wide"]
    logged, seen = chromium.rendered(document("whole", [svg.replace("y='22'", "y='45'")], ""), tmp_path)
    assert logged == seen["covered"] == []
    assert not seen["wide"]


def test_the_browser_sees_narrow_charts_cut_labels_and_faint_text(chromium, tmp_path):
    chart = BarChart("two", "letter", Axis("amount"), ["a", "b"], [Bars("", [1.0, 2.0], "#1f6f8b")])
    charts = [figure(chart) for _ in range(3)]
    charts[1] = charts[1].replace("<svg", "<svg style='width:300px'", 1)
    charts[2] = charts[2].replace("x='0' y=", "x='-30' y=", 1)
    folded = [f"<details><summary>chart</summary>{each}</details>" for each in charts]
    faint = "<p style='color:#cccccc'>faint</p>"
    logged, seen = chromium.rendered(document("charts", [*folded, faint], ""), tmp_path)
    assert logged == seen["covered"] == []
    assert (seen["charts"], seen["narrow"], seen["cut"], seen["faint"]) == (3, 1, ["amount"], 1)
