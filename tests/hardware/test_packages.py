"""Package specs: what they hold, how one takes after another, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from hardware.inputs import InputError
from hardware.packages import MAX_CHIPS, list_packages, package, package_spec

RING = package("mcm-36")


def written(tmp_path, file_name, **changes):
    """A copy of the ring's spec with some keys replaced (``chip__launch_s`` is ``launch_s`` in ``chip``)."""
    document = package_spec("mcm-36").model_dump()
    for path, value in changes.items():
        place, *keys = document, *path.split("__")
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    file = tmp_path / file_name
    file.write_text(yaml.safe_dump(document))
    return file


def constants(document, path=""):
    """Every leaf of a spec with its path."""
    if not isinstance(document, dict):
        yield path, document
        return
    for key, value in document.items():
        yield from constants(value, f"{path}.{key}")


@pytest.mark.parametrize("name", list_packages())
def test_every_constant_of_a_built_in_package_has_its_source(name):
    document = package_spec(name).model_dump()
    values = [path for path, _ in constants(document) if path.endswith(".value")]
    sources = {path for path, value in constants(document) if path.endswith(".source") and len(value) > 10}
    assert {path.removesuffix(".value") for path in values} == {path.removesuffix(".source") for path in sources}
    assert len(values) == ({"mcm-36": 18, "coral-8": 14}.get(name, 1))
    assert package(name).name == name


def test_there_are_rings_of_4_8_16_and_36_chips_of_one_kind():
    for chips in (4, 8, 16):
        assert replace(package(f"mcm-{chips}"), name="mcm-36", chips=36) == RING
    assert RING.chips == 36


def test_the_roofline_prices_arrays_of_operators():
    flops = np.array([[2e12, 0.0], [1e12, np.nan]])
    moved_bytes = np.array([[0.0, 4e11], [4e11, 1.0]])
    latency_s = RING.latency_s(flops, moved_bytes)
    assert latency_s[~np.isnan(latency_s)] == pytest.approx([1.0000002, 2.0000002, 2.0000002])
    assert np.isnan(latency_s).tolist() == [[False, False], [False, True]]


def test_a_users_own_file_is_read_and_may_be_like_another(tmp_path):
    written(tmp_path, "own.yaml", name="own", chip__sram_bytes={"value": 1e6, "source": "a guess"})
    (tmp_path / "two.yaml").write_text("name: two\nchips: {value: 2, source: a pair}\nlike: own.yaml\n")
    two = package(tmp_path / "two.yaml")
    assert (two.name, two.chips, two.sram_bytes) == ("two", 2, 1e6)
    assert two.link_bytes_per_s == RING.link_bytes_per_s


def fault_of(path):
    with pytest.raises(InputError) as raised:
        package(path)
    (fault,) = raised.value.faults
    return fault


@pytest.mark.parametrize(
    ("changes", "key", "rule"),
    [
        ({"chips": {"value": 0, "source": "none"}}, "chips.value", "at least 1"),
        ({"chips": {"value": MAX_CHIPS + 1, "source": "many"}}, "chips.value", "at most 64"),
        ({"chips": {"value": 2.5, "source": "half"}}, "chips.value", "a whole number"),
        ({"chips": {"value": 4}}, "chips.source", "missing"),
        ({"link__bytes_per_s": {"value": 0, "source": "none"}}, "link.bytes_per_s.value", "greater than 0"),
        ({"chip__peak_flops": {"value": -1, "source": "none"}}, "chip.peak_flops.value", "greater than 0"),
        ({"chip__launch_s": {"value": -1, "source": "none"}}, "chip.launch_s.value", "at least 0"),
        ({"weights__held": {"value": "steamed", "source": "hot"}}, "weights.held.value", "'resident' or 'streamed'"),
        ({"chip__sram_byte": {"value": 1, "source": "misspelt"}}, "chip.sram_byte", "unknown key"),
    ],
)
def test_a_faulty_file_is_refused_with_the_key_and_the_rule(tmp_path, changes, key, rule):
    fault = fault_of(written(tmp_path, "faulty.yaml", **changes))
    assert fault.key == key
    assert rule in fault.rule


def test_misspelt_names_get_the_nearest_one(tmp_path):
    assert fault_of("mcn-36").suggestion == "mcm-36"
    assert fault_of("mcm-63").suggestion is None  # another package
    assert fault_of(written(tmp_path, "a.yaml", chip__launchs_s={"value": 1, "source": "misspelt"})).suggestion == (
        "launch_s"
    )
    (tmp_path / "b.yaml").write_text("name: b\nchips: {value: 2, source: a pair}\nlike: mcm-8\n")
    assert "fully described" in fault_of(tmp_path / "b.yaml").rule


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"chips": 0}, "chips"),
        ({"chips": 65}, "chips"),
        ({"peak_flops": 0.0}, "peak_flops"),
        ({"hop_s": -1.0}, "hop_s"),
        ({"element_bytes": 0}, "element_bytes"),
    ],
)
def test_packages_made_by_programs_keep_the_same_rules(changes, name):
    with pytest.raises(ValueError, match=name):
        replace(RING, **changes)


def test_a_chip_is_refused_as_one_in_one_line(tmp_path):
    path = tmp_path / "chip.yaml"
    path.write_text("schema: dse.chip/1\nname: mine\n")
    with pytest.raises(
        InputError, match=r"schema: dse\.chip/1: is the form of a chip, but a package has chips"
    ) as refused:
        package(path)
    assert len(refused.value.faults) == 1
