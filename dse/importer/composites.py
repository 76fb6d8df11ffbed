"""Composites that modules write out in elementwise steps, recognised by what is computed from what, never by names.

Each rule looks at one step, the last of its composite, and gives the single step that does the same, or None. What the
composite's inner steps computed is then dead, unless something else reads it.
"""

from collections.abc import Callable, Iterator

from dse.graph.trace import FIXED, Attribute, Step, StepKind
from dse.importer.program import Program

Rule = Callable[[Program, Step], Step | None]

_HALF = 0.5
_VIEWS_OF_PARTS = frozenset({"reshape", "slice", "concatenate"})


def _function(step: Step) -> Attribute | None:
    return step.attributes.get("function") if step.kind == "elementwise" else None


def _replacement(step: Step, kind: StepKind, inputs: tuple[int, ...], **attributes: Attribute) -> Step:
    return Step(kind, inputs, step.outputs, attributes, step.where)


def _pairs(program: Program, step: Step) -> Iterator[tuple[int, int]]:
    """Both orders of a binary step's operands."""
    inputs = program.inputs(step)
    if len(inputs) == 2:
        yield inputs[0], inputs[1]
        yield inputs[1], inputs[0]


def _square(program: Program, value: int) -> int | None:
    """X where ``value`` is x²."""
    step = program.step_of(value)
    if step is None:
        return None
    inputs = program.inputs(step)
    if _function(step) == "power" and step.attributes.get("operand") == 2 and len(inputs) == 1:
        return inputs[0]
    return inputs[0] if _function(step) == "multiply" and len(inputs) == 2 and inputs[0] == inputs[1] else None


def _mean(program: Program, value: int) -> tuple[int, tuple[int, ...]] | None:
    """(x, axes) where ``value`` is the mean of x along axes."""
    step = program.step_of(value)
    if step is None or step.kind != "reduction" or step.attributes["function"] != "mean":
        return None
    axes = step.attributes["axes"]
    assert isinstance(axes, tuple)
    return program.inputs(step)[0], axes


def _centred(program: Program, value: int) -> tuple[int, tuple[int, ...]] | None:
    """(x, axes) where ``value`` is x minus its mean along axes."""
    operands = program.elementwise(value, "subtract")
    if operands is None or len(operands) != 2:
        return None
    mean = _mean(program, operands[1])
    return mean if mean is not None and mean[0] == operands[0] else None


def _mean_square(program: Program, value: int) -> tuple[int, tuple[int, ...]] | None:
    """(x, axes) where ``value`` is the mean of x², plus a constant or not."""
    shifted = program.elementwise(value, "add_constant")
    mean = _mean(program, value if shifted is None else shifted[0])
    if mean is None:
        return None
    source = _square(program, mean[0])
    return None if source is None else (source, mean[1])


def _normalised(program: Program, step: Step) -> tuple[int, int, tuple[int, ...]] | None:
    """(x, y, axes) where ``step`` is x / √(mean of y² + a constant) along axes."""
    if _function(step) == "multiply":
        candidates = [(x, program.elementwise(root, "rsqrt")) for x, root in _pairs(program, step)]
    elif _function(step) == "divide" and len(step.inputs) == 2:
        x, root = program.inputs(step)
        candidates = [(x, program.elementwise(root, "sqrt"))]
    else:
        return None
    for x, under_root in candidates:
        mean_square = None if under_root is None else _mean_square(program, under_root[0])
        if mean_square is not None:
            return x, *mean_square
    return None


def normalisation(program: Program, step: Step) -> Step | None:
    """RMS norm x / √(mean x² + ε), and layer norm, the same of x − mean x; gain and offset follow."""
    normalised = _normalised(program, step)
    if normalised is None:
        return None
    x, y, axes = normalised
    numerator, denominator = _centred(program, x), _centred(program, y)
    if numerator is not None and numerator == denominator and numerator[1] == axes:
        return _replacement(step, "layer_norm", (numerator[0],), axes=axes)
    return _replacement(step, "rms_norm", (x,), axes=axes) if x == y else None


def gain_and_offset(program: Program, step: Step) -> Step | None:
    """A weight multiplied to, or added to, a normalisation that has none yet belongs to it."""
    function = _function(step)
    if function not in ("multiply", "add"):
        return None
    for weight, value in _pairs(program, step):
        norm = program.step_of(value)
        if norm is None or norm.kind not in ("layer_norm", "rms_norm") or not program.read_once(value):
            continue
        axes, source = norm.attributes["axes"], norm.inputs[0]
        assert isinstance(axes, tuple)
        shape = tuple(program.shape(source)[axis] for axis in axes)
        wanted = 1 if function == "multiply" else 2
        fits = program.values[weight].role in FIXED and program.shape(weight) == shape
        if fits and len(norm.inputs) == wanted and not (function == "add" and norm.kind == "rms_norm"):
            return _replacement(step, norm.kind, (*norm.inputs, weight), axes=axes)
    return None


def bias(program: Program, step: Step) -> Step | None:
    """A weight with one number per column that is added to a product belongs to it."""
    if _function(step) != "add":
        return None
    for weight, value in _pairs(program, step):
        product = program.step_of(value)
        if product is None or product.kind != "matmul" or len(product.inputs) != 2 or not program.read_once(value):
            continue
        columns = program.shape(value)[-1:]
        if program.values[weight].role in FIXED and program.shape(weight) == columns:
            return _replacement(step, "matmul", (*program.inputs(product), weight))
    return None


def silu(program: Program, step: Step) -> Step | None:
    """X · sigmoid(x)."""
    if _function(step) == "multiply":
        for x, gate in _pairs(program, step):
            if program.elementwise(gate, "sigmoid") == (x,):
                return _replacement(step, "elementwise", (x,), function="silu")
    return None


def _factors(program: Program, step: Step, depth: int = 3) -> tuple[list[int], float]:
    """The factors of a product, and the product of those that are numbers."""
    factors: list[int] = []
    number = float(str(step.attributes.get("operand", 1.0))) if _function(step) == "scale" else 1.0
    for value in program.inputs(step):
        inner = program.step_of(value)
        if depth and inner is not None and _function(inner) in ("multiply", "scale"):
            inner_factors, part = _factors(program, inner, depth - 1)
            factors, number = factors + inner_factors, number * part
        else:
            factors.append(value)
    return factors, number


def _polynomial(program: Program, value: int, x: int, depth: int = 6) -> int:
    """The degree of ``value`` as a polynomial of ``x`` (at most 3), or 0 where it is none."""
    if value == x:
        return 1
    step = program.step_of(value)
    if step is None or depth == 0:
        return 0
    degrees = [_polynomial(program, operand, x, depth - 1) for operand in program.inputs(step)]
    if not all(degrees):
        return 0
    match _function(step):
        case "scale" | "add_constant" | "add" | "divide" if len(degrees) <= 2:
            return max(degrees)
        case "multiply":
            return min(3, sum(degrees))
        case "power" if step.attributes.get("operand") in (2.0, 3.0):
            return min(3, degrees[0] * int(float(str(step.attributes["operand"]))))
    return 0


def gelu(program: Program, step: Step) -> Step | None:
    """½ x (1 + erf(x / √2)), or ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    if _function(step) not in ("multiply", "scale"):
        return None
    factors, number = _factors(program, step)
    if len(factors) != 2 or number != _HALF:
        return None
    for x, gate in (factors, factors[::-1]):
        inner = program.elementwise(gate, "add_constant")
        for function, degree in (("tanh", 3), ("erf", 1)):
            argument = None if inner is None else program.elementwise(inner[0], function)
            if argument is not None and _polynomial(program, argument[0], x) == degree:
                return _replacement(step, "elementwise", (x,), function="gelu")
    return None


def softmax(program: Program, step: Step) -> Step | None:
    """exp(x − max x) / Σ exp(x − max x)."""
    if _function(step) != "divide" or len(step.inputs) != 2:
        return None
    above, below = program.inputs(step)
    exponent, total = program.elementwise(above, "exp"), program.step_of(below)
    if exponent is None or total is None or total.kind != "reduction" or total.attributes["function"] != "sum":
        return None
    axes = total.attributes["axes"]
    if program.inputs(total) != (above,) or not isinstance(axes, tuple) or len(axes) != 1:
        return None
    shifted = program.elementwise(exponent[0], "subtract")
    if shifted is not None and len(shifted) == 2:
        largest = program.step_of(shifted[1])
        if largest is not None and largest.kind == "reduction" and program.inputs(largest) == (shifted[0],):
            return _replacement(step, "softmax", (shifted[0],), axis=axes[0])
    return _replacement(step, "softmax", (exponent[0],), axis=axes[0])


def _source_of_parts(program: Program, value: int) -> tuple[int, int] | None:
    """(x, negations) where ``value`` is the parts of x put together again, some of them negated."""
    step = program.step_of(value)
    if step is None or (step.kind != "concatenate" and step.kind != "reshape"):
        return None
    leaves: set[int] = set()
    negations = 0
    waiting = [value]
    while waiting:
        current = program.step_of(waiting.pop())
        if current is None:
            return None
        if _function(current) == "negate":
            negations += 1
            waiting.extend(program.inputs(current))
        elif current.kind == "slice":
            leaves.update(program.inputs(current))
        elif current.kind in _VIEWS_OF_PARTS:
            waiting.extend(program.inputs(current))
        else:
            return None
    return (leaves.pop(), negations) if len(leaves) == 1 else None


def rotary(program: Program, step: Step) -> Step | None:
    """X · cos + rotated(x) · sin, where half of the parts are negated and change places (Su et al. 2021)."""
    if _function(step) != "add":
        return None
    for plain, turned in _pairs(program, step):
        for x, cos in _products_with_table(program, plain):
            for rotated, sin in _products_with_table(program, turned):
                if _source_of_parts(program, rotated) == (x, 1):
                    return _replacement(step, "rotary", (x, cos, sin))
    return None


def rotary_by_halves(program: Program, step: Step) -> Step | None:
    """(a · cos − b · sin, b · cos + a · sin) put together again, a and b the parts of x."""
    if step.kind != "concatenate" or len(step.inputs) != 2:
        return None
    tables: dict[str, list[tuple[int, int]]] = {}
    for value, function in zip(program.inputs(step), ("subtract", "add"), strict=True):
        current = program.step_of(value)
        while current is not None and current.kind == "reshape":
            (value,) = program.inputs(current)
            current = program.step_of(value)
        operands = program.elementwise(value, function)
        if operands is None or len(operands) != 2:
            return None
        tables[function] = [pair for operand in operands for pair in list(_products_with_table(program, operand))[:1]]
    if any(len(products) != 2 for products in tables.values()):
        return None
    (first, cos), (second, sin) = tables["subtract"]
    if {first, second} != {part for part, _ in tables["add"]}:
        return None
    parts = [program.step_of(part) for part in (first, second)]
    sources = {program.inputs(part)[0] for part in parts if part is not None and part.kind == "slice"}
    if len(sources) != 1 or program.shape(step.outputs[0]) != program.shape(next(iter(sources))):
        return None
    return _replacement(step, "rotary", (sources.pop(), cos, sin))


def _products_with_table(program: Program, value: int) -> Iterator[tuple[int, int]]:
    """(x, table) where ``value`` is their product and nothing trained is in the table."""
    operands = program.elementwise(value, "multiply")
    if operands is not None and len(operands) == 2:
        for x, table in (operands, operands[::-1]):
            if not program.depends_on_parameters(table):
                yield x, table


RULES: tuple[Rule, ...] = (normalisation, gain_and_offset, bias, silu, gelu, softmax, rotary, rotary_by_halves)
"""In the order in which they are tried at each step."""
