"""Pipelines of a training step over devices in a line: where to cut the forward part, and the devices (paper, 3.4).

    Profile           what every point of the forward part computes, keeps and would send if the step were cut there
    PipelineProblem   the profile, the devices and their network, the number of stages and of microbatches
    PipelinePlan      cuts of the points and of the devices
    length            seconds of a batch: the definition that every method is judged by
    exact             the shortest plan with its proof
    forward, backward the points of a step, and which of them the backward pass belongs to
    profiling         the profile of a step
    pipedream, piper  profiles of other planners
    strategy          what ``dse parallel --strategy pipeline`` does

Devices are ranks of a network in order; a stage has neighbouring ones and each of its devices does an equal share of
every microbatch (data parallelism inside the stage), so that gradients of a stage are all-reduced once per batch.
"""
