"""Wafer-scale placement: sizes, shapes and places of neural-network kernels (ISPD 2020 contest; GigaPlacer, 2021).

The problem and its solution are in :mod:`dse.wafer.problem`, the kernels in :mod:`dse.wafer.kernels`, the independent
checker in :mod:`dse.wafer.check`, and the command as a function in :mod:`dse.wafer.answer`.
"""
