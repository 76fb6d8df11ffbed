"""The catalogue of computation graphs: sizes, work, weights, and the seconds to make each.

Claims: 87 graphs without attention of tens to hundreds of operators, acyclic and in one part, in a fixed split of
66 / 5 / 16; BERT-large within 1 % of the 2,138 operators of the paper; one graph of at least 10,000. Operators are
counted before and after preparation. *Chips* are what linear partitions can use, before and after (more may be usable).
The first run makes every graph; ``--fresh`` makes them again, in a cache that is thrown away.
"""

import argparse
import os
import sys
import tempfile
import time

PAPER_BERT = 2138
LARGE = 10_000
HEAD = ("graph", "family", "split", "before", "nodes", "edges", "GFLOP", "weights MB", "chips", "seconds")
ROW = "{:<22} {:<15} {:<11}{:>7}{:>7}{:>7}{:>15}{:>14}{:>12}{:>9}"


def attends(trace) -> bool:
    """Whether a softmax is taken of a product of two activations (scaled, masked, reshaped or not)."""
    from dse.graph.trace import FIXED, VIEWS

    held = {index for index, value in enumerate(trace.values) if value.role in FIXED}
    for step in trace.steps:
        left = list(step.inputs) if step.kind == "softmax" else []
        seen = set()
        while left:
            index = left.pop()
            position = trace.producer.get(index)
            if position is None or position in seen:
                continue
            seen.add(position)
            writer = trace.steps[position]
            if writer.kind == "matmul" and held.isdisjoint(writer.inputs):
                return True
            if writer.kind == "elementwise" or writer.kind in VIEWS:
                left.extend(writer.inputs)
    return False


def faults(entry, trace, prepared) -> list[str]:
    """What does not hold of a graph that should."""
    import rustworkx

    from tests.partition.preparation import differences

    graph = prepared.graph
    joined = rustworkx.PyGraph()
    joined.add_nodes_from(range(len(graph)))
    joined.add_edges_from_no_data([tuple(edge) for edge in graph.edges.tolist()])
    faults = differences(prepared)
    if len(graph.topological_order) != len(graph):
        faults.append("has a cycle")
    if rustworkx.number_connected_components(joined) != 1:
        faults.append("is in several parts")
    if entry.split and attends(trace):
        faults.append("has attention")
    if entry.split and not 10 <= len(graph) < 1000:
        faults.append("has not tens to hundreds of operators")
    return faults


def main(names) -> int:
    from dse.partition.graphs import graph_of, prepare
    from dse.partition.graphs.from_trace import weight_bytes
    from dse.partition.graphs.usable import linear_partition
    from dse.sources import catalogue

    print(ROW.format(*HEAD))
    wrong, seconds, sizes = [], 0.0, {}
    for name in names or catalogue.names():
        entry = catalogue.entry(name)
        begun = time.perf_counter()
        trace = entry.trace()
        graph = graph_of(name)
        prepared = prepare(graph)
        spent = time.perf_counter() - begun
        seconds += spent
        sizes[name] = len(prepared.graph)
        chips = [int(linear_partition(one).max()) + 1 for one in (graph, prepared.graph)]
        print(
            ROW.format(
                name,
                entry.family,
                entry.split or "-",
                len(graph),
                len(prepared.graph),
                len(prepared.graph.edges),
                f"{prepared.graph.flops.sum() / 1e9:,.3f}",
                f"{weight_bytes(trace) / 1e6:,.2f}",
                f"{chips[0]} → {chips[1]}",
                f"{spent:.2f}",
            ),
            flush=True,
        )
        wrong += [f"{name}: {fault}" for fault in faults(entry, trace, prepared)]
    parts = {part: sum(name in sizes for name in members) for part, members in catalogue.split().items()}
    print(f"\n{len(sizes)} graphs ({' / '.join(map(str, parts.values()))} {' / '.join(parts)}), {seconds:.1f} s")
    if "bert-large-primitive" in sizes:
        count = sizes["bert-large-primitive"]
        print(f"BERT-large: {count} operators, the paper's has {PAPER_BERT} ({count / PAPER_BERT - 1:+.1%})")
        wrong += ["BERT-large is of another size"] if abs(count / PAPER_BERT - 1) > 0.01 else []
    if not names and max(sizes.values()) < LARGE:
        wrong.append(f"no graph has {LARGE} operators")
    print("\n".join(wrong) or "all acyclic, in one part, and without attention where they are for learning")
    return int(bool(wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="graphs of the catalogue; all when none is named")
    parser.add_argument("--fresh", action="store_true", help="make every graph again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dse-graphs-") as folder:
        if arguments.fresh:
            os.environ["DSE_CACHE_DIR"] = folder
        code = main(arguments.names)
    sys.exit(code)
