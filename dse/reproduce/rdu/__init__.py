"""Guha et al.: the learned cost model of a reconfigurable dataflow unit, its tables next to ours."""

SUMMARY = "Learned cost model for placement on dataflow fabrics: accuracy, ablations and placements (Guha et al.)."
