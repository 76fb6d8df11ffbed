"""The learning kit: what every learner needs and none has of its own. It knows no problem.

A learner is one folder of ``policies`` and one line in :mod:`policies.learners`. It brings a
:class:`~policies.learning.task.LearningTask` (its network, its environments, what a checkpoint is worth on them), a
:class:`~policies.learning.checkpoint.CheckpointFormat`, and the options of its command
(:class:`~policies.learning.options.PretrainingOptions`). From these follow checkpoints with cards, pretraining with
validation, journalled and resumable, curves for TensorBoard, sweeps over how it learns, in this process or on
Ray, and ``dse pretrain NAME``. What only learners with RLlib need is in :mod:`policies.learning.rllib`.
"""

COMMAND = "dse pretrain"
