"""The one BERT of the reproduction: that of Table 3, of Figure 7 and of the calibration.

The paper states 2,138 operators and 340 million parameters (section 5.1), but neither how many tokens an input has nor
how wide numbers are. Ours is BERT-large as its authors wrote it, in primitive operations, in 8 bits, which is what Edge
TPUs compute in. The tokens are the one number that is calibrated on it: with :data:`TOKENS`, and the memory and compile
effect of mcm-36, the share of random partitions that cannot run is nearest to the paper's 13.5 % (section 5.4).
"""

from functools import cache

from dse.partition.graphs.from_trace import graph_from_trace
from dse.partition.graphs.prepare import prepare
from dse.partition.problem import PartitionGraph, PartitionProblem
from dse.sources.built_in import inference_trace
from dse.sources.zoo.styles import OriginalBert
from dse.sources.zoo.transformers import BERT_LARGE
from hardware.packages import Package

TOKENS, ELEMENT_BYTES = 84, 1
"""Of an input, and of a floating-point number."""

NAME = f"bert-large with {TOKENS} tokens in {8 * ELEMENT_BYTES}-bit numbers"


@cache
def paper_bert() -> PartitionGraph:
    """The graph, prepared for many chips and not priced yet."""
    bert = BERT_LARGE.model_copy(update={"name": NAME, "sequence": TOKENS})
    trace = inference_trace(bert, style=OriginalBert)
    return prepare(graph_from_trace(trace, "primitive", element_bytes=ELEMENT_BYTES)).graph.with_weights_as_read()


def problem_on(graph: PartitionGraph, package: Package) -> PartitionProblem:
    """The problem of a graph on a package that streams weights; operators that have no latency are priced by it."""
    priced = graph.priced(package.latency_s(graph.flops, graph.moved_bytes))
    return PartitionProblem(priced, package.chips, package.link_bytes_per_s)
