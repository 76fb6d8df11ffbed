"""The graphs that are partitioned: of a user's model or file, of the built-in models, and the catalogue for learning.

*source → trace of the inference forward pass → operators → prepared operators*; see :func:`~.source.graph_of`,
:func:`~.from_trace.graph_from_trace` and :func:`~.prepare.prepare`.
"""

from dse.graph.trace import Granularity
from dse.partition.graphs.prepare import Prepared, prepare
from dse.partition.graphs.source import graph_of

__all__ = ["Granularity", "Prepared", "graph_of", "prepare"]
