"""Models from elsewhere: a PyTorch module or an ONNX file becomes the operator graphs that the engine prices.

Data flow: *module or file → Trace → canonical Trace → slice of a tensor-parallel group → layers → ModelGraph*. Only
the front ends (:mod:`dse.importer.torch_module`, :mod:`dse.importer.onnx_file`) know their library, and import it when
they are called; everything behind :class:`dse.importer.trace.Trace` is plain Python.
"""
