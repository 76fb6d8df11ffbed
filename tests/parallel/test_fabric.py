"""What collectives along the axes of a mesh take on several levels, against counting of every message."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.parallel.mesh import mesh_of
from dse.parallel.resharding import PICO, Collective, Fabric
from hardware.network import Network
from hardware.network_specs import network
from tests.parallel import fabric as slow

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
SIZE = 1 << 32


@st.composite
def networks(draw):
    """One to four levels of nodes of 2, 4 and 8 accelerators, some with links of their nodes."""
    sizes = draw(st.sampled_from([(), (2,), (4,), (8,), (2, 8), (4, 8), (2, 4, 8)]))
    joined = None
    for size in (0, *sizes):
        rate = draw(st.sampled_from([1e9, 3e9, 7e10]))
        joined = Network("level", rate, inner=joined, inner_accelerators=size, shared=draw(st.booleans()))
    return joined


@given(networks(), st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3), st.data())
def test_a_collective_takes_as_long_as_its_fullest_links(net, sizes, data):
    mesh = mesh_of(",".join(f"axis{number}={size}" for number, size in enumerate(sizes)))
    first = data.draw(st.integers(0, len(sizes) - 1))
    last = data.draw(st.integers(first, len(sizes) - 1))
    kind = data.draw(st.sampled_from(KINDS))
    axes = tuple(range(first, last + 1))
    expected_s = slow.seconds(kind, net, slow.groups_of(mesh, axes), SIZE)
    assert Fabric(mesh, net).picoseconds(Collective(kind, axes, SIZE)) == pytest.approx(expected_s / PICO, rel=1e-9)


@given(networks(), st.lists(st.sampled_from([2, 4]), min_size=3, max_size=3))
def test_an_all_reduce_over_axes_that_are_no_neighbours_is_nested(net, sizes):
    mesh = mesh_of(",".join(f"axis{number}={size}" for number, size in enumerate(sizes)))
    inner, outer = slow.groups_of(mesh, (2,)), slow.groups_of(mesh, (0,))
    expected_s = sum(slow.seconds(kind, net, inner, SIZE) for kind in ("reduce_scatter", "all_gather"))
    expected_s += slow.seconds("all_reduce", net, outer, SIZE / sizes[2])
    found_ps = Fabric(mesh, net).picoseconds(Collective("all_reduce", (0, 2), SIZE))
    assert found_ps == pytest.approx(expected_s / PICO, rel=1e-9)


def test_groups_of_a_mesh_share_the_links_of_their_servers():
    mesh = mesh_of("data=4,model=8")
    net = network("dapple")
    along_data = Fabric(mesh, net).picoseconds(Collective("all_reduce", (0,), 3_000_000_000))
    assert along_data == pytest.approx(8 * 1.5 / PICO)  # eight groups, each 2 · 3/4 of its bytes at 3 GB/s
    own = replace(net, shared=False)
    assert Fabric(mesh, own).picoseconds(Collective("all_reduce", (0,), 3_000_000_000)) == pytest.approx(1.5 / PICO)


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "tpuv4", "v100-ethernet", "dapple"])
def test_every_collective_of_a_mesh_has_a_time(name):
    """Meshes that cut servers unevenly, too."""
    for text in ("data=3,model=8", "data=4,model=8", "data=2,pipe=3,model=4", "16", "24", "32"):
        mesh = mesh_of(text)
        fabric = Fabric(mesh, network(name).spanning(mesh.devices))
        for count in range(1, len(mesh.axes) + 1):
            for axes in combinations(range(len(mesh.axes)), count):
                assert fabric.picoseconds(Collective("all_reduce", axes, 1 << 20)) > 0
