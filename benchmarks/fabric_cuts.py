"""Layers that do not fit on a dataflow fabric: the pieces they are cut into, and the estimated time of a batch.

It is shown next to the time of their matrix products at the peak of all compute units, which no cut can beat, and that
of every operator in pieces of its own.
"""

import argparse
import time

MODELS = ("bert-large:layer3", "gpt2-xl:layer3")
HEAD = ("layer", "pass", "fabric", "pieces", "parts", "ms", "one by one", "peak", "CPU s")
ROW = "{:18} {:9} {:16} {:>6} {:>6} {:>8} {:>10} {:>8} {:>6}"


def main() -> None:
    """One line for each layer, pass and fabric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32, help="samples for which a piece stays on the fabric")
    parser.add_argument("--fabric", action="append", help="fabric, may be given several times; all by default")
    parser.add_argument("--model", action="append", help="layer, may be given several times")
    arguments = parser.parse_args()
    from dse.fabric.search.cutting import cut
    from dse.sources.dataflow import dataflow_of, resolve_dataflow
    from hardware.fabric_specs import fabric, list_fabrics
    from hardware.operator_slots import operator_slots

    print(ROW.format(*HEAD), flush=True)
    for model in arguments.model or MODELS:
        for graph_pass in ("forward", "training"):
            graph = dataflow_of(resolve_dataflow(model), graph_pass)
            for name in arguments.fabric or list_fabrics():
                machine = fabric(name)
                begun = time.process_time()
                answer = cut(graph, machine, operator_slots(), arguments.batch)
                seconds = time.process_time() - begun
                peak_s = arguments.batch * graph.flops / (len(machine.grid.sites("compute")) * machine.compute_flops)
                print(
                    ROW.format(
                        model,
                        graph_pass,
                        name,
                        len(answer.pieces),
                        sum(len(piece.operators) for piece in answer.pieces),
                        f"{1e3 * answer.time_s:.1f}",
                        f"{1e3 * answer.apart_s:.1f}",
                        f"{1e3 * peak_s:.1f}",
                        f"{seconds:.0f}",
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
