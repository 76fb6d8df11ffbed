"""What is learned: networks, environments and cost models with weights. ``dse`` never imports this floor.

:mod:`policies.learning` is the kit that all learners share; every learner has a folder of its own, and a line in
:mod:`policies.learners`.
"""
