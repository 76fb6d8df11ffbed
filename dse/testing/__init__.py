"""The conformance kit: what every problem and every method must keep, importable by whoever adds one.

A test states small instances and calls the functions of :mod:`dse.testing.conformance` on them.
"""
