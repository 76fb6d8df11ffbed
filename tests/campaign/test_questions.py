"""Cells as questions: settings become the options that the command line makes of the cell's command."""

import math
import shlex

import pytest

from dse.campaign.axes import axis_of
from dse.campaign.questions import command_line, content_key, question
from dse.cli.problem_command import command_of
from dse.run.options import option_fields
from hardware.inputs import InputError

SETTINGS = [
    {"problem": "plan", "model": "llama3-8b", "on": "b200", "accelerators": 16, "sensitivity": True, "headroom": None},
    {"problem": "plan", "model": "llama3-8b", "plan": "tensor=2,zero=1", "headroom": 4},
    {"problem": "codesign", "models": ["bert-large", "gpt2-xl"], "microbatch": [1, 2], "hbm_gb": 32, "pareto": True},
    {"problem": "codesign", "models": "bert-large", "fixed": "tpuv4"},
    {"problem": "schedule", "layer": "my layer.json", "method": "scip"},
    {"problem": "parallel", "step": "step.hlo", "mesh": [2, 4], "pin": "a=0", "memory_gb": 8.5},
    {"problem": "fabric", "graph": "bert-large:layer3", "pass_": "training", "chains": 3},
    {"problem": "wafer", "case": "fcnet", "sweep": ["side=400,633"]},
    {"problem": "trace", "files": ["rank0.json", "rank1.json"]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings["problem"])
def test_the_command_of_a_cell_asks_the_same(settings):
    kind, options = question(settings)
    words = shlex.split(command_line(settings))
    assert words[:2] == ["dse", settings["problem"]]
    context = command_of(kind).make_context("dse", words[3 if settings["problem"] == "fabric" else 2 :])
    assert kind.Options(**{each.name: context.params[each.name] for each in option_fields(kind.Options)}) == options


def test_content_is_what_is_asked_with_its_defaults():
    stated = {"problem": "schedule", "layer": "a.json"}
    assert content_key(stated, 0) == content_key(stated | {"method": "auto"}, 0)
    assert content_key(stated, 0) != content_key(stated, 1)
    assert content_key(stated, 0) != content_key(stated | {"method": "scip"}, 0)


def test_a_cell_that_would_write_a_file_is_refused():
    with pytest.raises(InputError, match="all cells would write this file"):
        question({"problem": "partition", "source": "graph.json", "emit_samples": "x.jsonl"})


@pytest.mark.parametrize(
    ("stated", "values"),
    [
        ({"from": 1, "to": 7, "step": 3}, [1, 4, 7]),
        ({"from": 1, "to": 8, "step": 3}, [1, 4, 7]),
        ({"from": 256, "to": 4096, "factor": 4}, [256, 1024, 4096]),
        ({"from": 0.5, "to": 2, "count": 4}, [0.5, 1.0, 1.5, 2.0]),
        ({"from": 1, "to": 9, "count": 3}, [1, 5, 9]),
        ({"from": 64, "to": 256.0, "factor": 2.0}, [64, 128, 256]),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, [0.1, 0.2, pytest.approx(0.3)]),
        (["a", None, 3, True], ["a", None, 3, True]),
    ],
)
def test_an_axis_has_its_values(stated, values):
    axis = axis_of("f", "some-option", stated)
    assert [value.settings["some_option"] for value in axis.values] == values
    assert all(
        type(value.settings["some_option"]) is not float or not value.settings["some_option"].is_integer()
        for value in axis.values
    )


@pytest.mark.parametrize("end", [math.inf, math.nan])
def test_a_range_ends(end):
    with pytest.raises(InputError, match=r"axes\.chips\.to: (Infinity|NaN): must be a number"):
        axis_of("f", "chips", {"from": 1, "to": end, "step": 1})


def test_labels_stand_for_several_options():
    axis = axis_of("f", "workload", {"long": {"problem": "plan", "global-batch": 8}, "short": {"problem": "serve"}})
    assert [(value.label, value.settings) for value in axis.values] == [
        ("long", {"problem": "plan", "global_batch": 8}),
        ("short", {"problem": "serve"}),
    ]
