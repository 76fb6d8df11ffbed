"""What commands that solve no problem print on a terminal: the answer first, tables that fit and are not empty.

Answers of problems are looked at in tests/report/test_browser.py, papers in tests/reproduce and tests/wafer, policies
that are trained in tests/policies.
"""

import json
from pathlib import Path

import click
import pytest

from dse.fabric import setting
from dse.fabric.setting import SHIPPED, read_tuned
from dse.reproduce.papers import PAPERS
from policies.learners import LEARNERS
from tests import terminal
from tests.cli.test_help import ALL, PROBLEMS
from tests.testing.test_problems import LAYER

MEASURED = Path(__file__).parents[1] / "data" / "measured"

COMMANDS = {
    "specs": ("specs",),
    "chips": ("specs", "chips"),
    "templates": ("specs", "templates"),
    "networks": ("specs", "networks"),
    "fabrics": ("specs", "fabrics"),
    "cost models": ("specs", "cost models"),
    "operator slots": ("specs", "operator slots"),
    "several chips": ("plan", "llama3-8b", "--accelerators", 16, "--on", "h100-sxm,b200,tpuv4-phaze"),
    "a chip": ("chip", "h100-sxm"),
    "a spec": ("specs", "h100-sxm"),
    "models": ("models",),
    "a model": ("models", "llama3-8b"),
    "layers": ("models", "gpt3-175b"),
    "kernels": ("models", "resnet50-lean-blocks"),
    "calibrate": ("calibrate", "a100-sxm", MEASURED / "a100_fp16_kernels.csv"),
    "reproduce": ("reproduce", "phaze", "table4", "--models", "bert-large"),
    "check": ("check", "run"),
    "report": ("report", "run"),
    "compare": ("compare", "run", "other"),
    "fabric tune": ("fabric", "tune", "--out", "tuned", "--workers", 0),
    "fabric train": ("fabric", "train", "--out", "trained", "--workers", 0),
    "fabric evaluate": ("fabric", "evaluate", "samples"),
}

LISTS = {"specs", "chips", "templates", "networks", "fabrics", "cost models", "operator slots", "models"}
"""Whose answer is the list."""


ELSEWHERE = {
    *PROBLEMS,
    *(f"dse reproduce {paper}" for paper in PAPERS),
    *(f"dse pretrain {learner}" for learner in LEARNERS),
    "dse convert",  # prints a file
}
"""Commands that are looked at in other files."""

GROUPS = {path for path, (command, _) in ALL.items() if isinstance(command, click.Group)}


def learn_at_once(monkeypatch):
    """Learning commands have their outcome at once: figures as long as they get, or none."""
    from policies.fabric.placing import Placing
    from policies.fabric.study.accuracy import Accuracy
    from policies.fabric.study.intervals import Interval
    from policies.fabric.study.study import Row
    from policies.fabric.train import Trained

    long, none = Accuracy(12.3456, 12.3456, -0.12345, -0.12345, -0.5, 1_234_567), Accuracy(1.0, 1.0, 0.0, 0.0, None, 4)
    ratio = Interval(12.345, 10.123, 14.567)
    trained = Trained(1_234_567, 12_345, {"stack of the paper": long, "ridge": none}, Placing(40, ratio))
    rows = [
        Row(table, model, part, each, ranks_only, None if ranks_only else ratio)
        for table in ("folds by graph", "kind of block left out")
        for part in ("", "multi-head attention")
        for model, each, ranks_only in (("network, without annotations", long, False), ("max_load", none, True))
    ]
    monkeypatch.setattr("dse.cli.fabric_tune.tune", lambda *_: read_tuned(Path(setting.__file__).with_name(SHIPPED)))
    monkeypatch.setattr("policies.fabric.train.train", lambda *_: trained)
    monkeypatch.setattr("policies.fabric.evaluate.inputs_of", lambda _: {})
    monkeypatch.setattr("policies.fabric.evaluate.evaluate", lambda *_: rows)


@pytest.mark.parametrize("width", terminal.WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_fits_the_terminal_and_answers_first(dse, monkeypatch, tmp_path, name, width):
    monkeypatch.chdir(tmp_path)
    if name.startswith("fabric "):
        learn_at_once(monkeypatch)
    (tmp_path / "layer.json").write_text(json.dumps(LAYER))
    for method, out in (("auto", "run"), ("cp-sat", "other")):
        if out in COMMANDS[name]:
            assert dse("schedule", "layer.json", "--method", method, "--out", out, "--quiet").code == 0
    terminal.set_width(monkeypatch, width)
    answer = dse(*COMMANDS[name])
    assert answer.code == 0, answer.err
    found = terminal.faults(answer.out, width)
    assert [fault for fault in found if name not in LISTS or "first line" not in fault] == []


def test_every_command_is_looked_at():
    lines = [f"dse {' '.join(map(str, words))} " for words in COMMANDS.values()]
    here = {path for path in ALL if any(line.startswith(f"{path} ") for line in lines)}
    assert ALL.keys() - GROUPS == (here - GROUPS) | ELSEWHERE


def test_the_rules_see_what_breaks_them():
    text = "title\n───\n\n" + 90 * "x" + "\n12\nms\n"
    assert len(terminal.faults(text, 80)) == 4
