"""Small wafer problems, written out, and what is drawn of them."""

from xml.etree import ElementTree

from dse.wafer.files.formats import problem_of
from dse.wafer.files.kgraph import parse_kgraph
from dse.wafer.kernels import contest_library

HEADER = """(*
test=small
width={width}
height={height}
wdeltat={time}
wlength={distance}
wadapter={adapter}
memlimit={memory}
*)
"""


def conv_line(number, height=4, width=4, window=1, inputs=4, outputs=4, stride=1):
    return (
        f"conv[{number}] W={width} H={height} R={window} S={window} C={inputs} K={outputs} T={stride} U={stride} "
        f"name='k{number}'"
    )


def graph_text(nodes, edges, width=20, height=20, time=1, distance=1, adapter=0, memory=24576):
    header = HEADER.format(width=width, height=height, time=time, distance=distance, adapter=adapter, memory=memory)
    joined = (f"{source}:y -> {target}:x, shape:[4][4][4]" for source, target in edges)
    return "\n".join((header, "(* Node Definitions *)", *nodes, "", "(* Connectivity *)", *joined)) + "\n"


def problem_from(text, library=None):
    known = library or contest_library()
    return problem_of(parse_kgraph(text, "small.kgraph", known), "small.kgraph", known)


def chain(count, adapter=0, distance=1, width=20, height=20, memory=24576, **sizes):
    """``count`` convolutions in a chain."""
    nodes = [conv_line(number, **sizes) for number in range(1, count + 1)]
    edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, count)]
    return problem_from(
        graph_text(nodes, edges, width=width, height=height, distance=distance, adapter=adapter, memory=memory)
    )


def blocks_text(adapter=0):
    """Five kernels of all types, with a skip edge and a branch."""
    nodes = [
        conv_line(1, height=8, width=8, window=3, inputs=4, outputs=8),
        "dblock[2] f=16 h=8 w=8 name='k2'",
        "cblock[3] f=16 h=8 w=8 name='k3'",
        conv_line(4, height=4, width=4, inputs=16, outputs=16),
        conv_line(5, height=8, width=8, window=3, inputs=8, outputs=8, stride=2),
    ]
    edges = [
        ("conv[1]", "dblock[2]"),
        ("dblock[2]", "cblock[3]"),
        ("cblock[3]", "conv[4]"),
        ("conv[1]", "cblock[3]"),
        ("dblock[2]", "conv[5]"),
    ]
    return graph_text(nodes, edges, width=60, height=50, distance=3, adapter=adapter)


def blocks(adapter=0):
    return problem_from(blocks_text(adapter))


def groups_of(svg):
    """The shapes of a picture by the class of their group."""
    groups = ElementTree.fromstring(svg).iterfind(".//{*}g[@class]")
    return {group.get("class"): group.findall("{*}path") for group in groups}
