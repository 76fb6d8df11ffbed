"""The designs of the benchmark: ten families with ten sizes each, between 50 and 1,000 logic cells."""

import hashlib
from collections.abc import Iterator

from benchmarks.nextpnr.arithmetic import alu, counters, fir, mac, systolic
from benchmarks.nextpnr.control import crc, fifo, random_logic, sorter, state_machine
from benchmarks.nextpnr.design import Core, Design

FAMILIES = ("alu", "counters", "crc", "fifo", "fir", "fsm", "logic", "mac", "sorter", "systolic")


def designs() -> tuple[Design, ...]:
    """All designs, in order of the families."""
    return tuple(Design(family, core) for family in FAMILIES for core in _cores(family))


def designs_sha256() -> str:
    """A digest of all designs' texts: runs of another generator are not of these designs."""
    return hashlib.sha256("\n".join(design.verilog for design in designs()).encode()).hexdigest()


def _cores(family: str) -> Iterator[Core]:
    match family:
        case "alu":
            sizes = ((8, 4), (8, 8), (12, 8), (16, 4), (16, 8), (16, 12), (24, 4), (24, 12), (32, 8), (32, 12))
            yield from (alu(*size) for size in sizes)
        case "counters":
            flat, cascaded = ((8, 4), (12, 4), (16, 6), (24, 4), (32, 3)), ((6, 6), (8, 6), (12, 5), (16, 4), (24, 3))
            yield from (counters(*size, is_cascaded=False) for size in flat)
            yield from (counters(*size, is_cascaded=True) for size in cascaded)
        case "crc":
            sizes = ((8, 16), (12, 24), (16, 8), (16, 16), (16, 32), (24, 24), (24, 48), (32, 16), (32, 32), (32, 64))
            yield from (crc(*size) for size in sizes)
        case "fifo":
            rams, registers = ((8, 5), (8, 8), (16, 6), (24, 8), (32, 7)), ((4, 4), (8, 3), (8, 4), (12, 4), (8, 5))
            yield from (fifo(*size, is_in_registers=False) for size in rams)
            yield from (fifo(*size, is_in_registers=True) for size in registers)
        case "fir":
            direct, transposed = ((6, 3), (6, 5), (8, 4), (8, 6), (10, 5)), ((6, 4), (8, 3), (8, 5), (10, 4), (12, 5))
            yield from (fir(*size, is_transposed=False) for size in direct)
            yield from (fir(*size, is_transposed=True) for size in transposed)
        case "fsm":
            sizes = ((8, 8, 6), (12, 8, 8), (16, 12, 6), (16, 16, 12), (24, 12, 8))
            larger = ((24, 16, 16), (32, 12, 8), (32, 16, 16), (48, 16, 12), (64, 16, 16))
            yield from (state_machine(*size) for size in (*sizes, *larger))
        case "logic":
            sizes = ((16, 4), (16, 8), (24, 6), (24, 12), (32, 4), (32, 8), (40, 12), (48, 6), (64, 4), (64, 8))
            yield from (random_logic(*size) for size in sizes)
        case "mac":
            plain, pipelined = ((4, 1), (5, 2), (6, 1), (8, 1), (10, 1), (6, 3)), ((5, 2), (8, 1), (8, 2), (11, 1))
            yield from (mac(*size, is_pipelined=False) for size in plain)
            yield from (mac(*size, is_pipelined=True) for size in pipelined)
        case "sorter":
            sizes = ((4, 4, 1), (4, 6, 2), (4, 8, 4), (5, 5, 5), (5, 8, 1), (6, 4, 3), (6, 6, 2), (6, 8, 1), (8, 4, 2))
            yield from (sorter(*size) for size in (*sizes, (8, 6, 1)))
        case "systolic":
            sizes = ((2, 2, 3), (2, 2, 4), (2, 2, 6), (2, 3, 4), (2, 4, 3), (3, 3, 3), (3, 3, 4), (3, 4, 3), (4, 4, 2))
            yield from (systolic(*size) for size in (*sizes, (4, 4, 3)))
        case _:
            raise KeyError(family)
