"""What commands that solve no problem print on a terminal: the answer first, tables that fit and are not empty.

Answers of problems are looked at in tests/report/test_browser.py, and learning commands where they run.
"""

import json
from pathlib import Path

import pytest

from tests import terminal
from tests.testing.test_problems import LAYER

MEASURED = Path(__file__).parents[1] / "data" / "measured"

COMMANDS = {
    "specs": ("specs",),
    "chips": ("specs", "chips"),
    "templates": ("specs", "templates"),
    "networks": ("specs", "networks"),
    "fabrics": ("specs", "fabrics"),
    "cost models": ("specs", "cost models"),
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
}

LISTS = {"specs", "chips", "templates", "networks", "fabrics", "cost models", "models"}
"""Whose answer is the list."""


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_fits_the_terminal_and_answers_first(dse, monkeypatch, tmp_path, name, width):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layer.json").write_text(json.dumps(LAYER))
    for method, out in (("auto", "run"), ("cp-sat", "other")):
        if out in COMMANDS[name]:
            assert dse("schedule", "layer.json", "--method", method, "--out", out, "--quiet").code == 0
    terminal.set_width(monkeypatch, width)
    answer = dse(*COMMANDS[name])
    assert answer.code == 0, answer.err
    found = terminal.faults(answer.out, width)
    assert [fault for fault in found if name not in LISTS or "first line" not in fault] == []


def test_the_rules_see_what_breaks_them():
    text = "title\n───\n\n" + 90 * "x" + "\n12\nms\n"
    assert len(terminal.faults(text, 80)) == 4
