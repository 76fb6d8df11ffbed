"""What silicon can do: accelerators, their area, latency and networks.

This is the lowest floor. It knows nothing of graphs, search, torch or Ray: it defines the operations it can cost
(:mod:`hardware.operations`), describes machines (:mod:`hardware.machines`, ``specs/*.yaml``) and prices *arrays* of
operations on *arrays* of machines in one call (:mod:`hardware.estimator`).
"""
