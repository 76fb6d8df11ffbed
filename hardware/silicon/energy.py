"""Energy of one operation and of one byte by node, pJ, as :mod:`hardware.silicon.power` counts them at full rate."""

from hardware.silicon.interval import Interval
from hardware.silicon.tables import Fitted, Style, blocks, fitted, memories, nodes

_WORD_BITS, _BYTE_BITS = 16, 8


def multiply_accumulate_pj(node: int, operand_bits: int = _WORD_BITS, constants: Fitted | None = None) -> Interval:
    """One multiply-accumulate with all that delivers its operands on the chip.

    An array takes the same power in any format (FP8 and bf16 on H200), so that one of 8 bits costs half of one of 16.

    Raises:
        ValueError: ``operand_bits`` is not 4, 8 or 16.
    """
    if operand_bits not in (4, 8, _WORD_BITS):
        raise ValueError(f"`operand_bits` must be 4, 8 or 16, but got {operand_bits}")
    share = operand_bits / _WORD_BITS
    return _switched(node, blocks().mac_um2.value * share, constants)


def lane_cycle_pj(node: int, style: Style, constants: Fitted | None = None) -> Interval:
    """One cycle of a vector lane."""
    table = blocks()
    lane = table.simt_lane_um2 if style == "simt" else table.simd_lane_um2
    return _switched(node, lane.value, constants)


def memory_pj_per_byte(memory: str) -> Interval:
    """One byte read from or written to a kind of memory."""
    kind = memories()[memory]
    exact = Interval.exact
    bounds = (_BYTE_BITS * each for each in (kind.pj_per_bit, kind.pj_low, kind.pj_high))
    return Interval(*(exact(each).value for each in bounds))


def _switched(node: int, area_um2: float, constants: Fitted | None) -> Interval:
    return (constants or fitted()).switching_pj_per_um2.times(area_um2 * nodes()[node].energy)
