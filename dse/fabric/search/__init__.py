"""From a dataflow graph to a placed and routed pipeline.

Operators are spread over units by :mod:`dse.fabric.search.expansion`, nets are routed by
:mod:`dse.fabric.search.routing`, and sites are found by :mod:`dse.fabric.search.anneal` under a weighted sum of rules
(:mod:`dse.fabric.rules`).
"""
