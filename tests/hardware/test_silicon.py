"""Silicon by node: monotone in every size, yields and clocks within limits, arrays as single designs, and specs."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.chip_spec import chip_names
from hardware.chips import chip
from hardware.inputs import InputError
from hardware.silicon.area import area_of, block_areas, die_area, die_parts
from hardware.silicon.carbon import embodied_kg
from hardware.silicon.chips import silicon
from hardware.silicon.design import Die, Package
from hardware.silicon.edges import max_sites, needed_edge, perimeter_mm, sides_mm
from hardware.silicon.energy import lane_cycle_pj, memory_pj_per_byte, multiply_accumulate_pj
from hardware.silicon.interval import Interval
from hardware.silicon.money import all_in_kw, bill, die_price, dies_per_wafer, hourly_usd, sold_share
from hardware.silicon.power import power
from hardware.silicon.tables import STYLES, blocks, fitted, memories, money, nodes
from hardware.specs import accelerator

EXAMPLE = Path("docs/examples/chip-2026.yaml")
REAL = [name for name in chip_names() if silicon(name) is not None]

SIZES = {
    "cores": st.integers(1, 200),
    "macs_per_core": st.integers(0, 65536),
    "lanes_per_core": st.integers(0, 4096),
    "fp64_lanes_per_core": st.integers(0, 64),
    "local_mib_per_core": st.floats(0, 16),
    "shared_mib": st.floats(0, 256),
    "memory_sites": st.integers(0, 8),
    "link_bytes_per_s": st.floats(0, 2e12),
    "d2d_bytes_per_s": st.floats(0, 1e13),
    "host": st.integers(0, 2),
}

dies = st.builds(
    Die,
    node=st.sampled_from(sorted(nodes())),
    style=st.sampled_from(STYLES),
    memory=st.sampled_from(sorted(memories())),
    has_8bit=st.booleans(),
    has_4bit=st.booleans(),
    **SIZES,
)


def package_of(die, clock_hz=1e9, cap_w=None):
    return Package(((die, 2),), clock_hz, die.memory, die.memory_sites, 24.0 * die.memory_sites, cap_w=cap_w)


@settings(max_examples=60, deadline=None)
@given(die=dies, key=st.sampled_from(sorted(SIZES)), factor=st.floats(1.01, 3))
def test_area_power_cost_and_carbon_never_fall_with_a_size(die, key, factor):
    larger = replace(die, **{key: getattr(die, key) * factor + 1})
    for before, after in zip(*(block_areas(each).values() for each in (die, larger)), strict=True):
        assert after.value >= before.value
    assert die_area(larger).value >= die_area(die).value
    small, large = package_of(die), package_of(larger)
    assert power(large).demand(1e9).value >= power(small).demand(1e9).value
    assert sum(kg.value for kg in embodied_kg(large).values()) >= sum(kg.value for kg in embodied_kg(small).values())
    if die_area(larger).value < 858:
        assert bill(large)["dies"].value >= bill(small)["dies"].value * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(die=dies)
def test_a_finer_node_is_never_larger_and_never_switches_more(die):
    by_node = [replace(die, node=node) for node in nodes()]
    areas = [float(die_area(each).value) for each in by_node]
    assert areas == sorted(areas, reverse=True)
    demands = [float(power(package_of(each)).demand(1e9).value) for each in by_node]
    assert demands == sorted(demands, reverse=True)


@settings(max_examples=40, deadline=None)
@given(die=dies)
def test_every_figure_lies_in_its_interval(die):
    package = package_of(die)
    figures = [die_area(die), power(package).demand(1e9), *bill(package).values(), *embodied_kg(package).values()]
    for figure in figures:
        assert figure.low <= figure.value * (1 + 1e-12)
        assert figure.value <= figure.high * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(
    fixed=st.floats(0, 858),
    cores=st.floats(0, 858),
    spare=st.integers(0, 20),
    defects=st.floats(0, 1),
    more=st.floats(0, 100),
)
def test_the_share_that_is_sold_is_a_probability_that_spare_cores_raise_and_area_lowers(
    fixed, cores, spare, defects, more
):
    share = sold_share(fixed, cores, spare, defects, 10.0)
    assert 0 < share <= 1
    assert sold_share(fixed, cores, spare + 1, defects, 10.0) >= share
    assert sold_share(fixed + more, cores, spare, defects, 10.0) <= share * (1 + 1e-12)
    assert sold_share(fixed, cores + more, spare, defects, 10.0) <= share * (1 + 1e-12)


def test_without_spare_cores_it_is_the_negative_binomial_yield_and_with_all_of_them_only_the_rest_counts():
    assert sold_share(300.0, 500.0, 0, 0.1, 10.0) == pytest.approx((1 + 0.8 / 10) ** -10)
    assert sold_share(300.0, 500.0, 500, 0.1, 10.0) == pytest.approx((1 + 0.3 / 10) ** -10)


def test_the_share_that_is_sold_is_what_drawn_defects_leave():
    draws, alpha, spare = np.random.default_rng(1), 10.0, 2
    density = draws.gamma(alpha, 0.2 / alpha, 200_000)
    outside, inside = draws.poisson(density * 3.0), draws.poisson(density * 5.0)
    drawn = ((outside == 0) & (inside <= spare)).mean()
    assert float(sold_share(300.0, 500.0, spare, 0.2, alpha)) == pytest.approx(drawn, abs=5e-3)


def test_energies_of_single_operations_add_up_to_what_switches_each_cycle():
    for node in nodes():
        die = Die(node=node, style="simt", cores=4, macs_per_core=512, lanes_per_core=64, memory="hbm3", memory_sites=1)
        per_cycle_pj = 2 * 4 * (512 * multiply_accumulate_pj(node).value + 64 * lane_cycle_pj(node, "simt").value)
        drawn = power(package_of(die))
        assert float(drawn.switching_per_ghz.value) == pytest.approx(float(per_cycle_pj) * 1e-3)
        assert multiply_accumulate_pj(node, 8).value == pytest.approx(multiply_accumulate_pj(node).value / 2)
    traffic_w = 1e-12 * memory_pj_per_byte("hbm3").value * package_of(die).memory_rate
    assert float(drawn.traffic.value) == pytest.approx(float(traffic_w))
    with pytest.raises(ValueError, match="must be 4, 8 or 16"):
        multiply_accumulate_pj(7, 32)


def test_intervals_hold_those_of_all_that_a_figure_rests_on():
    die = Die(node=7, style="systolic", cores=2, macs_per_core=65536, local_mib_per_core=16, shared_mib=128)
    table, known, areas = blocks(), fitted(), block_areas(die)
    scratchpads = known.systolic_factor.interval * table.scratchpad_mm2_per_mib.times(160)
    both = replace(die, macs_per_core=0, host=0)
    without_network = {key: area for key, area in block_areas(both).items() if key != "network on chip"}
    whole = area_of(without_network, "systolic")
    assert (whole.low, whole.high) == pytest.approx((scratchpads.low, scratchpads.high))
    apart = [areas[key] for key in ("arrays", "local SRAM", "shared SRAM")]
    assert die_area(die).high >= sum(float(each.high) for each in apart)
    demand = power(package_of(die)).demand(1e9)
    kw = all_in_kw(demand)
    assert kw.high - kw.value > all_in_kw(demand.value).high - kw.value
    hourly, years = hourly_usd(Interval.exact(50_000), Interval.exact(0.0)), money().years
    assert hourly.at_cost.high > (50_000 + money().server_usd.value) / (8766 * years.low) * (1 - 1e-9)
    assert hourly.at_cost.low < (50_000 + money().server_usd.value) / (8766 * years.high) * (1 + 1e-9)
    kg = embodied_kg(package_of(replace(die, host=0)))["dies"]
    assert kg.high > kg.value * money().fab_yield.value / money().fab_yield.low


def test_no_price_is_that_of_a_die_beyond_the_exposure_field():
    die = Die(node=3, style="systolic", cores=8, macs_per_core=65536, shared_mib=64, host=1)
    price, limit = die_price(die), blocks().reticle_mm2.value
    assert price.area.value < limit < price.area.high
    areas = block_areas(die)
    cores = sum(float(areas[key].value) for key in ("arrays", "lanes", "local SRAM"))
    fixed = float(price.area.value) - cores - float(areas["shared SRAM"].value)
    scale = limit / float(price.area.value)
    worst = sold_share(fixed * scale, cores * scale, 0, nodes()[3].defects, money().yield_alpha.value)
    assert price.sold.low == pytest.approx(float(worst))
    assert price.usd.high == pytest.approx(nodes()[3].wafer_high / float(dies_per_wafer(limit) * worst))


def test_dies_of_814_mm2_on_a_wafer():
    assert int(dies_per_wafer(814.0)) == 63


@settings(max_examples=40, deadline=None)
@given(die=dies, clock=st.floats(5e8, 2.5e9), cap=st.floats(1, 5000), more=st.floats(0, 1000))
def test_the_clock_under_a_cap_is_within_it_and_monotone(die, clock, cap, more):
    drawn = power(package_of(die))
    capped = float(drawn.capped_clock_hz(clock, cap))
    assert 0 <= capped <= clock
    assert drawn.capped_clock_hz(clock, cap + more) >= capped
    demand = float(drawn.demand(capped).value)
    if capped > 0:
        assert demand <= cap * (1 + 1e-9)
    if 0 < capped < clock:
        assert demand == pytest.approx(cap)
    assert drawn.demand(clock).value >= demand * (1 - 1e-12)


@settings(max_examples=20, deadline=None)
@given(die=dies, count=st.integers(2, 5), data=st.data())
def test_arrays_are_priced_as_single_designs(die, count, data):
    drawn = {key: data.draw(st.lists(size, min_size=count, max_size=count)) for key, size in SIZES.items()}
    many = replace(die, **{key: np.array(values) for key, values in drawn.items()}, spare_cores=np.zeros(count))
    whole, price, package = die_area(many), die_price(many), package_of(many)
    lines, watts = bill(package), power(package)
    for place in range(count):
        one = replace(die, **{key: values[place] for key, values in drawn.items()})
        alone = package_of(one)
        assert whole.value[place] == pytest.approx(float(die_area(one).value), rel=1e-12)
        assert whole.high[place] == pytest.approx(float(die_area(one).high), rel=1e-12)
        assert price.sold.value[place] == pytest.approx(float(die_price(one).sold.value), rel=1e-12)
        assert watts.demand(1e9).value[place] == pytest.approx(float(power(alone).demand(1e9).value), rel=1e-12)
        for name, line in bill(alone).items():
            assert np.broadcast_to(lines[name].value, count)[place] == pytest.approx(float(line.value), rel=1e-12)


def test_blocks_add_up_and_those_of_nothing_take_nothing():
    die = Die(node=7, style="simt", host=0)
    assert float(die_area(die).value) == 0
    whole = replace(die, cores=10, macs_per_core=512, shared_mib=8, host=1)
    areas = block_areas(whole)
    assert float(area_of(areas, "simt").value) == pytest.approx(sum(float(each.value) for each in areas.values()))
    assert float(areas["shared SRAM"].value) == pytest.approx(8 * blocks().cache_mm2_per_mib.value)
    expected = 10 * 512 * blocks().mac_um2.value / 1e6 * fitted().simt_factor.value
    assert float(areas["arrays"].value) == pytest.approx(expected)


def test_six_stacks_fit_along_the_longest_die_and_none_along_a_small_one():
    die = Die(node=5, style="simt", memory="hbm3")
    assert int(max_sites(die, 858.0)) == 6
    assert int(max_sites(die, 50.0)) == 0
    long, short = sides_mm(858.0)
    assert (float(long), float(short)) == (33.0, 26.0)


@settings(max_examples=60, deadline=None)
@given(die=dies)
def test_a_die_is_padded_to_the_edge_of_its_interfaces_and_no_further(die):
    area, filled = die_area(die), area_of(block_areas(die), die.style)
    inside = float(area.value) <= 858
    if inside:
        assert needed_edge(die).value <= perimeter_mm(area.value) * (1 + 1e-9)
        assert die.memory_sites <= max_sites(die, area.value * (1 + 1e-9))
    if inside and area.value > filled.value:
        less = area.value * 0.999
        assert die.memory_sites > max_sites(die, less) or needed_edge(die).value > perimeter_mm(less)
    assert area.low >= filled.low
    assert sum(float(each.value) for each in die_parts(die).values()) == pytest.approx(float(area.value))
    smaller = replace(die, memory_sites=0, link_bytes_per_s=0.0, d2d_bytes_per_s=0.0, host=0)
    assert float(die_area(smaller).value) == pytest.approx(
        float(area_of(block_areas(smaller), die.style).value), rel=1e-12
    )


def test_padding_costs_area_and_money_and_neither_yield_nor_power():
    small = Die(node=5, style="systolic", cores=4, macs_per_core=16384, memory="hbm3e", memory_sites=6)
    assert float(die_area(small).value) == pytest.approx(33**2 / 2)
    assert "padding" in die_parts(small)
    filled = area_of(block_areas(small), small.style)
    idle, watts = power(package_of(small)), power(package_of(small)).static.value
    assert watts == pytest.approx(2 * fitted().static_w_per_mm2.value * filled.value + 6 * memories()["hbm3e"].idle_w)
    assert idle.tree_per_ghz.value == pytest.approx(2 * fitted().tree_w_per_mm2_ghz.value * filled.value)
    core = replace(small, memory_sites=0)
    assert die_price(small).usd.value > die_price(core).usd.value


def test_no_real_die_is_padded():
    for name in REAL:
        assert all("padding" not in die_parts(die) for die, _ in silicon(name).dies), name


@pytest.mark.parametrize("table", [blocks(), money(), fitted()])
def test_every_constant_has_a_source_and_an_interval(table):
    for key in type(table).model_fields:
        if key != "name":
            assert getattr(table, key).source
    assert all(each.source for each in (*nodes().values(), *memories().values()))


def test_at_most_six_constants_are_fitted():
    sources = [getattr(fitted(), key).source for key in type(fitted()).model_fields if key != "name"]
    assert sum(source.startswith("fitted to") for source in sources) == 6


def test_real_packages_have_the_peak_that_their_makers_publish():
    for name in REAL:
        rates = dict(chip(name).rates)
        published = rates.get("fp16", rates.get("bf16"))
        assert float(silicon(name).peak_flops) == pytest.approx(published, rel=5e-3), name


def test_a_mi300x_is_throttled_by_its_limit():
    package = silicon("mi300x")
    drawn = power(package)
    assert drawn.demand(package.clock_hz).value > package.cap_w
    assert drawn.capped_clock_hz(package.clock_hz, package.cap_w) < package.clock_hz


def test_a_template_of_a_node_is_a_machine_with_the_area_of_all_its_dies():
    machines = accelerator(EXAMPLE).machines
    (die, count), = silicon(EXAMPLE).dies  # fmt: skip
    assert machines.area_mm2[0] == pytest.approx(count * float(die_area(die).value))
    assert machines.process_nm == 3.0
    area, (estimate,) = die_area(die), accelerator(EXAMPLE).estimates
    assert f"an estimate, {count * float(area.low):,.0f} to {count * float(area.high):,.0f} mm²" in estimate
    assert accelerator("tpuv4-phaze").estimates == accelerator("h100-sxm").estimates == ()
    assert float(silicon(EXAMPLE).peak_flops) == pytest.approx(machines.peak_flops[0])


def changed(folder, **changes):
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    for path, value in changes.items():
        part, *keys = path.split("__")
        inner = document
        for key in (part, *keys)[:-1]:
            inner = inner[key]
        inner[(part, *keys)[-1]] = value
    file = folder / "chip.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


BAD = [
    ({"template__node": 8}, "template.node: 8: no such node; known: 28, 22, 16", "nearest: 7"),
    ({"template__node": 1}, "template.node: 1: no such node", "nearest: 2"),
    ({"template__style": "simd"}, "template.style: simd: must be", "did you mean simt"),
    ({"template__style": "phaze"}, "node must be 22 in style phaze, but is 3", ""),
    ({"memory__kind": "hbm5"}, "memory.kind: hbm5: no such memory; known: hbm2,", "nearest: hbm4"),
    ({"memory__stacks": 14}, "memory.stacks: 14: the long edges of a die of", "did you mean 12?"),
    ({"memory__stacks": -1}, "memory.stacks: -1: must be at least 0", ""),
    ({"template__tensor_cores": 64}, "template.tensor_cores: 64: a die must be at most 858 mm²", "tensor cores fit"),
    ({"clock_hz__value": 3.5e9}, "clock_hz: 3.5e+09: the clock of 3 nm must be at most 2.8e+09 Hz", "2.8e+09?"),
    ({"tdp_w__value": 40.0}, "tdp_w: 40: the power limit must be above the", "did you mean"),
    ({"hbm_bytes_per_s__value": 1.2e13}, "hbm_bytes_per_s: 1.2e+13: 8 stacks of hbm3e have at most", "9.44e+12?"),
    ({"hbm_gib__value": 400.0}, "hbm_gib: 400: 8 stacks of hbm3e have at most 36 GB each", "288?"),
    ({"tdp_w__value": 300.0}, "tdp_w: 300: the power limit must be above the 388 W that", "did you mean 390?"),
    (
        {"rates__bf16__value": 4.0e15},
        "rates.bf16: 4e+15: the arrays have at most 3.1457e+15",
        "did you mean 3.1457e+15?",
    ),
    ({"memory__stacks": 40}, "memory.stacks: 40: the long edges of a die of 858 mm²", "did you mean 12?"),
    ({"memory__kind": "none"}, "memory.stacks: 8: must be 0 where kind is none", "did you mean 0?"),
    (
        {"memory__kind": "none", "memory__stacks": 0},
        "hbm_gib: 288: must be at most 0.25, the SRAM of the dies",
        "did you mean 0.25?",
    ),
    (
        {"template__d2d_bytes_per_s": 3e13},
        "template: 165 mm of edge: memory, links, die to die and host must fit",
        "118 mm",
    ),
    ({"memory__stacks": 0}, "memory.stacks: 0: must be at least 1 of hbm3e; without any, kind is none", "1?"),
    (
        {"template__global_buffer_mib": 10**6},
        "template: shared SRAM: a die must be at most 858 mm² (26 x 33 mm), but has 637,854, of which its shared SRAM",
        "take 637,",
    ),
    ({"template__spare_cores": 10**9}, "template.spare_cores: 1000000000: must be at most 4096", ""),
    ({"template__d2d_bytes_per_s": 0.0}, "d2d_bytes_per_s must be above 0 with several dies", ""),
    ({"template__tensor_cores": 17}, "tensor_cores must be a multiple of dies, 2, but is 17", "nearest: 16"),
]


@pytest.mark.parametrize(("changes", "rule", "remedy"), BAD, ids=[str(case[0]) for case in BAD])
def test_bad_input_is_one_line_with_the_rule_and_the_nearest_value(tmp_path, changes, rule, remedy):
    with pytest.raises(InputError) as caught:
        silicon(changed(tmp_path, **changes))
    (fault,) = str(caught.value).splitlines()
    assert rule in fault
    assert remedy in fault


@pytest.mark.parametrize(("sites", "stacks"), [(0, 5), (6, 7)])
def test_stacks_need_sites_on_the_dies(tmp_path, sites, stacks):
    document = yaml.safe_load(Path("hardware/specs/chips/h100-sxm.yaml").read_text(encoding="utf-8"))
    document["dies"][0]["memory_sites"] = sites
    document["memory"]["stacks"] = stacks
    file = tmp_path / "chip.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(InputError, match=f"memory.stacks: {stacks}: must be at most {sites}, as the dies have so many"):
        silicon(file)


def test_the_nearest_value_of_a_refusal_is_accepted(tmp_path):
    for changes, key in (
        ({"memory__stacks": 14}, "memory__stacks"),
        ({"template__tensor_cores": 64}, "template__tensor_cores"),
        ({"clock_hz__value": 3.5e9}, "clock_hz__value"),
        ({"tdp_w__value": 40.0}, "tdp_w__value"),
        ({"tdp_w__value": 300.0}, "tdp_w__value"),
        ({"rates__bf16__value": 3.2e15}, "rates__bf16__value"),
    ):
        with pytest.raises(InputError) as caught:
            silicon(changed(tmp_path, **changes))
        suggestion = caught.value.faults[0].suggestion
        value = float(suggestion) if key.endswith("value") else int(suggestion)
        assert silicon(changed(tmp_path, **{key: value})) is not None


def test_templates_of_phaze_and_data_sheets_have_no_silicon():
    assert silicon("tpuv4-phaze") is None
    assert silicon("gaudi3") is None
    assert {"h100-sxm", "b200", "mi300x", "tpuv4"} <= {*REAL}


def test_sizes_of_a_die_are_those_that_are_drawn():
    drawn = {*SIZES, "node", "style", "memory", "has_8bit", "has_4bit", "spare_cores", "is_stacked"}
    assert {each.name for each in fields(Die)} == drawn
