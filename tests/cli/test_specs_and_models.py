"""``dse specs NAME`` and ``dse models NAME``: every value with its source, parameters and FLOPs, the nearest name."""

import json
from importlib import resources

from dse.plan.model_sources import transformer
from hardware.spec_rows import spec_rows


def test_a_spec_is_shown_with_the_source_of_every_value(dse):
    shown = " ".join(dse("specs", "h100-sxm").out.split())
    assert "chips: NVIDIA H100 SXM5 80 GB" in shown
    assert "no kernels: section: sustained efficiency is assumed to be ideal" in shown
    assert "hbm_bytes_per_s 3.352e+12 NVIDIA H100 whitepaper: 3352 GB/s, HBM3" in shown
    assert set(json.loads(dse("specs", "h100-sxm", "--json").out)) == {"chips"}


def test_a_kind_of_two_words_needs_no_quotes(dse):
    assert dse("specs", "cost", "models").out == dse("specs", "cost models").out != ""


def test_networks_are_listed_with_the_rate_of_each_level(dse):
    rows = {row["network"]: row for row in json.loads(dse("specs", "networks", "--json").out)}
    assert rows["dgx-a100"]["GB/s per direction, by level"] == "228.9 / 25"
    assert "/" not in rows["nvlink3"]["latency µs"]


def test_a_chip_is_known_by_its_alias(dse):
    assert dse("specs", "a100-80gb").out == dse("specs", "a100-sxm").out


def test_every_spec_of_the_package_is_listed_and_shown(dse):
    specs = resources.files("hardware").joinpath("specs")
    # What kernels of single chips take by shape is fitted, and no command reads it.
    folders = [folder for folder in specs.iterdir() if folder.name != "kernel_times"]
    names = {file.name.removesuffix(".yaml") for folder in folders for file in folder.iterdir()}
    listed = json.loads(dse("specs", "--json").out)
    assert names <= {next(iter(row.values())) for rows in listed.values() for row in rows}
    for name in ("streaming", "horowitz-22nm", "22nm", "phaze"):
        shown = dse("specs", name)
        assert shown.code == 0, shown.err
        assert "Derived" in shown.out or "ISCA" in shown.out or "PHAZE" in shown.out


def test_an_unknown_name_is_one_line_with_the_nearest_one(dse):
    answer = dse("specs", "h100-sx")
    assert answer.code == 2
    (line,) = answer.error_lines
    assert "did you mean h100-sxm?" in line


def test_values_in_lists_and_tables_have_rows_of_their_own():
    document = {"name": "a", "levels": [{"ranks": {"value": 8, "source": "here"}, "network": "b"}], "on": True}
    assert spec_rows(document) == [
        ("name", "a", ""),
        ("levels[0].ranks", "8", "here"),
        ("levels[0].network", "b", ""),
        ("on", "yes", ""),
    ]


def test_a_model_of_training_plans_is_shown_with_parameters_and_flops(dse):
    model, stated = transformer("llama3-8b"), json.loads(dse("models", "llama3-8b", "--json").out)
    assert (stated["parameters"], stated["flops"]) == (model.parameters, model.flops_per_sample(8192))
    assert f"{model.parameters:,}" in dse("models", "llama3-8b").out
