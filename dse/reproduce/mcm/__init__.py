"""Xie et al. (MLSys 2022): its tables and figures beside ours."""

SUMMARY = "Partitioning over multi-chip modules: samples that methods need, and the simulator (Xie et al., MLSys 2022)."
