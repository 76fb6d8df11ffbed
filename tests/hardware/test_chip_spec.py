"""One file of a chip for every command: earlier forms, aliases, cells that are empty, rates that follow from cores."""

from pathlib import Path
from typing import get_args

import pytest
import yaml

from hardware.chip_spec import RateFormat, chip_names, converted, read_chip_spec, upgraded
from hardware.chips import chip, list_chips, list_templates
from hardware.inputs import InputError
from hardware.precisions import PRECISIONS
from hardware.product_rates import ProductFormat
from hardware.specs import accelerator, list_specs

SHEET = {
    "name": "mine",
    "title": "Mine",
    "peak_flops": {"bf16": {"value": 4e14, "source": "our data sheet"}},
    "hbm_gib": {"value": 96, "source": "our data sheet"},
    "hbm_bytes_per_s": {"value": 2.4e12, "source": "our data sheet"},
    "network": {"name": "dgx-h100", "source": "planned"},
}
CORES = {
    "tensor_cores": 8, "core_width": 128, "core_depth": 128, "vector_cores": 8, "vector_lanes": 128,
    "tensor_l2_bytes": 2**20, "vector_l2_bytes": 2**20, "global_buffer_bytes": 2**26, "area_mm2": 400,
    "global_buffer_words_per_cycle": 2048, "element_bytes": 2,
}  # fmt: skip


def sourced(value):
    return {"value": value, "source": "our floor plan"}


def written(folder, document):
    path = folder / "chip.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def earlier_machine():
    document = {key: value for key, value in SHEET.items() if key != "peak_flops"}
    document["machine"] = {key: sourced(value) for key, value in CORES.items()}
    return document | {"clock_hz": sourced(1e9), "product_flops": {"bf16": sourced(2.6e14), "fp32": sourced(4e13)}}


def test_every_built_in_chip_serves_plans_and_states_memory_network_and_a_rate():
    for name in chip_names():
        each = chip(name)
        assert each.peak_flops or name == "v100"
        assert each.rates
        assert each.network


def test_rates_are_of_every_format_that_products_or_plans_have():
    assert set(get_args(RateFormat)) == set(get_args(ProductFormat)) | set(PRECISIONS)


def test_chips_and_templates_are_all_and_no_chip_is_both():
    assert sorted(list_chips() + list_templates()) == chip_names()
    assert set(list_specs()) >= set(list_templates())


@pytest.mark.parametrize("document", [SHEET, earlier_machine()], ids=["data sheet", "cores"])
def test_a_file_of_an_earlier_version_is_read_with_a_note_and_converted_is_read_without(tmp_path, document):
    old = written(tmp_path, document)
    before = chip(old)
    (note,) = before.notes
    assert f"dse convert {old}" in note
    new = tmp_path / "new.yaml"
    new.write_text(yaml.safe_dump(converted(old)), encoding="utf-8")
    after = chip(new)
    assert after.notes == ()
    assert (after.rates, after.hbm_bytes, after.network) == (before.rates, before.hbm_bytes, before.network)
    assert converted(new) == converted(old)


def test_conversion_keeps_every_value_under_its_new_key():
    assert upgraded(SHEET)["rates"] == SHEET["peak_flops"]
    machine = earlier_machine()
    assert upgraded(machine)["cores"] == machine["machine"]
    assert upgraded(machine)["rates"] == machine["product_flops"]


def test_one_file_has_the_same_rates_memory_and_clock_for_plans_and_for_mapped_products(tmp_path):
    path = written(tmp_path, upgraded(earlier_machine()))
    sheet, mapped = chip(path), accelerator(path)
    assert sheet.products == mapped.products
    assert sheet.hbm_bytes == mapped.hbm_bytes
    assert sheet.hbm_bytes_per_s == mapped.machines.hbm_bytes_per_s


def test_without_stated_rates_the_peak_of_the_arrays_counts_in_their_words(tmp_path):
    document = upgraded(earlier_machine())
    del document["rates"]
    rates = dict(chip(written(tmp_path, document)).rates)
    assert rates == {"fp16": 2.0 * 1e9 * 8 * 128 * 128, "bf16": 2.0 * 1e9 * 8 * 128 * 128}


def test_a_data_sheet_without_cores_is_refused_where_products_are_mapped(tmp_path):
    with pytest.raises(InputError, match=r"cores: must be given .* chips that have cores: a100-sxm"):
        accelerator(written(tmp_path, upgraded(SHEET)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"rates": {}}, "rates must be given where there are neither cores nor a template"),
        ({"kernels": {"gemm": {"source": "test"}}}, "kernels needs cores or a template"),
        ({"rates": {"fp3": sourced(1e12)}}, "fp3"),
        ({"rates": {"bf16": {"value": 1e12}}}, "source: the key is missing"),
        ({"schema": "dse.chip/2"}, "must be 'dse.chip/1'"),
        ({"cores": {key: sourced(value) for key, value in CORES.items()}}, "clock_hz must be given"),
    ],
)
def test_a_broken_file_is_one_line_with_the_rule(tmp_path, change, rule):
    with pytest.raises(InputError) as caught:
        read_chip_spec(written(tmp_path, upgraded(SHEET) | change))
    assert len(caught.value.faults) == 1
    assert rule in str(caught.value)


def test_an_alias_is_the_chip():
    assert chip("a100-80gb") == chip("a100-sxm")
    assert accelerator("a100-80gb").name == "a100-sxm"


@pytest.mark.parametrize("reader", [read_chip_spec, converted])
def test_a_file_of_something_else_is_one_line(reader):
    with pytest.raises(InputError) as refused:
        reader(Path("docs/examples/network.yaml"))
    (fault,) = refused.value.faults
    assert "must be a chip, which has hbm_gib" in str(fault)


def test_a_built_in_chip_needs_no_conversion():
    with pytest.raises(InputError, match=r"the built-in chips have the form dse\.chip/1 already"):
        converted(Path("h100-sxm"))
