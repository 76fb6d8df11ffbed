"""Learned cost models of placements on dataflow fabrics (paper ``004``).

A model (:mod:`policies.fabric.model`) predicts the throughput of a placement from the pipeline, the placement and the
fabric, and never looks inside the simulator. It learns from samples that the simulator has labelled
(:mod:`policies.fabric.data`); how accurate it is on others is told by :mod:`policies.fabric.study`. Everything but the
network needs only the base install.
"""
