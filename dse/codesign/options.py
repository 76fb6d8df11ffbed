"""The options of the co-search as people give them, and the problem they pose."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dse.codesign.number_lists import LARGEST, positive_numbers, whole_numbers
from dse.codesign.objective import OF_CHIPS, Mean, Objective, Per
from dse.codesign.problem import CodesignProblem, TrainingJob
from dse.models.recipe import TrainingRecipe, recipe_for
from dse.models.traced.model import TracedModel, check_traced, is_traced
from dse.models.workload import BuiltModel, Workload
from dse.placement.problem import PipelineSchedule
from dse.plan.model_sources import list_transformers
from dse.run.options import Option, Options, option_fields
from dse.sources.workloads import model, workload
from hardware.chip_space import ChipSpace, any_space
from hardware.cost_model import CostModel, cost_model
from hardware.energy_model import TEMPLATE_PROCESS_NM
from hardware.inputs import InputError, fail
from hardware.network_specs import network
from hardware.number_text import number_of
from hardware.space import SpaceSpec, smallest_area_mm2, space_spec
from hardware.specs import Accelerator, accelerator, accelerator_or_estimate
from hardware.units import bytes_from_gib

_ROUNDING = 1e-12

Search = Literal["exhaustive", "hysteresis", "bayesian"]
Rule = Literal["decreasing", "no-new-best"]
"""When a hysteresis search stops: :data:`dse.codesign.search.hysteresis.RULES`."""

_HBM_GB = "32,64,80"
_AREA_BUDGET = "tpuv4-phaze"

WITHOUT_TIME_UNIT = "phaze-2024"
"""The cost model that takes milliseconds for seconds in places."""


CostModelName = Literal["consistent", "phaze-2024"]
Plans = Literal["phaze", "phaze-2024", "modern"]
"""Which plans there are: see docs/method/codesign.md."""

Attention = Literal["unfused", "fused"]
"""Whether attention keeps its scores."""

Granularity = Literal["operators", "trace"]
"""What the operators of a layer are: see docs/method/codesign.md."""

_LIST = "N,…"


COMPARED = "h100-sxm,b200,mi300x,tpuv5p"
"""Real chips that an answer with modern plans is compared with."""


@dataclass(frozen=True)
class CodesignOptions(Options):
    """What ``dse codesign`` takes, as text and numbers; :meth:`problem` judges them.

    None stands for what follows from the rest: the HBM sizes and network of the ``fixed`` accelerator (else 32, 64 and
    80 GB, and the cost model's network), the area of the paper's TPUv4, equal weights, a model's own sequence length.
    """

    COMMAND: ClassVar[str] = "codesign"

    models: Annotated[tuple[Any, ...], Option(metavar="MODEL", positional=True, is_source=True)]
    accelerators: Annotated[int, Option("Number of accelerators.", min=1, max=10**7)] = 1024
    global_batch: Annotated[int, Option("Samples per batch.", min=1, max=10**9)] = 4096
    microbatch: Annotated[str, Option("Microbatch sizes to try.", metavar=_LIST)] = "1,2,4,8"
    hbm_gb: Annotated[
        str | None,
        Option("HBM sizes to try (default: 32,64,80; with --fixed, its own).", metavar="GB,…", group="Search space"),
    ] = None
    tensor_parallel: Annotated[
        str, Option("Tensor-parallel widths to try, if the model supports them.", metavar=_LIST, group="Search space")
    ] = "1,2,4,8"
    area_budget: Annotated[
        str | None, Option("Largest die area (default: that of tpuv4-phaze, 278.8 mm²).", metavar="SPEC|MM2")
    ] = None
    space: Annotated[
        str | None,
        Option("Architecture space (default: the cost model's; see dse specs).", metavar="SPEC", group="Search space"),
    ] = None
    fixed: Annotated[
        str | None, Option("Plan for this chip or system, without an architecture search.", metavar="CHIP")
    ] = None
    search: Annotated[
        Search,
        Option(
            "exhaustive: proves the optimum; hysteresis: the paper's walk from the largest area; bayesian: Optuna's "
            "TPE, whose answer may depend on --workers.",
            group="Search",
        ),
    ] = "exhaustive"
    hysteresis: Annotated[
        int,
        Option(
            "Number of consecutive decreasing area groups after which the hysteresis search stops.",
            min=1,
            max=10**6,
            metavar="LEVEL",
            belongs_to=("search", "hysteresis"),
            group="Search",
        ),
    ] = 6
    hysteresis_rule: Annotated[
        Rule,
        Option(
            "decreasing: the paper's rule; no-new-best: stops after that many groups without a new best.",
            belongs_to=("search", "hysteresis"),
            group="Search",
        ),
    ] = "decreasing"
    samples: Annotated[
        int,
        Option(
            "Number of architectures that the Bayesian search evaluates.",
            min=1,
            max=10**6,
            belongs_to=("search", "bayesian"),
            group="Search",
        ),
    ] = 200
    network: Annotated[
        str | None, Option("Network spec (default: that of the accelerator or of the cost model).", metavar="SPEC")
    ] = None
    objective: Annotated[
        Per,
        Option("Throughput, or that per watt or mm² of die; of chips also per dollar at cost or price, or kg of CO2e."),
    ] = "throughput"
    power_cap: Annotated[
        float | None,
        Option(
            "Spaces of chips only: most power of a package in W.", min=1, max=10**6, metavar="W", group="Search space"
        ),
    ] = None
    cost_limit: Annotated[
        float | None,
        Option(
            "Spaces of chips only: highest cost of a package in dollars.",
            min=1,
            max=10**9,
            metavar="USD",
            group="Search space",
        ),
    ] = None
    mean: Annotated[Mean, Option("Mean over several models.", group="Several models")] = "geometric"
    weights: Annotated[
        str | None, Option("Weights of the models (default: equal).", metavar="W,…", group="Several models")
    ] = None
    cost_model: Annotated[
        CostModelName, Option("Cost model of operators, memory and training.", group="Cost model and plans")
    ] = "consistent"
    granularity: Annotated[
        Granularity,
        Option(
            "operators: only those that compute or communicate; trace: also views, sizes and copies, as traced by "
            "the published tool for the models of its Table 4 (phaze-2024 only).",
            group="Cost model and plans",
        ),
    ] = "operators"
    pipeline_schedule: Annotated[
        PipelineSchedule, Option("Order of passes in a pipeline.", group="Cost model and plans")
    ] = "1f1b"
    sequence: Annotated[
        int | None, Option("Tokens per sample, for a config.json of transformers.", min=1, max=10**7)
    ] = None
    plans: Annotated[
        Plans,
        Option(
            "phaze: pipeline × data × tensor; phaze-2024: the same, with recomputation of whole stages; modern: the "
            "full vocabulary of dse plan.",
            group="Cost model and plans",
        ),
    ] = "phaze"
    plan: Annotated[
        str,
        Option(
            "Plan keys to fix.",
            metavar="FILE|KEY=VALUE,…",
            group="Plans of today's frameworks (--plans modern)",
        ),
    ] = ""
    attention: Annotated[
        Attention | None,
        Option(
            "unfused: scores pass through memory; fused: they stay on chip, as on real chips. Default: fused in a "
            "space of chips and on a template of a node whose cores hold a tile, else unfused.",
            group="Plans of today's frameworks (--plans modern)",
        ),
    ] = None
    ideal: Annotated[
        bool,
        Option(
            "Price kernels at the ideal times of their mappings, instead of derated ones.",
            group="Plans of today's frameworks (--plans modern)",
        ),
    ] = False
    within: Annotated[
        float,
        Option(
            "Spaces of chips only: also list every chip within this many per cent of the best.",
            min=0,
            max=50,
            metavar="PERCENT",
            group="Further analyses",
        ),
    ] = 0.0
    on: Annotated[
        str | None,
        Option(
            f"Chips to compare with the answer, each with its best plan (default: {COMPARED}; none: no chip).",
            metavar="CHIP,…",
            group="Plans of today's frameworks (--plans modern)",
        ),
    ] = None
    pareto: Annotated[
        bool,
        Option(
            "Add the proven Pareto front of throughput, area and power (--plans modern: joules per sample; spaces of "
            "chips: --pareto-of).",
            group="Further analyses",
        ),
    ] = False
    pareto_of: Annotated[
        str,
        Option(
            "Spaces of chips only: two or three figures of the front: an objective, or power, area, cost, hourly-cost, "
            "hourly-price or carbon of a package.",
            metavar="FIGURE,…",
            group="Further analyses",
        ),
    ] = "throughput,power,cost"
    pareto_gap: Annotated[
        float,
        Option(
            "Spaces of chips only: by how many per cent a chip may exceed those of the front.",
            min=0,
            max=50,
            metavar="PERCENT",
            group="Further analyses",
        ),
    ] = 1.0
    sensitivity: Annotated[
        bool,
        Option(
            "Add a sensitivity analysis: limits, takeovers, regret (--plans modern: only changes and regret).",
            group="Further analyses",
        ),
    ] = False

    @property
    def compared(self) -> list[str]:
        """The chips to compare an answer with, by name or file; without ``on`` the usual ones."""
        if self.on == "none":
            return []
        return list(dict.fromkeys(each.strip() for each in (COMPARED if self.on is None else self.on).split(",")))

    @property
    def is_of_chips(self) -> bool:
        """Whether the space is one of chips by their silicon.

        Raises:
            InputError: an unknown space or a fault in its file.
        """
        return self.space is not None and isinstance(any_space(self.space), ChipSpace)

    def refuse(self, rules: Mapping[str, str]) -> None:
        """InputError at the first option with a rule that is not at its default."""
        for each in option_fields(type(self)):
            value = getattr(self, each.name)
            if each.name in rules and value != each.default:
                raise fail("dse codesign", each.flag, "" if value is True else value, rules[each.name])

    def problem(self) -> CodesignProblem:
        """The problem that the options pose.

        Raises:
            InputError: an unknown name, a size that is not positive, a microbatch that does not divide the batch, or
                widths of which the model has none.
        """
        rules = self._cost_model()
        self.refuse_contradictions()
        space = space_spec(self.space or rules.hardware.space.name)
        fixed = None if self.fixed is None else accelerator_or_estimate(self.fixed, rules)
        if fixed is not None:
            self._refuse_estimated_cores(fixed)
            rules = rules.of_element_bytes(fixed.machines.element_bytes)
        return CodesignProblem(
            jobs=tuple(self._job(chosen, rules, fixed) for chosen in self._workloads()),
            objective=self.objective_of(),
            area_budget_mm2=None if fixed is not None else self.largest_mm2(space),
            fixed=fixed,
            own_space=None if self.space is None else space,
        )

    def _refuse_estimated_cores(self, fixed: Accelerator) -> None:
        """InputError where area or joules count of a chip whose cores are not known."""
        if fixed.has_estimated_cores and self.objective != "throughput":
            rule = f"must be throughput on {fixed.name}: its cores, area and joules are not known"
            raise fail("dse codesign", "--objective", self.objective, rule)

    def _cost_model(self) -> CostModel:
        """That of the name, with the plans' own recomputation."""
        rules = cost_model(self.cost_model)
        if self.plans != "phaze-2024":
            return rules
        granularity = cost_model(WITHOUT_TIME_UNIT).training.recompute_granularity
        training = rules.training.model_copy(update={"recompute_granularity": granularity})
        return rules.model_copy(update={"training": training})

    @property
    def is_shared(self) -> bool:
        """Whether modern plans are searched for more than the throughput of one model."""
        return len(self.models) > 1 or self.objective != "throughput" or self.pareto

    def objective_of(self) -> Objective:
        """What is maximised over the models."""
        return Objective(self.objective, self.mean, self._weights())

    def refuse_contradictions(self) -> None:
        """InputError at options that exclude each other."""
        self.refuse(
            dict.fromkeys(
                ("power_cap", "cost_limit", "within", "pareto_of", "pareto_gap"),
                "requires a space of chips, as --space chips-2026",
            )
        )
        if self.objective in OF_CHIPS:
            rule = "requires a space of chips, as --space chips-2026"
            raise fail("dse codesign", "--objective", self.objective, rule)
        is_fused = "fused" if self.attention == "fused" else ""
        modern = {"--plan": self.plan, "--on": self.on, "--ideal": self.ideal, "--attention": is_fused}
        for option, value in modern.items():
            if value and self.plans != "modern":
                rule = f"applies only to --plans modern or a space of chips, but --plans is {self.plans}"
                raise fail("dse codesign", option, "" if value is True else value, rule)
        if self.fixed is not None and self.area_budget is not None:
            rule = "conflicts with --fixed: a fixed accelerator has its own area; leave out one of them"
            raise fail("dse codesign", "--area-budget", self.area_budget, rule)
        if self.fixed is not None and self.space is not None:
            rule = "conflicts with --fixed, which leaves no space to search; leave out one of them"
            raise fail("dse codesign", "--space", self.space, rule)
        if self.fixed is not None and self.pareto:
            raise fail("dse codesign", "--pareto", "", "a front requires several architectures; leave out --fixed")
        if self.cost_model == WITHOUT_TIME_UNIT and (self.objective == "per-watt" or self.pareto):
            option = "--pareto" if self.pareto else "--objective"
            rule = f"power requires times in seconds, but {WITHOUT_TIME_UNIT} mixes units; use --cost-model consistent"
            raise fail("dse codesign", option, "" if self.pareto else self.objective, rule)
        if self.fixed is not None and self.search != "exhaustive":
            rule = "conflicts with --fixed, which leaves nothing to search; leave out one of them"
            raise fail("dse codesign", "--search", self.search, rule)
        if self.granularity == "trace" and self.cost_model != WITHOUT_TIME_UNIT:
            rule = f"traced layers are those of the published tool and require --cost-model {WITHOUT_TIME_UNIT}"
            raise fail("dse codesign", "--granularity", self.granularity, rule)
        if self.sensitivity and self.search != "exhaustive":
            raise fail(
                "dse codesign",
                "--sensitivity",
                "",
                f"requires proven optima (--search exhaustive), but --search is {self.search}",
            )

    def _workloads(self) -> list[Workload]:
        """The models that are named."""
        if not self.models:
            raise fail("dse codesign", "MODEL", "", "at least one model must be named")
        transformers = {_spelling(each): each for each in list_transformers()}
        for name in self.models:
            if (known := transformers.get(_spelling(name))) is not None:
                rule = "is a model for training plans; it requires --plans modern"
                raise fail("", "model", name, rule, None if known == name else known)
        workloads = [self._of_granularity(name, workload(name, self.sequence)) for name in self.models]
        require_unique([each.name for each in workloads])
        return workloads

    def _of_granularity(self, source: str, chosen: Workload) -> Workload:
        """The model of ``source`` with the operators that are requested."""
        if self.granularity == "operators":
            return chosen
        if not isinstance(chosen, BuiltModel):
            rule = "must be operators: the published tool does not trace imported models"
            raise fail("dse codesign", "--granularity", self.granularity, rule)
        if is_traced(chosen.name):
            check_traced(source, chosen.hyperparameters, model(chosen.name))
        return TracedModel(chosen.hyperparameters)

    def _job(self, chosen: Workload, rules: CostModel, fixed: Accelerator | None) -> TrainingJob:
        """One model's training job."""
        microbatch_sizes = whole_numbers("--microbatch", self.microbatch)
        for microbatch in microbatch_sizes:
            if self.global_batch % microbatch:
                rule = f"must divide the batch, but --global-batch is {self.global_batch}; give sizes that do"
                raise fail("dse codesign", "--microbatch", str(microbatch), rule)
        stated = whole_numbers("--tensor-parallel", self.tensor_parallel)
        offered = tuple(width for width in stated if width in chosen.tensor_parallel)
        if not offered:
            widths = ", ".join(map(str, chosen.tensor_parallel))
            raise fail(
                "dse codesign",
                "--tensor-parallel",
                self.tensor_parallel,
                f"must contain a width of {chosen.name}: {widths}",
            )
        traced, dropped = _with_graphs(chosen, microbatch_sizes, offered, recipe_for(rules))
        return TrainingJob(
            workload=chosen,
            cost_model=rules,
            network=network(self.network or (rules.training.network.name if fixed is None else fixed.network)).spanning(
                self.accelerators
            ),
            accelerators=self.accelerators,
            global_batch=self.global_batch,
            microbatch_sizes=traced,
            dropped_microbatch_sizes=dropped,
            hbm_bytes=self.hbm_bytes(fixed),
            tensor_parallel=offered,
            pipeline_schedule=self.pipeline_schedule,
        )

    def hbm_bytes(self, fixed: Accelerator | None) -> tuple[int, ...]:
        """Sizes of memory to try: those that are given, or those of the fixed accelerator."""
        if self.hbm_gb is None and fixed is not None:
            return (fixed.hbm_bytes,)
        sizes = _HBM_GB if self.hbm_gb is None else self.hbm_gb
        return tuple(bytes_from_gib(size) for size in positive_numbers("--hbm-gb", sizes))

    def _weights(self) -> tuple[float, ...] | None:
        if self.weights is None:
            return None
        try:
            weights = tuple(number_of(part.strip()) for part in self.weights.split(","))
        except ValueError:
            raise fail("dse codesign", "--weights", self.weights, "must be numbers separated by commas") from None
        if len(weights) != len(self.models) or not all(0 < weight <= LARGEST for weight in weights):
            rule = f"must be {len(self.models)} positive numbers, one per model"
            raise fail("dse codesign", "--weights", self.weights, rule)
        return weights

    def largest_mm2(self, space: SpaceSpec) -> float:
        """The budget as a number: as given, or the area of the accelerator spec that is named."""
        stated = _AREA_BUDGET if self.area_budget is None else self.area_budget
        try:
            budget = number_of(stated)
        except ValueError:
            budget = self._area_of_mm2(stated)
        if not (math.isfinite(budget) and budget > 0):
            raise fail("dse codesign", "--area-budget", stated, "must be a positive number of mm² or a spec")
        min_mm2 = smallest_area_mm2(space)
        if budget < min_mm2 * (1 - _ROUNDING):
            rule = f"must be at least {min_mm2:.6g} mm², the area of the smallest architecture"
            raise fail("dse codesign", "--area-budget", stated, rule)
        return budget

    def _area_of_mm2(self, name_or_path: str) -> float:
        """Area of the accelerator spec that is named; InputError where it is of another process than the template's."""
        machines = accelerator(name_or_path).machines
        area_mm2, process_nm = float(machines.area_mm2[0]), machines.process_nm or TEMPLATE_PROCESS_NM
        if process_nm != TEMPLATE_PROCESS_NM:
            rule = f"its area of {area_mm2:g} mm² is in {process_nm:g} nm; give an area in {TEMPLATE_PROCESS_NM:g} nm"
            raise fail("dse codesign", "--area-budget", name_or_path, rule)
        return area_mm2


def require_unique(names: Sequence[str]) -> None:
    """InputError at a model that is named twice."""
    for name in names:
        if names.count(name) > 1:
            raise fail("dse codesign", "MODEL", name, "model names must be unique")


def _spelling(name: object) -> str:
    """The letters and digits of a model's name: ``Llama-3-70B`` is ``llama3-70b``."""
    return "".join(each for each in str(name).lower() if each.isalnum())


def _with_graphs(
    chosen: Workload, microbatch_sizes: tuple[int, ...], widths: tuple[int, ...], recipe: TrainingRecipe
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """(microbatch sizes at which the model has a graph, the others with the reason).

    Raises:
        InputError: there is a graph at none of them; the reason is that of the first.
    """
    reasons: dict[int, InputError] = {}
    for microbatch in microbatch_sizes:
        try:
            for width in widths:
                chosen.graph(microbatch, width, recipe)
        except InputError as error:
            reasons[microbatch] = error
    if len(reasons) == len(microbatch_sizes):
        raise reasons[microbatch_sizes[0]]
    dropped = tuple((microbatch, " ".join(str(error).split())) for microbatch, error in reasons.items())
    return tuple(microbatch for microbatch in microbatch_sizes if microbatch not in reasons), dropped
