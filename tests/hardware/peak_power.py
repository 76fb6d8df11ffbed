"""A bound on the average power of an accelerator."""

import numpy as np

from hardware.energy import static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Floats, Machines
from hardware.network import Network

_WORDS_PER_LANE_CYCLE = 3
"""Two operands are read, a result is written."""


def peak_w(machines: Machines, hbm_bytes: float, network: Network | None, model: EnergyModel) -> Floats:
    """Watts with every unit busy in every cycle and every memory and link at its full bandwidth, [A].

    A bound on average power under cost rules that charge time for all that moves (``consistent``), for operations on
    all cores: each level of :func:`operation_energy` is work that takes its share of the operation's time at the rate
    that is counted here. (Operators side by side on single cores have the energy of their mapping on all cores, which
    a single core would not need; that their power stays below the peak, too, is tested, not proven.)
    The L2 of a core fill no faster than they feed the array, and that of a vector core feeds each lane with as many
    words a cycle as the lane has register accesses. A link at full rate reads and writes HBM as fast.
    """
    rules, word_bytes = machines.rules, machines.element_bytes
    elements = machines.tensor_cores * machines.core_width * machines.core_depth
    lanes = machines.vector_cores * machines.vector_lanes
    edges = machines.core_width + machines.core_depth if rules.core_bandwidth.rule == "edges" else 1
    cores = 1 if rules.core_bandwidth.rule == "chip" else machines.tensor_cores
    directions = 2  # reads and writes have a port each
    l2_words = 2 * directions * rules.core_bandwidth.words_per_cycle * edges * cores
    lane_words = 2 * _WORDS_PER_LANE_CYCLE * lanes
    hbm_bytes_per_s = machines.hbm_bytes_per_s * (1 if rules.hbm_shares_reads_and_writes.value else directions)
    buffer_bytes_per_s = directions * machines.global_buffer_words_per_cycle * word_bytes * machines.clock_hz
    cycle_pj = (
        elements * model.multiply_accumulate_pj
        + lanes * model.lane_cycle_pj
        + l2_words * word_bytes * model.sram_pj_per_byte(machines.tensor_l2_bytes)
        + lane_words * word_bytes * model.sram_pj_per_byte(machines.vector_l2_bytes)
    )
    buffer_pj_per_byte = model.sram_pj_per_byte(machines.global_buffer_bytes)
    memory_pj_per_s = buffer_bytes_per_s * buffer_pj_per_byte
    memory_pj_per_s += hbm_bytes_per_s * (buffer_pj_per_byte + model.hbm_pj_per_byte)
    link_bytes_per_s = 0.0 if network is None else max(network.accelerator_bytes_per_s, network.node_bytes_per_s)
    sent_pj_per_byte = model.network_pj_per_byte + 2 * model.hbm_pj_per_byte
    dynamic_w = 1e-12 * (cycle_pj * machines.clock_hz + memory_pj_per_s + link_bytes_per_s * sent_pj_per_byte)
    return np.asarray(dynamic_w + static_w(machines, hbm_bytes, model), dtype=np.float64)
