"""Energy and power next to published power: TPUv4 in training, an A100 on large GEMMs, peak power; and pricing speed.

TPUv4 draws 121 / 170 / 192 W (minimum, mean, maximum over production workloads; 90 W idle; chip and HBM; Jouppi et
al., ISCA 2023, Table 4), an A100-SXM at most 400 W (board). Both are priced at their process, 7 nm, and die area, which
is what can be compared; the paper's TPUv4 is a template, priced at the 22 nm of its areas. Idle power is calibrated on
TPUv4 itself (90 W), so only what lies above it is predicted. Nothing else is calibrated, and not all is counted
(instructions, clocks beyond idle, wires between buffer and cores, power conversion): predictions below the measurements
are expected at 7 nm.
"""

import time

from benchmarks.recording import Record, Results, parser_of

MODELS = ("bert-large", "gpt3-175b")
TRAINED = ("bert-large", "gpt2-xl", "megatron-8.3b")
PUBLISHED = {
    "tpuv4": "170 W on average, 192 W at most (in production; Jouppi et al., ISCA 2023)",
    "a100-sxm": "400 W limit",
    "v100": "300 W limit",
}
"""Of chip and memory, or of the board."""

RECORD = Record("energy", tables={"main": ("accelerator", "modelled", "published")})
TPUV4_W = (121, 170, 192)
A100_BOARD_W = 400
PHAZE_MULTIPLY_ACCUMULATE_PJ = 2.2
REPEATS = 3
PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384), (8192, 8192, 512), (128, 8192, 8192))


def energy_models():
    """(label, accelerator, energy model): the chip at its process, the template at its own, and PHAZE's own figure."""
    from hardware.energy_model import component_energies
    from hardware.specs import accelerator

    template = component_energies()
    rest_pj = PHAZE_MULTIPLY_ACCUMULATE_PJ - template.accumulate_pj.value
    phaze = template.model_copy(update={"multiply_pj": template.multiply_pj.model_copy(update={"value": rest_pj})})
    return (
        ("tpuv4, 7 nm", "tpuv4", accelerator("tpuv4").machines.energy),
        ("tpuv4-phaze, 22 nm", "tpuv4-phaze", template.model),
        (f"tpuv4-phaze, {PHAZE_MULTIPLY_ACCUMULATE_PJ} pJ a MAC", "tpuv4-phaze", phaze.model),
    )


def training() -> None:
    """Average power of TPUv4 in training, with its own best placement, by level."""
    from dse.codesign.evaluation.energy import plan_energy
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions

    lowest, mean, highest = TPUV4_W
    print(f"TPUv4 in training, W per accelerator (published: {lowest} / {mean} / {highest} W, 90 W idle)")
    levels = ("compute", "vector", "core", "buffer", "hbm", "network", "static")
    print(
        f"  {'model':<12} {'energy model':<32} {'W':>6} {'of mean':>8} {'J/sample':>9}  "
        + " ".join(f"{x:>7}" for x in levels)
    )
    for name in MODELS:
        for label, chip, model in energy_models():
            problem = CodesignOptions((name,), fixed=chip).problem()
            job = problem.jobs[0]
            evaluator = Evaluator(job, problem.machines())
            (plan,) = evaluator.evaluate(0).plans
            spent = plan_energy(evaluator, 0, plan, model)
            shares = [getattr(spent, f"{level}_j") / spent.total_j * spent.power_w for level in levels]
            print(
                f"  {name:<12} {label:<32} {spent.power_w:>6.0f} {spent.power_w / mean:>8.2f} "
                f"{spent.joules_per_sample:>9.3g}  " + " ".join(f"{share:>7.1f}" for share in shares)
            )
            placement, utilisation = plan.placement, evaluator.utilisation(0, plan)
            used = placement.data * sum(stage.accelerators for stage in placement.stages)
            print(
                f"  {'':<12} microbatch {plan.microbatch}, {len(placement.stages)} stages, {placement.data} pipelines, "
                f"width {placement.tensor}, {used} of {job.accelerators} accelerators, {utilisation:.0%} of peak FLOP/s"
            )


def chips(results: Results) -> None:
    """Average power of real chips in training, with the best placement of each model, at their process."""
    from dse.codesign.evaluation.energy import plan_energy
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions

    for chip, published in PUBLISHED.items():
        watts = []
        for name in TRAINED:
            problem = CodesignOptions((name,), fixed=chip).problem()
            machines = problem.machines()
            evaluator = Evaluator(problem.jobs[0], machines)
            (plan,) = evaluator.evaluate(0).plans
            watts.append(plan_energy(evaluator, 0, plan, machines.energy).power_w)
        results.row("main", f"`{chip}`", f"{min(watts):.0f} to {max(watts):.0f} W", published)


def products() -> None:
    """Power of an A100 on single products."""
    from hardware.energy import LEVELS, energy_by_level, static_w
    from hardware.estimator import estimate
    from hardware.operations import Gemm
    from hardware.specs import accelerator

    chip = accelerator("a100-sxm")
    model = chip.machines.energy
    idle_w = static_w(chip.machines, chip.hbm_bytes, model)[0]
    print(f"\nA100 80 GB on FP16 products, W (published: {A100_BOARD_W} W board limit); static {idle_w:.0f} W")
    print(f"  {'m, n, k':<22} {'Tflop/s':>8} {'W':>6}  " + " ".join(f"{x.removesuffix('_j'):>8}" for x in LEVELS))
    gemms = [Gemm(*sizes) for sizes in PRODUCTS]
    seconds = estimate(gemms, chip.machines, None).all_cores_s[:, 0]
    levels = energy_by_level(gemms, chip.machines, model)
    for row, gemm in enumerate(gemms):
        watts = [getattr(levels, level)[row, 0] / seconds[row] for level in LEVELS]
        print(
            f"  {f'{gemm.m}, {gemm.n}, {gemm.k}':<22} {gemm.flops / seconds[row] / 1e12:>8.0f} "
            f"{sum(watts) + idle_w:>6.0f}  " + " ".join(f"{each:>8.1f}" for each in watts)
        )


def peaks() -> None:
    """Every unit busy and every memory and link at full rate."""
    from hardware.network_specs import network
    from hardware.specs import accelerator, list_specs
    from tests.hardware.peak_power import peak_w

    print("\nPeak power, W (a bound on average power: every unit and memory busy at once), and the chip's own limit")
    for name in list_specs():
        chip = accelerator(name)
        model = chip.machines.energy
        bound_w = peak_w(chip.machines, chip.hbm_bytes, network(chip.network), model)[0]
        print(f"  {name:<12} {model.name:<14} {bound_w:>6.0f} {'-' if chip.tdp_w is None else f'{chip.tdp_w:g}':>6}")


def speed() -> None:
    """The lower bound on energy over the whole space, next to the lower bound on time."""
    import numpy as np

    from dse.codesign.evaluation.energy import min_energy_j
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions
    from hardware.energy_model import energy_model
    from hardware.space import architecture_space

    print(f"\nBounds over the whole space, best of {REPEATS}, s")
    for name in MODELS:
        job = CodesignOptions((name,)).problem().jobs[0]
        evaluator = Evaluator(job, architecture_space(model=job.cost_model))
        every = np.arange(len(evaluator.machines))
        bounds = {
            "time": lambda evaluator=evaluator, every=every: evaluator.bound(every),
            "energy": lambda evaluator=evaluator, every=every: min_energy_j(evaluator, every, energy_model()),
        }
        timings = []
        for label, bound in bounds.items():
            seconds = []
            for _ in range(REPEATS):
                begun = time.perf_counter()
                bound()
                seconds.append(time.perf_counter() - begun)
            timings.append(f"{label} {min(seconds):.1f}")
        print(f"  {name:<12} {len(every):,} architectures × {len(evaluator.graphs)} graphs: {', '.join(timings)}")


def main() -> None:
    """Prints all tables."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    training()
    chips(results)
    results.save(arguments.record)
    products()
    peaks()
    speed()


if __name__ == "__main__":
    main()
