import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hardware.inputs import InputError
from hardware.network import Network, list_networks, network, network_spec

KINDS = ("all_reduce", "reduce_scatter", "all_gather")
SIZES = st.integers(0, 10**13)
NETWORKS = st.sampled_from([network(name) for name in list_networks()])


def enumerated_s(net: Network, kind: str, size_bytes: float, participants: int, parts: int = 64) -> float:
    """The definition: the minimum over α–β lines, on a fine grid of channel counts."""
    steps = (2 if kind == "all_reduce" else 1) * (participants - 1)
    if steps == 0 or size_bytes == 0:
        return 0.0
    counts = [1 + i / parts for i in range((net.channels - 1) * parts + 1)]
    wire_s = steps * size_bytes / participants * net.channels / net.bytes_per_s
    return net.launch_s + min(steps * n * net.latency_s + wire_s / n for n in counts)


@given(NETWORKS, st.sampled_from(KINDS), SIZES, st.integers(1, 2048))
def test_the_closed_form_equals_the_minimum_over_lines(net, kind, size_bytes, participants):
    closed_s = net.collective_s(kind, size_bytes, participants)
    grid_s = enumerated_s(net, kind, size_bytes, participants)
    assert closed_s <= grid_s * (1 + 1e-9)
    assert closed_s >= grid_s * (1 - 1e-3)


@given(NETWORKS, st.sampled_from(KINDS), SIZES, SIZES, st.integers(1, 64), st.integers(1, 64))
def test_more_bytes_or_more_participants_are_never_faster(net, kind, some, others, few, many):
    (small, large), (few, many) = sorted((some, others)), sorted((few, many))
    assert net.collective_s(kind, small, few) <= net.collective_s(kind, large, few) * (1 + 1e-12)
    assert net.collective_s(kind, large, few) <= net.collective_s(kind, large, many) * (1 + 1e-12)
    assert net.transfer_s(small) <= net.transfer_s(large) * (1 + 1e-12)


@given(SIZES, st.integers(2, 1024), st.floats(1.0, 10.0))
def test_more_bandwidth_is_never_slower(size_bytes, participants, factor):
    slow = network("nvlink3")
    fast = Network("fast", slow.bytes_per_s * factor, slow.latency_s, slow.launch_s, slow.channels)
    assert fast.collective_s("all_reduce", size_bytes, participants) <= slow.collective_s(
        "all_reduce", size_bytes, participants
    ) * (1 + 1e-12)


@given(st.integers(1, 10**12), st.integers(1, 1024))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(size_bytes, participants):
    net = network("tpuv4")
    halves_s = sum(net.collective_s(kind, size_bytes, participants) for kind in ("reduce_scatter", "all_gather"))
    assert net.collective_s("all_reduce", size_bytes, participants) == pytest.approx(halves_s, rel=1e-12)


def test_a_flat_network_is_the_formula_of_the_paper():
    net = network("phaze-flat")
    assert net.bytes_per_s == 4 * 1024**3
    assert net.collective_s("all_reduce", 1e9, 8) == pytest.approx(2 * 7 / 8 * 1e9 / 4294967296, rel=1e-12)
    assert net.transfer_s(1e9) == pytest.approx(1e9 / 4294967296, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"), [("tpuv4", 300e9), ("nvlink3", 300e9), ("nvlink2", 150e9), ("infiniband-hdr", 25e9)]
)
def test_links_add_up_to_the_published_rate(name, bytes_per_s):
    spec = network_spec(name)
    assert spec.links.value * spec.link_bytes_per_s.value == bytes_per_s
    assert network(name).bytes_per_s == pytest.approx(bytes_per_s * spec.efficiency.value, rel=1e-12)


def test_small_messages_use_one_channel_and_large_ones_all():
    net = Network("two lines", bytes_per_s=1e9, latency_s=1e-6, launch_s=5e-6, channels=4)
    assert net.transfer_s(1) == pytest.approx(5e-6 + 1e-6 + 4e-9, rel=1e-12)
    assert net.transfer_s(1e9) == pytest.approx(5e-6 + 4e-6 + 1.0, rel=1e-12)
    # in between: as many channels as make latency and transfer equal, here two
    assert net.transfer_s(1000) == pytest.approx(5e-6 + 2e-6 + 2e-6, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_do_costs_nothing(kind):
    net = network("nvlink3")
    assert net.collective_s(kind, 1e6, 1) == 0.0
    assert net.collective_s(kind, 0, 8) == 0.0
    assert net.transfer_s(0) == 0.0


def test_impossible_arguments_are_refused_with_the_rule():
    net = network("nvlink3")
    with pytest.raises(ValueError, match=r"participants >= 1.*got 0"):
        net.collective_s("all_reduce", 1e6, 0)
    with pytest.raises(ValueError, match=r"size_bytes >= 0.*got -1"):
        net.transfer_s(-1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("bytes_per_s", 0.0), ("bytes_per_s", math.inf), ("latency_s", -1e-6), ("launch_s", math.nan), ("channels", 0)],
)
def test_impossible_networks_are_refused(field, value):
    fields = {"name": "n", "bytes_per_s": 1e9, "latency_s": 0.0, "launch_s": 0.0, "channels": 1, field: value}
    with pytest.raises(ValueError, match=field):
        Network(**fields)


def test_every_constant_of_every_spec_has_a_source():
    for name in list_networks():
        spec = network_spec(name)
        assert spec.name == name
        for field in set(type(spec).model_fields) - {"name", "description"}:
            assert len(getattr(spec, field).source) > 10, (name, field)


def test_an_unknown_network_offers_the_nearest_name():
    with pytest.raises(InputError) as caught:
        network("nvlink-3")
    assert "did you mean nvlink3?" in str(caught.value)
    assert "\n" not in str(caught.value)


GOOD = {
    "name": "mine",
    "links": {"value": 2, "source": "datasheet"},
    "link_bytes_per_s": {"value": 1e9, "source": "datasheet"},
    "efficiency": {"value": 0.9, "source": "measured"},
    "latency_s": {"value": 1e-6, "source": "measured"},
    "launch_s": {"value": 0, "source": "measured"},
    "channels": {"value": 1, "source": "datasheet"},
    "additions_included": {"value": False, "source": "datasheet"},
}


def test_a_network_is_read_from_a_users_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert network(path) == network(str(path)) == Network("mine", 1.8e9, 1e-6, 0.0, 1)


def changed(key: str, value: object) -> str:
    document = {name: dict(field) if isinstance(field, dict) else field for name, field in GOOD.items()}
    *parents, leaf = key.split(".")
    place = document[parents[0]] if parents else document
    if value is None:
        del place[leaf]
    else:
        place[leaf] = value
    return yaml.safe_dump(document)


BROKEN = [
    ("name", changed("name", None), "is missing"),
    ("name", changed("name", ""), "at least 1 character"),
    ("name", changed("name", ["mine"]), "valid string"),
    ("links", changed("links", None), "is missing"),
    ("links", changed("links", 2), "valid dictionary"),
    ("links.value", changed("links.value", 0), "greater than 0"),
    ("links.value", changed("links.value", 1.5), "valid integer"),
    ("links.value", changed("links.value", "two"), "valid integer"),
    ("links.source", changed("links.source", None), "is missing"),
    ("links.source", changed("links.source", ""), "at least"),
    ("links.unit", changed("links.unit", "1"), "unknown key"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", 0), "greater than 0"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", -1e9), "greater than 0"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", math.inf), "finite"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", math.nan), "finite"),
    ("efficiency.value", changed("efficiency.value", 1.1), "less than or equal to 1"),
    ("efficiency.value", changed("efficiency.value", 0), "greater than 0"),
    ("latency_s.value", changed("latency_s.value", -1e-9), "greater than or equal to 0"),
    ("latency_s.value", changed("latency_s.value", None), "is missing"),
    ("launch_s.value", changed("launch_s.value", "soon"), "valid number"),
    ("channels.value", changed("channels.value", -1), "greater than 0"),
    ("latency", changed("latency", {"value": 1, "source": "datasheet"}), "unknown key"),
    ("", "- a\n- list\n", "must be an object"),
    ("", "", "must be an object"),
    ("line 2", "links: {value: 1\n", "not well-formed YAML"),
    ("line 2", "name: a\nname: b\n", "stands twice"),
]


@pytest.mark.parametrize(("key", "text", "rule"), BROKEN)
def test_a_broken_spec_is_one_line_with_file_key_and_rule(tmp_path, key, text, rule):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        network(path)
    assert len(caught.value.faults) == 1
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    assert key in line
    assert rule in line


def test_a_misspelt_key_offers_the_right_one(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(changed("descripton", "typo"))
    with pytest.raises(InputError, match="did you mean description"):
        network(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.yaml.*cannot be read"):
        network(tmp_path / "gone.yaml")
