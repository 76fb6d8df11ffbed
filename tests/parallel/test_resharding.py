"""Steps between layouts, on devices in numpy; the cheapest paths, against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.parallel.mesh import WHOLE, mesh_of
from dse.parallel.resharding import Fabric, paths_from, resharding, steps
from hardware.network_specs import network
from tests.parallel import devices

MESHES = ("4", "data=2,model=4", "data=2,model=3,last=2")


def collective_of(mesh, before, after):
    """What the step between two layouts does to the parts of devices."""
    (axis,) = [number for number in range(len(mesh.axes)) if before[number] != after[number]]
    size = mesh.axes[axis].size
    if before[axis] == WHOLE:
        return lambda parts: devices.own_slice(parts, axis, size, after[axis])
    if after[axis] == WHOLE:
        return lambda parts: devices.all_gather(parts, axis, before[axis])
    return lambda parts: devices.all_to_all(parts, axis, size, before[axis], after[axis])


@pytest.mark.parametrize("text", MESHES)
def test_every_step_makes_the_parts_that_its_layout_says(text):
    mesh, array = mesh_of(text), np.arange(24 * 12).reshape(24, 12)
    for layout in mesh.layouts(array.shape):
        for target, _ in steps(mesh, array.shape, array.nbytes, layout):
            parts = collective_of(mesh, layout, target)(devices.spread(array, layout, mesh))
            wanted = devices.spread(array, target, mesh)
            assert all(np.array_equal(parts[place], wanted[place]) for place in wanted), (layout, target)


@pytest.mark.parametrize("text", MESHES)
def test_every_layout_can_be_reached_from_every_other(text):
    mesh = mesh_of(text)
    layouts = set(mesh.layouts((24, 12)))
    for layout in layouts:
        assert set(paths_from(Fabric(mesh, network("nvlink3")), (24, 12), 1 << 20, layout)) == layouts


@pytest.mark.parametrize("text", MESHES)
def test_a_path_has_the_time_of_its_collectives_and_none_is_shorter(text):
    mesh = mesh_of(text)
    fabric = Fabric(mesh, network("dgx-a100"))
    dims, size = (24, 12), 1 << 22
    least = {}
    for layout in mesh.layouts(dims):
        for target, path in paths_from(fabric, dims, size, layout).items():
            assert path.picoseconds == sum(map(fabric.picoseconds, path.collectives))
            least[layout, target] = path.picoseconds
    for one, other in least:
        for target, collective in steps(mesh, dims, size, other):
            step = 0 if collective is None else fabric.picoseconds(collective)
            assert least[one, target] <= least[one, other] + step


@given(st.sampled_from(MESHES), st.integers(0, 2**40))
def test_nothing_is_sent_for_what_is_there_already(text, size):
    mesh = mesh_of(text)
    fabric = Fabric(mesh, network("nvlink3"))
    for layout in mesh.layouts((24,)):
        assert resharding(fabric, (24,), size, layout, layout).collectives == ()
        assert resharding(fabric, (24,), size, mesh.whole, layout).collectives == ()


def test_a_gather_over_both_axes_starts_with_the_innermost():
    mesh = mesh_of("data=2,model=4")
    path = resharding(Fabric(mesh, network("nvlink3")), (24, 12), 9600, (0, 0), mesh.whole)
    assert [(each.kind, each.axes, each.size_bytes) for each in path.collectives] == [
        ("all_gather", (1,), 4800),
        ("all_gather", (0,), 9600),
    ]


def test_layouts_are_those_whose_sizes_divide():
    mesh = mesh_of("data=2,model=4")
    expected = {
        layout
        for layout in product((WHOLE, 0, 1, 2), repeat=2)
        if all(
            size % np.prod([axis.size for axis, split in zip(mesh.axes, layout, strict=True) if split == dim]) == 0
            for dim, size in enumerate((8, 6, 4))
        )
    }
    assert set(mesh.layouts((8, 6, 4))) == expected
