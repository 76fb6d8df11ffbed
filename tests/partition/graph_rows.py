"""A graph of operators as figures that can be worked out by hand."""


def rows(graph):
    """Every operator: (output bytes, weight bytes, FLOPs, moved bytes, producers)."""
    read = {name: [] for name in graph.names}
    for source, target in graph.edges:
        read[graph.names[target]].append(graph.names[source])
    columns = (graph.output_bytes, graph.weight_bytes, graph.flops, graph.moved_bytes)
    return {name: (*map(float, cells), read[name]) for name, *cells in zip(graph.names, *columns, strict=True)}
