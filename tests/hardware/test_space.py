"""Area formula and architecture space: the published numbers."""

import math

import numpy as np
import pytest
import yaml

from hardware.area import area_model
from hardware.cost_model import cost_model
from hardware.inputs import InputError
from hardware.machines import Machines
from hardware.space import (
    SpaceSpec,
    architecture_space,
    smallest_area_mm2,
    space_spec,
    template_machines,
    template_points,
)


def columns(machines, *names):
    return np.unique(np.stack([getattr(machines, name) for name in names]), axis=1).shape[1]


def test_reference_area_is_the_published_budget():
    assert area_model().reference_um2 == pytest.approx(278_826_676.3064, rel=1e-12)


def test_the_area_of_a_machine_is_the_one_computed_by_hand():
    # 2 tensor cores 4x2 (L2 1 KiB), 4 vector cores of 4 (L2 1 KiB), 16 MiB
    by_hand = 2 * (8 * 760.0414 + 6133.98) + 4 * (4 * 759.82385 + 6133.98) + 23745200
    one = template_machines(*(np.array([size]) for size in (2, 4, 4, 2, 16)))
    assert one.area_mm2[0] == pytest.approx(by_hand * 1e-6, rel=1e-12)
    sizes = (one.tensor_l2_bytes[0], one.vector_l2_bytes[0], one.global_buffer_bytes[0])
    assert sizes == (1024, 1024, 16 * 2**20)


def test_interfaces_take_area_in_proportion_to_their_bandwidths():
    # Of an A100: five stacks of 10.45 mm² and 552.743 million transistors, twelve links of 1.888 and 74.632 million.
    by_hand = 5 * (10.45 + 552.743 / 19.9) + 12 * (1.888 + 74.632 / 19.9)
    assert area_model().interface_mm2(5 * 407.8e9, 12 * 25e9) == pytest.approx(by_hand, rel=1e-12)
    assert area_model().interface_mm2(407.8e9, 0) == pytest.approx(10.45 + 552.743 / 19.9, rel=1e-12)


def test_transistors_per_mm2_lie_between_the_published_processes():
    share = math.log(28 / 22) / math.log(28 / 20)
    published = 15.3e6 ** (1 - share) * 22.1e6**share
    assert area_model().transistors_per_mm2.value == pytest.approx(published, rel=2e-3)


def test_l2_grows_with_the_core_from_a_kibibyte_to_a_mebibyte():
    assert area_model().l2_bytes(np.array([4, 64, 65, 128 * 128, 256 * 256])).tolist() == [
        1024,
        1024,
        1040,
        262144,
        1048576,
    ]


def test_space_has_the_published_size():
    machines = architecture_space(model=cost_model("phaze-2024"))
    assert len(template_points(space_spec("phaze-2024"))[0]) == 75_712
    assert len(machines) == 29_360
    assert columns(machines, "tensor_cores", "core_width", "core_depth", "global_buffer_bytes") == 4_186
    assert columns(machines, "vector_cores", "vector_lanes", "global_buffer_bytes") == 697


def test_the_space_has_every_machine_within_the_budget():
    machines = architecture_space()
    tensor_cores, vector_cores, width, depth, buffer_mib = template_points()
    area_um2 = area_model().area_um2(tensor_cores, width, depth, vector_cores, buffer_mib)
    assert len(area_um2) == space_spec().points == 86_528
    assert len(machines) == (area_um2 <= area_model().reference_um2).sum() == 59_748
    assert (machines.global_buffer_bytes >= 2**21).sum() == 51_943
    assert machines.area_mm2.max() == pytest.approx(area_model().reference_um2 * 1e-6)


def test_a_space_that_its_floor_empties_is_refused_with_the_largest_area_and_the_floor():
    values = {"tensor_cores": [2, 4], "vector_cores": [2, 4], "core_widths": [4], "core_depths": [4]}
    sizes = {key: {"source": "a test", "values": each} for key, each in (values | {"global_buffer_mib": [2]}).items()}
    floor = {"source": "a test", "value": 0.5}
    space = SpaceSpec.model_validate({"name": "small", "min_share_of_budget": floor, **sizes})
    largest_mm2 = architecture_space(5.0, space=space).area_mm2.max()
    with pytest.raises(InputError, match=rf"area_budget_mm2: 100: .*small: .*{largest_mm2:.6g} mm², .* 50 mm²"):
        architecture_space(100.0, space=space)


def test_a_larger_budget_leaves_out_no_machine_of_a_smaller_one():
    sizes = [
        {tuple(row) for row in np.stack([m.tensor_cores, m.vector_cores, m.core_width, m.core_depth]).T}
        for m in map(architecture_space, (10.0, 25.0, 100.0))
    ]
    assert sizes[0] <= sizes[1] <= sizes[2]


def test_the_published_space_keeps_the_area_rule():
    machines = architecture_space(model=cost_model("phaze-2024"))
    budget_mm2 = area_model().reference_um2 * 1e-6
    single = (machines.tensor_cores == 1) | (machines.vector_cores == 1)
    assert machines.area_mm2.max() <= budget_mm2 * (1 + 1e-12)
    assert machines.area_mm2[~single].min() >= 0.3 * budget_mm2
    assert machines.area_mm2[single].min() < 0.3 * budget_mm2
    assert (machines.vector_lanes == machines.core_width).all()


def space_document(**changes):
    document = {
        "name": "mine",
        "tensor_cores": {"source": "a test", "values": [3, 1]},
        "vector_cores": {"source": "a test", "values": [2]},
        "core_widths": {"source": "a test", "values": [24, 16]},
        "core_depths": {"source": "a test", "values": [40]},
        "global_buffer_mib": {"source": "a test", "values": [3, 1]},
    }
    for key, value in changes.items():
        if value is None:
            del document[key]
        else:
            document[key] = value
    return document


def written(folder, **changes):
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(space_document(**changes)), encoding="utf-8")
    return path


def test_a_users_own_space_has_every_combination_of_its_sizes(tmp_path):
    machines = architecture_space(space=space_spec(written(tmp_path)))
    assert machines.tensor_cores.tolist() == [1, 1, 1, 1, 3, 3, 3, 3]
    assert machines.core_width.tolist() == [16, 16, 24, 24] * 2
    assert (machines.global_buffer_bytes // 2**20).tolist() == [1, 3] * 4
    assert set(machines.core_depth) == {40}
    assert machines.tensor_l2_bytes[0] == 16 * 16 * 40


def test_a_share_of_the_budget_leaves_out_small_machines_with_several_cores_of_a_kind(tmp_path):
    share = {"value": 0.5, "source": "a test"}
    machines = architecture_space(20.0, space=space_spec(written(tmp_path, min_share_of_budget=share)))
    assert set(machines.tensor_cores) == {1}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"core_depths": None}, "core_depths: the key is missing"),
        ({"lanes": {"source": "a test", "values": [1]}}, "lanes: unknown key"),
        ({"tensor_cores": {"source": "a test", "values": []}}, "tensor_cores.values"),
        ({"tensor_cores": {"source": "a test", "values": [2, 2]}}, "must be unique"),
        ({"tensor_cores": {"source": "a test", "values": [0]}}, "greater than 0"),
        ({"tensor_cores": {"values": [1]}}, "tensor_cores.source: the key is missing"),
        ({"global_buffer_mib": {"source": "a test", "values": [256]}}, "at most 128, but has 256"),
        ({"core_widths": {"source": "a test", "values": [2**20]}}, "needs an L2 of more than 128 MiB"),
        ({"core_widths": {"source": "a test", "values": [2**14]}}, "must hold the operands of a core of 16384 x 40"),
        (
            {key: {"source": "a test", "values": list(range(1, 1501))} for key in ("tensor_cores", "vector_cores")},
            "at most 5,000,000 points, but has 9,000,000",
        ),
        ({"min_share_of_budget": {"value": 1.5, "source": "a test"}}, "at most 1"),
    ],
)
def test_a_broken_space_file_gives_one_line(tmp_path, changes, rule):
    with pytest.raises(InputError) as caught:
        space_spec(written(tmp_path, **changes))
    (fault,) = caught.value.faults
    assert rule in str(fault)
    assert "\n" not in str(fault)


def test_memories_between_the_sizes_of_the_tables_have_areas_between_theirs():
    area = area_model()
    sizes = np.unique(np.geomspace(1024, 128 * 2**20, 400).astype(np.int64))
    areas = area.sram_um2(sizes)
    assert (np.diff(areas) > 0).all()
    known = {**area.l2_um2.values, **{size * 2**20: um2 for size, um2 in area.global_buffer_um2.values.items()}}
    assert area.sram_um2(np.array(list(known))).tolist() == list(known.values())
    # Half way on a logarithmic scale: the geometric mean of the neighbours.
    between = area.sram_um2(np.array([2**14]) * 2**10 * 3 // 2)[0]
    share = math.log2(1.5)
    assert between == pytest.approx(known[2**24] ** (1 - share) * known[2**25] ** share, rel=1e-12)
    for outside in (1023, 128 * 2**20 + 1):
        with pytest.raises(ValueError, match="1024 to 134217728 bytes"):
            area.sram_um2(np.array([outside]))


def test_space_order_is_lexicographic():
    machines = architecture_space()
    keys = (
        machines.tensor_cores,
        machines.vector_cores,
        machines.core_width,
        machines.core_depth,
        machines.global_buffer_bytes,
    )
    assert (np.lexsort(keys[::-1]) == np.arange(len(machines))).all()


def test_the_reference_machine_is_in_the_space_and_the_largest():
    machines = architecture_space()
    largest = int(np.argmax(machines.area_mm2))
    assert machines.describe(largest).startswith("8 tensor cores 128×128, 2 vector cores of 128, 128 MiB")
    assert machines.peak_flops[largest] == pytest.approx(2 * 8 * 128 * 128 * 1.05e9)


def test_a_smaller_budget_keeps_fewer_machines():
    small = architecture_space(100.0)
    assert 0 < len(small) < 59_748
    assert small.area_mm2.max() <= 100.0


def test_a_budget_of_exactly_the_smallest_machine_keeps_it():
    smallest_mm2 = float(architecture_space().area_mm2.min())
    assert smallest_mm2 == smallest_area_mm2(space_spec())
    assert len(architecture_space(smallest_mm2)) == 1


@pytest.mark.parametrize("budget_mm2", [1.6, 1e-6])
def test_a_budget_below_the_smallest_machine_names_its_area(budget_mm2):
    with pytest.raises(InputError, match=r"must be at least 1\.65096 mm²"):
        architecture_space(budget_mm2)


@pytest.mark.parametrize("budget_mm2", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_is_no_positive_number_is_refused(budget_mm2):
    with pytest.raises(InputError, match="must be a positive number"):
        architecture_space(budget_mm2)


def test_taking_machines_keeps_their_order():
    machines = architecture_space()
    taken = machines.take([5, 3, 5])
    assert len(taken) == 3
    assert taken.area_mm2.tolist() == machines.area_mm2[[5, 3, 5]].tolist()
    assert machines.one(7).describe(0) == machines.describe(7)
    mask = machines.tensor_cores == 8
    assert (machines.take(mask).tensor_cores == 8).all()


def test_machines_cannot_be_changed():
    machines = architecture_space(10.0)
    with pytest.raises(ValueError, match="read-only"):
        machines.tensor_cores[0] = 3


def test_machines_of_unequal_arrays_are_refused():
    one = template_machines(*(np.array([size]) for size in (8, 2, 128, 128, 128)))
    arrays = {name: getattr(one, name) for name in one.__dataclass_fields__}
    arrays["core_width"] = np.array([1, 2])
    with pytest.raises(ValueError, match="core_width must have shape"):
        Machines(**arrays)
