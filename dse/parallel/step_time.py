"""The time of a whole training step: the one definition by which plans of different strategies are compared.

A step is one pass of a batch with the update of all trained tensors. In M microbatches it goes through stages in a row,
of which stage s takes, for a microbatch, F_s forward and B_s backward, and X_s to send activations to the next stage,
and as long to send their gradients back. After its last microbatch a stage has its *closing* C_s: it joins its
gradients, as far as the passes have not, and updates its trained tensors. Stages that are done close while those in
front of them still have backward passes to do; only what lasts longer is exposed:

    T = Σ (F_s + B_s) + Σ 2 X_s + (M - 1) · max(F_s + B_s, 2 X_s) + max(0, max_s(C_s - Σ_{t < s} (B_t + X_t)))

This is the length of a pipeline (:mod:`dse.parallel.pipeline.length`) with the update behind the all-reduce of each
stage. The strategies are cases of it:

* *sharding* is one stage and one microbatch. F + B + C is everything that the step computes and sends, in
  sequence, which is the time by which sharding plans are chosen (:mod:`dse.parallel.prices`): T is that time.
* *pipeline* has stages whose devices do equal shares of each microbatch (:mod:`dse.parallel.pipeline.shares`): each
  device reads the weights of its stage whole in every microbatch. C_s is the all-reduce of each of the stage's
  gradients over its devices, what runs once per batch, and the update, which each of them does for all of the stage.
  The update of a step is shared out to trained tensors by their bytes. The length that strategy ``pipeline`` minimises
  is that of the paper: it leaves the update out, lets the devices of a stage share the reads of its weights, once per
  batch, and all-reduces its gradients as one array. Here the pipeline is the one of least T.
* *hybrid* has stages whose devices do equal shares, as those of a pipeline, and sharded ones
  (:mod:`dse.parallel.hybrid.stage_problem`): F_s and B_s are the work of a device and what a microbatch joins and
  reshards, C_s is what it joins and reshards once per batch, the all-reduces over replicas, and the update, which is
  split as its arrays are.

One stage of one microbatch takes the same under all of them: as a sharded step whose outer axis splits the batch. A
hybrid plan of it is a sharded step.

All have to fit into the same memory, and count all that a device keeps: a sharded step its arguments and what it
makes, as long as it is read (``--activations``), any other stage its trained tensors with gradients and the
optimizer's state, and the activations of the microbatches in flight, all at once.

Work is priced by :mod:`dse.parallel.prices`, what is sent by :mod:`hardware.network`. Shares need not divide the batch.
A stage adds the gradients of a trained tensor up before it joins them, once per batch; a sharded step joins each where
it is made, so that for trained tensors that are read several times a stage can take less than any sharded step.
"""

from dataclasses import replace

from dse.parallel.pipeline.question import PipelineQuestion
from dse.parallel.pipeline.shares import equal_shares


def whole_step(question: PipelineQuestion) -> PipelineQuestion:
    """The same pipeline of a step, its length being the time of a whole step."""
    total = int(question.problem.profile.weight_bytes.sum())
    per_byte_s = question.source.update_s / total if total else 0.0
    shares = None if question.step is None else equal_shares(question.step)
    return replace(question, problem=replace(question.problem, update_s_per_byte=per_byte_s, shares=shares))
