"""Seconds of single kernels by their shape, on chips whose kernels were timed.

A *form* says how the time of one class of kernels follows from its shape, from the rates of the chip and from a few
constants; :mod:`.products`, :mod:`.experts`, :mod:`.attention` and :mod:`.collectives` have them. The constants are
fitted, for each chip, engine and format, to rows marked beforehand (``python -m benchmarks.kernel_times``), and stand
in ``hardware/specs/kernel_times``; :func:`.fitted.kernel_times` reads them. Link rates and numbers of processors are
those of the chip. :mod:`hardware.kernel_model` offers these times beside those of all other chips.

All forms work on arrays: shapes of [N] and rates of the chip, which are numbers or arrays of [N] too. Their cost grows
linearly in N.

Two laws hold for every form and are tested: no kernel is faster than its work at the peak rate or its traffic at the
rate of memory, and none is slower on a chip with a higher rate.
"""
