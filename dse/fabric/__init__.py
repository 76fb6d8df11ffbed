"""Place and route on a reconfigurable dataflow fabric (paper ``004``).

What is placed, and where, is in :mod:`dse.fabric.model`; how fast a placement really is, in
:mod:`dse.fabric.evaluators`. Fabrics are described in :mod:`hardware.fabrics`.
"""
