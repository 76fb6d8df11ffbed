"""Fabric specs and tables of operator slots: what they hold, what follows from them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.fabric_grid import grid
from hardware.fabric_specs import fabric, fabric_spec, list_fabrics
from hardware.fabrics import MAX_SIDE
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots, operator_slots_spec
from hardware.spec_fields import spec_names

PLASTICINE = fabric("plasticine-8x16")


def leaves(document, path=""):
    """Every leaf of a spec with its path."""
    if not isinstance(document, dict):
        yield path, document
        return
    for key, value in document.items():
        yield from leaves(value, f"{path}.{key}")


@pytest.mark.parametrize("name", list_fabrics())
def test_every_constant_of_a_built_in_fabric_has_its_source(name):
    document = fabric_spec(name).model_dump(exclude_none=True)
    values = {path.removesuffix(".value") for path, _ in leaves(document) if path.endswith(".value")}
    sources = {path.removesuffix(".source") for path, value in leaves(document) if path.endswith(".source") and value}
    assert values == sources
    assert len(values) == 26
    assert fabric(name).name == name


def test_units_and_rates_of_the_built_in_fabrics_are_the_published_ones():
    for name, units, tflops, sram_mib in (("plasticine-8x16", 64, 12.3, 16), ("sn10", 640, 320, 320)):
        described = fabric(name)
        assert len(described.grid.sites("compute")) == len(described.grid.sites("memory")) == units
        assert units * described.compute_flops / 1e12 == pytest.approx(tflops, rel=0.01)
        assert units * described.memory_bytes == sram_mib * 2**20
        assert described.slot_s * described.compute_flops == 2 * described.tile**3


def test_tiles_capacity_and_banks():
    assert PLASTICINE.tiles(32, 33) == 2
    assert PLASTICINE.tiles(512, 1024, 1) == 512
    assert {fabric(name).memory_bytes / fabric(name).flit_bytes for name in list_fabrics()} == {64}
    assert PLASTICINE.samples_that_fit(100_000) == 2
    with pytest.raises(ValueError, match="holds 262,144 bytes, but needs to hold 262,145"):
        PLASTICINE.samples_that_fit(262_145)
    assert not PLASTICINE.shares_banks(131_072, 2)
    assert not PLASTICINE.shares_banks(16_384, 16)
    assert PLASTICINE.shares_banks(16_385, 16)


@given(st.floats(1e8, 1e12))
@settings(deadline=None)
def test_a_channel_carries_no_more_in_slots_than_in_seconds(bytes_per_s):
    described = replace(PLASTICINE, channel_bytes_per_s=bytes_per_s)
    assert min(described.channel_flits, described.channel_slots) == 1
    in_slots = described.channel_flits / described.channel_slots * described.flit_bytes / described.slot_s
    assert bytes_per_s / 2 <= in_slots * (1 + 1e-9)
    assert in_slots <= bytes_per_s * (1 + 1e-9)


@given(st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None)
def test_links_join_neighbours_both_ways(rows, columns):
    made = grid(rows, columns, ["CM", "MC"], ["west"], 3)
    links = set(zip(made.link_from.tolist(), made.link_to.tolist(), strict=True))
    assert len(links) == len(made.link_from) == 2 * (rows * (columns - 1) + columns * (rows - 1))
    for start, end in links:
        assert (end, start) in links
        distance = np.abs(np.subtract(divmod(start, columns), divmod(end, columns))).sum()
        assert distance == 1
    assert len(made.sites("io")) == 3 * rows
    assert (made.site_cell[made.sites("io")] % columns == 0).all()


def test_a_fabric_may_lack_cells():
    made = replace(PLASTICINE, absent=((0, 0), (3, 3))).grid
    assert len(made.sites("compute")) + len(made.sites("memory")) == 126
    assert len(made.link_from) == 464 - 2 * 2 - 2 * 4
    assert not {0, 3 * 16 + 3} & {*made.link_from.tolist(), *made.link_to.tolist(), *made.site_cell.tolist()}


def written(tmp_path, **changes):
    """The file of a copy of Plasticine with some keys replaced (``links__tracks`` is ``tracks`` in ``links``)."""
    document = fabric_spec("plasticine-8x16").model_dump(mode="json", exclude_none=True)
    for path, value in changes.items():
        place, *keys = document, *path.split("__")
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def fault_of(function, *arguments):
    with pytest.raises(InputError) as raised:
        function(*arguments)
    (fault,) = raised.value.faults
    return fault


def of(value):
    return {"value": value, "source": "a test"}


@pytest.mark.parametrize(
    ("changes", "key", "rule"),
    [
        ({"grid__rows": of(0)}, "grid.rows.value", "at least 1"),
        ({"grid__rows": of(MAX_SIDE + 1)}, "grid.rows.value", f"at most {MAX_SIDE}"),
        ({"grid__rows": {"value": 8}}, "grid.rows.source", "missing"),
        ({"grid__pattern": of(["CM", "C"])}, "grid", "the same length"),
        ({"grid__pattern": of([])}, "grid.pattern.value", "must not be empty"),
        ({"grid__pattern": of(["CX"])}, "grid", "C (compute), M (memory) or . (switch), but got 'X'"),
        ({"grid__pattern": of(["C."])}, "grid", "a site for memory, but M defines none"),
        ({"grid__io_edges": of([])}, "grid", "a site for io, but io_edges defines none"),
        ({"grid__io_edges": of(["left"])}, "grid.io_edges.value.0", "'north', 'east', 'south' or 'west'"),
        ({"grid__io_per_switch": of(0)}, "grid.io_per_switch.value", "at least 1"),
        ({"grid__absent": of([[8, 0]])}, "grid", "in the grid of 8 x 16, but got [8, 0]"),
        ({"grid__absent": of([[0, 1], [1, 0]])}, "grid", "1 of 126 cells are unreachable, such as [0, 0]"),
        ({"numbers__tile": of(0)}, "numbers.tile.value", "at least 1"),
        ({"compute__flops": of(0)}, "compute.flops.value", "greater than 0"),
        ({"memory__bytes": of(0)}, "memory.bytes.value", "at least 1"),
        ({"memory__bytes": of(4095)}, "memory.bytes", "must hold at least one flit, a tile of 4,096 bytes"),
        ({"memory__read_ports": of(0)}, "memory.read_ports.value", "at least 1"),
        ({"links__tracks": of(0)}, "links.tracks.value", "at least 1"),
        ({"links__tracks": of(0.5)}, "links.tracks.value", "a whole number"),
        ({"links__tracks": of(True)}, "links.tracks.value", "must be a whole number"),
        ({"compute__flops": of(True)}, "compute.flops.value", "must be a number"),
        ({"grid__absent": of([[0, True]])}, "grid.absent.value", "must contain numbers, not true or false"),
        ({"links__min_flow_flits": of(7)}, "links", "min_flow_flits <= max_flow_flits must hold, but got 7 and 6"),
        ({"links__switch_slots": of(-1)}, "links.switch_slots.value", "at least 0"),
        ({"ports__slots": of(0)}, "ports.slots.value", "at least 1"),
        ({"off_chip__bytes_per_s": of(float("inf"))}, "off_chip.bytes_per_s.value", "finite"),
        ({"off_chip__latency_s": of(1)}, "off_chip", "must not exceed 1000 slots"),
        ({"off_chip__bytes_per_s": of(1)}, "off_chip", "must not exceed 1000 slots"),
        ({"compute__flops": of(3)}, "compute.flops", "at most 1000 tiles while a compute unit multiplies one"),
        ({"configuration_s": of(-1)}, "configuration_s.value", "at least 0"),
        ({"linsk": {}}, "linsk", "unknown key"),
    ],
)
def test_a_faulty_fabric_is_refused_with_the_key_and_the_rule(tmp_path, changes, key, rule):
    fault = fault_of(fabric, written(tmp_path, **changes))
    assert fault.file.endswith("own.yaml")
    assert fault.key == key
    assert rule in fault.rule


def test_misspelt_names_get_the_nearest_one(tmp_path):
    assert fault_of(fabric, "plasticine").suggestion == "plasticine-8x16"
    assert fault_of(fabric, written(tmp_path, linsk={})).suggestion == "links"
    assert fault_of(operator_slots, "streeming").suggestion == "streaming"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tracks": 0}, "tracks"),
        ({"rows": 65}, "rows"),
        ({"compute_flops": float("nan")}, "compute_flops"),
        ({"switch_slots": -1}, "switch_slots"),
        ({"min_flow_flits": 7}, "min_flow_flits"),
        ({"absent": ((0, 1), (1, 0))}, "unreachable"),
    ],
)
def test_fabrics_made_by_programs_keep_the_same_rules(changes, name):
    with pytest.raises(ValueError, match=name):
        replace(PLASTICINE, **changes)


@pytest.mark.parametrize("name", spec_names("operator_slots"))
def test_every_operator_has_its_slots_and_their_source(name):
    spec = operator_slots_spec(name)
    table = operator_slots(name)
    assert {kind: each.value for kind, each in spec.slots.items()} == table.slots
    assert all(len(each.source) > 10 for each in spec.slots.values())
    assert table.work_slots("gemm", 12) == 12
    assert table.work_slots("softmax", 3) == 6


def test_an_operator_without_an_entry_is_refused(tmp_path):
    file = tmp_path / "slots.yaml"
    file.write_text("name: own\nslots:\n  gemm: {value: 0.3, source: a test}\n  add: {value: 1, source: a test}\n")
    assert operator_slots(file).work_slots("gemm", 4) == 2
    fault = fault_of(operator_slots(file).work_slots, "softmax", 1)
    assert (fault.file, fault.key, fault.suggestion) == (str(file), "slots.softmax", None)
    assert fault.rule.endswith("the table has gemm, add")
    with pytest.raises(InputError) as raised:
        operator_slots(file).require(("gelu", "gemm", "softmax", "gelu"))
    assert [each.key for each in raised.value.faults] == ["slots.gelu", "slots.softmax"]
    file.write_text("name: own\nslots:\n  gem: {value: 1, source: a test}\n")
    fault = fault_of(operator_slots, file)
    assert (fault.file, fault.key, fault.suggestion) == (str(file), "slots.gem", "gemm")
    file.write_text("name: own\nslots:\n  gemm: {value: 0, source: a test}\n")
    assert fault_of(operator_slots, file).key == "slots.gemm.value"
