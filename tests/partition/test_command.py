"""``dse partition`` as its user sees it: answers, checks, pictures of loads, and one line for each bad input."""

import json

import pytest

from dse.partition.options import PartitionOptions, question_of
from hardware.chips import chip as specs_chip
from hardware.network_specs import network

GRAPH = {
    "schema": "dse.graph/1",
    "name": "chain",
    "nodes": [
        {"name": f"n{number}", "latency_s": 1e-5, "output_bytes": 1000.0, "weight_bytes": 500.0} for number in range(6)
    ],
    "edges": [[f"n{number}", f"n{number + 1}"] for number in range(5)],
}


@pytest.fixture
def graph_file(tmp_path):
    def write(change=lambda _graph: None, name="graph.json"):
        graph = json.loads(json.dumps(GRAPH))
        change(graph)
        path = tmp_path / name
        path.write_text(json.dumps(graph))
        return path

    return write


def test_an_answer_is_proven_shown_saved_and_checked(dse, graph_file, tmp_path):
    path, out = graph_file(), tmp_path / "run"
    shown = dse("partition", path, "--chips", 3, "--workers", 0, "--out", out)
    assert shown.code == 0, shown.err
    assert "proven optimal" in shown.out
    document = json.loads((out / "result.json").read_text())
    assert document["objective"]["value"] == pytest.approx(1 / (2e-5 + 2 * 1000 / 20e9))
    assert sorted(document["solution"]["chip"].values()) == [0, 0, 1, 1, 2, 2]
    assert dse("check", out / "result.json").out == "ok\n"
    again = dse("partition", path, "--chips", 3, "--workers", 0, "--out", out, "--resume", "--json")
    assert json.loads(again.out) == document


@pytest.mark.parametrize(("name", "link"), [("mi300x", "infinity-fabric-mi300x"), ("dgx-h100", "nvlink4")])
def test_chips_of_one_server_are_joined_by_its_links(graph_file, name, link):
    options = PartitionOptions(str(graph_file()), chips=2, chip=name)
    assert question_of(options).problem.link_bytes_per_s == network(link).bytes_per_s


def test_chips_by_name_or_file_have_their_own_rates_memory_and_links(dse, graph_file, tmp_path):
    def ask_for_work(graph):
        for node in graph["nodes"]:
            del node["latency_s"]
            node |= {"flops": 1e12, "bytes": 1e6, "weight_bytes": 30 * 2**30}

    path = graph_file(ask_for_work)
    asked = ("partition", path, "--chips", 3, "--chip", "h100-sxm", "--workers", 0, "--out", tmp_path / "run")
    answer = json.loads(dse(*asked, "--json").out)
    shared = specs_chip("h100-sxm")
    link = network(shared.link).bytes_per_s
    node_s = 1e12 / (dict(shared.rates)["bf16"] * shared.product_share)
    assert answer["objective"]["value"] == pytest.approx(1 / (2 * node_s + 2 * 1000 / link), rel=1e-6)
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"
    small = dse("partition", path, "--chips", 2, "--chip", "h100-sxm", "--workers", 0)  # 90 GiB on one
    assert small.code == 1
    assert "weight" in small.out
    template = dse("partition", path, "--chips", 3, "--chip", "docs/examples/chip.yaml", "--workers", 0, "--json")
    assert json.loads(template.out)["status"] in ("optimal", "infeasible")


def test_a_changed_answer_is_refused_by_the_checker(dse, graph_file, tmp_path):
    out = tmp_path / "run"
    dse("partition", graph_file(), "--chips", 3, "--workers", 0, "--out", out, "--quiet")
    document = json.loads((out / "result.json").read_text())
    for change, words in (
        (lambda changed: changed["solution"]["chip"].update(n0=2), "(2)"),
        (lambda changed: changed["solution"]["chip"].update(n5=1, n4=1), "(2)|must be"),
        (lambda changed: changed["objective"].update(value=1e9), "objective.value"),
        (lambda changed: changed["problem"].update(digest="sha256:0"), "problem.digest"),
    ):
        changed = json.loads(json.dumps(document))
        change(changed)
        (out / "changed.json").write_text(json.dumps(changed))
        checked = dse("check", out / "changed.json", tmp_path / "graph.json")
        assert checked.code == 1
        assert any(word in checked.out for word in words.split("|")), checked.out


BROKEN = {
    "cycle": (lambda graph: graph["edges"].append(["n5", "n0"]), "cycle"),
    "edge to nothing": (lambda graph: graph["edges"].append(["n4", "node5"]), "did you mean n5?"),
    "edge twice": (lambda graph: graph["edges"].append(["n0", "n1"]), "every edge must be listed once"),
    "name twice": (lambda graph: graph["nodes"].append(graph["nodes"][0]), "node names must be unique"),
    "negative size": (lambda graph: graph["nodes"][0].update(output_bytes=-1), "nodes.0.output_bytes"),
    "infinite size": (lambda graph: graph["nodes"][0].update(output_bytes=1e99), "nodes.0.output_bytes"),
    "no latency": (lambda graph: graph["nodes"][0].pop("latency_s"), "latency_s, or flops and bytes"),
    "no time at all": (lambda graph: [node.update(latency_s=0) for node in graph["nodes"]], "must be above 0"),
    "unknown key": (lambda graph: graph["nodes"][0].update(latency=1), "nodes.0.latency"),
    "no nodes": (lambda graph: graph.update(nodes=[], edges=[]), "nodes"),
    "other schema": (lambda graph: graph.update(schema="dse.graph/9"), "schema"),
    "edge of four": (lambda graph: graph["edges"].append(["n0", "n1", 2, 3]), "[from, to]"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_graph_is_one_line(dse, graph_file, fault):
    change, words = BROKEN[fault]
    refused = dse("partition", graph_file(change), "--chips", 3)
    assert refused.code == 2
    assert refused.out == ""
    assert all(line.startswith("error: ") for line in refused.err.splitlines())
    assert words in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--chips", 0), "must be from 1 to 64"),
        (("--chips", 65), "must be from 1 to 64"),
        (("--chips", 3, "--package", "mcm-8"), "must not be given together with --package"),
        (("--link-bytes-per-s", 1e9), "applies only to --chips"),
        (("--chip", "h100-sxm"), "requires --chips N"),
        (("--chips", 3, "--chip", "h100"), "did you mean h100-sxm"),
        (("--chips", 3, "--chip", "h100-sxm", "--evaluator", "simulator"), "must be analytical without --package"),
        (("--chips", 3, "--link-bytes-per-s", -1), "must be from 1e-30 to 1e30"),
        (("--package", "mcm-9"), "mcm-8"),
        (("--chips", 3, "--evaluator", "simulator"), "must be analytical without --package"),
        (("--chips", 3, "--method", "magic"), "magic"),
        (("--chips", 3, "--method", "greedy,randon"), "did you mean random"),
        (("--chips", 3, "--method", "all,dp"), "all"),
        (("--chips", 3, "--microbatch", 4), "must not be given"),
    ],
)
def test_an_invalid_option_is_one_line(dse, graph_file, arguments, words):
    refused = dse("partition", graph_file(), *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert len(refused.err.splitlines()) == 1


def test_an_unknown_method_leaves_no_directory(dse, graph_file, tmp_path):
    assert dse("partition", graph_file(), "--chips", 3, "--method", "magic", "--out", tmp_path / "run").code == 2
    assert not (tmp_path / "run").exists()


def test_operators_that_fit_nowhere_are_named(dse, graph_file):
    path = graph_file(lambda graph: graph["nodes"][2].update(weight_bytes=1e9))
    refused = dse("partition", path, "--package", "coral-8", "--workers", 0)
    assert refused.code == 1
    assert "n2" in refused.out
    assert "1 GB" in refused.out
    result = json.loads(dse("partition", path, "--package", "coral-8", "--json").out)
    assert result["infeasibility"]["where"]["operators"] == ["n2"]


def test_a_misfit_names_chip_excess_and_operators(dse, graph_file):
    def change(graph):
        graph["edges"] += [[f"n{number}", f"n{number + 2}"] for number in range(4)]
        for node in graph["nodes"]:
            node["output_bytes"] = 1.4e7

    path = graph_file(change)
    refused = dse("partition", path, "--package", "mcm-4", "--evaluator", "simulator", "--samples", 5, "--workers", 0)
    assert refused.code == 3
    for words in ("In the closest one", "(5) chip", "45.9 MB", "n0 ("):
        assert words in refused.out


def test_methods_are_compared_in_the_terminal_and_in_the_report(dse, graph_file, tmp_path):
    out = tmp_path / "run"
    asked = ("--chips", 3, "--method", "portfolio,greedy,random", "--samples", 9, "--workers", 0, "--out", out)
    shown = dse("partition", graph_file(), *asked)
    assert shown.code == 0, shown.err
    page = (out / "report.html").read_text()
    for words in ("of best", "greedy", "random", "evaluations"):
        assert words in shown.out
        assert words in page
    assert dse("check", out / "result.json").out == "ok\n"


def test_the_fall_backs_of_the_solver_are_counted_and_shown(dse, graph_file):
    asked = ("partition", graph_file(), "--chips", 3, "--method", "anneal,random", "--samples", 40, "--workers", 0)
    solver = json.loads(dse(*asked, "--json").out)["metrics"]["solver"]
    assert solver == {"partitions": 78, "fall_backs": 0}
    shown = " ".join(dse(*asked, "--notes").out.split())
    assert "the constraint solver fell back to a linear partition for 0 of 78 partitions (0 %)" in shown
    exact = json.loads(dse("partition", graph_file(), "--chips", 3, "--method", "dp", "--workers", 0, "--json").out)
    assert "solver" not in exact["metrics"]


def test_emit_samples_writes_every_distinct_partition(dse, graph_file, tmp_path):
    path = tmp_path / "samples.jsonl"
    asked = ("--chips", 3, "--method", "random", "--samples", 200, "--workers", 0, "--json", "--emit-samples", path)
    result = json.loads(dse("partition", graph_file(), *asked).out)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # Chains of six on three chips: one chip, two, or three, each by where it is cut.
    assert len(lines) == 1 + 5 + 10
    assert max(line["throughput_per_s"] for line in lines) == result["objective"]["value"]
    assert {"chip": lines[0]["chip"]}.keys() == result["solution"].keys()


def test_emit_samples_is_refused_for_a_resumed_run(dse, graph_file, tmp_path):
    out, samples = tmp_path / "run", tmp_path / "samples.jsonl"
    asked = ("partition", graph_file(), "--chips", 3, "--method", "greedy,random", "--workers", 0, "--out", out)
    assert dse(*asked).code == 0
    for _ in ("finished", "begun"):
        refused = dse(*asked, "--resume", "--emit-samples", samples)
        assert refused.code == 2
        (line,) = refused.error_lines
        assert line.startswith("error: dse partition: --emit-samples: ")
        assert line.endswith("because earlier evaluations are not kept")
        assert not samples.exists()
        (out / "result.json").unlink(missing_ok=True)


def test_more_chips_than_the_graph_can_use_is_a_warning(dse, graph_file):
    shown = dse("partition", graph_file(), "--chips", 36, "--workers", 0)
    assert shown.code == 0
    assert "no partition of this graph uses more than 6 of 36 chips" in shown.out
    told = dse("partition", graph_file(), "--chips", 36, "--workers", 0, "--json")
    assert "more than 6 of 36 chips" in told.err
    assert json.loads(told.out)["metrics"]["chips_usable"] == 6


def test_an_unknown_graph_lists_what_can_be_given(dse):
    refused = dse("partition", "nothing-like-it", "--chips", 3)
    assert refused.code == 2
    assert "dse.graph/1" in refused.err


def test_a_graph_of_a_users_own_stays_as_it_is_however_it_states_its_work(dse, tmp_path):
    # A cheap source that feeds everything, and a constant: what preparation would copy and fold.
    nodes = [{"name": name, "flops": 1e6, "bytes": 1e3, "output_bytes": 10} for name in ("mask", "a", "b", "c")]
    edges = [["mask", "a"], ["mask", "b"], ["mask", "c"], ["a", "b"], ["b", "c"]]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"schema": "dse.graph/1", "name": "own", "nodes": nodes, "edges": edges}))
    answer = dse("partition", path, "--package", "mcm-4", "--workers", 0, "--json")
    assert answer.code == 0, answer.err
    assert set(json.loads(answer.out)["solution"]["chip"]) == {"mask", "a", "b", "c"}


ENCODER = """
schema: dse.model/1
name: encoder
layers: 3
hidden: 256
heads: 4
vocabulary: 512
sequence: 64
norm_placement: post
head: pooler
"""


def test_an_answer_about_copies_is_in_the_users_names(dse, tmp_path):
    """The mask of an encoder is copied for every layer; the answer is shown, checked, and reported in its own names."""
    (tmp_path / "encoder.yaml").write_text(ENCODER)
    out = tmp_path / "run"
    asked = ("--package", "mcm-8", "--method", "greedy", "--workers", 0)
    shown = dse("partition", tmp_path / "encoder.yaml", *asked, "--out", out)
    assert shown.code == 0, shown.err
    document = json.loads((out / "result.json").read_text())
    chips = document["solution"]["chip"]
    assert set(chips["attention_mask"]) == {"add", "add_4", "add_7"}
    assert set(chips["attention_mask"]) < set(chips)
    assert not any("@" in name for name in chips)
    assert dse("check", out / "result.json").out.strip() == "ok"
    chips["attention_mask"]["add_4"] = 7
    (tmp_path / "changed.json").write_text(json.dumps(document))
    refused = dse("check", tmp_path / "changed.json")
    assert refused.code == 1
    assert "attention_mask (for add_4) is on chip 7" in refused.out + refused.err
    assert dse("report", out).code == 0
