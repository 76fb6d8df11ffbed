"""``dse codesign --space`` over chips: the command, its check, and what it refuses."""

import json

import pytest
import yaml

from dse.codesign.contract import PROBLEM
from dse.codesign.options import CodesignOptions
from dse.problem import pose
from dse.results.result import seal_of
from dse.run.run import Run
from hardware.chip_space import chip_space
from hardware.inputs import InputError
from tests.codesign.chip_spaces import space_file

RUN = ("--accelerators", 8, "--global-batch", 16, "--sequence", 2048, "--on", "none")


@pytest.fixture
def answered(dse, tmp_path):
    out = tmp_path / "run"
    asked = ("llama3-8b", "--space", space_file(tmp_path), "--power-cap", 1000, "--objective", "per-dollar")
    done = dse("codesign", *asked, *RUN, "--out", out)
    assert done.code == 0, done.err
    return done, out, json.loads((out / "result.json").read_text())


def test_an_answer_shows_chip_power_cost_and_area_and_is_proven(answered):
    done, _, result = answered
    assert result["status"] == "optimal"
    for word in ("proven optimal", "mm²", " W", "cost", "at price", "limit W"):
        assert word in done.out
    assert result["metrics"]["limits"]["power_w"]["taken"] <= 1000
    area, low, high = result["metrics"]["silicon"]["die_mm2"]
    assert low < area < high
    assert result["metrics"]["limits"]["die_mm2"]["taken"] == pytest.approx(area)


def test_the_check_accepts_it_and_refuses_another_chip_or_score(answered, dse, tmp_path):
    _, out, result = answered
    assert dse("check", out / "result.json", "--prove").code == 0
    for alter in (
        lambda each: each["solution"]["chip"].update(dies=3 - each["solution"]["chip"]["dies"]),
        lambda each: each["solution"]["chip"].update(units=9),
        lambda each: each["metrics"]["silicon"]["usd"].__setitem__(0, 1.0),
        lambda each: each["metrics"].update(score=2 * each["metrics"]["score"]),
    ):
        forged = json.loads(json.dumps(result))
        alter(forged)
        path = tmp_path / "forged.json"
        path.write_text(json.dumps(forged | {"seal": seal_of(forged)}))
        assert dse("check", path).code == 1


def test_the_check_calculates_silicon_real_chips_and_parts_of_a_step_a_second_time(dse, tmp_path):
    out, path = tmp_path / "run", tmp_path / "forged.json"
    asked = ("llama3-8b", "--space", space_file(tmp_path, units=[8], lanes=[128]), "--objective", "per-dollar")
    assert dse("codesign", *asked, *RUN[:6], "--on", "h100-sxm,mi300x", "--out", out).code == 0
    result = json.loads((out / "result.json").read_text())
    assert dse("check", out / "result.json").code == 0
    for row in result["metrics"]["chips"]:
        assert row["power_interval_w"][0] < row["power_w"] <= row["power_interval_w"][1]
        assert row["usd_interval"][0] < row["usd"] < row["usd_interval"][1]

    def step(each):
        part = each["metrics"]["models"]["llama3-8b"]["time_s"]
        part["linear"], part["attention"] = part["attention"], part["linear"]

    for alter in (
        step,
        lambda each: each["metrics"]["silicon"]["blocks_mm2"]["arrays"].__setitem__(0, 1.0),
        lambda each: each["metrics"]["silicon"]["bill_usd"]["package"].__setitem__(1, 1.0),
        lambda each: each["metrics"]["chips"][0].update(usd=2000.0),
        lambda each: each["metrics"]["chips"][1].update(power_w=700.0),
        lambda each: each["metrics"]["chips"][1]["usd_interval"].__setitem__(0, 1.0),
        lambda each: each["metrics"]["chips"][0].update(score=2 * each["metrics"]["chips"][0]["score"]),
        lambda each: each["metrics"]["chips"][0]["throughputs"].update({"llama3-8b": 100.0}),
        lambda each: each["metrics"]["chips"][0]["plans"]["llama3-8b"].update(microbatch=2, tensor=2),
        lambda each: each["metrics"]["chips"].pop(),
    ):
        forged = json.loads(json.dumps(result))
        alter(forged)
        path.write_text(json.dumps(forged | {"seal": seal_of(forged)}))
        assert dse("check", path).code == 1


def test_the_check_refuses_a_plan_in_a_format_that_the_chip_lacks(answered, dse, tmp_path):
    _, _, result = answered
    assert result["solution"]["models"]["llama3-8b"]["plan"]["precision"] == "fp8"
    result["solution"]["chip"]["formats"] = ["bf16"]
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(result | {"seal": seal_of(result)}))
    done = dse("check", path)
    assert done.code == 1
    assert "must be in a format of the chip" in done.out + done.err


def test_a_chip_has_the_format_in_which_it_trains_whatever_the_order_of_formats(dse, tmp_path):
    space = space_file(tmp_path, formats=["bf16", "int8", "fp8"], dies=[1], clock_hz=[1.6e9])
    chip = json.loads(dse("codesign", "llama3-8b", "--space", space, *RUN, "--json").out)["solution"]["chip"]
    assert chip["formats"] == ["bf16", "int8", "fp8"]


def test_dse_plan_finds_the_same_plan_on_the_chip_that_is_written(answered, dse):
    _, out, result = answered
    plan = result["solution"]["models"]["llama3-8b"]["plan"]
    asked = ("--on", out / "chip.yaml", "--precision", plan["precision"], *RUN[:6], "--json")
    again = json.loads(dse("plan", "llama3-8b", *asked).out)
    assert again["objective"]["value"] == pytest.approx(result["metrics"]["models"]["llama3-8b"]["step_s"], rel=1e-9)
    assert f"{result['metrics']['silicon']['usd'][0]:,.0f}" in dse("chip", out / "chip.yaml").out


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"nodes": [5, 9]}, "no such node"),
        ({"memories": [{"kind": "hbm5", "stacks": [4], "gb": [24], "source": "a test"}]}, "no such memory"),
        ({"memories": [{"kind": "hbm3e", "stacks": [4], "gb": [20], "source": "a test"}]}, "not 20 (nearest: 24)"),
        ({"memories": [{"kind": "hbm3e", "stacks": [16], "gb": [24], "source": "a test"}]}, "must be at most 12"),
        ({"memories": [{"kind": "hbm3e", "stacks": [0], "gb": [24], "source": "a test"}]}, "stacks"),
        ({"memories": [{"kind": "none", "stacks": [1], "gb": [1], "source": "a test"}]}, "must name a memory"),
        ({"clock_hz": [3.1e9]}, "clock_hz must be at most 2.8e+09"),
        ({"area_mm2": {"value": 900, "source": "a test"}}, "area_mm2 must be at most 858"),
        ({"formats": ["fp8"]}, "must begin with one of 16 bits"),
        ({"formats": ["bf16", "fp8", "fp8"]}, "must be unique"),
        ({"clock_hz": [1.2e9, 1.2e9]}, "must be unique"),
    ],
)
def test_a_space_that_cannot_be_built_is_refused_in_one_line(tmp_path, changes, rule):
    with pytest.raises(InputError) as error:
        chip_space(space_file(tmp_path, **changes))
    (fault,) = error.value.faults
    assert rule in str(fault)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("llama3-8b", "--power-cap", 100), "W"),
        (("llama3-8b", "--cost-limit", 900), "$"),
        (("llama3-8b", "--area-budget", 60), "mm²"),
        (("llama3-8b", "--area-budget", 20, "--power-cap", 20), "mm² of 20"),
        (("llama3-70b", "--accelerators", 2), "no plan of llama3-70b fits"),
    ],
)
def test_an_empty_space_says_which_limit_empties_it_and_by_how_much(dse, tmp_path, options, word):
    model, *limits = options
    done = dse("codesign", model, "--space", space_file(tmp_path), *RUN, *limits, "--json")
    result = json.loads(done.out)
    assert result["status"] == "infeasible"
    proof = result["infeasibility"]
    assert proof["demand"] > proof["limit"]
    assert word in proof["explanation"]
    assert "inf" not in proof["explanation"]


def test_a_plan_is_counted_once_whatever_the_domains_and_formats_of_chips_are(dse, tmp_path):
    def plans(models, domains, formats):
        file = space_file(tmp_path, formats=formats)
        document = yaml.safe_load(file.read_text())
        document["scale_up"]["domains"]["values"] = domains
        file.write_text(yaml.safe_dump(document))
        done = dse("codesign", *models, "--space", file, *RUN, "--json")
        return json.loads(done.out)["metrics"]["plans_in_vocabulary"]

    one, other, formats = ("llama3-8b",), ("llama2-7b",), ["bf16", "fp8"]
    of_one = plans(one, [8], formats)
    assert plans(one, [8, 72], formats) == of_one > plans(one, [8], ["bf16"])
    assert plans((*one, *other), [8], formats) == of_one + plans(other, [8], formats)


def test_a_die_that_is_too_small_for_its_stacks_is_padded_to_their_edge(dse, tmp_path):
    memories = [{"kind": "hbm3e", "stacks": [6], "gb": [24], "source": "a test"}]
    space = space_file(tmp_path, arrays=[[256, 256]], units=[2], lanes=[32], dies=[1], memories=memories)
    result = json.loads(dse("codesign", "llama3-8b", "--space", space, *RUN, "--json").out)
    made = result["metrics"]["silicon"]
    assert 33**2 / 2 <= made["die_mm2"][0] < 600
    assert sum(each[0] for each in made["blocks_mm2"].values()) == pytest.approx(made["die_mm2"][0])
    assert made["blocks_mm2"]["padding"][0] > 100
    refused = dse("codesign", "llama3-8b", "--space", space, *RUN, "--area-budget", 500)
    assert "stacks of hbm3e must be at most" in refused.err or "smallest die" in refused.out + refused.err


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--power-cap", 1000), "requires a space of chips"),
        (("--objective", "per-kg"), "requires a space of chips"),
        (("--space", "chips-2026", "--hbm-gb", "80"), "a space of chips has its memories"),
        (("--space", "chips-2026", "--area-budget", "900"), "at most 858"),
        (("--space", "chips-2026", "--search", "bayesian"), "must be exhaustive"),
        (("--space", "chips-2026", "--on", "v100"), "must have a rate for bf16 or fp8"),
        (("--space", "chips-2026", "--on", "tpuv4-phaze"), "must be a real chip"),
        (("--space", "chips-2026", "--pareto-gap", "2"), "requires --pareto"),
        (("--space", "chips-2026", "--pareto", "--pareto-of", "throughput,powr"), "did you mean power?"),
        (("--space", "chips-2026", "--pareto", "--pareto-of", "power,cost"), "must have a figure of throughput"),
        (("--space", "chips-2026", "--pareto", "--pareto-of", "throughput"), "must name two or three figures"),
        (("--pareto", "--pareto-of", "throughput,cost"), "requires a space of chips"),
    ],
)
def test_options_that_do_not_go_with_the_space_are_refused(dse, options, rule):
    done = dse("codesign", "llama3-8b", *options)
    assert done.code != 0
    assert rule in done.err


def test_what_the_interval_of_area_and_each_limit_change_is_proven(dse, tmp_path):
    out = tmp_path / "run"
    limits = ("--area-budget", 800, "--power-cap", 700, "--cost-limit", 6000, "--sensitivity")
    done = dse("codesign", "llama3-8b", "--space", space_file(tmp_path), *RUN, *limits, "--out", out)
    assert done.code == 0, done.err
    metrics = json.loads((out / "result.json").read_text())["metrics"]
    rows = metrics["sensitivity"]
    low, high, area, power, cost = rows.values()
    assert low["score"] >= metrics["score"] * (1 - 1e-9)
    assert high["score"] is None or high["score"] <= metrics["score"] * (1 + 1e-9)
    assert min(area["score"], power["score"], cost["score"]) >= metrics["score"] * (1 - 1e-9)
    assert all(each["regret"] is None or each["regret"] >= -1e-9 for each in rows.values())
    assert "What would change the answer" in done.out
    assert dse("check", out / "result.json", "--prove").code == 0


def like_file(folder, text):
    """A space that is like a small one."""
    whole = space_file(folder)
    path = folder / "like.yaml"
    path.write_text(f"name: mine\nlike: {whole.name}\n{text}")
    return path


def test_a_space_has_what_the_one_that_it_is_like_has_and_says_what_each_restriction_costs(dse, tmp_path):
    text = (
        "lanes: {values: [128], source: a test}\nformats: {values: [bf16, fp8, fp4], required: [fp4], source: a test}\n"
        "scale_up: {bytes_per_s: {values: [450.0e+9], source: a test}}\n"
    )
    space = chip_space(like_file(tmp_path, text))
    whole = chip_space(tmp_path / "space.yaml")
    assert space.lanes.values == [128]
    assert space.arrays == whole.arrays
    assert space.scale_up.bytes_per_s.values == [450e9]
    assert space.scale_up.domains == whole.scale_up.domains
    assert 2 * 2 * 2 * space.points == whole.points, "half of the lanes, rates and numbers of formats"
    out = tmp_path / "run"
    done = dse("codesign", "llama3-8b", "--space", tmp_path / "like.yaml", *RUN, "--sensitivity", "--out", out)
    assert done.code == 0, done.err
    result = json.loads((out / "result.json").read_text())
    assert result["solution"]["chip"]["formats"] == ["bf16", "fp8", "fp4"]
    rows, score = result["metrics"]["sensitivity"], result["metrics"]["score"]
    opened = [rows[f"with all {axis} of small"] for axis in ("lanes", "formats", "links and domains")]
    assert all(each["score"] >= score * (1 - 1e-9) for each in opened)
    assert opened[0]["score"] > 1.01 * score
    edge = result["metrics"]["limits"]["edge_mm"]
    assert 0 < edge["taken"] <= edge["limit"] * (1 + 1e-9)
    assert "mm of its edge" in done.out
    assert dse("check", out / "result.json", "--prove").code == 0


def test_a_format_that_is_required_takes_area(dse, tmp_path):
    area = {}
    for required in ("[]", "[fp8]", "[fp4]"):
        text = f"formats: {{values: [bf16, fp8, fp4], required: {required}, source: a test}}\n"
        asked = ("--space", like_file(tmp_path, text), *RUN, "--plan", "precision=bf16", "--json")
        result = json.loads(dse("codesign", "llama3-8b", *asked).out)
        area[required] = result["metrics"]["silicon"]["blocks_mm2"]["arrays"][0]
        assert result["solution"]["models"]["llama3-8b"]["plan"]["precision"] == "bf16"
    assert area["[fp8]"] == pytest.approx(1.15 * area["[]"])
    assert area["[fp4]"] == pytest.approx(1.20 * area["[]"])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("formats: {values: [bf16, fp8], required: [fp4], source: a test}", "required must be among values, bf16, fp8"),
        ("unit: {values: [8], source: a test}", "did you mean units?"),
        ("units: {values: [8]}", "units.source: the key is missing"),
        ("like: chips-2025", "known: chips-2026"),
        ("like: phaze-2024", "a space of chips must state its nodes"),
        ("scale_up: {domains: 8}", "scale_up.domains"),
    ],
)
def test_a_fault_of_a_space_that_is_like_another_is_one_line(tmp_path, text, rule):
    path = like_file(tmp_path, "" if text.startswith("like") else text)
    if text.startswith("like"):
        path.write_text(f"name: mine\n{text}\n")
    with pytest.raises(InputError) as error:
        chip_space(path)
    (fault,) = error.value.faults
    assert rule in str(fault)


def test_real_chips_and_chips_nearly_as_good_stand_beside_the_answer(dse, tmp_path):
    asked = (
        "llama3-8b",
        "--space",
        space_file(tmp_path),
        *RUN[:6],
        "--on",
        "h100-sxm",
        "--within",
        5,
    )
    out = tmp_path / "run"
    done = dse("codesign", *asked, "--out", out)
    assert done.code == 0, done.err
    metrics = json.loads((out / "result.json").read_text())["metrics"]
    (chip,) = metrics["chips"]
    assert chip["name"] == "h100-sxm"
    assert 0 < chip["score"] < metrics["score"]
    scores = [each["score"] for each in metrics["near"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == min(metrics["near_count"], 100) > 1
    assert scores[-1] >= 0.95 * metrics["score"]
    assert "Real chips" in done.out
    assert dse("check", out / "result.json", "--prove").code == 0


def test_attention_is_fused_where_the_sram_of_a_unit_holds_a_tile_unless_it_is_asked_otherwise(dse, tmp_path):
    space = space_file(tmp_path, arrays=[[256, 256]], local_kib=[256, 512])
    fused, unfused = (
        json.loads(dse("codesign", "llama3-8b", "--space", space, *RUN, "--attention", each, "--json").out)
        for each in ("fused", "unfused")
    )
    plain = json.loads(dse("codesign", "llama3-8b", "--space", space, *RUN, "--json").out)
    assert plain["solution"] == fused["solution"]
    assert fused["solution"]["chip"]["local_kib"] == 512
    assert fused["objective"]["value"] > unfused["objective"]["value"]
    assert any(each.startswith("Attention is fused") for each in plain["metrics"]["notes"])
    small = space_file(tmp_path, arrays=[[256, 256]], local_kib=[256])
    proof = json.loads(dse("codesign", "llama3-8b", "--space", small, *RUN, "--json").out)["infeasibility"]
    assert "tile of attention" in proof["explanation"]


def test_a_front_that_is_stopped_has_a_gap_and_passes_the_check(tmp_path):
    sizes = {"accelerators": 8, "global_batch": 16, "sequence": 2048, "on": "none"}
    options = CodesignOptions(("llama3-8b",), space=str(space_file(tmp_path)), pareto=True, pareto_gap=0.0, **sizes)
    posed, told = pose(PROBLEM, options), []
    run = Run(
        stop=lambda: "time limit" if len(told) > 20 else None,
        progress=lambda phase, *_: told.append(phase) if "front" in phase else None,
    )
    result = PROBLEM.answer(posed, run)
    front = result.metrics["pareto"]
    assert (result.status, front["stopped"], result.metrics["unfinished"]) == ("optimal", "time limit", ["pareto"])
    assert front["points"]
    assert front["gap"] > 0
    assert PROBLEM.faults(result, posed) == []
    front["gap"] = -0.5
    assert PROBLEM.faults(result, posed) != []


def test_a_front_is_shown_drawn_and_checked(dse, tmp_path):
    out, space = tmp_path / "front", space_file(tmp_path, units=[8, 32], lanes=[512], dies=[1])
    asked = ("--power-cap", 1000, "--pareto", "--pareto-of", "throughput,power,cost", "--pareto-gap", 0)
    done = dse("codesign", "llama3-8b", "--space", space, *asked, *RUN, "--out", out)
    assert done.code == 0, done.err
    result = json.loads((out / "result.json").read_text())
    front = result["metrics"]["pareto"]
    assert (front["figures"], front["gap"], front["stopped"]) == (["throughput", "power", "cost"], 0.0, None)
    assert front["points"][0]["values"]["throughput"] == pytest.approx(result["objective"]["value"])
    for word in ("complete and proven", "Front of throughput, power, cost"):
        assert word in done.out
    assert "are on the front of throughput, power, cost" in (out / "report.html").read_text()
    assert dse("check", out / "result.json", "--prove").code == 0
    for alter in (
        lambda points: points[0]["values"].update(power=1.0),
        lambda points: points[0]["chip"].update(units=9),
        lambda points: points.append(points[0]),
        lambda points: points.pop(),
    ):
        forged = json.loads(json.dumps(result))
        alter(forged["metrics"]["pareto"]["points"])
        path = tmp_path / "forged.json"
        path.write_text(json.dumps(forged | {"seal": seal_of(forged)}))
        assert dse("check", path, "--prove").code == 1


def test_traffic_between_dies_is_charged_as_dse_plan_does(dse, tmp_path):
    out = tmp_path / "run"
    space = space_file(tmp_path, dies=[2], nodes=[5], clock_hz=[1.6e9])
    assert dse("codesign", "llama3-8b", "--space", space, *RUN, "--out", out).code == 0
    result = json.loads((out / "result.json").read_text())
    plan = result["solution"]["models"]["llama3-8b"]["plan"]
    asked = ("--on", out / "chip.yaml", "--precision", plan["precision"], *RUN[:6], "--json")
    again = json.loads(dse("plan", "llama3-8b", *asked).out)
    assert again["objective"]["value"] == pytest.approx(result["metrics"]["models"]["llama3-8b"]["step_s"], rel=1e-9)


def test_a_search_that_is_interrupted_before_every_root_has_a_bound_says_so(tmp_path):
    sizes = {"accelerators": 8, "global_batch": 16, "sequence": 2048, "on": "none"}
    file = space_file(tmp_path)
    document = yaml.safe_load(file.read_text())
    document["scale_up"]["domains"]["values"] = [8, 72]  # a root each
    file.write_text(yaml.safe_dump(document))
    posed, bounds = pose(PROBLEM, CodesignOptions(("llama3-8b",), space=str(file), **sizes)), []
    for asked in range(1, 60):
        calls = iter(range(asked))
        run = Run(stop=lambda calls=calls: "interrupted" if next(calls, None) is None else None)
        result = PROBLEM.answer(posed, run)
        json.loads(result.to_json())
        assert PROBLEM.faults(result, posed) == []
        PROBLEM.view(result, posed, run.tables)
        bounds.append((bool(result.solution), result.bound is None))
        if bounds[-1] == (True, True):
            break
    assert bounds[-1] == (True, True)
