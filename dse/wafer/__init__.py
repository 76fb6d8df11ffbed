"""Wafer-scale placement: sizes, shapes and places of neural-network kernels (ISPD 2020 contest; GigaPlacer, 2021).

The problem and its solution are in :mod:`dse.wafer.problem`, the kernels in :mod:`dse.wafer.kernels`, the independent
checker in :mod:`dse.wafer.check`, and what the rest of the house sees in :mod:`dse.wafer.contract`.
"""

COMMAND = "wafer"
SUMMARY = "Size and place the kernels of a neural network on a wafer of tiles."
RANK = 5
