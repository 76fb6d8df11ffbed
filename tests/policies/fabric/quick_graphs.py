"""Graphs that take little time, for tests of what is done with their samples; to import them takes no torch."""

QUICK_GRAPHS = (2, 6, 8, 11, 14, 16, 26, 29, 32, 34)
"""Numbers of blocks, of several kinds, whose simulations take half as long as those of others."""
