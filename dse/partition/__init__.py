"""Partitioning of an operator graph over the chips of a multi-chip module (paper ``000``).

*graph file or model → graph → problem → sampler and solvers → solution → checker → result.*

Everything here rests on one view. Under (2) the operators on chips 0..k are a *downset* of the graph for every k, so a
partition is a chain of downsets; what a chip costs depends on the two downsets that it lies between, and what a link
carries on one. Only (4) ties chips together that are not neighbours.
"""

COMMAND = "partition"
SUMMARY = "Partition a model's operators over the chips of a multi-chip module."
RANK = 4
