"""Families whose critical paths are mostly look-up tables: trees of gates, comparisons, choices and memories."""

from random import Random

from benchmarks.nextpnr.design import Core, clocked, slices


def crc(degree: int, data_bits: int) -> Core:
    """A checksum of ``degree`` bits that takes ``data_bits`` in each cycle: one tree of exclusive-ors for each bit."""
    random = Random(f"crc {degree} {data_bits}")
    polynomial = [1, *(random.randrange(2) for _ in range(degree - 1))]
    state: list[frozenset[str]] = [frozenset({f"remainder[{bit}]"}) for bit in range(degree)]
    for bit in reversed(range(data_bits)):
        feedback = state[-1] ^ frozenset({f"inputs[{bit}]"})
        shifted = [frozenset(), *state[:-1]]
        state = [term ^ feedback if tap else term for term, tap in zip(shifted, polynomial, strict=True)]
    statements = [f"remainder[{bit}] <= {' ^ '.join(sorted(terms)) or 0};" for bit, terms in enumerate(state)]
    lines = [f"  reg [{degree - 1}:0] remainder;", clocked(*statements), "  assign result = remainder;"]
    return Core(f"{degree}x{data_bits}", data_bits, degree, "\n".join(lines))


def sorter(count: int, width: int, layers_per_stage: int) -> Core:
    """An odd-even transposition network with a register after every ``layers_per_stage`` layers."""
    lines, statements = [], []
    numbers = slices(width, count)
    for layer in range(count):
        names = [f"layer_{layer}_{index}" for index in range(count)]
        outcomes = list(numbers)
        for low in range(layer % 2, count - 1, 2):
            left, right = numbers[low], numbers[low + 1]
            outcomes[low] = f"({left} < {right}) ? {left} : {right}"
            outcomes[low + 1] = f"({left} < {right}) ? {right} : {left}"
        is_registered = layer % layers_per_stage == layers_per_stage - 1
        lines += [f"  {'reg' if is_registered else 'wire'} [{width - 1}:0] {name};" for name in names]
        if is_registered:
            statements += [f"{name} <= {outcome};" for name, outcome in zip(names, outcomes, strict=True)]
        else:
            lines += [f"  assign {name} = {outcome};" for name, outcome in zip(names, outcomes, strict=True)]
        numbers = names
    lines += [clocked(*statements), f"  assign result = {{{', '.join(numbers)}}};"]
    return Core(f"{count}x{width}-{layers_per_stage}", count * width, count * width, "\n".join(lines))


def random_logic(width: int, depth: int) -> Core:
    """``depth`` layers of ``width`` random functions of four signals of the two layers before."""
    random = Random(f"logic {width} {depth}")
    before, last = [f"inputs[{bit}]" for bit in range(width)], [f"inputs[{bit}]" for bit in range(width)]
    lines = []
    for layer in range(depth):
        names = [f"node_{layer}_{index}" for index in range(width)]
        for name in names:
            a, b, c, d = random.choices(last, k=3) + random.choices(before, k=1)
            form = random.choice(("({} ^ {}) & {} | {}", "{} & {} ^ {} & ~{}", "({} | {}) ^ ({} & {})"))
            lines += [f"  wire {name};", f"  assign {name} = {form.format(a, b, c, d)};"]
        before, last = last, names
    lines += [f"  reg [{width - 1}:0] outcome;", clocked(f"outcome <= {{{', '.join(last)}}};")]
    lines.append("  assign result = outcome;")
    return Core(f"{width}x{depth}", width, width, "\n".join(lines))


def fifo(width: int, depth_bits: int, is_in_registers: bool) -> Core:
    """A queue with full and empty flags and a level, in a block RAM or in registers."""
    style = '(* ram_style = "logic" *) ' if is_in_registers else ""
    address = f"{depth_bits - 1}:0"
    body = f"""  {style}reg [{width - 1}:0] memory [0:{(1 << depth_bits) - 1}];
  reg [{depth_bits}:0] write_pointer, read_pointer, level;
  reg [{width - 1}:0] head;
  wire [{depth_bits}:0] level_now;
  wire is_full, is_empty, is_writing, is_reading;
  assign level_now = write_pointer - read_pointer;
  assign is_full = level_now[{depth_bits}];
  assign is_empty = write_pointer == read_pointer;
  assign is_writing = inputs[{width}] & ~is_full;
  assign is_reading = inputs[{width + 1}] & ~is_empty;
  always @(posedge clk) begin
    if (is_writing) memory[write_pointer[{address}]] <= inputs[{width - 1}:0];
    if (is_writing) write_pointer <= write_pointer + 1;
    if (is_reading) head <= memory[read_pointer[{address}]];
    if (is_reading) read_pointer <= read_pointer + 1;
    level <= level_now;
  end
  assign result = {{head + level, is_full, is_empty}};"""
    name = f"{width}x{1 << depth_bits}{'-registers' if is_in_registers else ''}"
    return Core(name, width + 2, width + 2, body)


def state_machine(states: int, input_bits: int, outputs: int) -> Core:
    """Random machines: the next state and the outputs depend on the state and on a comparison of some inputs."""
    random = Random(f"fsm {states} {input_bits} {outputs}")
    bits = (states - 1).bit_length()
    cases = []
    for state in range(states):
        low = random.randrange(input_bits - 3)
        targets = [random.randrange(states) for _ in range(3)]
        threshold, value = random.randrange(1, 15), random.randrange(1 << outputs)
        part = f"inputs[{low + 3}:{low}]"
        cases.append(
            f"      {bits}'d{state}: begin\n"
            f"        state <= {part} < 4'd{threshold} ? {bits}'d{targets[0]} : "
            f"inputs[{random.randrange(input_bits)}] ? {bits}'d{targets[1]} : {bits}'d{targets[2]};\n"
            f"        flags <= flags ^ {outputs}'d{value} ^ {part};\n"
            "      end\n"
        )
    body = f"""  reg [{bits - 1}:0] state;
  reg [{outputs - 1}:0] flags;
  always @(posedge clk) begin
    case (state)
{"".join(cases)}      default: state <= {bits}'d0;
    endcase
  end
  assign result = flags;"""
    return Core(f"{states}x{input_bits}x{outputs}", input_bits, outputs, body)
