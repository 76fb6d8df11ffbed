"""Place and route on a reconfigurable dataflow fabric (paper ``004``).

What is placed, and where, is in :mod:`dse.fabric.model`; how fast a placement really is, in
:mod:`dse.fabric.evaluators`. Fabrics are described in :mod:`hardware.fabrics`. What the rest of the house sees is in
:mod:`dse.fabric.contract`.
"""

COMMAND = "fabric"
VERB = "place"
SUMMARY = "Place and route a dataflow graph on the units of a reconfigurable fabric."
RANK = 7
"""Behind the problems that need no simulator of their own."""
