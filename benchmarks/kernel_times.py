"""Kernel times by shape against published ones, on rows that nothing was fitted to.

``python -m benchmarks.kernel_times``. Errors are |predicted / measured − 1|. Printed first are those that say most
about hardware that nobody has timed: a chip left out whole, priced with the constants of others. Then, for each class,
chip and format, the error on the rows that are not marked for fitting (:mod:`benchmarks.kernel_rows`), next to the same
form at peak rates without fixed times. Variants with fewer marked rows than constants are not priced, and counted.

``--fit`` fits the constants to the marked rows and writes ``hardware/specs/kernel_times``; ``--record`` writes
``benchmarks/results/kernel_times.json``. A fit is a least-squares fit of log(predicted / measured) with a loss that is
linear for large errors: first of each variant on all chips together, then on each chip, where each constant is drawn
towards the common one with the weight of a tenth of a row.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from benchmarks.kernel_rows import SMALL_FORMATS, SOURCE, TABLES, Group, groups
from benchmarks.recording import Record, Results, parser_of
from hardware.chips import chip
from hardware.documents import yaml_of
from hardware.kernel_model import kernel_model
from hardware.kernel_times.fitted import FORMS, KernelTimes, kernel_times
from hardware.kernel_times.form import Constants, Floats, Form, Rates, Shapes
from hardware.network_specs import link_peak_bytes_per_s

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "hardware" / "specs" / "kernel_times"
CHIPS = ("h100-sxm", "h200-sxm", "b200")
STATISTICS = ("rows", "mean", "median", "95th percentile")
RECORD = Record(
    "kernel_times",
    ("unpriced", "products_per_s"),
    {
        "left_out": ("constants", "class", *STATISTICS),
        "classes": ("class", *STATISTICS, "roofline, mean", "roofline, median"),
        "kernels": ("class", "chip", "kernel", *STATISTICS),
    },
)

DRAW = 0.1
"""Weight of a constant's distance to the common one, in rows."""

SCALE = 0.1
"""Errors beyond which the loss is linear."""


def rates_of(name: str, precision: str) -> Rates:
    """Peak rates; a chip without the format computes it in the next wider one."""
    own = chip(name)
    flops = own.peak_flops.get(precision, own.peak_flops["fp8"])
    assert own.processors is not None
    return Rates(flops, own.hbm_bytes_per_s, float(own.processors), link_peak_bytes_per_s(own.link))


def joined(parts: Sequence[Group]) -> tuple[Shapes, Rates, Floats]:
    """Shapes, rates and measured seconds of rows on several chips."""
    shapes = {name: np.concatenate([part.shapes[name] for part in parts]) for name in parts[0].shapes}
    rates = [rates_of(part.chip, part.precision) for part in parts]
    counts = [len(part.measured_s) for part in parts]
    columns = [np.repeat(values, counts) for values in zip(*rates, strict=True)]
    return shapes, Rates(*columns), np.concatenate([part.measured_s for part in parts])


def fitted(form: Form, parts: Sequence[Group], common: Constants | None = None) -> dict[str, float]:
    """Constants with the least loss on all rows of ``parts``, drawn towards ``common``."""
    shapes, rates, measured = joined(parts)
    names = list(form.constants)
    low, start, high = np.log([form.constants[name] for name in names]).T
    if common is not None:
        start = np.log([common[name] for name in names])
    drawn = start if common is not None else None

    def residuals(logs: Floats) -> Floats:
        constants = dict(zip(names, np.exp(logs), strict=True))
        errors = np.log(form.seconds(shapes, rates, constants) / measured)
        return errors if drawn is None else np.concatenate([errors, np.sqrt(DRAW) * (logs - drawn)])

    inside = np.clip(start, low + 1e-6, high - 1e-6)
    found = least_squares(residuals, inside, bounds=(low, high), loss="soft_l1", f_scale=SCALE, max_nfev=200)
    return dict(zip(names, map(float, np.exp(found.x)), strict=True))


def marked(parts: Iterable[Group]) -> list[Group]:
    """What may be fitted to."""
    return [part.part(part.is_fitted) for part in parts if part.is_fitted.any()]


def by_variant(parts: Iterable[Group]) -> dict[str, list[Group]]:
    """Groups of each variant, over chips."""
    variants: dict[str, list[Group]] = defaultdict(list)
    for part in parts:
        variants[part.variant].append(part)
    return variants


def fit(parts: Sequence[Group]) -> dict[tuple[str, str], dict[str, float]]:
    """Constants by chip and variant, where a variant has at least as many marked rows as constants on all chips."""
    found = {}
    for variant, of_chips in by_variant(parts).items():
        rows = marked(of_chips)
        form = FORMS[of_chips[0].kind]
        if sum(len(part.measured_s) for part in rows) < len(form.constants):
            continue
        common = fitted(form, rows)
        for part in rows:
            found[part.chip, variant] = fitted(form, [part], common)
    return found


def write_specs(tables: Mapping[str, Sequence[Group]]) -> None:
    """One file for each chip."""
    kernels = defaultdict(list)
    for parts in tables.values():
        constants = fit(parts)
        for part in parts:
            if (part.chip, part.variant) not in constants:
                continue
            form, values = FORMS[part.kind], constants[part.chip, part.variant]
            judged, rates = unfitted(part), rates_of(part.chip, part.precision)
            mean = errors(judged, form.seconds(judged.shapes, rates, values)).mean()
            kernels[part.chip].append(
                {
                    "kind": part.kind,
                    "variant": part.variant,
                    "precision": part.precision if part.precision in chip(part.chip).peak_flops else "fp8",
                    "rows": int(part.is_fitted.sum()),
                    "error": float(f"{mean:.3g}"),
                    "constants": {
                        name: min(max(float(f"{values[name]:.4g}"), limits.low), limits.high)
                        for name, limits in form.constants.items()
                    },
                }
            )
    SPECS.mkdir(exist_ok=True)
    for name, found in kernels.items():
        document = {
            "name": name,
            "chip": name,
            "source": f"fitted by python -m benchmarks.kernel_times --fit to the marked rows of {SOURCE}",
            "kernels": found,
        }
        text = yaml_of(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
        (SPECS / f"{name}.yaml").write_text(text, encoding="utf-8")


def errors(part: Group, seconds: Floats) -> Floats:
    """Relative errors of [N] rows."""
    return np.abs(seconds / part.measured_s - 1.0)


def roofline_s(part: Group) -> Floats:
    """The form at peak rates, with no fixed times and no factors."""
    form = FORMS[part.kind]
    return form.seconds(part.shapes, rates_of(part.chip, part.precision), form.at_shares())


def unfitted(part: Group) -> Group:
    """The rows that nothing was fitted to."""
    return part.part(~part.is_fitted)


def own_errors(tables: Mapping[str, Sequence[Group]]) -> dict[str, list[tuple[Group, Floats, Floats]]]:
    """By table: rows that nothing was fitted to, their errors, and those of the roofline."""
    times: dict[str, KernelTimes] = {name: kernel_times(name) for name in CHIPS}
    found: dict[str, list[tuple[Group, Floats, Floats]]] = {}
    for name, parts in tables.items():
        found[name] = []
        for part in map(unfitted, parts):
            if part.variant in times[part.chip].variants(part.kind):
                seconds = times[part.chip].seconds(part.kind, part.variant, part.shapes)
                found[name].append((part, errors(part, seconds), errors(part, roofline_s(part))))
    return found


def left_out(parts: Sequence[Group], chip_name: str, of_chips: Sequence[str], own_rows: int = 0) -> Floats:
    """Errors on the unmarked rows of a chip, with constants of others.

    ``own_rows``: how many of its marked rows in each variant are fitted to as well, spread evenly over these.
    """
    found = []
    for of_variant in by_variant(parts).values():
        rows = [part for part in marked(of_variant) if part.chip in of_chips]
        target = [part for part in of_variant if part.chip == chip_name]
        form = FORMS[of_variant[0].kind]
        if not target or sum(len(part.measured_s) for part in rows) < len(form.constants):
            continue
        constants = fitted(form, rows)
        own = marked(target)
        if own_rows and own:
            few = np.zeros(len(own[0].measured_s), dtype=bool)
            few[np.linspace(0, len(few) - 1, min(own_rows, len(few))).astype(int)] = True
            constants = fitted(form, [own[0].part(few)], constants)
        judged = unfitted(target[0])
        found.append(errors(judged, form.seconds(judged.shapes, rates_of(chip_name, judged.precision), constants)))
    return np.concatenate(found) if found else np.array([])


def shown(values: Floats) -> list[str]:
    """Number, mean, median and 95th percentile."""
    if not len(values):
        return ["0", "–", "–", "–"]
    statistics = (values.mean(), np.median(values), np.quantile(values, 0.95))
    return [f"{len(values):,}", *(f"{100 * each:.1f} %" for each in statistics)]


def is_small(part: Group) -> bool:
    """Whether experts have four-bit weights and wider activations."""
    return part.kind == "experts" and part.variant.split()[-1] in SMALL_FORMATS


def classes(found: Mapping[str, Sequence[tuple[Group, Floats, Floats]]]) -> dict[str, tuple[Floats, Floats]]:
    """Errors, and those of the roofline, by class."""
    rows: dict[str, list[tuple[Floats, Floats]]] = defaultdict(list)
    for parts in found.values():
        for part, own, ideal in parts:
            label = "experts, 4-bit weights" if is_small(part) else part.kind
            rows[label].append((own, ideal))
            if part.kind == "dense" and part.precision == "bf16":
                rows["dense, bf16"].append((own, ideal))
    return {
        label: (np.concatenate([own for own, _ in pairs]), np.concatenate([ideal for _, ideal in pairs]))
        for label, pairs in rows.items()
    }


def report(results: Results, tables: Mapping[str, Sequence[Group]]) -> None:
    """Everything."""
    moves = (
        ("h200-sxm from h100-sxm", "h200-sxm", ("h100-sxm",), 0),
        ("b200 from h100-sxm and h200-sxm", "b200", ("h100-sxm", "h200-sxm"), 0),
        ("b200, and eight rows of its own in each variant", "b200", ("h100-sxm", "h200-sxm"), 8),
    )
    for label, target, of_chips, own_rows in moves:
        for name, parts in tables.items():
            for small in (False, True) if name == "moe" else (False,):
                chosen = [part for part in parts if is_small(part) == small]
                kind = TABLES[name].kind + (", 4-bit weights" if small else "")
                results.row("left_out", label, kind, *shown(left_out(chosen, target, of_chips, own_rows)))
    found = own_errors(tables)
    for label, (mine, ideal) in classes(found).items():
        results.row("classes", label, *shown(mine), *shown(ideal)[1:3])
    detail = defaultdict(list)
    for parts in found.values():
        for part, mine, _ in parts:
            detail[part.kind, part.chip, part.variant].append(mine)
    for key, values in detail.items():
        results.row("kernels", *key, *shown(np.concatenate(values)))
    priced = {name: sum(len(part.measured_s) for part, _, _ in parts) for name, parts in found.items()}
    every = sum(len(unfitted(part).measured_s) for parts in tables.values() for part in parts)
    results.figure("unpriced", every - sum(priced.values()))
    results.figure("products_per_s", f"{products_per_s() / 1e6:.1f} million")


def products_per_s() -> float:
    """Dense products priced in a CPU second, 4,096 in an array, which caches hold."""
    random, count, size = np.random.default_rng(0), 250, 4096
    shapes = {name: random.integers(1, 16384, size).astype(float) for name in ("m", "n", "k")}
    model = kernel_model("h100-sxm")
    begun = time.process_time()
    for _ in range(count):
        model.seconds("dense", "bf16", shapes)
    return count * size / (time.process_time() - begun)


def main() -> None:
    """Fit, or report."""
    parser = parser_of(__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants again")
    arguments, results = parser.parse_args(), Results(RECORD)
    tables = {name: groups(name) for name in TABLES}
    if arguments.fit:
        write_specs(tables)
        return
    report(results, tables)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
