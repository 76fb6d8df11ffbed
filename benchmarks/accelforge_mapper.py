"""What :mod:`benchmarks.accelforge_products` runs with the Python that has AccelForge: fastest mappings of products.

``python accelforge_mapper.py ARCH.yaml M,N,K,BATCH …`` prints a JSON list of seconds. It imports nothing of this
project.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

_WORKLOAD = """
workload:
  iteration_space_shape: {{{batch}m: 0 <= m < {m}, n: 0 <= n < {n}, k: 0 <= k < {k}}}
  bits_per_value: {{All: 16}}
  einsums:
  - name: Product
    tensor_accesses:
    - {{name: I, projection: [{b}m, k]}}
    - {{name: W, projection: [{b}k, n]}}
    - {{name: O, projection: [{b}m, n], output: True}}
    renames: {{weight: W, input: I, output: O}}
"""


def main(architecture: str, products: list[str]) -> list[float]:
    """Seconds of the products."""
    import accelforge
    from accelforge.mapper.FFM.main import map_workload_to_arch

    seconds = []
    for product in products:
        m, n, k, batch = map(int, product.split(","))
        dimension = f"b: 0 <= b < {batch}, " if batch > 1 else ""
        text = _WORKLOAD.format(m=m, n=n, k=k, batch=dimension, b="b, " if batch > 1 else "")
        Path("workload.yaml").write_text(text, encoding="utf-8")
        spec = accelforge.Spec.from_yaml(architecture, "workload.yaml")
        spec.mapper.metrics = accelforge.Metrics.LATENCY
        # Details would be drawn with graphviz, which the fastest time does not need.
        found = map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
        (column,) = (each for each in found.data.columns if each.startswith("Total") and "latency" in each)
        seconds.append(float(found.data.iloc[0][column]))
    return seconds


if __name__ == "__main__":
    arch = os.path.abspath(sys.argv[1])
    out = os.dup(1)
    os.dup2(2, 1)  # what AccelForge prints is for people
    os.chdir(tempfile.mkdtemp())
    os.write(out, json.dumps(main(arch, sys.argv[2:])).encode())
