"""Energy of one operation and of one byte by node, pJ, as :mod:`hardware.silicon.power` counts them at full rate.

What a package draws at full rate is what its operations, bytes and idle power add up to: joules of plans and the power
of ``dse chip`` are one model. An operation has the energy of all that delivers its operands on the chip, since measured
power does not tell these apart; so on-chip memories have none of their own.
"""

from typing import Literal, NamedTuple

from hardware.energy_model import EnergyModel
from hardware.silicon.design import Package
from hardware.silicon.interval import Interval
from hardware.silicon.power import power
from hardware.silicon.tables import Fitted, Style, blocks, energy_scale, fitted, memories
from hardware.units import GIGA

_WORD_BITS, _BYTE_BITS = 16, 8


def multiply_accumulate_pj(node: float, operand_bits: int = _WORD_BITS, constants: Fitted | None = None) -> Interval:
    """One multiply-accumulate with all that delivers its operands on the chip.

    An array takes the same power in any format (FP8 and bf16 on H200), so that one of 8 bits costs half of one of 16.

    Raises:
        ValueError: ``operand_bits`` is not 4, 8 or 16.
    """
    if operand_bits not in (4, 8, _WORD_BITS):
        raise ValueError(f"`operand_bits` must be 4, 8 or 16, but got {operand_bits}")
    share = operand_bits / _WORD_BITS
    return _switched(node, blocks().mac_um2.value * share, constants)


def lane_cycle_pj(node: float, style: Style, constants: Fitted | None = None) -> Interval:
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


def _switched(node: float, area_um2: float, constants: Fitted | None) -> Interval:
    return (constants or fitted()).switching_pj_per_um2.times(area_um2 * energy_scale(node))


class EnergyRange(NamedTuple):
    """What a package spends, and the least and the most that sources allow, with all constants at that end."""

    value: EnergyModel
    low: EnergyModel
    high: EnergyModel


_UNKNOWN_STYLE: Style = "simt"
_UNKNOWN_MEMORY = "hbm2"


def package_energy(package: Package, area_mm2: float, memory_gib: float) -> EnergyRange:
    """What a package spends, with idle power by the area and memory that its machine states."""
    die = max((each for each, _ in package.dies), key=lambda each: float(each.macs_per_core * each.working_cores))
    kind, nothing = package.memory_kind, Interval.exact(0.0)
    memory_w = 0.0 if kind is None else kind.idle_w * float(package.stacks)
    figures = (
        multiply_accumulate_pj(die.node),
        lane_cycle_pj(die.node, die.style),
        nothing if kind is None else memory_pj_per_byte(package.memory),
        blocks().link_pj_per_bit.interval * _BYTE_BITS,
        power(package).idle(package.clock_hz),
    )

    def bound(which: Literal["value", "low", "high"]) -> EnergyModel:
        multiply, lane, memory, link, idle_w = (float(getattr(each, which)) for each in figures)
        return EnergyModel(
            name=f"{die.node} nm {die.style}",
            multiply_accumulate_pj=multiply,
            lane_cycle_pj=lane,
            hbm_pj_per_byte=memory,
            network_pj_per_byte=link,
            idle_w_per_mm2=max(idle_w - memory_w, 0.0) / area_mm2,
            idle_w_per_hbm_gib=memory_w / memory_gib,
        )

    return EnergyRange(bound("value"), bound("low"), bound("high"))


def process_energy(process_nm: float, clock_hz: float) -> EnergyModel:
    """What a chip spends of which only the process is known: lanes of style ``simt``, and HBM2."""
    known, kind = fitted(), memories()[_UNKNOWN_MEMORY]
    ghz = clock_hz / GIGA
    return EnergyModel(
        name=f"{process_nm:g} nm",
        multiply_accumulate_pj=float(multiply_accumulate_pj(process_nm).value),
        lane_cycle_pj=float(lane_cycle_pj(process_nm, _UNKNOWN_STYLE).value),
        hbm_pj_per_byte=float(memory_pj_per_byte(_UNKNOWN_MEMORY).value),
        network_pj_per_byte=_BYTE_BITS * blocks().link_pj_per_bit.value,
        idle_w_per_mm2=known.static_w_per_mm2.value + known.tree_w_per_mm2_ghz.value * ghz,
        idle_w_per_hbm_gib=kind.idle_w / max(kind.gb),
    )
