"""Definitions of published networks, one module a family of them, each a function over the layers of a ``Network``.

They are written after the papers (named in each docstring), in PyTorch's operators. They hold no weights: layers make
their shapes on the meta device.
"""
