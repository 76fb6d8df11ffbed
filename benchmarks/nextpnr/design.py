"""A generated design: the core of a family between two shift registers, so that four pins are enough for any width."""

from dataclasses import dataclass

INPUTS, RESULT, CLOCK = "inputs", "result", "clk"


@dataclass(frozen=True)
class Core:
    """The part of a design that its family decides.

    Parameters
    ----------
    name : str
        Names the parameters too, as ``mac-8x8``; unique within the family.
    input_bits, result_bits : int
        The widths of ``inputs`` and ``result``, the core's ports other than ``clk``.
    body : str
        Verilog between the port list and ``endmodule``, which drives ``result``.
    """

    name: str
    input_bits: int
    result_bits: int
    body: str


@dataclass(frozen=True)
class Design:
    """A complete design with the top module ``top``."""

    family: str
    core: Core

    @property
    def name(self) -> str:
        """Unique among all designs."""
        return f"{self.family}-{self.core.name}"

    @property
    def verilog(self) -> str:
        """Both modules. Inputs are shifted in serially; results are loaded and then shifted out."""
        core, last_input, last_result = self.core, self.core.input_bits - 1, self.core.result_bits - 1
        return f"""module core(input clk, input [{last_input}:0] inputs, output [{last_result}:0] result);
{core.body}
endmodule

module top(input clk, input serial_in, input load, output serial_out);
  reg [{last_input}:0] inputs;
  reg [{last_result}:0] outputs;
  reg load_registered;
  wire [{last_result}:0] result;
  core core_instance(.clk(clk), .inputs(inputs), .result(result));
  always @(posedge clk) begin
    inputs <= {{inputs[{last_input - 1}:0], serial_in}};
    load_registered <= load;
    outputs <= load_registered ? result : {{outputs[{last_result - 1}:0], serial_in}};
  end
  assign serial_out = outputs[{last_result}];
endmodule
"""


def clocked(*statements: str) -> str:
    """An ``always`` block at the rising edge."""
    lines = "\n".join(f"    {statement}" for statement in statements)
    return f"  always @(posedge clk) begin\n{lines}\n  end"


def slices(width: int, count: int, start: int = 0) -> list[str]:
    """``count`` neighbouring parts of ``inputs`` with ``width`` bits each."""
    return [f"inputs[{start + (index + 1) * width - 1}:{start + index * width}]" for index in range(count)]
