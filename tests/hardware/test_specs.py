"""Specs: every constant has a source; a broken file gives one line a fault, with file, key and rule."""

import copy
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from hardware.area import area_model
from hardware.chip_spec import rates_of, read_chip_spec
from hardware.chips import chip, list_chips
from hardware.cost_model import cost_model, vector_cycles
from hardware.inputs import InputError
from hardware.network_specs import network
from hardware.precisions import ELEMENT_BYTES
from hardware.spec_fields import spec_names
from hardware.specs import accelerator, accelerator_or_estimate, list_specs

FOLDERS = ("area", "chips", "cost_models", "vector_cycles")


def text_of(folder, name):
    return resources.files("hardware").joinpath("specs", folder, f"{name}.yaml").read_text(encoding="utf-8")


def numbers_without_source(node, path=(), covered=False):
    """Paths of numbers that stand in no mapping with a source of its own or above."""
    if isinstance(node, dict):
        covered = covered or "source" in node
        return [fault for key, child in node.items() for fault in numbers_without_source(child, (*path, key), covered)]
    if isinstance(node, list):
        return [fault for item in node for fault in numbers_without_source(item, path, covered)]
    return [] if covered or not isinstance(node, int | float) or isinstance(node, bool) else [path]


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder in FOLDERS for name in spec_names(folder)])
def test_every_constant_has_a_source(folder, name):
    assert numbers_without_source(yaml.safe_load(text_of(folder, name))) == []


def test_built_in_accelerators_have_the_published_peaks_and_memories():
    chips = [name for name in list_specs() if not name.startswith("spotlight-")]
    assert chips == ["a100-sxm", "b200", "h100-sxm", "tpuv4", "tpuv4-phaze", "v100"]
    assert len(list_specs()) == len(chips) + 8
    published_tflops = {
        "a100-sxm": 312,
        "b200": 2250,
        "h100-sxm": 989.4,
        "tpuv4": 275.3,
        "tpuv4-phaze": 275.3,
        "v100": 125,
    }
    published_gib = {"a100-sxm": 80, "b200": 180, "h100-sxm": 80, "tpuv4": 32, "tpuv4-phaze": 32, "v100": 32}
    for name in chips:
        built_in = accelerator(name)
        assert len(built_in.machines) == 1
        assert built_in.machines.peak_flops[0] / 1e12 == pytest.approx(published_tflops[name], rel=3e-3)
        assert built_in.hbm_bytes == published_gib[name] * 2**30
        assert network(built_in.network).bytes_per_s > 0


def test_the_papers_tpuv4_is_the_reference_machine_of_the_area_budget():
    machine = accelerator("tpuv4-phaze").machines
    assert machine.area_mm2[0] == pytest.approx(area_model().reference_um2 * 1e-6)
    assert machine.vector_cores[0] * machine.vector_lanes[0] == 2 * 128


def test_tpuv4_has_the_vector_units_of_the_chip_and_is_the_papers_machine_otherwise():
    chip, papers = (accelerator(name).machines for name in ("tpuv4", "tpuv4-phaze"))
    assert chip.vector_cores[0] * chip.vector_lanes[0] == 2 * 128 * 16
    for name in ("tensor_cores", "core_width", "core_depth", "vector_cores", "global_buffer_bytes"):
        assert getattr(chip, name)[0] == getattr(papers, name)[0]
    for name in ("clock_hz", "hbm_bytes_per_s", "global_buffer_words_per_cycle", "element_bytes"):
        assert getattr(chip, name) == getattr(papers, name)


@pytest.mark.parametrize("name", ["tpuv4", "tpuv4-phaze"])
def test_tpuv4_specs_and_the_default_cost_model_agree(name):
    spec = yaml.safe_load(text_of("chips", name))
    machine = accelerator(name).machines
    assert machine.clock_hz == spec["clock_hz"]["value"] == cost_model().hardware.clock_hz.value
    assert machine.hbm_bytes_per_s == spec["hbm_bytes_per_s"]["value"] == cost_model().hardware.hbm_bytes_per_s.value


def test_template_machines_follow_the_cost_model_and_real_ones_do_not():
    published = cost_model("phaze-2024")
    assert accelerator("tpuv4-phaze", published).machines.hbm_bytes_per_s == pytest.approx(268.8e9)
    assert accelerator("a100-sxm", published).machines.hbm_bytes_per_s == pytest.approx(2.039e12)


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("clock_hz", 2.1e9, lambda mine: mine.machines.clock_hz),
        ("hbm_bytes_per_s", 3.3e12, lambda mine: mine.machines.hbm_bytes_per_s),
        ("network", "infiniband-hdr", lambda mine: mine.network),
    ],
)
def test_a_template_keeps_its_own_rates_where_the_cost_model_lets_it(tmp_path, key, value, read):
    document = yaml.safe_load(text_of("chips", "tpuv4-phaze"))
    document[key]["name" if key == "network" else "value"] = value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    published = cost_model("phaze-2024")
    assert read(accelerator(path)) == value
    assert read(accelerator(path, published)) == read(accelerator("tpuv4-phaze", published))


def test_cost_models_differ_as_the_published_tool_differs():
    ours, published = cost_model(), cost_model("phaze-2024")
    assert ours.training.weight_gradients.value
    assert not published.training.weight_gradients.value
    assert (ours.state_factor, published.state_factor) == (8, 2)
    assert (ours.training.gradient_sync_factor.value, published.training.gradient_sync_factor.value) == (2, 4)
    assert (ours.training.optimizer.name, published.training.optimizer.name) == ("adam", "sgd")
    granularities = (ours.training.recompute_granularity.name, published.training.recompute_granularity.name)
    assert granularities == ("layer", "stage")
    assert (ours.hardware.space.name, published.hardware.space.name) == ("table-1", "phaze-2024")
    assert (ours.hardware.network_time_factor.value, published.hardware.network_time_factor.value) == (1, 1e-3)
    for model in (ours, published):
        assert network(model.training.network.name).bytes_per_s > 0
        assert vector_cycles(model.hardware.vector_cycles).cycles["softmax"].value == 11


def test_a_users_own_file_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    document = yaml.safe_load(text_of("chips", "tpuv4-phaze"))
    document["name"] = "mine"
    document["template"]["tensor_cores"] = 4
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    mine = accelerator(path)
    assert mine.name == "mine"
    assert mine.machines.tensor_cores[0] == 4
    assert accelerator(str(path)).machines.describe(0) == mine.machines.describe(0)


def test_a_network_path_is_taken_from_the_folder_of_the_accelerators_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    folder = tmp_path / "chips"
    folder.mkdir()
    fabric = yaml.safe_load(text_of("networks", "nvlink3")) | {"name": "mine"}
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric), encoding="utf-8")
    for written in ("fabric.yaml", "./fabric.yaml", str(folder / "fabric.yaml")):
        path = folder / "chip.yaml"
        path.write_text(yaml.safe_dump(edited("v100", "network.name", written)), encoding="utf-8")
        assert network(accelerator(path).network).name == "mine"
        assert network(accelerator(str(path)).network).name == "mine"


def test_a_template_may_have_any_size_and_an_l2_of_its_own(tmp_path):
    document = yaml.safe_load(text_of("chips", "tpuv4-phaze"))
    document["template"] |= {"tensor_cores": 3, "global_buffer_mib": 100, "tensor_l2_bytes": 2**18, "core_width": 96}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    machine = accelerator(path).machines
    assert (machine.tensor_cores[0], machine.core_width[0], machine.vector_lanes[0]) == (3, 96, 96)
    assert (machine.tensor_l2_bytes[0], machine.vector_l2_bytes[0]) == (2**18, 16 * 96)
    assert machine.global_buffer_bytes[0] == 100 * 2**20


def test_a_buffer_that_holds_no_block_of_a_template_core_is_refused(tmp_path):
    document = yaml.safe_load(text_of("chips", "tpuv4-phaze"))
    document["template"] |= {"core_width": 512, "core_depth": 512, "global_buffer_mib": 1}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(InputError, match="hold the operands of a tensor core"):
        accelerator(path)


IDEAL = "sustained efficiency is assumed to be ideal"


@pytest.mark.parametrize(
    ("name", "kernels", "note"),
    [
        ("v100", {}, f"no kernels: section: {IDEAL}"),
        ("tpuv4-phaze", {}, f"no kernels: section: {IDEAL}"),
        ("v100", {"gemm": {"efficiency": 0.9, "source": "test"}}, "no kernels: constants for convolution, add, "),
        ("v100", {"default": {"efficiency": 0.9, "source": "test"}}, None),
        ("tpuv4-phaze", {"default": {"efficiency": 0.9, "source": "test"}}, None),
    ],
)
def test_an_accelerator_without_kernels_says_that_it_is_ideal(tmp_path, name, kernels, note):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(edited(name, "kernels", kernels)), encoding="utf-8")
    notes = [each for each in accelerator(path).notes if IDEAL in each]
    assert len(notes) == (note is not None)
    assert all(each.startswith(note) for each in notes)


def test_a_machine_without_process_says_that_its_energies_are_of_22_nm(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(edited("a100-sxm", "process_nm", DELETE)), encoding="utf-8")
    (note,) = accelerator(path).notes
    assert note.startswith("no process_nm: energies are those of 22 nm")
    (area,) = accelerator("a100-sxm").notes
    assert area.startswith("area_mm2 is in 7 nm")


def test_a_template_has_its_kernels(tmp_path):
    path = tmp_path / "mine.yaml"
    kernels = {"default": {"efficiency": 0.5, "source": "test"}}
    path.write_text(yaml.safe_dump(edited("tpuv4-phaze", "kernels", kernels)), encoding="utf-8")
    assert accelerator(path).machines.kernel("gemm").efficiency == 0.5


@pytest.mark.parametrize(
    ("reader", "name", "hint"),
    [
        (accelerator, "tpu4", "did you mean tpuv4?"),
        (accelerator, "a100-80", "did you mean a100-80gb?"),
        (cost_model, "consistant", "did you mean consistent?"),
        (area_model, "22mn", "did you mean 22nm?"),
    ],
)
def test_an_unknown_name_offers_the_nearest(reader, name, hint):
    with pytest.raises(InputError) as caught:
        reader(name)
    assert len(caught.value.faults) == 1
    assert hint in str(caught.value)


DELETE = "(no such key)"

BROKEN = [
    # accelerator, key path, value, key in the fault, words in the rule
    ("tpuv4-phaze", "name", "", "name", "must not be empty"),
    ("tpuv4-phaze", "nmae", "x", "nmae", "did you mean name?"),
    ("tpuv4-phaze", "title", DELETE, "title", "the key is missing"),
    ("tpuv4-phaze", "template", DELETE, "cores", "must be given for products to be mapped"),
    ("tpuv4-phaze", "template.tensor_cores", 0, "template.tensor_cores", "greater than 0"),
    ("tpuv4-phaze", "template.tensor_cores", 2.5, "template.tensor_cores", "a whole number"),
    (
        "tpuv4-phaze",
        "template.core_width",
        2**17,
        "template.core_width",
        "must have 1,024 to 134,217,728 bytes, but here",
    ),
    (
        "tpuv4-phaze",
        "hbm_bytes_per_s.value",
        1200,
        "",
        "hbm_bytes_per_s: 1200: must be 1e+06 to 1e+16 bytes per second",
    ),
    ("tpuv4-phaze", "clock_hz.value", 1.05, "", "clock_hz: 1.05: must be 1e+06 to 1e+12 Hz"),
    ("tpuv4-phaze", "rates.bf16.value", 275, "", "rates.bf16: 275: must be 1e+06 to 1e+20 FLOPs per second"),
    ("tpuv4-phaze", "hbm_gib.value", 32e9, "", "hbm_gib: 3.2e+10: must be 1e-06 to 1e+06 GiB"),
    ("tpuv4-phaze", "hbm_bytes_per_s", "1.2 TB/s", "hbm_bytes_per_s", "a number in the unit of the key"),
    ("tpuv4-phaze", "template.tensor_l2_bytes", 512, "template.tensor_l2_bytes", "but this has 512"),
    ("tpuv4-phaze", "template.tensor_l2_bytes", True, "template.tensor_l2_bytes", "must be a whole number"),
    ("tpuv4-phaze", "template.vector_l2_bytes", 2**28, "template.vector_l2_bytes", "but this has 268,435,456"),
    ("tpuv4-phaze", "template.core_depth", -128, "template.core_depth", "greater than 0"),
    ("tpuv4-phaze", "template.vector_cores", "two", "template.vector_cores", "a whole number"),
    ("tpuv4-phaze", "template.global_buffer_mib", 129, "template.global_buffer_mib", "area tables cover"),
    ("tpuv4-phaze", "template.global_buffer_mib", 3_200, "template.global_buffer_mib", "(did you mean 128?)"),
    ("tpuv4-phaze", "template.lanes", 128, "template.lanes", "unknown key"),
    ("tpuv4-phaze", "template.source", DELETE, "template.source", "the key is missing"),
    ("tpuv4-phaze", "clock_hz", 1.05e9, "clock_hz", "mapping of keys"),
    ("tpuv4-phaze", "clock_hz.value", 0, "clock_hz.value", "greater than 0"),
    ("tpuv4-phaze", "clock_hz.value", float("inf"), "clock_hz.value", "finite"),
    ("tpuv4-phaze", "clock_hz.value", float("nan"), "clock_hz.value", "finite"),
    ("tpuv4-phaze", "clock_hz.value", "fast", "clock_hz.value", "must be a number"),
    ("tpuv4-phaze", "clock_hz.source", DELETE, "clock_hz.source", "the key is missing"),
    ("tpuv4-phaze", "clock_hz.source", "", "clock_hz.source", "at least 3 characters"),
    ("tpuv4-phaze", "hbm_gib.value", -32, "hbm_gib.value", "greater than 0"),
    ("tpuv4-phaze", "hbm_bytes_per_s", DELETE, "hbm_bytes_per_s", "the key is missing"),
    ("tpuv4-phaze", "network.name", "", "network.name", "must not be empty"),
    ("tpuv4-phaze", "process_nm", {"value": 7, "source": "test"}, "", "process_nm must not be given with a template"),
    ("v100", "process_nm.value", 0.5, "process_nm.value", "at least 2"),
    ("v100", "process_nm.value", 90, "process_nm.value", "at most 45"),
    ("v100", "tdp_w.value", 0, "tdp_w.value", "greater than 0"),
    ("v100", "tdp_w.source", DELETE, "tdp_w.source", "the key is missing"),
    ("v100", "cores.vector_lanes.value", 1.5, "cores.vector_lanes.value", "a whole number"),
    ("v100", "cores.core_widht", {"value": 1, "source": "abc"}, "cores.core_widht", "did you mean core_width?"),
    ("v100", "cores.tensor_l2_bytes.value", 64, "cores.tensor_l2_bytes", "to feed the edges of a tensor core"),
    ("v100", "cores.global_buffer_bytes.value", 512, "cores.global_buffer_bytes", "hold the operands"),
    ("v100", "cores.area_mm2.value", 0, "cores.area_mm2.value", "greater than 0"),
    ("v100", "kernels", {"gem": {"source": "test"}}, "", "gem: unknown kind of work"),
    (
        "v100",
        "kernels",
        {"gemm": {"efficiency": 1.2, "source": "test"}},
        "kernels.gemm.efficiency",
        "at most",
    ),
    (
        "v100",
        "kernels",
        {"gemm": {"launch_s": -1e-6, "source": "test"}},
        "kernels.gemm.launch_s",
        "at least",
    ),
    ("v100", "kernels", {"gemm": {"launch_s": 1e-6}}, "kernels.gemm.source", "the key is missing"),
]


@pytest.mark.parametrize(("name", "path", "value", "key", "rule"), BROKEN, ids=lambda item: str(item)[:40])
def test_a_broken_accelerator_file_gives_one_line(tmp_path, name, path, value, key, rule):
    file = tmp_path / "broken.yaml"
    file.write_text(yaml.safe_dump(edited(name, path, value)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        accelerator(file)
    assert len(caught.value.faults) == 1
    fault = caught.value.faults[0]
    assert fault.file == str(file)
    assert fault.key == key
    assert rule in str(fault)
    assert "\n" not in str(fault)


def edited(name, path, value):
    document = copy.deepcopy(yaml.safe_load(text_of("chips", name)))
    *parents, last = path.split(".")
    node = document
    for parent in parents:
        node = node[parent]
    if value == DELETE:
        del node[last]
    else:
        node[last] = value
    return document


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("name: [tpu\n", "is not well-formed YAML"),
        ("name: a\nname: b\n", "appears twice"),
        ("- tpuv4\n", "must be a mapping of keys to values"),
        ("", "must be a mapping of keys to values"),
        ("name: \ttpu\n\tx: 1\n", "is not well-formed YAML"),
    ],
)
def test_text_that_is_no_spec_gives_one_line(tmp_path, text, rule):
    file = tmp_path / "broken.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        accelerator(file)
    assert len(caught.value.faults) == 1
    assert rule in str(caught.value)


def test_a_missing_file_gives_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        accelerator(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("path", "value", "key", "rule"),
    [
        ("hardware.core_bandwidth.rule", "edge", "hardware.core_bandwidth.rule", "did you mean edges?"),
        ("hardware.usable_buffer_fraction.value", 1.5, "hardware.usable_buffer_fraction.value", "at most"),
        ("training.optimizer.name", "adamw", "training.optimizer.name", "did you mean adam?"),
        ("training.optimizer.state_bytes", -1, "training.optimizer.state_bytes", "at least 0"),
        ("training.optimizer.master_weight_bytes", 13, "training.optimizer", "must be at most state_bytes (12)"),
        ("training.weight_gradients.value", "maybe", "training.weight_gradients.value", "true or false"),
        ("training.momentum", 1, "training.momentum", "unknown key"),
    ],
)
def test_a_broken_cost_model_gives_one_line(tmp_path, path, value, key, rule):
    document = yaml.safe_load(text_of("cost_models", "consistent"))
    *parents, last = path.split(".")
    node = document
    for parent in parents:
        node = node[parent]
    node[last] = value
    file = tmp_path / "broken.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        cost_model(file)
    assert [fault.key for fault in caught.value.faults] == [key]
    assert rule in str(caught.value)


def test_a_table_of_vector_cycles_must_name_every_kind(tmp_path):
    document = yaml.safe_load(text_of("vector_cycles", "phaze"))
    del document["cycles"]["gelu"]
    file = tmp_path / "cycles.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(InputError, match="gelu is missing"):
        vector_cycles(file)


@pytest.mark.parametrize("name", list_chips())
def test_no_chip_is_slower_with_smaller_operands(name):
    peaks = chip(name).peak_flops
    by_size = sorted(peaks, key=lambda precision: -ELEMENT_BYTES[precision])
    assert [peaks[precision] for precision in by_size] == sorted(peaks.values())


@pytest.mark.parametrize(
    ("name", "pflops"), [("b200", 9), ("b300", 13.5), ("gb200", 10), ("gb300", 15), ("mi350x", 9.2), ("mi355x", 10.1)]
)
def test_accelerators_with_products_of_four_bits(name, pflops):
    assert chip(name).peak_flops["fp4"] == pytest.approx(pflops * 1e15, rel=5e-3)
    known = {"b200", "b300", "gb200", "gb300", "mi350x", "mi355x"}
    assert {each for each in list_chips() if "fp4" in chip(each).peak_flops} == known


NVIDIA = ("a100-sxm", "a40", "h100-sxm", "h100-96gb", "h800-sxm", "h200-sxm", "l40s", "b200", "b300", "gb200", "gb300")


@pytest.mark.parametrize("name", NVIDIA)
def test_float32_of_tensor_cores_runs_at_half_the_rate_of_16_bits(name):
    """NVIDIA's whitepapers of Ampere, Ada, Hopper and Blackwell: TF32, dense; and less of float32 itself."""
    rates = dict(rates_of(read_chip_spec(name)[0]))
    assert rates["fp32_default"] == rates["fp32_high"] == pytest.approx(rates["bf16"] / 2, rel=0.02)
    assert rates["fp32"] < rates["fp32_default"]


@pytest.mark.parametrize(
    ("name", "units", "clock_hz", "single", "double"),
    [
        ("mi300x", 304, 2.1e9, 256, 256),
        ("mi325x", 304, 2.1e9, 256, 256),
        ("mi350x", 256, 2.2e9, 256, 128),
        ("mi355x", 256, 2.4e9, 256, 128),
    ],
)
def test_matrix_products_of_amd_are_operations_a_clock_of_all_units(name, units, clock_hz, single, double):
    """AMD's white papers of CDNA 3 and CDNA 4: FLOPs per clock and compute unit of matrix products."""
    rates = dict(rates_of(read_chip_spec(name)[0]))
    assert rates["fp32"] == pytest.approx(units * clock_hz * single, rel=1e-3)
    assert rates["fp64"] == pytest.approx(units * clock_hz * double, rel=1e-3)


def sheet(old, new):
    """The example's data sheet in a built-in network, with one text replaced."""
    return Path("docs/examples/chip.yaml").read_text().replace("cluster.yaml", "dgx-h100").replace(old, new)


@pytest.mark.parametrize("name", ["dgx-h100", "mi300x-platform"])
def test_a_system_is_the_chip_that_comes_in_it(name):
    own = chip(name)
    assert own == chip(own.name)
    assert own.network == name


def test_a_misspelt_system_is_refused_with_the_nearest_one():
    for reader in (chip, accelerator, read_chip_spec):
        with pytest.raises(InputError, match=r"no accelerator or system of this name; .*did you mean dgx-h100"):
            reader("dgx-h100x")


def test_chips_of_several_servers_are_joined_by_the_network_of_their_system():
    for name in ("a100-sxm", "h100-sxm", "b200"):
        assert accelerator(name).network == chip(name).network
    assert network(accelerator("h100-sxm").network).spanning(8) == network("nvlink4")


@pytest.mark.parametrize("name", ["mi300x", "tpuv5e", "docs/examples/chip.yaml"])
def test_cores_that_are_not_known_are_estimated_by_the_rate_and_said_to_be(name):
    own, estimated = chip(name), accelerator_or_estimate(name)
    assert estimated.machines.peak_flops[0] == pytest.approx(own.peak_flops["bf16"])
    assert estimated.machines.hbm_bytes_per_s == own.hbm_bytes_per_s
    assert estimated.has_estimated_cores
    assert not estimated.is_template
    (said,) = estimated.estimates
    assert said.startswith("its cores are not known")
    with pytest.raises(InputError, match="without cores, dse codesign --fixed"):
        accelerator(name)


def test_known_cores_are_not_estimated(tmp_path):
    assert accelerator_or_estimate("b200").estimates == ()
    path = tmp_path / "narrow.yaml"
    path.write_text(
        Path("docs/examples/chip.yaml").read_text().replace("bf16: {", "int8: {").replace("cluster.yaml", "dgx-h100")
    )
    with pytest.raises(InputError, match="must state bf16 or fp16"):
        accelerator_or_estimate(path)


def test_a_network_that_a_chip_names_wrongly_is_a_fault_of_its_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(sheet("dgx-h100", "dgx-h1000"))
    for reader in (chip, accelerator_or_estimate):
        with pytest.raises(InputError) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}: network.name: dgx-h1000: no network spec of this name")


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("2.4e+12", "2400", "if GB/s are meant: 2.4e+12"),
        ("2.4e+12", "2.4", "if TB/s are meant: 2.4e+12"),
        ("400.0e+12", "400", "if Tflop/s are meant: 4e+14"),
        ("400.0e+12", "0.4", "if Pflop/s are meant: 4e+14"),
        ("hbm_gib", "clock_hz: {value: 1755, source: ours}\nhbm_gib", "if MHz are meant: 1.755e+09"),
        ("hbm_gib", "clock_hz: {value: 1.755, source: ours}\nhbm_gib", "if GHz are meant: 1.755e+09"),
    ],
)
def test_a_figure_in_another_unit_is_refused_with_the_nearest_one_in_its_own(tmp_path, old, new, meant):
    path = tmp_path / "mine.yaml"
    path.write_text(sheet(old, new))
    with pytest.raises(InputError, match=re.escape(meant)):
        chip(path)
