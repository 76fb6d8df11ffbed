"""The second calculation of area, power, money and carbon against :mod:`hardware.silicon`."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from dse.codesign.chips.check_silicon import all_in_kw, sizes_of, usd_per_hour
from hardware.silicon.area import block_areas, die_area
from hardware.silicon.carbon import embodied_kg
from hardware.silicon.chips import silicon
from hardware.silicon.interval import Interval
from hardware.silicon.money import all_in_kw as all_in
from hardware.silicon.money import bill, die_price, hourly_usd
from hardware.silicon.power import power
from tests.hardware.test_silicon import REAL, dies, package_of


def values(figures):
    return {name: float(each.value) for name, each in figures.items()}


def agree(package):
    again = sizes_of(package)
    for (die, _), own in zip(package.dies, again.dies, strict=True):
        assert own.blocks_mm2() == pytest.approx(values(block_areas(die)), rel=1e-12)
        assert own.area_mm2() == pytest.approx(float(die_area(die).value), rel=1e-9)
        assert own.sold_share() == pytest.approx(float(die_price(die).sold.value), rel=1e-9)
    assert again.bill_usd() == pytest.approx(values(bill(package)), rel=1e-9)
    assert again.carbon_kg() == pytest.approx(values(embodied_kg(package)), rel=1e-9)
    watts = float(power(package).demand(package.clock_hz).value)
    assert again.demand_w() == pytest.approx(watts, rel=1e-12)
    assert all_in_kw(watts) == pytest.approx(float(all_in(watts).value), rel=1e-12)
    usd = sum(again.bill_usd().values())
    hourly = hourly_usd(Interval.exact(usd), all_in(watts))
    for at_price, expected in ((False, hourly.at_cost), (True, hourly.at_price)):
        assert usd_per_hour(usd, watts, at_price) == pytest.approx(float(expected.value), rel=1e-12)


def smaller(die):
    sizes = {
        "cores": die.cores // 10 + 1,
        "macs_per_core": die.macs_per_core // 8,
        "memory_sites": die.memory_sites // 2,
    }
    parts = {name: getattr(die, name) / 8 for name in ("local_mib_per_core", "shared_mib", "link_bytes_per_s")}
    return replace(die, **sizes, **parts, spare_cores=die.cores % 3 if die.cores > 20 else 0)


@settings(max_examples=100, deadline=None)
@given(die=dies.map(smaller))
def test_a_package_takes_what_the_second_calculation_says(die):
    assume(1 < float(die_area(die).value) < 858)
    agree(package_of(die))


@pytest.mark.parametrize("name", REAL)
def test_so_does_a_real_chip(name):
    agree(silicon(name))
