"""Parallel plans of a training step: how its tensors are split over a mesh of devices, and what that costs.

A plan gives every operation of the step one *choice*: for each axis of the mesh the factor of its loop nest that is cut
there (:mod:`dse.sharding.factors`), or none, when every device along the axis does the whole of it. What the choice
does to the operands and results are *layouts*; where the layout that an operation leaves is not the one that another
takes, the value is resharded. A reduced factor leaves terms, which an all-reduce completes, or a reduce-scatter.

How data flows::

    source (HLO) → StepGraph → linkage groups          (dse.importer.hlo, dse.sharding)
    options → ParallelProblem                          (problem)
    operation → its choices → layouts, seconds, bytes  (choices, layouts, resharding, prices)
    method linkage: one choice a linkage group, CP-SAT (linkage_plans): the paper's operator plans, nothing resharded
    method exact: one choice an operation, resharding  (choice_graph, then dse.algorithms.pairwise)
    plan → checked on its own → result, report         (plan, check, metrics, formats, contract)
    a problem of the IOPDDL contest → choices → result (contest)

Every cost is a whole number of picoseconds, so that sums do not depend on their order.
"""

COMMAND = "parallel"
SUMMARY = "Split the tensors of a training step (HLO) over a mesh of devices, or cut it into a pipeline."
RANK = 6
