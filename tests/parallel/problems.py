"""Problems of the tests: a small training step in HLO, the dumps, and machines."""

import re
from pathlib import Path

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo, read_hlo
from dse.parallel.mesh import mesh_of
from dse.parallel.problem import Device, ParallelProblem
from dse.sharding.hlo.table import step_factors
from hardware.network_specs import network
from hardware.product_rates import ProductRates

DUMPS = Path(__file__).parents[1] / "data" / "hlo"

MLP = """HloModule mlp
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY step {
  w1 = f32[16,32] parameter(0), metadata={op_name="params['w1']"}
  w2 = f32[32,8] parameter(1), metadata={op_name="params['w2']"}
  x = f32[64,16] parameter(2), metadata={op_name="batch['x']"}
  y = f32[64,8] parameter(3), metadata={op_name="batch['y']"}
  h = f32[64,32] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,32] tanh(h)
  o = f32[64,8] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,8] subtract(o, y)
  g2 = f32[32,8] dot(a, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d = f32[64,32] dot(e, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  g1 = f32[16,32] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n1 = f32[16,32] subtract(w1, g1)
  n2 = f32[32,8] subtract(w2, g2)
  zero = f32[] constant(0)
  q = f32[64,8] multiply(e, e)
  l = f32[] reduce(q, zero), dimensions={0,1}, to_apply=add
  ROOT t = (f32[16,32], f32[32,8], f32[]) tuple(n1, n2, l)
}
"""
"""Two layers without biases, a squared error, gradients and their subtraction."""

DEVICE = Device("small", ProductRates("small", (("fp32", 1e9), ("bf16", 4e9))), 1e9, 1 << 30)
"""So slow that work counts beside communication."""


def mlp_text(factor=1):
    """The step with all its sizes multiplied."""
    return re.sub(
        r"(?<=\[)\d+(,\d+)*(?=\])",
        lambda sizes: ",".join(str(factor * int(each)) for each in sizes.group().split(",")),
        MLP,
    )


def mlp(mesh="4", **changes):
    return problem(step_graph(parse_hlo(MLP, "mlp.hlo"), "mlp.hlo"), mesh, **changes)


def dump(name, mesh="4", **changes):
    return problem(step_graph(read_hlo(DUMPS / name), name), mesh, **changes)


def problem(graph, mesh, **changes):
    settings = {"device": DEVICE, "network": network("nvlink2"), "rules": step_factors(graph)} | changes
    return ParallelProblem(graph, mesh_of(mesh), **settings)
