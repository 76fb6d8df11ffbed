"""Models from elsewhere: a PyTorch module or an ONNX file becomes the operator graphs that the engine prices.

Data flow: *module or file → Trace → canonical Trace → slice of a tensor-parallel group → layers → ModelGraph*. Only
the front ends (:mod:`dse.importer.torch.module`, :mod:`dse.importer.onnx.file`) know their library, and import it when
they are called; everything behind :class:`dse.graph.trace.Trace` is plain Python.
"""
