"""Families whose critical paths are mostly carry chains."""

from random import Random

from benchmarks.nextpnr.design import Core, clocked, slices


def mac(width: int, lanes: int, is_pipelined: bool) -> Core:
    """Multiply-accumulate: ``lanes`` products of ``width``-bit numbers are added to one accumulator in each cycle."""
    numbers = slices(width, 2 * lanes)
    total = 2 * width + 4
    lines = [f"  reg [{total - 1}:0] sum;"]
    products = [f"{left} * {right}" for left, right in zip(numbers[::2], numbers[1::2], strict=True)]
    statements = []
    if is_pipelined:
        lines += [f"  reg [{2 * width - 1}:0] product_{lane};" for lane in range(lanes)]
        statements = [f"product_{lane} <= {product};" for lane, product in enumerate(products)]
        products = [f"product_{lane}" for lane in range(lanes)]
    statements.append(f"sum <= sum + {' + '.join(products)};")
    lines += [clocked(*statements), "  assign result = sum;"]
    name = f"{lanes}x{width}{'-pipelined' if is_pipelined else ''}"
    return Core(name, 2 * lanes * width, total, "\n".join(lines))


def fir(width: int, taps: int, is_transposed: bool) -> Core:
    """A filter with constant coefficients; in the transposed form a register follows each addition."""
    random = Random(f"fir {width} {taps}")
    coefficients = [random.randrange(3, 1 << (width - 1)) | 1 for _ in range(taps)]
    total = 2 * width + taps.bit_length()
    lines = [f"  reg [{total - 1}:0] sum;"]
    if is_transposed:
        lines += [f"  reg [{total - 1}:0] partial_{tap};" for tap in range(taps)]
        statements = [
            f"partial_{tap} <= {f'partial_{tap - 1} + ' if tap else ''}inputs * {total}'d{coefficient};"
            for tap, coefficient in enumerate(coefficients)
        ]
        statements.append(f"sum <= partial_{taps - 1};")
    else:
        lines += [f"  reg [{width - 1}:0] delayed_{tap};" for tap in range(taps)]
        statements = [f"delayed_{tap} <= {f'delayed_{tap - 1}' if tap else 'inputs'};" for tap in range(taps)]
        terms = (f"delayed_{tap} * {total}'d{coefficient}" for tap, coefficient in enumerate(coefficients))
        statements.append(f"sum <= {' + '.join(terms)};")
    lines += [clocked(*statements), "  assign result = sum;"]
    return Core(f"{taps}x{width}{'-transposed' if is_transposed else ''}", width, total, "\n".join(lines))


def alu(width: int, operations: int) -> Core:
    """A registered unit that computes one of 4, 8 or 12 functions of two operands."""
    functions = (
        "left + right",
        "left - right",
        "left ^ right",
        "left & right",
        "left << right[2:0]",
        "left >> right[2:0]",
        "left < right",
        "left | ~right",
        "left + {right[0], right[WIDTH:1]}",
        "left == right",
        "left * right[3:0]",
        "~left + 1'b1",
    )[:operations]
    left, right = slices(width, 2)
    cases = "".join(
        f"      4'd{index}: outcome <= {function.replace('WIDTH', str(width - 1))};\n"
        for index, function in enumerate(functions)
    )
    last = width - 1
    body = f"""  wire [{last}:0] left, right;
  wire [3:0] operation;
  reg [{last}:0] outcome;
  assign left = {left};
  assign right = {right};
  assign operation = inputs[{2 * width + 3}:{2 * width}];
  always @(posedge clk) begin
    case (operation)
{cases}      default: outcome <= outcome;
    endcase
  end
  assign result = outcome;"""
    return Core(f"{width}-{operations}", 2 * width + 4, width, body)


def systolic(rows: int, columns: int, width: int) -> Core:
    """A grid of multiply-accumulate cells: operands move right and down, and sums stay."""
    total = 2 * width + 3
    lines, statements = [], []
    numbers = slices(width, rows + columns)
    for row in range(rows):
        for column in range(columns):
            here = f"{row}_{column}"
            left = f"left_{row}_{column - 1}" if column else numbers[row]
            upper = f"upper_{row - 1}_{column}" if row else numbers[rows + column]
            lines += [f"  reg [{width - 1}:0] left_{here}, upper_{here};", f"  reg [{total - 1}:0] sum_{here};"]
            statements += [f"left_{here} <= {left};", f"upper_{here} <= {upper};"]
            statements.append(f"sum_{here} <= sum_{here} + {left} * {upper};")
    cells = [f"sum_{row}_{column}" for row in range(rows) for column in range(columns)]
    lines += [clocked(*statements), f"  assign result = {' ^ '.join(cells)};"]
    return Core(f"{rows}x{columns}x{width}", (rows + columns) * width, total, "\n".join(lines))


def counters(width: int, count: int, is_cascaded: bool) -> Core:
    """Counters that stop at a programmable limit; a cascaded one counts when all before it are at their limits."""
    lines, statements = [], []
    limits = slices(width, count)
    for index, limit in enumerate(limits):
        lines += [f"  reg [{width - 1}:0] count_{index};", f"  wire is_last_{index}, enable_{index};"]
        enable = f"is_last_{index - 1} & enable_{index - 1}" if is_cascaded and index else f"inputs[{index}]"
        lines.append(f"  assign is_last_{index} = count_{index} == {limit};")
        lines.append(f"  assign enable_{index} = {enable};")
        statements.append(
            f"if (enable_{index}) count_{index} <= is_last_{index} ? {width}'d0 : count_{index} + {index + 1};"
        )
    counts = " ^ ".join(f"{{count_{index}, is_last_{index}}}" for index in range(count))
    lines += [clocked(*statements), f"  assign result = {counts};"]
    name = f"{count}x{width}{'-cascaded' if is_cascaded else ''}"
    return Core(name, count * width, width + 1, "\n".join(lines))
