"""The one place where units are converted.

Public numbers carry their unit as a suffix (``_s``, ``_bytes``, ``_hz``, ``_flops``, ``_mm2``, ``_cycles``); people
write gigabytes, megahertz and square micrometres. Memory sizes are binary (the field's "32 GB of HBM" is 32 GiB),
bandwidths are decimal, as vendors print them.
"""

KIB = 1024
MIB = 1024**2
GIB = 1024**3

MEGA = 1e6
GIGA = 1e9
TERA = 1e12

UM2_PER_MM2 = 1e6


def bytes_from_gib(size_gib: float) -> int:
    """Memory size in bytes of ``size_gib`` binary gigabytes."""
    return round(size_gib * GIB)


def gib_from_bytes(size_bytes: float) -> float:
    """Memory size in binary gigabytes of ``size_bytes`` bytes."""
    return size_bytes / GIB
