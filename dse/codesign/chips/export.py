"""The chip of an answer as files that every command reads: ``chip.yaml`` with its network."""

from collections.abc import Mapping
from typing import Any

from dse.codesign.chips.problem import ChipProblem
from hardware.chip_space import Memory
from hardware.chip_spec import SCHEMA
from hardware.precisions import ELEMENT_BYTES
from hardware.units import KIB

CHIP_FILE, NETWORK_FILE, LINK_FILE = "chip.yaml", "network.yaml", "link.yaml"


def chip_files(problem: ChipProblem, chip: Mapping[str, Any]) -> dict[str, str | bytes]:
    """``dse.chip/1`` and the network of a chip, by file name: for ``dse chip``, ``dse plan --on`` and others."""
    import yaml

    documents = {CHIP_FILE: _chip(problem, chip), LINK_FILE: _link(problem, chip)}
    if problem.accelerators > chip["domain"]:
        documents[NETWORK_FILE] = _network(problem, chip)
    return {
        name: yaml.safe_dump(each, sort_keys=False, allow_unicode=True, width=120) for name, each in documents.items()
    }


def _chip(problem: ChipProblem, chip: Mapping[str, Any]) -> dict[str, Any]:
    source = f"chosen from space {problem.space.name}"
    peak = 2.0 * chip["clock_hz"] * chip["units"] * chip["array_width"] * chip["array_depth"]
    memory = Memory(chip["memory"], chip["stacks"], chip["stack_gb"])
    spare = int(chip["units"] // chip["dies"] * problem.space.spare_share.value + 1e-9)
    power_w = problem.limits.power_w
    limited = {} if power_w == float("inf") else {"tdp_w": {"value": power_w, "source": "the limit of the search"}}
    is_levelled = problem.accelerators > chip["domain"]
    return {
        "schema": SCHEMA,
        "name": "chosen-chip",
        "title": f"Chosen from {problem.space.name}",
        "template": {
            "source": source,
            "node": chip["node"],
            "style": chip["style"],
            "dies": chip["dies"],
            "tensor_cores": chip["units"],
            "core_width": chip["array_width"],
            "core_depth": chip["array_depth"],
            "vector_cores": chip["units"],
            "vector_lanes": chip["lanes"],
            "tensor_l2_bytes": chip["local_kib"] * KIB,
            "global_buffer_mib": chip["shared_mib"],
            "spare_cores": spare,
            "d2d_bytes_per_s": problem.space.d2d_bytes_per_s.value if chip["dies"] > 1 else 0.0,
        },
        "rates": {
            each: {"value": peak * 2.0 / ELEMENT_BYTES[each], "source": "arrays at clock_hz"}
            for each in chip["formats"]
        },
        "clock_hz": {"value": chip["clock_hz"], "source": source},
        "memory": {"kind": memory.kind, "stacks": memory.stacks, "source": source},
        "hbm_gib": {"value": memory.total_gb, "source": source},
        "hbm_bytes_per_s": {"value": memory.bytes_per_s, "source": "stacks at the rate of their kind"},
        **limited,
        "network": {"name": NETWORK_FILE if is_levelled else LINK_FILE, "source": source},
        "link": {"name": LINK_FILE, "source": source},
    }


def _link(problem: ChipProblem, chip: Mapping[str, Any]) -> dict[str, Any]:
    up, source = problem.space.scale_up, f"chosen from space {problem.space.name}"
    figures = {name: getattr(up, name).model_dump() for name in ("efficiency", "latency_s", "launch_s")}
    return {
        "name": "scale-up",
        "links": {"value": 1, "source": "all links of a package together"},
        "link_bytes_per_s": {"value": chip["link_bytes_per_s"], "source": source},
        **figures,
        "channels": {"value": 1, "source": "plain bandwidth model"},
        "additions_included": {"value": False, "source": "rates of the links alone"},
        "domain": {"value": chip["domain"], "source": source},
    }


def _network(problem: ChipProblem, chip: Mapping[str, Any]) -> dict[str, Any]:
    source = f"chosen from space {problem.space.name}"
    return {
        "name": "chip",
        "levels": [
            {"network": f"./{LINK_FILE}", "accelerators": {"value": chip["domain"], "source": source}},
            {"network": problem.space.scale_out.name},
        ],
    }
