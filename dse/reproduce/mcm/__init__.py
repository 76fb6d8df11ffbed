"""Xie et al. (MLSys 2022): its tables and figures next to ours."""

SUMMARY = (
    "Partitioning over multi-chip modules: sample efficiency of methods, and the simulator (Xie et al., MLSys 2022)."
)
