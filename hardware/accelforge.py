"""An accelerator of the template as an architecture of AccelForge: the file that its mapper reads.

AccelForge counts bits, joules, seconds, square metres and watts. Its main memory, buffers and compute are those of the
template: HBM, the global buffer, the memory of each tensor core, a register for a weight in each element of the array,
and a scalar unit with the rate of the vector cores.
"""

from hardware.machines import Machines
from hardware.units import TERA

_BITS = 8


def accelforge_yaml(machines: Machines, hbm_bytes: int, title: str) -> str:
    """The file for the first of ``machines``, which has so much memory."""
    energy, clock = machines.energy, machines.clock_hz
    sizes = {name: int(getattr(machines, name)[0]) for name in ("global_buffer_bytes", "tensor_l2_bytes")}
    buffer_pj, core_pj = (
        float(energy.sram_pj_per_byte(each[:1])[0]) / _BITS
        for each in (machines.global_buffer_bytes, machines.tensor_l2_bytes)
    )
    buffer_rate = machines.global_buffer_words_per_cycle * machines.element_bytes * clock
    cores, width, depth = (int(getattr(machines, name)[0]) for name in ("tensor_cores", "core_width", "core_depth"))
    lanes = int(machines.vector_cores[0]) * int(machines.vector_lanes[0]) / cores
    joules = 1 / TERA

    def actions(pj: float, bytes_per_s: float) -> str:
        each = f"energy: {pj * joules:.6g}, latency: {0 if not bytes_per_s else 1 / (_BITS * bytes_per_s):.6g}"
        return f"    actions:\n    - {{name: read, {each}}}\n    - {{name: write, {each}}}\n"

    comment = " ".join(title.split())
    plain = "    leak_power: 0\n    area: 0\n"
    return (
        f"# {comment} for AccelForge; areas and leakage are left out ({float(machines.area_mm2[0]):.4g} mm² in all).\n"
        "arch:\n  nodes:\n"
        f"  - !Memory\n    name: MainMemory\n    size: {_BITS * hbm_bytes}\n{plain}"
        f"{actions(energy.hbm_pj_per_byte / _BITS, machines.hbm_bytes_per_s)}"
        "    tensors: {keep: ~Intermediates, may_keep: All}\n\n"
        f"  - !Memory\n    name: GlobalBuffer\n    size: {_BITS * sizes['global_buffer_bytes']}\n{plain}"
        f"{actions(buffer_pj, buffer_rate)}"
        "    tensors: {keep: ~MainMemory.tensors, may_keep: All}\n\n"
        f"  - !Memory\n    name: CoreBuffer\n    size: {_BITS * sizes['tensor_l2_bytes']}\n{plain}"
        f"    spatial: [{{name: core, fanout: {cores}}}]\n"
        f"{actions(core_pj, 0)}"
        "    tensors: {keep: input | output}\n\n"
        f"  - !Compute\n    name: VectorLanes\n{plain}"
        f"    actions:\n    - {{name: compute, energy: {energy.lane_cycle_pj * joules:.6g}, "
        f"latency: {1 / (clock * lanes):.6g}}}\n    enabled: len(All) == 2\n\n"
        "  - !Container\n    name: Array\n    spatial:\n"
        f"    - {{name: reuse_input, fanout: {width}, may_reuse: input, reuse: input, min_usage: 1}}\n"
        f"    - {{name: reuse_output, fanout: {depth}, may_reuse: output, reuse: output, min_usage: 1}}\n\n"
        f"  - !Memory\n    name: Register\n    size: weight.bits_per_value if weight else 0\n{plain}"
        f"{actions(0, 0)}    tensors: {{keep: weight}}\n\n"
        f"  - !Compute\n    name: MAC\n{plain}"
        f"    actions:\n    - {{name: compute, energy: {energy.multiply_accumulate_pj * joules:.6g}, "
        f"latency: {1 / clock:.6g}}}\n    enabled: len(All) == 3\n"
    )
