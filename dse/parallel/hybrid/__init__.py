"""Hybrid plans: a training step in a pipeline whose stages are sharded (pipeline × operator × data parallelism).

    stage_step       what a stage does of the step, as a step of its own
    stage_problem    its sharding problem on the devices of a replica, and what a plan of it takes
    problem          cuts, devices, replicas and shardings; a plan
    cuts             where stages may begin
    step_times       a plan by the definition of a step's time
    frontier, pieces what a stage takes at least
    chain            the shortest chain of stages
    equal_shares     stages whose devices do equal shares
    solved_stage     stages that are solved, and for which sum next
    search           plans with a bound
    memory           why nothing fits
    check            what a plan takes, worked out again
    strategy         what ``dse parallel --strategy hybrid`` does

What a plan takes is the time of a whole step (:mod:`dse.parallel.step_time`).
"""
