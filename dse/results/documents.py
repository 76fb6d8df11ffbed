"""Types of ``solution`` and ``metrics``, by ``python -m docs.making.stubs`` from the models of results.

A result is plain data: an answer's ``solution`` is a dictionary with the keys of the type of its problem. Where nothing
was found both are empty. A key that is not required stands in results of some forms alone.
"""

from typing import Any, Literal, NotRequired, TypedDict


class CodesignArchitecture(TypedDict):
    """Sizes of an accelerator, and its area.

    Attributes:
        tensor_cores: how many.
        core_width: multiply-accumulate units of a tensor core's array.
        core_depth: multiply-accumulate units of a tensor core's array.
        vector_cores: how many.
        vector_lanes: of a vector core.
        global_buffer_bytes: shared by all cores.
        tensor_l2_bytes: of one core.
        vector_l2_bytes: of one core.
        area_mm2: without interfaces.
    """

    tensor_cores: int
    core_width: int
    core_depth: int
    vector_cores: int
    vector_lanes: int
    global_buffer_bytes: int
    tensor_l2_bytes: int
    vector_l2_bytes: int
    area_mm2: float


class CodesignStage(TypedDict):
    """A stage.

    Attributes:
        layers: by name.
        accelerators: of one pipeline.
    """

    layers: list[str]
    accelerators: int


class ScheduleOperatorRun(TypedDict):
    """When and where an operator runs.

    Attributes:
        start_s: from the beginning of the layer.
        finish_s: from the beginning of the layer.
        cores: ``"all"``, or a list with the number of one core.
    """

    start_s: float
    finish_s: float
    cores: list[int] | Literal["all"]


class CodesignPartSchedule(TypedDict):
    """The schedule of a pass or an update of a layer.

    Attributes:
        operators: the run of each, by name.
        makespan_s: its length.
        bound_s: no schedule is shorter.
    """

    operators: dict[str, ScheduleOperatorRun]
    makespan_s: float
    bound_s: float


class CodesignLayerSchedules(TypedDict):
    """The schedules of one distinct layer.

    Attributes:
        forward: of the passes and of the optimizer step.
        backward: of the passes and of the optimizer step.
        update: of the passes and of the optimizer step.
    """

    forward: CodesignPartSchedule
    backward: CodesignPartSchedule
    update: CodesignPartSchedule


class CodesignPlan(TypedDict):
    """How one model is trained; other keys as of ``PlanSummary``.

    Attributes:
        pipeline: as there.
        data: as there.
        tensor: as there.
        microbatch: as there.
        recompute: as there.
        hbm_gb: as there.
        accelerators_used: as there.
        batch_s: as there.
        throughput_per_s: as there.
        schedule_nodes: as there.
        stages: of one pipeline, from the first to the last.
        layers: the schedules of each distinct layer.
    """

    pipeline: int
    data: int
    tensor: int
    microbatch: int
    recompute: bool
    hbm_gb: float
    accelerators_used: int
    batch_s: float
    throughput_per_s: float
    schedule_nodes: int
    stages: list[CodesignStage]
    layers: dict[str, CodesignLayerSchedules]


class Plan(TypedDict):
    """A training plan. Keys as of ``TrainingPlan``."""

    tensor: int
    sequence_parallel: bool
    context: int
    expert: int
    data: int
    pipeline: int
    interleave: int
    schedule: Literal["1f1b", "gpipe", "zb1p", "dualpipe"]
    zero: int
    microbatch: int
    recompute: str
    precision: Literal["fp16", "bf16", "fp8", "mxfp8", "int8", "fp4"]
    zero_copies: int
    order: str
    first_layers: int
    last_layers: int
    weights: Literal["stack", "fp32", "bf16", "fp16", "fp8"]
    gradients: Literal["stack", "fp32", "bf16", "fp16", "fp8"]
    moments: Literal["stack", "fp32", "bf16", "fp16", "fp8"]
    gradient_transfer: Literal["stack", "fp32", "bf16", "fp16", "fp8"]
    weight_transfer: Literal["stack", "fp32", "bf16", "fp16", "fp8"]
    overlap_tensor: Literal["stack", "yes", "no"]
    overlap_context: Literal["stack", "yes", "no"]
    overlap_expert: Literal["stack", "yes", "no"]
    overlap_gradients: Literal["stack", "yes", "no"]
    overlap_weights: Literal["stack", "yes", "no"]
    overlap_pipeline: Literal["stack", "yes", "no"]
    cross_entropy: Literal["stack", "fused", "unfused", "chunked"]
    offload: NotRequired[Literal["stack", "optimizer", "activations", "optimizer+activations"]]


class CodesignTrainedModel(TypedDict):
    """How the model is trained.

    Attributes:
        hbm_gb: memory of an accelerator, in GiB.
        plan: of the vocabulary of ``dse plan``.
    """

    hbm_gb: float
    plan: Plan


class CodesignChip(TypedDict):
    """A chip of a space.

    Attributes:
        node: of its process, nm.
        style: what surrounds its arrays.
        dies: of a package.
        units: arrays of a package that work; each has the lanes of one vector core.
        array_width: multiply-accumulate units of an array.
        array_depth: multiply-accumulate units of an array.
        lanes: vector lanes of a unit.
        local_kib: SRAM of a unit.
        shared_mib: SRAM of a package that all units share.
        formats: of operands.
        clock_hz: of units and SRAM.
        memory: kind of memory.
        stacks: of a package.
        stack_gb: of each.
        link_bytes_per_s: peak of a package inside a domain, in one direction.
        domain: packages of a domain.
    """

    node: int
    style: Literal["systolic", "simt", "tile"]
    dies: int
    units: int
    array_width: int
    array_depth: int
    lanes: int
    local_kib: int
    shared_mib: int
    formats: list[Literal["fp16", "bf16", "fp8", "mxfp8", "int8", "fp4"]]
    clock_hz: float
    memory: str
    stacks: int
    stack_gb: int
    link_bytes_per_s: float
    domain: int


class CodesignTrainedOnChip(TypedDict):
    """How a model is trained.

    Attributes:
        plan: of the vocabulary of ``dse plan``.
    """

    plan: Plan


class CodesignSolution(TypedDict):
    """``solution``.

    Attributes:
        architecture: of the accelerator.
        models: the plan of each, by name.
        chip: which.
    """

    architecture: NotRequired[CodesignArchitecture]
    models: dict[str, CodesignPlan] | dict[str, CodesignTrainedModel] | dict[str, CodesignTrainedOnChip]
    chip: NotRequired[CodesignChip]


class CodesignBest(TypedDict):
    """An architecture that has an optimum.

    Attributes:
        architecture: which.
        schedule_nodes: states to which the schedules of each model were searched.
    """

    architecture: CodesignArchitecture
    schedule_nodes: list[int]


class CodesignFailedEvaluation(TypedDict):
    """An evaluation on which the program failed or worker processes died. It is ignored; its bound still holds.

    Attributes:
        model: by name.
        architecture: which.
        reason: in words.
    """

    model: str
    architecture: CodesignArchitecture
    reason: str


class CodesignModelFigures(TypedDict):
    """The figures of one model's plan.

    Attributes:
        value: its part in the objective.
        power_w: average power of one accelerator.
        joules_per_sample: of all accelerators.
        model_flops_utilisation: model FLOPs per second over the peak of all accelerators (PaLM, appendix B).
        peak_memory_gb: of the fullest stage, in GiB.
        simulated_batch_s: a batch with every pass, synchronisation and optimizer step in time.
        power_interval_w: the lowest and highest that sources of energies allow, where these are known.
    """

    value: float
    power_w: float
    joules_per_sample: float
    model_flops_utilisation: float
    peak_memory_gb: float
    simulated_batch_s: float
    power_interval_w: NotRequired[list[float]]


class CodesignPlanSummary(TypedDict):
    """How one model is trained, without its stages.

    Attributes:
        pipeline: stages, pipelines and tensor-parallel width.
        data: stages, pipelines and tensor-parallel width.
        tensor: stages, pipelines and tensor-parallel width.
        microbatch: samples.
        recompute: whether the backward pass recomputes activations.
        hbm_gb: memory of an accelerator, in GiB.
        accelerators_used: how many of the accelerators.
        batch_s: time of a global batch.
        throughput_per_s: samples per second.
        schedule_nodes: states to which schedules were searched; an equally deep evaluation finds the same plan.
    """

    pipeline: int
    data: int
    tensor: int
    microbatch: int
    recompute: bool
    hbm_gb: float
    accelerators_used: int
    batch_s: float
    throughput_per_s: float
    schedule_nodes: int


class CodesignBaseline(TypedDict):
    """One row of the comparison.

    Attributes:
        name: accelerator and placement.
        placement: ``expert``: the paper's.
        area_mm2: of its template, or of the die.
        process_nm: of that area.
        model_flops_utilisation: as of an answer; null where nothing fits.
        plan: null where nothing fits.
    """

    name: str
    placement: Literal["expert", "own"]
    area_mm2: float
    process_nm: float
    model_flops_utilisation: float | None
    plan: CodesignPlanSummary | None


class CodesignFrontPoint(TypedDict):
    """One architecture of a front.

    Attributes:
        score: the objective.
        area_mm2: of one accelerator.
        power_w: of one accelerator.
        proven: whether its schedules are proven.
        architecture: which.
        models: the plan of each, by name.
    """

    score: float
    area_mm2: float
    power_w: float
    proven: bool
    architecture: CodesignArchitecture
    models: dict[str, CodesignPlanSummary]


class CodesignFront(TypedDict):
    """A Pareto front in score, area and power.

    Attributes:
        hbm_gb: the HBM size of all points, the largest, in GiB.
        mean: over models.
        proven: whether no point is missing.
        architectures_in_space: counts.
        architectures_evaluated: counts.
        architectures_pruned: counts.
        undecided: architectures that may be on it.
        stopped: why the search ended early; null where it did not.
        points: by falling score.
    """

    hbm_gb: float
    mean: Literal["geometric", "arithmetic"]
    proven: bool
    architectures_in_space: int
    architectures_evaluated: int
    architectures_pruned: int
    undecided: list[CodesignArchitecture]
    stopped: str | None
    points: list[CodesignFrontPoint]


class CodesignModernModelFigures(TypedDict):
    """The figures of the plan, as in ``dse plan``.

    Attributes:
        throughput_per_s: samples per second.
        step_s: of a global batch.
        tokens_per_s: of all accelerators.
        model_flops_utilisation: over the peak of all accelerators, in the plan's precision.
        power_w: average power of one accelerator.
        joules_per_sample: of all accelerators.
        time_s: by part.
        memory_bytes: by part.
        power_interval_w: the lowest and highest that sources of energies allow, where these are known.
    """

    throughput_per_s: float
    step_s: float
    tokens_per_s: float
    model_flops_utilisation: float
    power_w: float
    joules_per_sample: float
    time_s: dict[str, float]
    memory_bytes: dict[str, float]
    power_interval_w: NotRequired[list[float]]


class CodesignBestAtSize(TypedDict):
    """The optimum at one HBM size.

    Attributes:
        throughput_per_s: samples per second.
        architecture: which.
        plan: which.
    """

    throughput_per_s: float
    architecture: CodesignArchitecture
    plan: Plan


class CodesignBaselineAnswer(TypedDict):
    """An optimum of another search; values are null where nothing fits.

    Attributes:
        name: of the search.
        throughput_per_s: samples per second.
        hbm_gb: in GiB.
        architecture: null where it is not chosen.
        plan: which.
    """

    name: str
    throughput_per_s: float | None
    hbm_gb: float | None
    architecture: CodesignArchitecture | None
    plan: Plan | None


class CodesignAfterChange(TypedDict):
    """The optimum after a change; values are null where nothing fits.

    Attributes:
        throughput_per_s: samples per second.
        hbm_gb: in GiB.
        architecture: which.
        plan: which.
        regret: share of the throughput that is lost by keeping the answer's architecture.
    """

    throughput_per_s: float | None
    hbm_gb: float | None
    architecture: CodesignArchitecture | None
    plan: Plan | None
    regret: float | None


class CodesignSharedAtSize(TypedDict):
    """The optimum of several models at one HBM size.

    Attributes:
        score: the objective.
        architecture: which.
    """

    score: float
    architecture: CodesignArchitecture


class CodesignSharedPoint(TypedDict):
    """One architecture of a front of modern plans.

    Attributes:
        score: the mean of throughputs.
        area_mm2: of one accelerator.
        joules_per_sample: of all accelerators, the mean over models.
        architecture: which.
        models: the fastest plan of each, by name.
    """

    score: float
    area_mm2: float
    joules_per_sample: float
    architecture: CodesignArchitecture
    models: dict[str, Plan]


class CodesignSharedFront(TypedDict):
    """A Pareto front of modern plans in score, area and joules per sample.

    Attributes:
        hbm_gb: the HBM size of all points, the largest, in GiB.
        mean: over models.
        architectures_evaluated: how many.
        stopped: why it may lack points; null where it is complete.
        points: by falling score.
    """

    hbm_gb: float
    mean: Literal["geometric", "arithmetic"]
    architectures_evaluated: int
    stopped: str | None
    points: list[CodesignSharedPoint]


class CodesignChipModelFigures(TypedDict):
    """The figures of a plan, as in ``dse plan``.

    Attributes:
        throughput_per_s: samples per second.
        step_s: of a global batch.
        tokens_per_s: of all packages.
        model_flops_utilisation: over the peak of all packages, in the plan's precision.
        time_s: by part.
        memory_bytes: by part.
    """

    throughput_per_s: float
    step_s: float
    tokens_per_s: float
    model_flops_utilisation: float
    time_s: dict[str, float]
    memory_bytes: dict[str, float]


class CodesignNearChip(TypedDict):
    """A chip that is nearly as good.

    Attributes:
        score: the objective.
        chip: which.
        usd: its cost.
    """

    score: float
    chip: CodesignChip
    usd: float


class CodesignRealChip(TypedDict):
    """A real chip that trains the same.

    Attributes:
        name: of its spec.
        score: the objective; null where no plan fits, or it is not known what the chip is made of.
        throughputs: samples per second by model; null where no plan fits.
        plans: the fastest of each model; null where none fits.
        power_w: with all units at work under its limit; null where it is not known.
        power_interval_w: with all units at work under its limit; null where it is not known.
        usd: cost of a package; null where it is not known.
        usd_interval: cost of a package; null where it is not known.
        basis: what its rates rest on.
    """

    name: str
    score: float | None
    throughputs: dict[str, float | None]
    plans: dict[str, Plan | None]
    power_w: float | None
    power_interval_w: list[float] | None
    usd: float | None
    usd_interval: list[float] | None
    basis: str


class CodesignChipFrontModel(TypedDict):
    """A model on a chip of a front.

    Attributes:
        plan: of the vocabulary of ``dse plan``.
        step_s: of a global batch.
    """

    plan: Plan
    step_s: float


class CodesignChipFrontPoint(TypedDict):
    """A chip of a front.

    Attributes:
        values: of each figure, by name.
        chip: which.
        models: the fastest plan of each and its step, by name.
    """

    values: dict[str, float]
    chip: CodesignChip
    models: dict[str, CodesignChipFrontModel]


class CodesignChipFront(TypedDict):
    """A front of chips.

    Attributes:
        figures: by name, two or three.
        gap: every chip of the space exceeds some point in each figure by at most this share; null without points.
        stopped: why the search ended early; null where it did not.
        boxes: what the search did.
        chips_evaluated: what the search did.
        points: from the best of the first figure on.
    """

    figures: list[str]
    gap: float | None
    stopped: str | None
    boxes: int
    chips_evaluated: int
    points: list[CodesignChipFrontPoint]


class CodesignChipAfterChange(TypedDict):
    """The best chip after a change; values are null where nothing fits.

    Attributes:
        score: the objective.
        chip: which.
        regret: share of the score that is lost by keeping the answer's chip; null where that is not within the
            limits.
    """

    score: float | None
    chip: CodesignChip | None
    regret: float | None


class CodesignMetrics(TypedDict):
    """``metrics``. What follows ``failed`` belongs to an answer, ``pareto`` and ``sensitivity`` to these options.
    ``metrics``; what follows ``unfinished`` belongs to searches that ended. Without it the bound is that of the
    fastest plan with the most processing elements and lanes of the space. ``metrics`` of several models, of another
    objective than throughput, or with a front. ``metrics``; what follows ``stopped`` belongs to searches that
    ended.

    Attributes:
        architectures_in_space: counts.
        architectures_evaluated: counts.
        architectures_pruned: counts.
        optimum_by_hbm: the best score at each HBM size.
        best_by_hbm: the architecture that has it.
        notes: idle accelerators, stretched networks, microbatch sizes that were left out.
        unfinished: what a time limit or an interrupt left out; ``--resume`` completes it.
        failed: evaluations that failed; ``--resume`` tries them again.
        score: the objective.
        area_budget_used: a share.
        interface_mm2: area of HBM and network interfaces.
        models: figures of each, by name.
        proven_optimum: the best score of the space; null where it is not known.
        distance_from_proven: of the score, as a share; null where it is not known.
        baselines: of each model.
        pareto: the front.
        sensitivity: points, takeovers and summary (``sensitivity_document``).
        plans_in_vocabulary: how many.
        stopped: why the search ended early; null where it did not.
        chips_in_space: how many, limits left out.
        silicon: area of a die by block, power, bill, dollars an hour and carbon of a package, as [value, low,
            high].
        limits: by name: what the chip takes, and the most that it may.
        boxes: what the search did.
        plan_bounds: what the search did.
        chips_evaluated: what the search did.
        equally_good: how many chips share the best score; the answer is the cheapest.
        near: the chips within the asked share of the best score, the best first.
        near_count: how many there are; the list has the first of them.
        chips: real chips with their best plans.
    """

    architectures_in_space: NotRequired[int]
    architectures_evaluated: NotRequired[int]
    architectures_pruned: NotRequired[int]
    optimum_by_hbm: NotRequired[dict[str, float] | dict[str, CodesignBestAtSize] | dict[str, CodesignSharedAtSize]]
    best_by_hbm: NotRequired[dict[str, CodesignBest]]
    notes: list[str]
    unfinished: NotRequired[list[Literal["pareto", "sensitivity"]] | list[Literal["baselines", "sensitivity"]]]
    failed: NotRequired[list[CodesignFailedEvaluation]]
    score: NotRequired[float]
    area_budget_used: NotRequired[float]
    interface_mm2: NotRequired[float]
    models: NotRequired[
        dict[str, CodesignModelFigures] | dict[str, CodesignModernModelFigures] | dict[str, CodesignChipModelFigures]
    ]
    proven_optimum: NotRequired[float | None]
    distance_from_proven: NotRequired[float | None]
    baselines: NotRequired[dict[str, list[CodesignBaseline]] | list[CodesignBaselineAnswer]]
    pareto: NotRequired[CodesignFront | CodesignSharedFront | CodesignChipFront]
    sensitivity: NotRequired[dict[str, Any] | dict[str, CodesignAfterChange] | dict[str, CodesignChipAfterChange]]
    plans_in_vocabulary: NotRequired[int]
    stopped: NotRequired[str | None]
    chips_in_space: NotRequired[int]
    silicon: NotRequired[dict[str, list[float] | dict[str, list[float]]]]
    limits: NotRequired[dict[str, dict[str, float]]]
    boxes: NotRequired[int]
    plan_bounds: NotRequired[int]
    chips_evaluated: NotRequired[int]
    equally_good: NotRequired[int]
    near: NotRequired[list[CodesignNearChip]]
    near_count: NotRequired[int]
    chips: NotRequired[list[CodesignRealChip]]


class PlaceStage(TypedDict):
    """A stage of a pipeline.

    Attributes:
        layers: by name.
        accelerators: of one pipeline.
        groups: where a stage of a branching graph runs on several groups side by side, the layers of each.
    """

    layers: list[str]
    accelerators: int
    groups: NotRequired[list[list[str]]]


class PlaceSolution(TypedDict):
    """``solution`` of a result: a placement.

    Attributes:
        tensor: the tensor-parallel width.
        data: the number of pipelines.
        stages: of one pipeline, from the first to the last.
    """

    tensor: int
    data: int
    stages: list[PlaceStage]


class PlaceMetrics(TypedDict):
    """``metrics`` of a result: the pipeline simulated in time; left out where passes are too many.

    Attributes:
        simulated_pipeline_s: until the last pass ends.
        simulated_batch_s: until the last optimizer step of any stage ends.
    """

    simulated_pipeline_s: NotRequired[float | None]
    simulated_batch_s: NotRequired[float | None]


class ScheduleSolution(TypedDict):
    """``solution`` of a result: a schedule.

    Attributes:
        operators: the run of each, by name.
    """

    operators: dict[str, ScheduleOperatorRun]


class ScheduleMetrics(TypedDict):
    """``metrics`` of a result: a schedule has none."""


class PartitionSolution(TypedDict):
    """``solution`` of a result: a partition.

    Attributes:
        chip: of each operator; of one that was copied, the chip of each copy by the consumer that it is for. What
            follows from weights and constants alone has no chip: every reader holds it.
    """

    chip: dict[str, int | dict[str, int]]


class PartitionMethod(TypedDict):
    """What one of several methods found.

    Attributes:
        method: its name.
        value: in the unit of the objective; null where there is none.
        bound: in the unit of the objective; null where there is none.
        gap: as in a result.
        evaluations: of partitions.
        seconds: of the run.
    """

    method: str
    value: float | None
    bound: float | None
    gap: float | None
    evaluations: int
    seconds: float


class PartitionMisfit(TypedDict):
    """What the fullest chip of a partition that does not fit lacks.

    Attributes:
        chip: its number.
        needed_bytes: what its operators need.
        limit_bytes: its memory.
        operators: [name, bytes] of those that need most, of weights alone or with outputs.
        explanation: one sentence.
    """

    chip: int
    needed_bytes: float
    limit_bytes: float
    operators: list[list[str | float]]
    explanation: str


class PartitionSolver(TypedDict):
    """What the constraint solver produced for ``random`` and ``anneal``.

    Attributes:
        partitions: their number.
        fall_backs: those that are linear because no general partition was found.
    """

    partitions: int
    fall_backs: int


class PartitionMetrics(TypedDict):
    """``metrics`` of a result: figures of its partition, if it has one, and of the run.

    Attributes:
        operators: of the graph.
        edges: of the graph.
        chips: of the package, and of the partition.
        chips_used: of the package, and of the partition.
        chip_s: seconds of every chip under the reference evaluator.
        link_s: seconds of every link.
        bottleneck: the chip or link that takes longest.
        chip_weight_bytes: weights of every chip; where they are streamed, of a lookup table only the rows that an
            input reads.
        chips_usable: no partition uses more chips.
        chips_usable_linear: the same for partitions whose data go from each chip to the next.
        methods: where several ran, the answer of each.
        unfinished: methods that were interrupted or not begun.
        misfit: where no partition that fits memory was found, what the nearest one lacks.
        solver: counts of the constraint solver.
    """

    operators: NotRequired[int | None]
    edges: NotRequired[int | None]
    chips: NotRequired[int | None]
    chips_used: NotRequired[int | None]
    chip_s: NotRequired[list[float] | None]
    link_s: NotRequired[list[float] | None]
    bottleneck: NotRequired[str | None]
    chip_weight_bytes: NotRequired[list[float] | None]
    chips_usable: NotRequired[int | None]
    chips_usable_linear: NotRequired[int | None]
    methods: NotRequired[list[PartitionMethod] | None]
    unfinished: NotRequired[list[str]]
    misfit: NotRequired[PartitionMisfit | None]
    solver: NotRequired[PartitionSolver | None]


class WaferPlaced(TypedDict):
    """A placed kernel.

    Attributes:
        h: execution parameters of the kernel.
        w: execution parameters of the kernel.
        c: execution parameters of each of its convolutions.
        k: execution parameters of each of its convolutions.
        x: lower corner of the rectangle as it lies, in tiles.
        y: lower corner of the rectangle as it lies, in tiles.
        rotation: ``R90``: turned by a right angle.
    """

    h: int
    w: int
    c: list[int]
    k: list[int]
    x: int
    y: int
    rotation: Literal["R0", "R90"]


class WaferPoint(TypedDict):
    """A point of a sweep.

    Attributes:
        width: of its wafer, in tiles.
        height: of its wafer, in tiles.
        memlimit: words of a tile.
        wdeltat: its weights of time, distance and adapters.
        wlength: its weights of time, distance and adapters.
        wadapter: its weights of time, distance and adapters.
        tiles: of the wafer.
        status: of its answer.
        cost: of its placement; null without one.
        bound: no placement costs less; null where nothing is known.
        time: of its placement; null without one.
        distance: of its placement; null without one.
        adapter: of its placement; null without one.
        front: whether it is on the front.
        certain: whether the bounds prove that it is, or that it is not.
        found_at: the point whose run found the placement.
        infeasibility: the proof that no placement is legal, or null.
        reason: why its own run did not end, or null.
        kernels: the placement as in ``PlacementDocument``, or null.
    """

    width: int
    height: int
    memlimit: int
    wdeltat: float
    wlength: float
    wadapter: float
    tiles: int
    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    cost: float | None
    bound: float | None
    time: float | None
    distance: float | None
    adapter: int | None
    front: bool
    certain: bool
    found_at: str | None
    infeasibility: dict[str, Any] | None
    reason: str | None
    kernels: dict[str, WaferPlaced] | None


class WaferSolution(TypedDict):
    """``solution`` of one wafer. ``solution`` of a sweep.

    Attributes:
        kernels: by name.
        points: by name, in the order of the grid.
    """

    kernels: NotRequired[dict[str, WaferPlaced]]
    points: NotRequired[dict[str, WaferPoint]]


class WaferMetrics(TypedDict):
    """``metrics`` of a placement. ``metrics`` of a sweep. ``metrics`` where no placement was found.

    Attributes:
        time: of the slowest kernel, in the contest's unit.
        distance: sum over edges, in tiles.
        adapter: mismatches of h, w and c over all edges.
        kernels: of the graph.
        edges: of the graph.
        utilisation: share of the wafer's tiles inside kernels.
        busy: share of the wafer's tiles that work, averaged over the time of the slowest kernel.
        unfinished: the parts that were interrupted.
        points: how many there are.
        infeasible: number of infeasible points.
        front: names of the points on it.
    """

    time: NotRequired[float]
    distance: NotRequired[float]
    adapter: NotRequired[int]
    kernels: NotRequired[int]
    edges: NotRequired[int]
    utilisation: NotRequired[float]
    busy: NotRequired[float]
    unfinished: list[Literal["search", "bound"]] | list[str]
    points: NotRequired[int]
    infeasible: NotRequired[int]
    front: NotRequired[list[str]]


class ParallelSolutionForm(TypedDict):
    """``solution`` of ``--strategy sharding``.

    Attributes:
        mesh: the axes, from the outermost in.
        arguments: by name, for each dimension the axes that split it.
        operations: by the name of its first result, each operation that is cut: for each axis the number of the
            factor (−1: none), and the dimension along which its terms are scattered (−1: they are all-reduced, or
            there are none).
    """

    mesh: str
    arguments: dict[str, list[list[str]]]
    operations: dict[str, list[list[int]]]


class ParallelSolution(TypedDict):
    """``solution`` of ``--strategy sharding``. ``solution`` of ``--strategy pipeline``. ``solution`` of
    ``--strategy hybrid``. ``solution`` of ``--strategy all``.

    Attributes:
        mesh: the axes, from the outermost in.
        arguments: by name, for each dimension the axes that split it.
        operations: by the name of its first result, each operation that is cut: for each axis the number of the
            factor (−1: none), and the dimension along which its terms are scattered (−1: they are all-reduced, or
            there are none).
        cuts: the instruction that each stage after the first begins with.
        device_cuts: the first device of each stage after the first.
        microbatches: of a batch.
        replicas: of each stage; as many as its devices where these do equal shares. Of the only stage of one
            microbatch the devices along the outer axis of its mesh.
        shardings: of each stage the plan over the devices of a replica, as of a sharded step; None of equal shares.
        best: the strategy of the shortest step.
        plans: the ``solution`` of each strategy, by name.
    """

    mesh: NotRequired[str]
    arguments: NotRequired[dict[str, list[list[str]]]]
    operations: NotRequired[dict[str, list[list[int]]]]
    cuts: NotRequired[list[str]]
    device_cuts: NotRequired[list[int]]
    microbatches: NotRequired[int]
    replicas: NotRequired[list[int]]
    shardings: NotRequired[list[ParallelSolutionForm | None]]
    best: NotRequired[str]
    plans: NotRequired[dict[str, dict[str, Any]]]


class ParallelCollective(TypedDict):
    """Collectives of one kind along the same axes for one cause.

    Attributes:
        kind: as in ``Sent``.
        axes: as in ``Sent``.
        cause: as in ``Sent``.
        runs: in a step.
        bytes: of the arrays that a group of devices holds together, summed over all runs.
        seconds: all runs in sequence.
    """

    kind: str
    axes: str
    cause: Literal["terms", "resharding", "carried"]
    runs: int
    bytes: int
    seconds: float


class ParallelBaseline(TypedDict):
    """A plan to compare with; pins and the memory limit are ignored.

    Attributes:
        step_s: the time of a step, and that of all collectives.
        communication_s: the time of a step, and that of all collectives.
        state_bytes: of all arguments on one device.
        peak_bytes: peak of arguments and intermediate arrays on one device.
    """

    step_s: float
    communication_s: float
    state_bytes: int
    peak_bytes: int


class ParallelWhole(TypedDict):
    """Operations of one opcode that every device computes as a whole.

    Attributes:
        opcode: of custom calls, with their target.
        count: how many.
        flops: of all of them, with their repeats; 0 if only the bytes that they move are known.
        names: of the first few.
    """

    opcode: str
    count: int
    flops: int
    names: list[str]


class ParallelAlternative(TypedDict):
    """A layout of the argument of ``--why``.

    Attributes:
        split: for each dimension the axes that split it.
        step_s: time of a step with it; null where no plan has it.
        reason: why no plan has it.
    """

    split: list[list[str]]
    step_s: float | None
    reason: str


class ParallelStage(TypedDict):
    """A stage.

    Attributes:
        first: the instructions that its forward part begins and ends with, in the order of the step's points.
        last: the instructions that its forward part begins and ends with, in the order of the step's points.
        points: the instructions, or loops, of its forward part.
        devices: how many it has.
        variables: trained tensors that it reads, and their bytes.
        weight_bytes: trained tensors that it reads, and their bytes.
        copies: trained tensors that it reads and an earlier stage has too.
        forward_s: of a microbatch.
        backward_s: of a microbatch.
        send_bytes: of activations of a microbatch to the next stage.
        send_s: their time, one way.
        all_reduce_s: of its gradients, once per batch.
        device_bytes: stored on each of its devices.
    """

    first: str
    last: str
    points: int
    devices: int
    variables: int
    weight_bytes: int
    copies: list[str]
    forward_s: float
    backward_s: float
    send_bytes: float
    send_s: float
    all_reduce_s: float
    device_bytes: float


class ParallelPipelineBaseline(TypedDict):
    """A plan to compare with; the memory limit is ignored.

    Attributes:
        length_s: of the pipeline.
        device_bytes: the maximum that a device stores.
    """

    length_s: float
    device_bytes: float


class ParallelHybridStage(TypedDict):
    """A stage.

    Attributes:
        first: the instructions that its forward part begins and ends with.
        last: the instructions that its forward part begins and ends with.
        points: the instructions, or loops, of its forward part.
        devices: how many it has.
        replicas: how many it has.
        variables: trained tensors that it reads.
        forward_s: of a microbatch.
        backward_s: of a microbatch.
        send_s: of its activations to the next stage.
        closing_s: joining its gradients and updating its trained tensors, once per batch.
        device_bytes: stored on each of its devices.
    """

    first: str
    last: str
    points: int
    devices: int
    replicas: int
    variables: int
    forward_s: float
    backward_s: float
    send_s: float
    closing_s: float
    device_bytes: float


class ParallelStrategy(TypedDict):
    """The outcome of a strategy.

    Attributes:
        status: of its answer.
        objective: the name of its own objective.
        value: of its own objective; None without a plan.
        step_s: the time of a whole step of its plan.
        bound_s: no plan of the strategy has a shorter step; None where nothing fits or nothing is known.
        gap: between the two, as a share of the step; None where one of them is missing.
        device_bytes: the maximum that a device stores.
        lacking_bytes: missing bytes of the smallest plan, if none fits; of a hybrid plan a lower bound.
    """

    status: str
    objective: str
    value: float | None
    step_s: float | None
    bound_s: float | None
    gap: float | None
    device_bytes: float | None
    lacking_bytes: float | None


class ParallelMetrics(TypedDict):
    """``metrics`` of ``--strategy sharding``. ``metrics`` of ``--strategy pipeline``. ``metrics`` of ``--strategy
    hybrid``. ``metrics`` of ``--strategy all``.

    Attributes:
        step_s: the time of a step: work_s and communication_s in sequence, without hidden_s.
        work_s: work, communication, and how much of that overlaps with work.
        communication_s: work, communication, and how much of that overlaps with work.
        hidden_s: work, communication, and how much of that overlaps with work.
        state_bytes: of all arguments on one device.
        peak_bytes: peak of arguments and intermediate arrays on one device.
        split_dimensions: of trained tensors.
        collectives: by kind, axes and cause, those with the most bytes first.
        one_device_s: the step on one device.
        baselines: plans that need no search (``baselines``), by name; only those that exist.
        whole_operations: what every device computes as a whole, because no rule splits it, by opcode.
        unfinished: ``why`` where the run was stopped before all layouts were tried.
        why: every layout of the argument given with ``--why``; None without it.
        length_s: of the pipeline: first_s, as often slowest_s as further microbatches, and exposed_s.
        first_s: until the first microbatch has passed.
        slowest_s: added by every further microbatch.
        exposed_s: all-reduces that are not hidden.
        update_s: the update of all trained tensors on one device, which the length excludes.
        stages: from the first to the last.
        strategies: the outcome of each, by name.
        plans: the ``metrics`` of each strategy, by name.
    """

    step_s: NotRequired[float]
    work_s: NotRequired[float]
    communication_s: NotRequired[float]
    hidden_s: NotRequired[float]
    state_bytes: NotRequired[int]
    peak_bytes: NotRequired[int]
    split_dimensions: NotRequired[int]
    collectives: NotRequired[list[ParallelCollective]]
    one_device_s: NotRequired[float]
    baselines: NotRequired[dict[str, ParallelBaseline] | dict[str, ParallelPipelineBaseline]]
    whole_operations: NotRequired[list[ParallelWhole]]
    unfinished: NotRequired[list[str]]
    why: NotRequired[list[ParallelAlternative] | None]
    length_s: NotRequired[float]
    first_s: NotRequired[float]
    slowest_s: NotRequired[float]
    exposed_s: NotRequired[float]
    update_s: NotRequired[float]
    stages: NotRequired[list[ParallelStage] | list[ParallelHybridStage]]
    strategies: NotRequired[dict[str, ParallelStrategy]]
    plans: NotRequired[dict[str, dict[str, Any]]]


class FabricPiece(TypedDict):
    """``solution`` of a graph that fits: what is on the fabric at the same time.

    Attributes:
        unit: the sites of every operator's units: parts, weights, sums of gradients, buffers. Sites of compute and
            memory units are numbered row by row, then come those of input and output.
        routes: for every unit that sends, the links of each of its nets as ``[from, to]``, from the unit's own cell
            outwards; row r and column c have the cell r · columns + c. A net without links stays at the switch.
    """

    unit: dict[str, list[int]]
    routes: dict[str, list[list[list[int]]]]


class FabricTurn(TypedDict):
    """A turn on the fabric.

    Attributes:
        piece: its number, from 1.
        operators: those that it runs, by name.
    """

    piece: int
    operators: list[str]


class FabricSolution(TypedDict):
    """``solution`` of a graph that fits: what is on the fabric at the same time. ``solution`` of a graph that is
    cut.

    Attributes:
        unit: the sites of every operator's units: parts, weights, sums of gradients, buffers. Sites of compute and
            memory units are numbered row by row, then come those of input and output.
        routes: for every unit that sends, the links of each of its nets as ``[from, to]``, from the unit's own cell
            outwards; row r and column c have the cell r · columns + c. A net without links stays at the switch.
        pieces: all different.
        turns: the order in which they are on the fabric.
    """

    unit: NotRequired[dict[str, list[int]]]
    routes: NotRequired[dict[str, list[list[list[int]]]]]
    pieces: NotRequired[list[FabricPiece]]
    turns: NotRequired[list[FabricTurn]]


class FabricBound(TypedDict):
    """The bound on every placement.

    Attributes:
        resource: the one that limits.
        unit: by name; null for the channels off chip together.
        slots: minimum between two samples.
    """

    resource: Literal["compute", "memory_port", "off_chip", "links", "buffer", "queue"]
    unit: str | None
    slots: float


class FabricLink(TypedDict):
    """The busiest link.

    Attributes:
        cells: its two ends.
        flits: per sample that pass it.
        nets: whose flits these are.
    """

    cells: list[int]
    flits: int
    nets: int


class FabricRelief(TypedDict):
    """The same placement with one resource relieved.

    Attributes:
        change: key of ``CHANGES``.
        interval_slots: between two samples; null in a deadlock.
    """

    change: str
    interval_slots: float | None


class FabricPieceMetrics(TypedDict):
    """Figures of a piece.

    Attributes:
        units: by kind of site.
        fill: share of the fabric's sites that have a unit, by kind.
        stages: units on the longest path of nets.
        ideal_slots: of work of the slowest unit.
        interval_slots: between departures; null in a deadlock, and of a cut graph if the run was stopped before
            ``relief``.
        normalized: ideal over measured slots (paper, section IV-A), 0 in a deadlock; null where that was left out.
        deadlock: whether no unit can proceed.
        blocked: in a deadlock, samples that each unit has ended, by name; otherwise empty.
        latency_s: of a sample on an empty fabric.
        batch_latency_s: of a batch.
        bound: what no placement can beat.
        rules: terms of the rules (``RuleTerms``).
        busiest_link: null where no net leaves its cell.
        waits: slots between two departures in the window of the throughput, by cause (``CAUSES``); null where
            ``interval_slots`` is. Their sum is ``interval_slots``, or less where the bound counts.
        relief: one resource relieved at a time, of those that could gain 1 %; empty where none could or an
            interrupt came first, and of a cut graph for all pieces but the one that takes most of the time.
    """

    units: dict[str, int]
    fill: dict[str, float]
    stages: int
    ideal_slots: int
    interval_slots: float | None
    normalized: float | None
    deadlock: bool
    blocked: dict[str, int]
    latency_s: float | None
    batch_latency_s: float | None
    bound: FabricBound
    rules: dict[str, float]
    busiest_link: FabricLink | None
    waits: dict[str, float] | None
    relief: list[FabricRelief]


class FabricTurnMetrics(TypedDict):
    """Seconds of a turn.

    Attributes:
        piece: its number, from 1.
        configuration_s: of the fabric.
        load_s: of weights.
        run_s: of the batch; null in a deadlock.
        bound_s: the least that ``run_s`` can be, however the piece is placed.
    """

    piece: int
    configuration_s: float
    load_s: float
    run_s: float | None
    bound_s: float


class FabricCutMetrics(TypedDict):
    """What is known of a cut graph.

    Attributes:
        turns: in order.
        batch_s: of the whole batch; null where a piece is in a deadlock.
        bound_per_s: samples per second at most with this cut, however its pieces are placed.
    """

    turns: list[FabricTurnMetrics]
    batch_s: float | None
    bound_per_s: float


class FabricMetrics(TypedDict):
    """``metrics``.

    Attributes:
        pieces: one where the graph fits.
        cut: null where the graph fits.
        unfinished: what an interrupt left out.
        notes: where another cost was used than the one requested.
    """

    pieces: list[FabricPieceMetrics]
    cut: FabricCutMetrics | None
    unfinished: list[Literal["chains", "relief"]]
    notes: list[str]


class PlanSolution(TypedDict):
    """``solution``. ``solution`` of ``--batch``.

    Attributes:
        plan: the chosen plan.
        line: its row in the table, the header being line 1.
    """

    plan: Plan
    line: NotRequired[int]


class PlanPriced(TypedDict):
    """A plan and what it costs.

    Attributes:
        step_s: time of a step.
        memory_bytes: of the fullest rank.
        plan: which.
    """

    step_s: float
    memory_bytes: float
    plan: Plan


class PlanPricedRows(TypedDict):
    """Priced rows, an entry of each list for each row.

    Attributes:
        line: of the table.
        step_s: time of a step.
        low_s: between which the step is with a probability of 0.9; null where too little was measured.
        high_s: between which the step is with a probability of 0.9; null where too little was measured.
        stacks_low_s: the fastest, middle and slowest step with the stacks that could be meant; null where one is
            named.
        stacks_middle_s: the fastest, middle and slowest step with the stacks that could be meant; null where one is
            named.
        stacks_high_s: the fastest, middle and slowest step with the stacks that could be meant; null where one is
            named.
        tokens_per_s: of all accelerators.
        memory_bytes: of the fullest rank.
        fits: whether that is no more than an accelerator has.
        plan: the plan in its short form, with what was chosen for the row.
    """

    line: list[int]
    step_s: list[float]
    low_s: list[float | None]
    high_s: list[float | None]
    stacks_low_s: list[float | None]
    stacks_middle_s: list[float | None]
    stacks_high_s: list[float | None]
    tokens_per_s: list[float]
    memory_bytes: list[float]
    fits: list[bool]
    plan: list[str]


class PlanRefusedRow(TypedDict):
    """A row that is not priced.

    Attributes:
        line: of the table.
        rule: what it breaks.
    """

    line: int
    rule: str


class PlanComparedPart(TypedDict):
    """A part of a step.

    Attributes:
        predicted_s: of the busiest stage.
        measured_s: of the rank that computes longest.
    """

    predicted_s: float
    measured_s: float


class PlanMetrics(TypedDict):
    """``metrics`` of ``dse plan``. ``metrics`` of ``--batch``. ``metrics`` of ``dse plan --measured``.

    Attributes:
        step_s: as of ``dse predict``.
        tokens_per_s: as of ``dse predict``.
        tokens_per_s_per_accelerator: as of ``dse predict``.
        model_flops_per_accelerator: as of ``dse predict``.
        mfu: as of ``dse predict``.
        time_s: as of ``dse predict``.
        memory_bytes: as of ``dse predict``.
        intervals: as of ``dse predict``.
        stacks: as of ``dse predict``.
        pareto: the fastest plan for each amount of memory; after an early end the plan alone.
        without: the best step without each part of the vocabulary that the plan uses; null where nothing fits then.
        sensitivity: with this option, the best plan after each change; null where nothing fits then.
        constraints: with this option, the best plan without each rule of ``CONSTRAINTS``.
        stopped: why the run ended early.
        plans: the priced rows.
        refused: those that are not.
        near_fastest: plans that fit the machine of the fastest one and are slower with a probability below 0.9;
            null where fewer than nine measured runs are as near.
        unpriced: lines of rows that a run which was stopped has left.
        measured: by part, and of the whole ``step``. Classes of kernels that overlap count more than once.
    """

    step_s: NotRequired[float]
    tokens_per_s: NotRequired[float]
    tokens_per_s_per_accelerator: NotRequired[float]
    model_flops_per_accelerator: NotRequired[float]
    mfu: NotRequired[float]
    time_s: NotRequired[dict[str, float]]
    memory_bytes: NotRequired[dict[str, float]]
    intervals: NotRequired[dict[str, dict[str, Any]]]
    stacks: dict[str, float]
    pareto: NotRequired[list[PlanPriced]]
    without: NotRequired[dict[str, float | None]]
    sensitivity: NotRequired[dict[str, PlanPriced | None] | None]
    constraints: NotRequired[dict[str, PlanPriced] | None]
    stopped: NotRequired[str | None]
    plans: NotRequired[PlanPricedRows]
    refused: NotRequired[list[PlanRefusedRow]]
    near_fastest: NotRequired[int | None]
    unpriced: NotRequired[list[int]]
    measured: NotRequired[dict[str, PlanComparedPart] | None]


class PredictSolution(TypedDict):
    """``solution``. ``solution`` of ``--batch``.

    Attributes:
        plan: the chosen plan.
        line: its row in the table, the header being line 1.
    """

    plan: Plan
    line: NotRequired[int]


class PredictMetrics(TypedDict):
    """``metrics`` of ``dse predict``. ``metrics`` of ``--batch``. ``metrics`` of ``dse predict --measured``.

    Attributes:
        step_s: time of a step.
        tokens_per_s: of all accelerators, and of one.
        tokens_per_s_per_accelerator: of all accelerators, and of one.
        model_flops_per_accelerator: per second.
        mfu: model FLOPs per second over the peak in the plan's precision.
        time_s: by part of the busiest stage; the sum is ``step_s``.
        memory_bytes: of the fullest rank, by part.
        intervals: of each metric but the parts: ``level`` (0.9), ``low`` and ``high``, the ``class`` of runs that
            are as near, the number of these ``rows``, and the ``method``; where there is none, low and high are
            null and a ``reason`` is given.
        stacks: the step of this plan with each software stack that could be meant on the chip; empty for templates.
        best: the fastest plan on the same machine; null where the run was stopped before it was known.
        best_is_faster: the probability that the fastest plan is really faster than this one; null where fewer than
            nine measured runs are as near.
        stopped: why the run ended early.
        plans: the priced rows.
        refused: those that are not.
        near_fastest: plans that fit the machine of the fastest one and are slower with a probability below 0.9;
            null where fewer than nine measured runs are as near.
        unpriced: lines of rows that a run which was stopped has left.
        measured: by part, and of the whole ``step``. Classes of kernels that overlap count more than once.
    """

    step_s: NotRequired[float]
    tokens_per_s: NotRequired[float]
    tokens_per_s_per_accelerator: NotRequired[float]
    model_flops_per_accelerator: NotRequired[float]
    mfu: NotRequired[float]
    time_s: NotRequired[dict[str, float]]
    memory_bytes: NotRequired[dict[str, float]]
    intervals: NotRequired[dict[str, dict[str, Any]]]
    stacks: dict[str, float]
    best: NotRequired[PlanPriced | None]
    best_is_faster: NotRequired[float | None]
    stopped: NotRequired[str | None]
    plans: NotRequired[PlanPricedRows]
    refused: NotRequired[list[PlanRefusedRow]]
    near_fastest: NotRequired[int | None]
    unpriced: NotRequired[list[int]]
    measured: NotRequired[dict[str, PlanComparedPart] | None]


class TraceStep(TypedDict):
    """The time of one step on one device, in states that add up to the window.

    Attributes:
        rank: of the process.
        device: its number in the profile.
        name: of the step.
        cut: what states where it begins and ends: ``host`` is a mark of the host, ``device`` spans what the step
            ran on the device, ``whole`` is from the first start to the last end.
        events: kernels, copies and fills that begin in it.
        window_s: its length: the sum of the next four.
        compute_s: in which a kernel computes.
        exposed_communication_s: in which collectives run and nothing computes.
        exposed_copy_s: in which only copies or fills run.
        idle_s: in which nothing runs.
        communication_s: in which collectives run, hidden or not.
        copy_s: in which copies or fills run, hidden or not.
        classes: time of the events of each class; of events that overlap, each counts.
    """

    rank: int
    device: int
    name: str
    cut: Literal["host", "device", "whole"]
    events: int
    window_s: float
    compute_s: float
    exposed_communication_s: float
    exposed_copy_s: float
    idle_s: float
    communication_s: float
    copy_s: float
    classes: dict[str, float]


class TraceShare(TypedDict):
    """What events have alike, how many there are, and their time together.

    Attributes:
        rank: of the process.
        name: of the class, layer or operator; empty where that is not known.
        events: how many.
        time_s: of all of them; of events that overlap, each counts.
    """

    rank: int
    name: str
    events: int
    time_s: float


class TraceGemm(TypedDict):
    """Matrix products of one size, ``batch`` times m × k by k × n, on all ranks.

    Attributes:
        operator: that carries them out.
        batch: products of one call.
        m: rows of the first operand.
        n: columns of the second.
        k: what is summed over.
        element: type of the first operand, as the profiler calls it; empty where it was not recorded.
        calls: how many.
        kernels: that they launched.
        time_s: of all these kernels.
        median_s: of a call.
        flops: of all calls.
        flops_per_s: over the time of the kernels of class ``gemm`` alone; null without any.
    """

    operator: str
    batch: int
    m: int
    n: int
    k: int
    element: str
    calls: int
    kernels: int
    time_s: float
    median_s: float
    flops: int
    flops_per_s: float | None


class TraceCollective(TypedDict):
    """The collectives of one kind in one group, on one rank.

    Attributes:
        rank: of the process.
        kind: such as ``all_reduce``; ``send_recv`` is how NCCL carries out an all-to-all.
        group: as the profiler calls it; empty where it was not recorded.
        calls: how many.
        bytes: that the rank puts in, all together; null where that was not recorded.
        time_s: of their kernels.
        transfer_s: what the data takes: of each the least time over the ranks; null where not all ranks are given.
        waiting_s: the rest; null likewise.
    """

    rank: int
    kind: str
    group: str
    calls: int
    bytes: int | None
    time_s: float
    transfer_s: float | None
    waiting_s: float | None


class TraceClock(TypedDict):
    """A clock that collectives prove to differ from that of the first rank.

    Attributes:
        rank: whose.
        first_s: how much later the same collectives end by it, at the beginning of the profile.
        last_s: at the end.
    """

    rank: int
    first_s: float
    last_s: float


class TraceSolution(TypedDict):
    """``solution``: where the time goes.

    Attributes:
        steps: of each rank, then the whole profile.
        classes: of work, by rank.
        layers: by rank; those of modules of which the model has several, or else the module itself.
        operators: of the host, by rank; the innermost around each launch.
        gemms: matrix products by size, those with the most time first.
        collectives: by kind, group and rank.
        clocks: those that differ.
    """

    steps: list[TraceStep]
    classes: list[TraceShare]
    layers: list[TraceShare]
    operators: list[TraceShare]
    gemms: list[TraceGemm]
    collectives: list[TraceCollective]
    clocks: list[TraceClock]


class TraceMetrics(TypedDict):
    """``metrics``.

    Attributes:
        format: what wrote the profiles.
        ranks: that are given.
        events: kernels, copies and fills on all devices.
        unlinked_events: of these, those whose launch is not in the profile.
    """

    format: str
    ranks: int
    events: int
    unlinked_events: int


class CampaignCells(TypedDict):
    """The cells, an entry of each list for each.

    Attributes:
        axes: by name the labels.
        baseline: the name of the baseline that a cell belongs to; empty for none.
        problem: the name of what was posed.
        status: ``failed`` where the problem refuses the cell, ``stopped`` at a limit, ``open`` where the campaign
            ended before it.
        objective: what was optimised.
        unit: what was optimised.
        sense: what was optimised.
        value: as of a result.
        bound: as of a result.
        gap: as of a result.
        method: that gave the answer.
        reason: why there is no value, or no proof.
        solution: the first words and numbers of the cell's solution.
        answer: the first digits of the digest of the whole solution.
    """

    axes: dict[str, list[str]]
    baseline: list[str]
    problem: list[str]
    status: list[Literal["optimal", "feasible", "infeasible", "unknown", "failed", "stopped", "open"]]
    objective: list[str]
    unit: list[str]
    sense: list[str]
    value: list[float | None]
    bound: list[float | None]
    gap: list[float | None]
    method: list[str]
    reason: list[str]
    solution: list[str]
    answer: list[str]


class CampaignSolution(TypedDict):
    """``solution``.

    Attributes:
        cells: a table.
        figures: the numbers of the cells' metrics by name, an entry for each cell; null where it has none.
    """

    cells: CampaignCells
    figures: dict[str, list[float | None]]


class CampaignChoice(TypedDict):
    """One choice over all conditions.

    Attributes:
        choice: its labels, in the order of the axes that are chosen; the name of a baseline.
        baseline: whether it is one.
        answered: conditions that it has a value for.
        best: those of which no other choice has a better one.
        mean_ratio: its value over the best one, in the direction that is worse: the geometric mean, by weights.
            Null where it does not answer each condition that any choice answers.
        max_ratio: the largest.
        over: by baseline, the geometric mean of its value over that of the baseline, likewise.
    """

    choice: list[str]
    baseline: bool
    answered: int
    best: int
    mean_ratio: float | None
    max_ratio: float | None
    over: dict[str, float | None]


class CampaignMetrics(TypedDict):
    """``metrics``.

    Attributes:
        counts: cells by status.
        choices: each choice over all conditions.
        least_regret: the choice with the least mean ratio of those that answer all; null where there is none.
        least_max_regret: that with the least maximum ratio.
        seconds: that each cell took.
        stopped: why the campaign ended early.
    """

    counts: dict[str, int]
    choices: list[CampaignChoice]
    least_regret: list[str] | None
    least_max_regret: list[str] | None
    seconds: list[float]
    stopped: NotRequired[str | None]


class ServeServingPlan(TypedDict):
    """A configuration. Keys as of ``ServingPlan``."""

    mode: str
    engine: str
    tensor: int
    pipeline: int
    attention_data: int
    expert: int
    expert_tensor: int
    replicas: int
    batch: int
    chunk: int
    precision: str
    kv_precision: str
    drafts: NotRequired[int]


class ServePrefill(TypedDict):
    """Workers that compute prompts."""

    tensor: int
    pipeline: int
    attention_data: int
    expert: int
    expert_tensor: int
    replicas: int
    chunk: int


class ServeDecode(TypedDict):
    """Workers that write tokens."""

    tensor: int
    pipeline: int
    attention_data: int
    expert: int
    expert_tensor: int
    replicas: int
    batch: int


class ServeSplitPlan(TypedDict):
    """A configuration with workers for prompts and for tokens.

    Attributes:
        mode: ``disaggregated``.
        engine: of all workers.
        precision: of all workers.
        kv_precision: of all workers.
        drafts: of all workers.
        prefill: those for prompts.
        decode: those for tokens.
    """

    mode: str
    engine: str
    precision: str
    kv_precision: str
    drafts: NotRequired[int]
    prefill: ServePrefill
    decode: ServeDecode


class ServeSolution(TypedDict):
    """``solution``.

    Attributes:
        plan: the chosen configuration.
    """

    plan: ServeServingPlan | ServeSplitPlan


class ServeStatistics(TypedDict):
    """Of requests, by events.

    Attributes:
        mean: of those that were answered.
        p50: of those that were answered.
        p90: of those that were answered.
        p99: of those that were answered.
    """

    mean: float
    p50: float
    p90: float
    p99: float


class ServeMeans(TypedDict):
    """Means of requests by the closed form.

    Attributes:
        ttft_s: from sending to the first token.
        tpot_s: between tokens.
        latency_s: from sending to the last token.
    """

    ttft_s: float
    tpot_s: float
    latency_s: float


class ServeEvents(TypedDict):
    """What a simulation of one batch's requests says.

    Attributes:
        tokens_per_s: output of the machine.
        goodput_per_s: requests a second whose own TTFT and TPOT keep the limits.
        keeps_limits: whether the statistic of requests keeps them.
        requests: that were answered.
        refused: that memory cannot hold.
        preemptions: of requests that gave their memory back.
        steps: of the batch.
    """

    tokens_per_s: float
    goodput_per_s: float
    keeps_limits: bool
    requests: int
    refused: int
    preemptions: int
    steps: int


class ServeUsd(TypedDict):
    """Dollars for a million output tokens, each as [value, low, high].

    Attributes:
        at_cost: with chips at what they cost to make.
        at_price: with chips at what they sell for.
    """

    at_cost: list[float]
    at_price: list[float]


class ServeCounts(TypedDict):
    """The proof.

    Attributes:
        priced: configurations that were priced.
        vocabulary: all; the others are ruled out by bounds.
    """

    priced: int
    vocabulary: int


class ServeChoice(TypedDict):
    """A configuration with its means.

    Attributes:
        tokens_per_s_per_accelerator: output, over the accelerators that it uses.
        accelerators: that it uses.
        ttft_s: means of requests.
        tpot_s: means of requests.
        plan: which.
    """

    tokens_per_s_per_accelerator: float
    accelerators: int
    ttft_s: float
    tpot_s: float
    plan: ServeServingPlan | ServeSplitPlan


class ServeOrder(TypedDict):
    """Whether the order of the closed form holds by events.

    Attributes:
        repriced: configurations within the closed form's error of the best.
        holds: whether the best by the closed form is the best by events.
        best: the best by events, with its means by events.
    """

    repriced: int
    holds: bool
    best: ServeChoice


class ServeFront(TypedDict):
    """A point of the front.

    Attributes:
        tokens_per_s_per_user: one over TPOT.
        tokens_per_s_per_accelerator: output, over the accelerators of a replica.
        requests: in flight on a replica.
        plan: which.
    """

    tokens_per_s_per_user: float
    tokens_per_s_per_accelerator: float
    requests: int
    plan: ServeServingPlan | ServeSplitPlan


class ServePool(TypedDict):
    """Of workers of one kind.

    Attributes:
        accelerators: that they use.
        largest_rate_per_s: requests a second that they answer at most.
    """

    accelerators: int
    largest_rate_per_s: float


class ServeMetrics(TypedDict):
    """``metrics`` of ``dse serve``.

    Attributes:
        accelerators: that the configuration uses.
        tokens_per_s: output by the closed form.
        tokens_per_s_per_accelerator: output by the closed form.
        largest_rate_per_s: requests a second that it can answer; in a closed loop, that it does answer.
        ttft_s: of requests, by events.
        tpot_s: of requests, by events.
        latency_s: of requests, by events.
        intervals: of the means of TTFT and TPOT: ``level`` (0.9), ``low`` and ``high``, the ``class`` of runs that
            are as near, the number of these ``rows``, and the ``method``; where there is none, low and high are
            null and a ``reason`` is given.
        closed_form: the same by the closed form, of which optimality is proven.
        events: what else the simulation says.
        time_s: of a request's mean latency, by part.
        memory_bytes: of a chip of the fullest stage, by part; ``kept`` is what the engine leaves. Of workers apart
            with ``prefill:`` or ``decode:`` in front.
        kv_tokens: tokens whose keys and values all replicas hold.
        running: requests that run at once.
        binds: limits that are within a hundredth, memory where requests wait for it, of workers apart those that
            answer fewer requests, and the largest part of a token.
        tokens_per_joule: output, over the energy of chips, servers, network and building at full power, as [value,
            low, high]; null where the spec does not say what the chip is made of.
        usd_per_million_tokens: likewise.
        configurations: how many there are, and were priced.
        order: whether the order holds by events.
        without: the best without each limit.
        front: output for each accelerator over that for each user, of the whole vocabulary.
        most_output: of a closed loop, where accelerators stay free: the configuration of the most output in all.
        best: the best of all, where something is fixed.
        pools: of workers apart, by what they do.
        modes: the best of each mode, where both are searched.
        stopped: why the run ended early.
    """

    accelerators: int
    tokens_per_s: float
    tokens_per_s_per_accelerator: float
    largest_rate_per_s: float
    ttft_s: ServeStatistics
    tpot_s: ServeStatistics
    latency_s: ServeStatistics
    intervals: dict[str, dict[str, Any]]
    closed_form: ServeMeans
    events: ServeEvents
    time_s: dict[str, float]
    memory_bytes: dict[str, float]
    kv_tokens: float
    running: float
    binds: list[str]
    tokens_per_joule: list[float] | None
    usd_per_million_tokens: ServeUsd | None
    configurations: NotRequired[ServeCounts | None]
    order: NotRequired[ServeOrder | None]
    without: NotRequired[dict[str, ServeChoice] | None]
    front: NotRequired[list[ServeFront] | None]
    most_output: NotRequired[ServeChoice | None]
    best: NotRequired[ServeChoice | None]
    pools: NotRequired[dict[str, ServePool] | None]
    modes: NotRequired[dict[str, ServeChoice] | None]
    stopped: NotRequired[str | None]
