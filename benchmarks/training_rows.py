"""The rows of ``benchmarks/data/training/runs.csv``, or of another table of that form, as problems of ``dse predict``.

What a row leaves open (recomputation, microbatch, interleaving) stays open: the prediction is that of the best plan.
State is shared out among all replicas and ranks are in the usual order, as frameworks do by default.
"""

import csv
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dse.plan.model import SCHEMA, Transformer
from dse.plan.model_sources import list_transformers, transformer
from dse.plan.problem import PlanProblem
from dse.plan.stack import Stack, stack
from dse.plan.training_plan import USUAL_ORDER
from hardware.chips import system
from hardware.inputs import InputError

RUNS = Path(__file__).parent / "data" / "training" / "runs.csv"
MARKED = RUNS.with_name("fitted_rows.yaml")
"""Rows that constants of stacks are fitted to."""

STACKS = {
    "selene": "megatron-2022",
    "megatron2021": "megatron-2022",
    "megatron2021-ZeRO-3": "deepspeed-2021",
    "megascale": "megatron-2023",
    "megascale-MegaScale": "megascale-2024",
    "mlperf3.0-gpt3-gaudi2": "mlperf-3.0-gaudi",
    "mlperf3.0": "mlperf-3.0",
    "mlperf4.1": "mlperf-4.1",
    "mlperf-gpt3-v5p": "mlperf-4.0-google",
    "mlperf-gpt3-trillium": "mlperf-4.1-google",
    "mlperf5.1-8b-MI": "mlperf-5.1-amd",
    "mlperf5": "mlperf-5",
    "nemo": "nemo-24.07",
    "mbridge": "megatron-bridge",
    "mbridge-26.02-GPT-OSS-120B-H100": "megatron-bridge-alltoall",
    "torchtitan-8b-8-fsdp": "torchtitan-2024",
    "torchtitan": "torchtitan-2024",
    "maxtext": "maxtext-v5p",
    "simumax": "megatron-2025",
    "deepseek-v3": "deepseek-2024",
}
"""By the beginning of a row's name; the longest decides."""

SOURCES = {
    "torchtitan": "torchtitan-2024",
    "Megatron-Bridge": "megatron-bridge",
    "SimuMax": "megatron-2025",
    "NVIDIA/NeMo@": "nemo-24.07",
    "training_results_v3": "mlperf-3.0",
    "training_results_v4": "mlperf-4.1",
    "training_results_v5": "mlperf-5",
    "2205.05198": "megatron-2022",
    "2104.04473": "megatron-2022",
    "2402.15627": "megatron-2023",
    "2412.19437": "deepseek-2024",
}
"""By a word of its source, for names that :data:`STACKS` does not know; the first one decides, and else ``generic``."""

ON_CHIPS = {
    "mi": "mlperf-5.1-amd",
    "gaudi": "mlperf-3.0-gaudi",
    "tpuv6e": "mlperf-4.1-google",
    "tpuv5p": "maxtext-v5p",
}
"""By the beginning of the name of a chip, where names and sources say nothing of its vendor's software."""

OTHER_SOFTWARE = ("torchtitan-8b-8-fsdp",)
"""Rows of software that their stack does not describe (this one runs without torch.compile): never fitted to."""

CHIPS = {
    "A100": "a100-sxm",
    "Ampere": "a100-sxm",
    "H100-SXM": "h100-sxm",
    "H100 96GB": "h100-96gb",
    "H800": "h800-sxm",
    "H200": "h200-sxm",
    "B200": "b200",
    "GB200": "gb200",
    "GB300": "gb300",
    "B300": "b300",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI350X": "mi350x",
    "MI355X": "mi355x",
    "Gaudi2": "gaudi2",
    "TPU-v5p": "tpuv5p",
    "TPU-v6e": "tpuv6e",
    "TPU-v4": "tpuv4",
    "TPU-v5e": "tpuv5e",
    "TPU-v7": "tpu7x",
    "Gaudi3": "gaudi3",
    "Trainium2": "trainium2",
    "V100": "v100",
    "A40": "a40",
    "L40S": "l40s",
}
MODELS = {
    "megatron-22b": "megatron-22b",
    "megatron-1t": "megatron-1008b",
    "turing-530b": "megatron-529.6b",
    "gpt 529.6b": "megatron-529.6b",
    "gpt 174.6b": "gpt3-175b",
    "gpt 175b": "gpt3-175b",
    "gpt3-175b": "gpt3-175b",
    "gpt3-5b": "gpt3-5b",
    "llama2-7b": "llama2-7b",
    "llama2-13b": "llama2-13b",
    "nemotron-8b": "nemotron-8b",
    "llama2-70b": "llama2-70b",
    "llama3-8b": "llama3-8b",
    "llama3.1-8b": "llama3-8b",
    "llama3-70b": "llama3-70b",
    "llama3.1-70b": "llama3-70b",
    "llama3.1-405b": "llama3-405b",
    "gpt-oss-120b": "gpt-oss-120b",
    "deepseek-v3": "deepseek-v3",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    **{f"gpt {size}": f"megatron-{size}" for size in ("1.7b", "7.5b", "39.1b", "145.6b")},
}
BATCHES = {
    "selene-memory-megatron-22B": 4,
    "selene-memory-gpt3-175B": 64,
    "selene-memory-turing-530B": 280,
    "selene-memory-megatron-1T": 512,
    "maxtext-v5p-32B": 448,
    "maxtext-v5p-64B": 192,
    "maxtext-v5p-512B": 1024,
}
"""Samples where the table has none, by the beginning of a row's name; else 8 a replica."""

MEMORY_KINDS = {"selene": "accounting", "simumax": "allocated", "torchtitan": "reserved"}
"""By the beginning of a row's name: Korthikanti et al. 2022, figure 1; SimuMax's summary, "peak allocated"; torchtitan,
metrics.py, which prints ``reserved_bytes.all.peak``."""

RECIPES = {
    "mbridge-26.02-GPT-OSS-120B-H100": "moe_act+layernorm",
    "mbridge-26.02-DeepSeek-V3-GB200": "mla_up_proj",
    "mbridge-26.02-DeepSeek-V3-B": "mla_up_proj",
    "mbridge-25.09-DeepSeek-V3 (dropless)-H100": "mla_up_proj+mlp",
    "mbridge-26.02-Qwen3-30B-A3B-GB200": "none",
    "mbridge-26.02-LLAMA3-70B-H100": "none",
    "deepseek-v3-report": "layernorm+mla_up_proj+moe_act",
    "maxtext-v5p-512B": "full",
}
"""What runs of Megatron-Bridge recomputed, by the beginning of a row's name: its performance recipes of that time
(scripts/performance/configs: ``recompute_modules`` of the workload with the row's batch, and ``recompute_granularity``
None where ``set_qwen3_common_configs`` says so or nothing is set). Left open are Llama 3 70B with FSDP, whose recipes
move activations of 40 and 20 layers to the host, and 8B, whose recipe of 5 layers has no FSDP, as the row has.

``remat_policy`` of AI-Hypercomputer/maxtext, MaxText/configs/v5p/512b.sh (at 0777510); that of 64b.sh (at 3d048f7) is
``minimal``."""

MAXTEXT_TENSOR = {"maxtext-v5p-64B": "4", "maxtext-v5p-512B": "8"}
"""``ici_tensor_parallelism`` of these files; their ``per_device_batch_size`` is 3 and 2."""

_PRECISIONS = {"bf16/fp16": "bf16", "fp8-cs": "fp8", "nvfp4": "fp4", "unknown": "bf16"}


@dataclass(frozen=True)
class Run:
    """A row.

    Attributes:
        name, quality, chip: as in the table.
        problem: with what the row fixes.
        step_s: measured; None for rows of memory alone.
        memory_gib: measured; None where it is not published.
        memory_kind: what is published: ``accounting`` of parts by the authors, tensors that are ``allocated`` at the
            peak, what the caching allocator has ``reserved`` then, which is more, or ``unstated``.
    """

    name: str
    quality: str
    chip: str
    problem: PlanProblem
    step_s: float | None
    memory_gib: float | None
    memory_kind: str

    @property
    def software(self) -> str:
        """The stack."""
        return self.problem.stack.name

    @property
    def may_be_fitted_to(self) -> bool:
        """Whether it is a step time of the best quality, of the software that its stack describes."""
        return self.quality == "A" and self.step_s is not None and self.name not in OTHER_SOFTWARE


@dataclass(frozen=True)
class Unposed:
    """A row that cannot be posed: its name, and which column breaks which rule."""

    name: str
    reason: str


def runs() -> list[Run]:
    """All rows, in their order."""
    with RUNS.open(newline="", encoding="utf-8") as file:
        return [_run(row) for row in csv.DictReader(file)]


def rows_of(path: Path) -> list[Run | Unposed]:
    """The rows of any table of this form, in their order.

    Raises:
        ValueError: it lacks columns of this form, or a row has more or fewer cells than columns.
        OSError: it cannot be read.
    """
    with RUNS.open(newline="", encoding="utf-8") as file:
        expected = next(csv.reader(file))
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if missing := [each for each in expected if each not in (reader.fieldnames or ())]:
            raise ValueError(f"{path}: columns must include {', '.join(missing)}")
        rows: list[Run | Unposed] = []
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"{path}, line {reader.line_num}: must have {len(reader.fieldnames or ())} cells")
            try:
                rows.append(_run(row))
            except (ValueError, InputError) as error:
                rows.append(Unposed(row["id"], str(error)))
    return rows


class Fit(NamedTuple):
    """What of a stack is fitted: the keys of constants, and to which rows, at most two."""

    rates: tuple[str, ...]
    runs: list[Run]


def fits(every: Sequence[Run]) -> dict[str, Fit]:
    """What is fitted of each stack, as :data:`MARKED` says, which is written before anything is fitted."""
    marked = yaml.safe_load(MARKED.read_text(encoding="utf-8"))
    known = {run.name: run for run in every}
    return {name: Fit(tuple(each["rates"]), [known[row] for row in each["rows"]]) for name, each in marked.items()}


def fitting_runs(every: Sequence[Run]) -> dict[str, list[Run]]:
    """The rows that each stack is fitted to."""
    return {name: each.runs for name, each in fits(every).items()}


def _run(row: dict[str, str]) -> Run:
    name = row["id"]
    model = _model(row["model"])
    chip = _longest(CHIPS, row["accelerator"], "accelerator")
    software = software_of(row, chip)
    devices = _whole(row, "accelerators")
    _check_ranks(row, devices)
    sequence = _whole(row, "sequence") if row["sequence"] else (2048 if name.startswith("maxtext") else 8192)
    fixed = dict(_fixed(row))
    replicas = devices // (fixed.get("tensor", 1) * fixed.get("context", 1) * fixed.get("pipeline", 1))
    given = next((count for start, count in BATCHES.items() if name.startswith(start)), 8 * replicas)
    if name.startswith("torchtitan") and row["micro_batch"]:
        given = replicas * _whole(row, "micro_batch")
    elif local := re.search(r"local batch (\d+)", row["note"]):
        given = replicas * int(local[1])
    elif stated := re.search(r"batch ([\d,]+) sequences", row["note"]):
        given = int(stated[1].replace(",", ""))
    batch = _whole(row, "global_batch") if row["global_batch"] else given
    machine = system(chip)
    if fixed["precision"] not in machine.chip.peak_flops:
        known = ", ".join(machine.chip.peak_flops)
        raise ValueError(f"precision: must be one of {known} on {chip}, but is {fixed['precision']!r}")
    own = stack(software).on_chip(machine.chip, model.key_width, sequence, fixed["precision"])
    problem = PlanProblem(model, machine, devices, batch, sequence, own, tuple(sorted(fixed.items())))
    memory = re.match(r"[\d.]+", row["peak_memory_gib"])
    kind = next((kind for start, kind in MEMORY_KINDS.items() if name.startswith(start)), "unstated")
    gib = float(memory[0]) if memory else None
    return Run(name, row["quality"], chip, problem, _step_s(row, problem), gib, kind)


def _longest(table: Mapping[str, str], text: str, column: str) -> str:
    """What the longest beginning of ``text`` that a table has stands for."""
    known = [key for key in table if text.startswith(key)]
    if not known:
        raise ValueError(f"{column}: {text!r} is not known (benchmarks/training_rows.py lists what is)")
    return table[max(known, key=len)]


def software_of(row: dict[str, str], chip: str) -> str:
    """The stack of a row: of its name if its vendor is the chip's, else of the chip, and else of its source."""
    own = next((stack for start, stack in ON_CHIPS.items() if chip.startswith(start)), None)
    named = _longest(STACKS, row["id"], "id") if any(row["id"].startswith(key) for key in STACKS) else None
    if own is not None and (named is None or (stack(named).is_fitted and chip not in _vendors_chips(stack(named)))):
        return "mlperf-4.0-google" if chip == "tpuv5p" and row["precision"].startswith("int8") else own
    return named or next((name for word, name in SOURCES.items() if word in row["source"]), "generic")


def _vendors_chips(fitted: Stack) -> set[str]:
    """Chips of the vendor of those that a stack was fitted on."""
    starts = {start for start in ON_CHIPS if any(chip.startswith(start) for chip in fitted.fitted_on)}
    return {chip for chip in CHIPS.values() if chip.startswith(tuple(starts))} if starts else set()


def _whole(row: dict[str, str], column: str) -> int:
    """A cell that is a whole number."""
    if not row[column].isdecimal() or not int(row[column]):
        raise ValueError(f"{column}: must be a positive whole number, but is {row[column]!r}")
    return int(row[column])


def _check_ranks(row: dict[str, str], devices: int) -> None:
    """That the axes which a row states are those of its devices; MaxText counts replicas beside shards as ``dp``.

    Raises:
        ValueError: they are not.
    """
    axes = {column: int(row[column] or 1) for column in ("tp", "pp", "cp", "dp") if (row[column] or "1").isdecimal()}
    ranks = math.prod(axes.values())
    whole = row["tp"] and row["pp"] and row["dp"] and not row["id"].startswith("maxtext")
    if devices % ranks or (len(axes) == 4 and whole and ranks != devices):
        product = " · ".join(f"{key}={width}" for key, width in axes.items())
        raise ValueError(f"accelerators: must be {product} = {ranks}, but is {devices}")


def _model(text: str) -> Transformer:
    low = text.lower()
    if low.startswith("maxtext 22b"):
        return transformer("megatron-22b").model_copy(
            update={
                "name": "maxtext-22b", "heads": 24, "positions": "rotary", "position_rows": 0, "dropout": False,
                "attention_biases": False, "feed_forward_biases": False, "vocabulary": 32768,
            }
        )  # fmt: skip
    if low.startswith("maxtext 32b"):
        sizes = {"layers": 32, "hidden": 8192, "heads": 64, "feed_forward": 28672, "vocabulary": 32768}
        return Transformer(name="maxtext-32b", sequence=2048, **sizes)
    if scaled := re.fullmatch(r"maxtext (\d+)b \(global_parameter_scale\)", low):
        return _scaled_maxtext(int(scaled[1]))
    known = _named(low)
    return known.model_copy(update={"heads": 128, "kv_heads": 128}) if "heads 128, hidden 12288" in low else known


def _named(low: str) -> Transformer:
    """A model of :data:`MODELS`, or a built-in one by its letters and digits; of N layers where ``_lN`` follows."""
    cut = re.search(r"_l(\d+)$", low)
    name = low[: cut.start()] if cut else low
    built_in = {_letters(each): each for each in list_transformers()}
    alike = [key for key in built_in if _letters(name).startswith(key)]
    if alike and not any(name.startswith(key) for key in MODELS):
        known = transformer(built_in[max(alike, key=len)])
    else:
        known = transformer(_longest(MODELS, name, "model"))
    return known.model_copy(update={"name": f"{known.name}-l{cut[1]}", "layers": int(cut[1])}) if cut else known


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.replace("llama3.1", "llama3"))


def _scaled_maxtext(scale: int) -> Transformer:
    """MaxText's base model at a ``global_parameter_scale`` that is a power of two (MaxText/pyconfig.py).

    Doublings go to the width of the network and the heads, to the width of the stream, and to the layers, in turn.
    """
    turns, rest = divmod(scale.bit_length() - 1, 3)
    wide, deep = turns + (rest > 0), turns + (rest > 1)
    sizes = {"layers": 16 << turns, "hidden": 2048 << deep, "heads": 16 << wide, "feed_forward": 7168 << wide}
    return Transformer(name=f"maxtext-{scale}b", sequence=2048, head_width=128, vocabulary=32768, **sizes)


def _fixed(row: dict[str, str]) -> Iterator[tuple[str, Any]]:
    name, features = row["id"], row["overlap_or_features"]
    depths = re.search(r"model-parallel size (\d+)", features)
    of_file = next((size for start, size in MAXTEXT_TENSOR.items() if name.startswith(start)), "8")
    tensor = row["tp"] or (of_file if "tpu" in row["accelerator"].lower() and "v5p" in name else "")
    depth = row["pp"] or (str(int(depths[1]) // int(row["tp"])) if depths and row["tp"] else "")
    if "TPU" in row["accelerator"]:
        depth = depth or "1"
    own = row | {"tp": tensor, "pp": depth}
    for key, column in (("tensor", "tp"), ("pipeline", "pp"), ("context", "cp"), ("expert", "ep")):
        if own[column]:
            yield key, _whole(own, column)
    if tensor:
        cut = "sequence parallel" in features or not name.startswith(("selene", "megatron2021"))
        yield "sequence_parallel", int(tensor) > 1 and cut
    yield from _ends(name, tensor, depth, row["vpp"])
    if "DualPipe" in features:
        yield "schedule", "dualpipe"
        # DeepSeek-V3 technical report, section 3.2: pipeline, experts and replicas, and no other axis
        yield "context", 1
    # Chunks whose number is not stated ("> 1") are those that the software has by default.
    if row["vpp"].startswith(">") and name.startswith("torchtitan"):
        yield "interleave", 2  # torchtitan/parallelisms/pipelining_utils.py, generate_split_points: two stages per rank
    is_stated = row["vpp"] or depth == "1" or name.startswith(("mbridge", "simumax")) or "DualPipe" in features
    if is_stated and not row["vpp"].startswith(">"):
        yield "interleave", _whole(row, "vpp") if row["vpp"] else 1
    if name.startswith(("maxtext-v4-22B", "maxtext-v5p-32B")):
        yield "microbatch", 13 if "22B" in name else 28
    elif row["micro_batch"]:
        yield "microbatch", _whole(row, "micro_batch")
    elif name.startswith("torchtitan") and depth not in ("", "1"):
        stated = re.search(r"local batch (\d+)", row["note"])
        local = int(stated[1]) if stated else _whole(row, "global_batch") // _whole(row, "dp")
        # torchtitan cuts into as many microbatches as stages by default
        yield "microbatch", max(1, local // int(depth))
    yield "zero", _zero(name, row["fsdp"], depth)
    yield "zero_copies", 1
    yield "order", USUAL_ORDER
    recompute = row["recompute"].partition("(")[0]
    if name.startswith("torchtitan") and recompute in ("", "selective"):
        recompute = "op"  # what its train_configs/llama3_8b.toml has, with which these runs were started
    recompute = next((again for start, again in RECIPES.items() if name.startswith(start)), recompute)
    if recompute and recompute != "minimal":  # MaxText's policy between none and selective
        yield "recompute", recompute
    if name.startswith("torchtitan") and tensor not in ("", "1") and "AsyncTP" not in features:
        yield "overlap_tensor", "no"
    if name.startswith("torchtitan-h200"):
        yield "cross_entropy", "fused"  # of June 2025 and compiled (pull request 1033)
    if name.startswith("mbridge-25.09-DeepSeek-V3 (dropless)-H100"):
        yield "overlap_expert", "yes"  # set_moe_a2a_overlap_overrides of its recipe
    if "TP overlap off" in row["note"]:
        yield "overlap_tensor", "no"
    if "fp8 all-gather" in features:
        yield "weight_transfer", "fp8"
    precision = "int8" if row["precision"].startswith("int8") else row["precision"].partition(" (")[0]
    yield "precision", _PRECISIONS.get(precision, precision)


def _ends(name: str, tensor: str, depth: str, chunks: str) -> Iterator[tuple[str, int]]:
    """Layers of the first and the last chunk, where a recipe has others than the rest."""
    if name.startswith("mbridge-26.02-DeepSeek-V3") and (depth, chunks) == ("4", "4"):
        # 16, 16, 16 and 13 layers, and then the one that predicts a later token: what Megatron-Bridge's recipe has for
        # 4 stages of 4 chunks (recipes/deepseek/deepseek_v3.py, set_deepseek_v3_pipeline_model_parallel_layout).
        yield "last_layers", 13
    elif name.startswith("mbridge") and "DeepSeek-V3" in name and (tensor, depth, chunks) == ("2", "8", "4"):
        # "Et|(tt|)*30mL": one layer in the first of 32 chunks, and none in the last (scripts/performance/configs,
        # deepseek_v3_h100_1024gpus_fp8_config).
        yield "first_layers", 7
        yield "last_layers", 6
    elif name.startswith("mbridge") and "DeepSeek-V3" in name and (depth, chunks) == ("16", ""):
        # Four layers in each of 15 stages, and one in the last (deepseek_v3.py, layout_map).
        yield "last_layers", 1


def _zero(name: str, text: str, depth: str) -> int:
    """3 for FSDP; 1 for the distributed optimizer, the default of NVIDIA's later stacks.

    torchtitan's FSDP gathers weights once a step where there are stages, and PyTorch's pipelines reduce gradients with
    the last backward pass alone (``apply_fsdp``: no resharding after forward passes with pipeline parallelism;
    ``PipelineStage.backward_maybe_with_nosync``: ``set_requires_gradient_sync(last_backward)``): what ZeRO 1 does.
    """
    if name.startswith("torchtitan") and depth not in ("", "1"):
        return 1
    if name.startswith(("torchtitan", "maxtext", "mlperf-gpt3")):
        return 3
    if name.startswith("mbridge"):
        return 3 if text == "1" else 1
    return int(text) if text in ("0", "3") else 1


def _positive(row: dict[str, str], column: str) -> float:
    """A cell that is a positive number."""
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{column}: must be a positive number, but is {row[column]!r}")
    return number


def _step_s(row: dict[str, str], problem: PlanProblem) -> float | None:
    """Measured seconds of a step, from the measurement that the row states."""
    devices, batch, sequence, model = problem.devices, problem.global_batch, problem.sequence, problem.model
    if row["step_s"]:
        return _positive(row, "step_s")
    if row["tokens_per_s_per_accel"]:
        return batch * sequence / (_positive(row, "tokens_per_s_per_accel") * devices)
    if row["tflops_per_accel"]:
        flops = model.flops_per_sample(sequence) * batch
        if row["metric_kind"].startswith(("hardware TFLOP/s as", "hardware TFLOP/s: F")):
            l, h = model.layers, model.hidden  # noqa: E741 (the paper's letters)
            flops = 96 * batch * sequence * l * h**2 * (1 + sequence / (6 * h) + 51200 / (16 * l * h))
        return flops / (_positive(row, "tflops_per_accel") * 1e12 * devices)
    block = re.match(r"block of (\d+) steps .* evaluation of ([\d,]+) samples: ([\d.]+) s", row["metric_kind"])
    if block is None:
        return None
    # An evaluation is forward passes, a third of a step without recomputation.
    steps, samples = int(block[1]), int(block[2].replace(",", ""))
    return float(block[3]) / (steps + samples / batch / 3)


def command(run: Run, models: Path) -> str:
    """The line of ``dse predict`` that poses the row; a model of its own is written to ``models`` first."""
    problem, name = run.problem, run.problem.model.name
    if name not in list_transformers() or transformer(name) != problem.model:
        models.mkdir(parents=True, exist_ok=True)
        file = models / f"{name}-{problem.model.heads}-heads.yaml"
        document = problem.model.model_dump(mode="json", exclude_defaults=True)
        file.write_text(yaml.safe_dump({"schema": SCHEMA, **document}, sort_keys=False), encoding="utf-8")
        name = str(file)
    fixed = {key: value for key, value in problem.fixed if key != "precision"}
    words = {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in fixed.items()}
    options: dict[str, Any] = {
        "on": run.chip,
        "accelerators": problem.devices,
        "global-batch": problem.global_batch,
        "sequence": problem.sequence,
        "precision": problem.precision,
        "stack": run.software,
        "headroom": 0,
        "plan": ",".join(f"{key}={value}" for key, value in words.items()),
    }
    parts = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    return shlex.join(["dse", "predict", name, *parts])


def with_rates(problem: PlanProblem, **rates: float) -> PlanProblem:
    """The problem with other sustained rates of its stack, as its spec would have them."""
    own = stack(problem.stack.name)
    changed = {name: getattr(own, name).model_copy(update={"value": rate}) for name, rate in rates.items()}
    there = own.model_copy(update=changed).on_chip(
        problem.system.chip, problem.model.key_width, problem.sequence, problem.precision
    )
    return replace(problem, stack=there)
