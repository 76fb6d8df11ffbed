"""``dse chip``: rates and ridge points agree with the file, levels of the network, the roofline, bad names."""

import json
import math
from pathlib import Path

import pytest
import yaml

from hardware.chips import chip
from hardware.specs import accelerator


@pytest.mark.parametrize("name", ["h100-sxm", "b200", "tpuv4-phaze", "v100"])
def test_a_ridge_point_is_the_rate_over_that_of_memory(dse, name):
    shown, spec = json.loads(dse("chip", name, "--json").out)["solution"], chip(name)
    assert shown["peak_flops"] == dict(spec.rates)
    assert shown["memory"] == {"bytes": spec.hbm_bytes, "bytes_per_s": spec.hbm_bytes_per_s}
    for each, rate in spec.rates:
        assert shown["ridge_flops_per_byte"][each] * spec.hbm_bytes_per_s == pytest.approx(rate)


def test_the_answer_comes_first_then_rates_then_links_and_cores(dse):
    out = dse("chip", "h100-sxm").out
    assert out.splitlines()[0] == ("NVIDIA H100 SXM5 80 GB: 989.4 Tflop/s in bf16, 80 GiB of memory at 3,352 GB/s")
    text = " ".join(out.split())
    assert "bf16 989.4 295" in text
    assert "among 8 chips" in text
    assert "between groups of 8" in text
    assert "132 tensor cores 64×32" in text


def test_a_chip_without_cores_shows_what_was_timed_on_it(dse):
    text = " ".join(dse("chip", "gb300").out.split())
    assert "matrix, attention_rate (on b200)" in text
    assert "tensor cores" not in text


def test_typical_kernels_have_a_time_a_share_of_the_peak_and_what_it_is(dse):
    text = " ".join(dse("chip", "h100-sxm").out.split())
    for kernel in ("product 4,096³, bf16", "product 4,096³, fp8", "experts", "prefill", "decode", "all-reduce"):
        assert kernel in text
    assert "fitted, ±" in text
    for name in ("h100-sxm", "tpuv4-phaze", "mi300x"):
        for kernel in json.loads(dse("chip", name, "--json").out)["kernels"]:
            assert 0 < kernel["share_of_peak"] <= 1 + 3e-3, kernel
            assert kernel["basis"] in ("measured", "fitted", "derated", "ideal")


def test_a_real_chip_stands_beside_the_template_with_its_cores(dse):
    text = " ".join(dse("chip", "a100-sxm", "--as-template").out.split())
    assert {"derated", "ideal"} <= {*text.split()}
    shown = json.loads(dse("chip", "a100-sxm", "--as-template", "--json").out)
    assert len(shown["kernels"]) == len(shown["template"]) == len(shown["ideal_template"])
    for own, derated, ideal in zip(shown["kernels"], shown["template"], shown["ideal_template"], strict=True):
        assert own["kernel"] == derated["kernel"] == ideal["kernel"]
        assert derated["seconds"] is None or derated["seconds"] >= ideal["seconds"]
    for name, rule in (("tpuv4-phaze", "is already a template"), ("mi300x", "cores: must be given")):
        answer = dse("chip", name, "--as-template")
        assert answer.code == 2
        assert rule in answer.error_lines[0]


def test_the_roofline_is_drawn_with_a_line_for_each_rate(dse, tmp_path):
    assert dse("chip", "h100-sxm", "--out", tmp_path / "h100.svg").code == 0
    drawn = (tmp_path / "h100.svg").read_text(encoding="utf-8")
    assert "fp8, int8" in drawn
    assert "bound by memory left of the ridge points" in drawn


def test_a_file_of_ones_own_and_an_unknown_name(dse):
    assert dse("chip", "docs/examples/accelerator.yaml").code == 0
    answer = dse("chip", "h100-sx")
    assert answer.code == 2
    (line,) = answer.error_lines
    assert "did you mean h100-sxm?" in line


class _Node(dict):
    """A node of AccelForge's file, whatever its tag."""


class _Loader(yaml.SafeLoader):
    """Reads tags as nodes."""


_Loader.add_multi_constructor("!", lambda loader, tag, node: _Node(loader.construct_mapping(node, deep=True), tag=tag))


def test_a_template_is_written_as_an_architecture_of_accelforge(dse, tmp_path):
    path = tmp_path / "arch.yaml"
    assert dse("chip", "tpuv4-phaze", "--accelforge", path, "--json").code == 0
    nodes = {node["name"]: node for node in yaml.load(path.read_text(), _Loader)["arch"]["nodes"]}
    machines, own = accelerator("tpuv4-phaze").machines, chip("tpuv4-phaze")
    assert [*nodes] == ["MainMemory", "GlobalBuffer", "CoreBuffer", "VectorLanes", "Array", "Register", "MAC"]
    assert nodes["MainMemory"]["size"] == 8 * own.hbm_bytes
    assert 1 / float(nodes["MainMemory"]["actions"][0]["latency"]) == pytest.approx(
        8 * machines.hbm_bytes_per_s, rel=1e-5
    )
    assert nodes["GlobalBuffer"]["size"] == 8 * machines.global_buffer_bytes[0]
    spatial = [*nodes["CoreBuffer"]["spatial"], *nodes["Array"]["spatial"]]
    elements = math.prod(axis["fanout"] for axis in spatial)
    assert elements == machines.tensor_cores[0] * machines.core_width[0] * machines.core_depth[0]
    assert 1 / float(nodes["MAC"]["actions"][0]["latency"]) == pytest.approx(machines.clock_hz, rel=1e-5)
    refused = dse("chip", "h100-sxm", "--accelforge", tmp_path / "no.yaml")
    assert refused.code == 2
    assert "--accelforge: h100-sxm: must be a template" in refused.err
    assert not (tmp_path / "no.yaml").exists()


def test_a_title_of_two_lines_is_one_comment_for_accelforge(dse, tmp_path):
    spec = yaml.safe_load(Path("docs/examples/accelerator.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(spec | {"title": "Mine,\nour: draft 3"}))
    assert dse("chip", tmp_path / "mine.yaml", "--accelforge", tmp_path / "arch.yaml", "--json").code == 0
    written = (tmp_path / "arch.yaml").read_text()
    assert written.startswith("# Mine, our: draft 3 for AccelForge")
    assert [*yaml.load(written, _Loader)] == ["arch"]


def test_a_chip_of_a_node_has_area_power_cost_and_carbon_with_intervals(dse):
    document = json.loads(dse("chip", "docs/examples/chip-2026.yaml", "--json").out)
    shown, silicon = document["solution"], document["silicon"]
    (die,) = silicon["dies"]
    assert {"area_mm2", "peak_flops", "memory", "link", "power_w", "yield"} < {*shown}
    for name, area in die["blocks_mm2"].items():
        assert shown["area_mm2"][name] == pytest.approx([2 * each for each in area])
    assert sum(each[0] for each in die["blocks_mm2"].values()) == pytest.approx(die["area_mm2"][0])
    assert shown["cost_usd"]["total"][0] == pytest.approx(
        sum(line[0] for name, line in shown["cost_usd"].items() if name != "total")
    )
    figures = [die["area_mm2"], *shown["yield"].values(), *shown["power_w"].values(), shown["kw_all_in"]]
    figures += [*shown["cost_usd"].values(), *shown["usd_per_hour"].values(), *shown["co2e_kg"].values()]
    assert all(low <= value <= high for value, low, high in figures)
    assert shown["usd_per_hour"]["at_price"][0] > shown["usd_per_hour"]["at_cost"][0]
    assert silicon["capped_clock_hz"] <= silicon["clock_hz"]
    assert all(silicon["sources"].values())
    text = " ".join(dse("chip", "docs/examples/chip-2026.yaml").out.split())
    for words in ("network on chip", "within its 1,000 W", "bill of materials", "$/hour", "kg CO₂e", "estimate"):
        assert words in text


def test_a_chip_that_draws_more_than_its_limit_says_so(dse):
    text = " ".join(dse("chip", "mi300x").out.split())
    assert "above its limit of 750 W: its clock falls" in text


def test_no_chip_draws_more_than_its_limit(dse):
    shown = json.loads(dse("chip", "mi300x", "--json").out)["solution"]
    value, low, high = shown["power_w"]["at_cap"]
    assert value == pytest.approx(750)
    assert low < value <= high <= 750


def test_other_files_than_pictures_and_pages_are_refused_before_anything_is_shown(dse, tmp_path):
    refused = dse("chip", "h100-sxm", "--out", tmp_path / "chip.png")
    assert (refused.code, refused.out) == (2, "")
    assert refused.error_lines[0].endswith("must be FILE.svg or FILE.html")
    assert not (tmp_path / "chip.png").exists()


def test_a_page_has_the_floorplan_the_tables_and_the_sources(dse, tmp_path):
    assert dse("chip", "b200", "--out", tmp_path / "b200.html").code == 0
    page = (tmp_path / "b200.html").read_text(encoding="utf-8")
    for words in ("mm² of silicon by block", "bill of materials", "wafer", "Chiplet Actuary", "<svg"):
        assert words in page
    refused = dse("chip", "tpuv4-phaze", "--out", tmp_path / "no.html")
    assert (refused.code, refused.out) == (2, "")
    assert "must be FILE.svg" in refused.error_lines[0]
    assert not (tmp_path / "no.html").exists()


def test_a_template_of_phaze_shows_what_it_did(dse):
    shown = json.loads(dse("chip", "tpuv4-phaze", "--json").out)
    assert "silicon" not in shown
    assert "278.8 mm²" in shown["cores"]


def earlier(tmp_path):
    """A data sheet of an earlier version."""
    text = Path("docs/examples/chip.yaml").read_text().replace("cluster.yaml", "dgx-h100")
    path = tmp_path / "old.yaml"
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("schema")))
    return path


@pytest.mark.parametrize(
    "asked",
    [
        ("place", "docs/examples/layers.yaml", "--chip"),
        ("partition", "bert-large", "--chips", 2, "--method", "greedy", "--workers", 0, "--chip"),
        ("plan", "llama3-8b", "--global-batch", 8, "--on"),
        ("chip",),
    ],
    ids=lambda asked: asked[0],
)
def test_a_file_of_an_earlier_version_is_read_with_a_note_that_names_the_command(dse, tmp_path, asked):
    answer = dse(*asked, earlier(tmp_path), *([] if asked[0] == "chip" else ["--notes"]))
    assert "dse convert" in " ".join(answer.out.split()), answer.err


def test_a_chip_without_bf16_trains_in_fp16(dse):
    answer = dse("plan", "llama3-8b", "--on", "v100", "--accelerators", 16, "--global-batch", 16, "--json")
    assert json.loads(answer.out)["solution"]["plan"]["precision"] == "fp16"


def test_a_report_is_written_again_without_the_chips_file(dse, tmp_path):
    path, out = earlier(tmp_path), tmp_path / "run"
    assert dse("place", "docs/examples/layers.yaml", "--chip", path, "--out", out).code == 0
    path.unlink()
    assert dse("report", out).code == 0
    assert "dse convert" in (out / "report.html").read_text()
