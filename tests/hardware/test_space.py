"""Area formula and architecture space: the published numbers."""

import math

import numpy as np
import pytest

from hardware.area import area_model
from hardware.cost_model import cost_model
from hardware.inputs import InputError
from hardware.machines import Machines
from hardware.space import architecture_space, template_machines, template_points


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
    assert len(template_points()[0]) == 75_712
    assert len(machines) == 29_360
    assert columns(machines, "tensor_cores", "core_width", "core_depth", "global_buffer_bytes") == 4_186
    assert columns(machines, "vector_cores", "vector_lanes", "global_buffer_bytes") == 697


def test_the_space_has_every_machine_within_the_budget():
    machines = architecture_space()
    tensor_cores, vector_cores, width, depth, buffer_mib = template_points()
    area_um2 = area_model().area_um2(tensor_cores, width, depth, vector_cores, buffer_mib)
    assert len(machines) == (area_um2 <= area_model().reference_um2).sum() == 51_943
    assert machines.area_mm2.max() == pytest.approx(area_model().reference_um2 * 1e-6)


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
    assert 0 < len(small) < 51_943
    assert small.area_mm2.max() <= 100.0


def test_a_budget_of_exactly_the_smallest_machine_keeps_it():
    smallest_mm2 = float(architecture_space().area_mm2.min())
    assert len(architecture_space(smallest_mm2)) == 1


@pytest.mark.parametrize("budget_mm2", [3.0, 1e-6])
def test_a_budget_below_the_smallest_machine_names_its_area(budget_mm2):
    with pytest.raises(InputError, match=r"smallest architecture, which has 3\.35505 mm²"):
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
