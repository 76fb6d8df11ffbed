"""Deep Q-learning of parallel plans: pipelines and operator plans, as in Auto-MAP (sections 3 to 5), next to the exact
methods of :mod:`dse.parallel`.

What learns is the same for all plans: vectorised episodes (:mod:`~policies.parallel.episodes`), a dueling Q-network
with masks, and RLlib's DQN learner and prioritised replay (:mod:`~policies.parallel.training`).
"""
