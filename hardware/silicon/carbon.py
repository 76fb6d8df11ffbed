"""Carbon of making a package, kg CO2e: dies and memory. Interposer, board and transport are left out."""

import numpy as np

from hardware.silicon.area import die_area
from hardware.silicon.design import Package
from hardware.silicon.interval import Interval, Numbers, total
from hardware.silicon.tables import Fitted, money, nodes

_MM2_PER_CM2 = 100.0
_HOURS = 24 * 365.25


def embodied_kg(package: Package, constants: Fitted | None = None) -> dict[str, Interval]:
    """Dies by area (ACT: electricity of the fab, gases and material, over yield), and memory by the GB."""
    table, dies = money(), []
    for die, count in package.dies:
        node = nodes()[die.node]
        other = table.material_kg_per_cm2.interval + Interval.exact(node.gases)
        per_cm2 = table.grid_kg_per_kwh.interval * node.fab + other
        dies.append(die_area(die, constants) * (count / _MM2_PER_CM2) * table.fab_yield.interval.inverse() * per_cm2)
    gb = np.asarray(package.memory_gb, dtype=np.float64)
    return {"dies": total(dies), "memory": table.memory_kg_per_gb.times(gb)}


def use_kg_per_year(all_in_kw: Interval, share: Numbers = 1.0) -> Interval:
    """Carbon of a year of use at ``share`` of the power."""
    return money().use_kg_per_kwh.interval * all_in_kw * (_HOURS * np.asarray(share, dtype=np.float64))
