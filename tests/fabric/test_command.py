"""``dse fabric place`` as a user calls it: answers, exit codes, one line for each fault."""

import json
import re

import pytest

from dse.cli.interface import solve
from dse.fabric.evaluators.critical_kernels import CAUSES
from dse.fabric.figures import PlacedPiece
from dse.fabric.formats import placements_from_document
from dse.fabric.options import FabricOptions
from dse.fabric.timeline import TRACED_SAMPLES
from dse.report.render import NOT_DRAWN
from tests.fabric.documents import FEED_FORWARD, fabric_document
from tests.solving import resealed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(FEED_FORWARD))
    (tmp_path / "fabric.json").write_text(json.dumps(fabric_document()))
    return tmp_path


PLACE = (
    "fabric",
    "place",
    "graph.json",
    "--fabric",
    "fabric.json",
    "--chains",
    "2",
    "--moves",
    "200",
    "--workers",
    "0",
)


@pytest.mark.parametrize(
    ("given", "effort"),
    [
        ({}, (4, 100_000, 12)),
        ({"moves": 50_000}, (4, 50_000, 12)),
        ({"moves": 49_999}, (1, 199_996, 0)),
        ({"moves": 49_999, "rounds": 3}, (1, 199_996, 3)),
        ({"moves": 200, "chains": 4}, (4, 200, 12)),
        ({"moves": 200_000, "chains": 1}, (1, 200_000, 25)),
        ({"moves": 1_000_000}, (4, 1_000_000, 125)),
        ({"moves": 199_999, "chains": 1}, (1, 199_999, 0)),
        ({"moves": 200, "cost": "tuned"}, (4, 200, 12)),
    ],
)
def test_a_small_budget_goes_to_one_chain_unless_something_else_is_asked_for(given, effort):
    assert FabricOptions("graph.json", **given).effort == effort


def test_an_answer_has_sites_and_routes_and_passes_its_check(dse, folder):
    answered = dse(*PLACE, "--json", "--quiet", "--out", "run")
    assert answered.code == 0, answered.err
    result = json.loads(answered.out)
    assert result["objective"]["name"] == "throughput_per_s"
    assert result["objective"]["value"] <= result["bound"]
    assert set(result["solution"]["unit"]) == {each["name"] for each in FEED_FORWARD["operators"]}
    sites = [site for units in result["solution"]["unit"].values() for site in units]
    assert len(set(sites)) == len(sites)
    assert dse("check", "run/result.json").out == "ok\n"


def test_what_the_stream_waits_for_is_printed_stands_in_the_page_and_is_checked(dse, folder):
    answered = dse(*PLACE, "--notes", "--out", "run")
    assert answered.code == 0, answered.err
    assert "Waiting time" in answered.out
    assert re.search(r"cost of placements +simulator\b", answered.out)
    assert "Waiting time" in (folder / "run" / "report.html").read_text()
    result = json.loads((folder / "run" / "result.json").read_text())
    (piece,) = result["metrics"]["pieces"]
    assert set(piece["waits"]) == set(CAUSES)
    assert sum(piece["waits"].values()) == pytest.approx(piece["interval_slots"])
    cause = max(piece["waits"], key=piece["waits"].get)
    piece["waits"][cause] += 1
    (folder / "altered.json").write_text(json.dumps(result))
    refused = dse("check", "altered.json")
    assert refused.code == 1
    assert f"waits.{cause}" in refused.out + refused.err


def test_a_result_from_before_waits_were_recorded_has_a_report_without_them(dse, folder):
    assert dse(*PLACE, "--quiet", "--out", "run").code == 0
    page, path = folder / "run" / "report.html", folder / "run" / "result.json"
    assert "Waiting time" in page.read_text()
    result = json.loads(path.read_text())
    del result["metrics"]["pieces"][0]["waits"]
    path.write_text(json.dumps(resealed(result)))
    answered = dse("report", "run")
    assert answered.code == 0, answered.err
    assert "slots between samples, simulated" in page.read_text()
    assert "Waiting time" not in page.read_text()
    refused = dse("check", "run")
    assert refused.code == 2
    assert "pieces.0.waits: the key is missing" in refused.err


def test_help_lists_the_verbs_and_offers_the_nearest(dse):
    assert "place" in dse("fabric", "--help").out
    assert "--fabric" in dse("fabric", "place", "--help").out
    refused = dse("fabric", "plce")
    assert refused.code == 2
    assert "did you mean place?" in refused.err


def test_a_verb_from_above_stands_beside_the_problems_own(dse):
    import click

    from dse.cli.verbs import UpperVerb, command_or_verbs
    from dse.problem import registered

    upper = {"fabric": {"inspect": UpperVerb("List the specs.", "dse.cli.specs:command")}}
    command = command_or_verbs(registered()["fabric"], upper)
    assert isinstance(command, click.Group)
    context = click.Context(command)
    assert command.list_commands(context) == ["place", "inspect"]
    assert command.get_command(context, "inspect").name == "specs"


def test_a_graph_that_does_not_fit_is_infeasible_with_the_units_that_are_missing(dse, folder):
    (folder / "fabric.json").write_text(json.dumps(fabric_document(rows=2, columns=2)))
    answered = dse(*PLACE, "--cut", "never", "--json", "--quiet")
    assert answered.code == 1
    proof = json.loads(answered.out)["infeasibility"]
    missing = proof["where"]["missing"]
    assert missing[proof["resource"].split()[0]] == proof["demand"] - proof["limit"] > 0
    assert "missing (" in proof["explanation"]
    shown = dse(*PLACE, "--cut", "never")
    assert shown.code == 1
    assert "--cut auto tries to run it in pieces" in " ".join(shown.out.split())


def test_an_operator_of_which_no_part_fits_is_infeasible_with_the_units_that_are_missing(dse, folder):
    fabric = fabric_document(rows=2, columns=2)
    fabric["memory"]["bytes"]["value"] = 2 * 16**2 * 4
    (folder / "fabric.json").write_text(json.dumps(fabric))
    answered = dse(*PLACE, "--json", "--quiet")
    assert answered.code == 1
    proof = json.loads(answered.out)["infeasibility"]
    assert "the smallest part of" in proof["explanation"]
    assert "memory units are missing" in proof["explanation"]
    assert not any(lever.startswith("--cut") for lever in proof["levers"])
    assert "--cut" not in proof["explanation"]


def test_a_run_directory_has_pictures_and_a_trace(dse, folder):
    assert dse(*PLACE, "--quiet", "--out", "run").code == 0
    assert (folder / "run" / "placement.png").read_bytes().startswith(b"\x89PNG")
    answer = solve("fabric", "graph.json", fabric="fabric.json", chains=2, moves=200, workers=0)
    problem, document = answer.posed.problem, answer.solution
    svg = (folder / "run" / "placement.svg").read_text()
    assert svg.count(", site ") == sum(map(len, document["unit"].values()))
    (placement,) = placements_from_document(problem, document, "solution")
    placed = PlacedPiece(problem.pieces[0].pipeline, placement, problem.fabric)
    trace = json.loads((folder / "run" / "placement-trace.json").read_text())
    outputs = [each for each in trace["traceEvents"] if each["ph"] == "X" and each["cat"] == "output"]
    ends_s = {each["name"]: 1e-6 * (each["ts"] + each["dur"]) for each in outputs}
    departures = placed.throughput.outcome.departures
    expected_s = {
        f"sample {number}": (slot + 1) * problem.fabric.slot_s
        for number, slot in enumerate(departures[:TRACED_SAMPLES], start=1)
    }
    assert ends_s == pytest.approx(expected_s, abs=2e-9)


def test_the_simulator_as_judge_is_never_slower_than_the_rules_on_the_same_chains(dse, folder):
    values = {}
    for cost in ("rules", "simulator"):
        answered = dse(*PLACE, "--cost", cost, "--json", "--quiet")
        values[cost] = json.loads(answered.out)["objective"]["value"]
    assert values["simulator"] >= values["rules"]


def test_a_check_that_refuses_routes_names_the_file(dse, folder):
    assert dse(*PLACE, "--out", "run", "--quiet").code == 0
    file = folder / "run" / "result.json"
    result = json.loads(file.read_text())
    routes = result["solution"]["routes"]
    routes[next(iter(routes))].append([])
    file.write_text(json.dumps(result))
    refused = dse("check", "run/result.json")
    assert refused.code == 2
    assert len(refused.error_lines) == 1
    assert refused.err.startswith("error: run/result.json: solution: routes.")


def changed(document, path, value):
    """The document with one entry replaced; None takes it out."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copy


SLOTS = {"name": "own", "slots": {"gemm": {"value": 1.0, "source": "for a test"}}}
GEMM = ("operators", 1)

BAD_GRAPHS = {
    "unknown schema": (("schema",), "dse.dataflow/9", "schema"),
    "no operators": (("operators",), [], "operators"),
    "unknown kind": (("operators", 2, "kind"), "gelo", "did you mean gelu?"),
    "size missing": ((*GEMM, "k"), None, "operators.1.k"),
    "size of another kind": (("operators", 2, "m"), 4, "operators.2.m"),
    "size of 0": ((*GEMM, "m"), 0, "operators.1.m"),
    "size as text": ((*GEMM, "m"), "32", "operators.1.m"),
    "key misspelt": ((*GEMM, "weights"), 3, "did you mean"),
    "edge to nowhere": (("edges", 0), ["input", "upp", 2048], "did you mean up?"),
    "edge of a name alone": (("edges", 0), ["input"], "edges.0"),
    "edge without elements": (("edges", 0), ["input", "up", 0], "edges.0"),
    "names twice": (("operators", 3, "name"), "up", "up"),
    "cycle": (("edges", 0), ["gelu", "up", 2048], "cycle"),
    "work beyond the simulator": ((*GEMM, "k"), 2**36, "feed-forward"),
}
BAD_FABRICS = {
    "capacity no unit has": (("memory", "bytes", "value"), 512, "must hold at least one flit"),
    "links of no width": (("links", "tracks", "value"), 0, "links.tracks"),
    "disconnected grid": (("grid", "absent"), {"value": [[0, 1], [1, 0]], "source": "for a test"}, "are unreachable"),
    "all cells absent": (
        ("grid", "absent"),
        {"value": [[r, c] for r in range(4) for c in range(5)], "source": "for a test"},
        "",
    ),
    "no compute units": (("grid", "pattern", "value"), ["MM"], "compute"),
    "letters of no unit": (("grid", "pattern", "value"), ["CX"], "'X'"),
    "no edges": (("grid", "io_edges", "value"), [], "io"),
    "edge misspelt": (("grid", "io_edges", "value"), ["wst"], "did you mean west?"),
    "no flops": (("compute", "flops", "value"), 0.0, "compute.flops"),
    "no source": (("compute", "flops", "source"), None, "compute.flops.source"),
    "buffers out of order": (("links", "min_flow_flits", "value"), 9, "min_flow_flits"),
    "grid too large": (("grid", "rows", "value"), 65, "grid.rows"),
    "off-chip too slow": (("off_chip", "bytes_per_s", "value"), 1e-3, "off_chip"),
    "key misspelt": (("offchip",), {}, "did you mean off_chip?"),
}


def require_refusal(refused, words):
    assert refused.code == 2, refused
    assert refused.out == ""
    assert refused.err.splitlines() == refused.error_lines
    assert words in refused.err


@pytest.mark.parametrize(("path", "value", "words"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_a_bad_graph_is_refused_in_a_line(dse, folder, path, value, words):
    (folder / "graph.json").write_text(json.dumps(changed(FEED_FORWARD, path, value)))
    require_refusal(dse(*PLACE, "--quiet"), words)


@pytest.mark.parametrize(("path", "value", "words"), BAD_FABRICS.values(), ids=BAD_FABRICS)
def test_a_bad_fabric_is_refused_in_a_line(dse, folder, path, value, words):
    (folder / "fabric.json").write_text(json.dumps(changed(fabric_document(), path, value)))
    require_refusal(dse(*PLACE, "--quiet"), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--slots", "slots.json"), "did you mean"),
        (("--slots", "streming"), "did you mean streaming?"),
        (("--cost", "simulater"), "did you mean simulator?"),
        (("--fill", "0"), "--fill"),
        (("--chains", "0"), "--chains"),
        (("--moves", "0"), "--moves"),
        (("--microbatch", "2"), "microbatch"),
        (("--fabric", "plastcine-8x16"), "did you mean plasticine-8x16?"),
        (("--fabric", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_options_are_refused_in_a_line(dse, folder, arguments, words):
    own = dict(SLOTS, slots=dict.fromkeys(("gemm", "gelu", "add", "layer_normed"), SLOTS["slots"]["gemm"]))
    (folder / "slots.json").write_text(json.dumps(own))
    require_refusal(dse(*PLACE, *arguments, "--quiet"), words)


def test_an_operator_without_an_entry_in_the_table_is_refused(dse, folder):
    (folder / "slots.json").write_text(json.dumps(SLOTS))
    refused = dse(*PLACE, "--slots", "slots.json", "--quiet")
    require_refusal(refused, "slots.json: slots.gelu: the key is missing")
    assert [line.split(": ")[2] for line in refused.error_lines] == ["slots.gelu", "slots.add", "slots.layer_norm"]


BAD_TUNING = {
    "links of no width": ("--fabric", (("links", "tracks", "value"), 0), "links.tracks.value"),
    "disconnected grid": (
        "--fabric",
        (("grid", "absent"), {"value": [[0, 1], [1, 0]], "source": "for a test"}),
        "are unreachable",
    ),
    "capacity no unit has": ("--fabric", (("memory", "bytes", "value"), 512), "must hold at least one flit"),
    "operators without an entry": ("--slots", None, "slots.relu: the key is missing"),
}


@pytest.mark.parametrize(("option", "change", "words"), BAD_TUNING.values(), ids=BAD_TUNING)
def test_tuning_refuses_bad_input_in_a_line_and_writes_nothing(dse, folder, option, change, words):
    document = SLOTS if change is None else changed(fabric_document(8, 16, 32), *change)
    (folder / "bad.json").write_text(json.dumps(document))
    require_refusal(dse("fabric", "tune", option, "bad.json", "--out", "run", "--quiet"), words)
    assert not (folder / "run").exists()


def test_tuning_refuses_a_fabric_on_which_no_training_graph_fits(dse, folder, monkeypatch):
    monkeypatch.setattr("dse.fabric.cases._MAX_DRAWS", 20)
    (folder / "fabric.json").write_text(json.dumps(fabric_document(rows=2, columns=2)))
    refused = dse("fabric", "tune", "--fabric", "fabric.json", "--out", "run", "--quiet")
    require_refusal(refused, "small: none of 20 random graphs (forward) of kind gemm fits on the fabric")
    assert not (folder / "run").exists()


def test_a_layer_that_a_model_does_not_have_is_refused(dse):
    require_refusal(dse("fabric", "place", "bert-large:layer99", "--quiet"), "must be a layer of the model")


def test_a_stopped_run_leaves_its_pictures_to_dse_report(dse, folder):
    drawn = ["placement.svg", "placement.png", "placement-trace.json"]
    answered = dse(*PLACE, "--moves", 10**9, "--time-limit", 1e-9, "--out", "run")
    assert answered.code == 0, answered.err
    assert "stopped before the report was drawn; dse report run draws it" in answered.out
    run = folder / "run"
    assert json.loads((run / "result.json").read_text())["bound"] is not None
    assert NOT_DRAWN in (run / "report.html").read_text()
    assert not any((run / name).exists() for name in drawn)
    assert dse("report", "run").out.splitlines() == [f"run/{name}" for name in ("report.html", *drawn)]
    assert NOT_DRAWN not in (run / "report.html").read_text()
    assert all((run / name).exists() for name in drawn)
