"""Published figures of silicon (``*.csv``, a source a row), and real dies as designs of :mod:`hardware.silicon`."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from hardware.silicon.design import Die, Package
from hardware.silicon.tables import NO_MEMORY, STYLES
from hardware.units import GIGA, MEGA

_KIB = 1024
_TILED = {"mi300x-xcd": "mi300x"}
_CACHE_DIE = "mi300x-iod"
"""The die that memory and links of the MI300X are on, whose row states those of the package at its compute die."""


@dataclass(frozen=True)
class RealChip:
    """A chip of the table.

    Attributes:
        name: of its row, or of the package.
        package: its sizes.
        is_fitted: whether constants may be fitted to it.
        power_w: the most that was measured, else the power that it is sold for; None where neither is published.
        idle_w: measured; None where it was not.
        cap_w: the power that it is sold for.
        peak_tflops: published, 16 bits.
        is_clock_published: and not derived from the peak.
    """

    name: str
    package: Package
    is_fitted: bool
    power_w: float | None
    idle_w: float | None
    cap_w: float | None
    peak_tflops: float | None
    is_clock_published: bool


def rows() -> list[dict[str, str]]:
    """Rows of real dies."""
    return table("dies")


def table(name: str) -> list[dict[str, str]]:
    """Rows of a table of the folder: dies, bills, servers, blocks or designs."""
    text = resources.files("dse.reproduce.silicon").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def number(row: Mapping[str, str], key: str) -> float:
    """A cell as a number; 0 where it is empty."""
    return float(row[key] or 0)


def die_of(row: Mapping[str, str]) -> Die:
    """The die of a row; of an unknown process, in 7 nm."""
    (style,) = (each for each in STYLES if each == row["style"])
    cores, count = number(row, "cores_physical_per_die"), number(row, "dies_per_package") or 1
    enabled = number(row, "cores_enabled_per_package") / count
    kind = row["mem_kind"].lower()
    is_cache_die, is_compute_die = row["name"] == _CACHE_DIE, row["name"] in _TILED
    sites = number(row, "mem_sites_per_die")
    if kind in ("lpddr5", "gddr6"):
        sites = number(row, "mem_stacks")
    links = number(row, "scaleup_gb_per_s_dir") * GIGA / count
    return Die(
        node=int(number(row, "node_nm") or 7),
        style=style,
        cores=cores,
        spare_cores=cores - enabled if cores else 0,
        macs_per_core=number(row, "macs16_per_core"),
        lanes_per_core=number(row, "fp32_lanes_per_core"),
        fp64_lanes_per_core=number(row, "fp64_lanes_per_core"),
        local_mib_per_core=(number(row, "local_sram_kib_per_core") + number(row, "regfile_kib_per_core")) / _KIB,
        shared_mib=number(row, "shared_sram_mib_per_die"),
        memory=NO_MEMORY if is_compute_die or not sites else kind,
        memory_sites=sites,
        link_bytes_per_s=0.0 if is_compute_die else 112 * GIGA if is_cache_die else links,
        d2d_bytes_per_s=number(row, "d2d_gb_per_s") * GIGA,
        host=number(row, "host"),
        is_stacked=is_compute_die,
        has_8bit=number(row, "macs8_per_core") > number(row, "macs16_per_core"),
        has_4bit=number(row, "macs4_per_core") > 0,
    )


def design_of(row: Mapping[str, str]) -> Die:
    """The die of a design of LLMCompass."""
    (style,) = (each for each in STYLES if each == row["style"])
    return Die(
        node=int(row["node_nm"]),
        style=style,
        cores=number(row, "cores"),
        macs_per_core=number(row, "macs_per_core"),
        lanes_per_core=number(row, "lanes_per_core"),
        fp64_lanes_per_core=number(row, "fp64_lanes_per_core"),
        local_mib_per_core=number(row, "local_kib_per_core") / _KIB,
        shared_mib=number(row, "shared_mib"),
        memory=row["memory"],
        memory_sites=number(row, "memory_sites"),
        link_bytes_per_s=number(row, "link_gb_per_s") * GIGA,
        host=number(row, "host"),
    )


def chips() -> list[RealChip]:
    """Chips of the table that have a clock."""
    listed = {row["name"]: row for row in rows()}
    found = []
    for row in listed.values():
        if not row["clock_mhz"]:
            continue
        dies = [(die_of(row), int(number(row, "dies_per_package") or 1))]
        if row["name"] in _TILED:
            dies.append((die_of(listed[_CACHE_DIE]), 4))
        kind, power = row["mem_kind"].lower(), row["measured_max_w"] or row["tdp_w"]
        package = Package(
            dies=tuple(dies),
            clock_hz=number(row, "clock_mhz") * MEGA,
            memory=kind,
            stacks=number(row, "mem_stacks"),
            memory_gb=number(row, "mem_gb"),
            memory_bytes_per_s=number(row, "mem_gb_per_s") * GIGA,
            cap_w=number(row, "tdp_w") or None,
        )
        found.append(
            RealChip(
                name=_TILED.get(row["name"], row["name"]),
                package=package,
                is_fitted=row["fitted"] == "yes",
                power_w=float(power) if power else None,
                idle_w=number(row, "idle_w") or None,
                cap_w=number(row, "tdp_w") or None,
                peak_tflops=number(row, "peak_16bit_tflops") or None,
                is_clock_published="from peak" not in row["src_compute"],
            )
        )
    return found
