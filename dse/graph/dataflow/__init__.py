"""Dataflow graphs: operators with shapes, and edges that carry elements; what a dataflow fabric runs.

A graph is of one sample (a microbatch) and of a forward pass or a training step. It is made of

- what a tape recorded of a layer (:mod:`dse.graph.dataflow.recorded`), which is how layers of models get here
  (:mod:`dse.models.dataflow`, :mod:`dse.importer.dataflow`);
- a ``dse.dataflow/1`` document (:mod:`dse.graph.dataflow.formats`), whose backward pass is derived by recording
  its operators on a tape too (:mod:`dse.graph.dataflow.training`), so that the rules of differentiation exist once.
"""

from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass

__all__ = ["DataflowEdge", "DataflowGraph", "DataflowOperator", "Pass"]
