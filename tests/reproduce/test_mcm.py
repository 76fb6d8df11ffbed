"""``dse reproduce mcm``: the calibration study on a graph of the user's own."""

import json

from tests import terminal
from tests.partition.small import random_graph


def test_figure_7_fits_the_terminal_and_answers_first(dse, monkeypatch, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(random_graph(3, 30, 0.1).document()))
    for width in terminal.WIDTHS:
        terminal.set_width(monkeypatch, width)
        done = dse("reproduce", "mcm", "fig7", "--models", path)
        assert done.code == 0, done.err
        assert terminal.faults(done.out, width) == []


def test_figure_7_is_printed_beside_the_paper(dse, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(random_graph(3, 30, 0.1).document()))
    done = dse("reproduce", "mcm", "fig7", "--models", path, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    (section,) = document["sections"]
    numbers = {each["quantity"]: each for each in section["comparisons"]}
    assert numbers["Pearson's R"]["paper"] == 0.91
    assert 0 < numbers["Pearson's R"]["ours"] <= 1
    assert numbers["partitions that cannot run"]["paper"] == 13.5
    # The paper's are of another graph.
    assert "BERT with 2,138 operators" in numbers["Pearson's R"]["reason"]


def test_unknown_figures_and_papers_offer_what_there_is(dse):
    assert "fig7" in dse("reproduce", "mcm", "fig9").err
    assert "mcm" in dse("reproduce", "mmc").err


def test_figure_7_says_what_was_calibrated_on_which_graph(dse, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(random_graph(3, 30, 0.1).document()))
    (section,) = json.loads(dse("reproduce", "mcm", "fig7", "--models", path, "--json").out)["sections"]
    notes = " ".join(section["notes"])
    for words in ("reference graph of BERT with 2,138 operators", "84 tokens", "8-bit numbers", "does not carry over"):
        assert words in notes
