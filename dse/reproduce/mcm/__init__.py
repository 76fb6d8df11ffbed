"""Xie et al. (MLSys 2022): its tables and figures beside ours."""
