"""Silicon by node: what a package of dies takes of area, power, money and carbon, 28 to 2 nm.

A :class:`~hardware.silicon.design.Package` has dies, each of one node and one style, and memory. Its sizes are numbers
or arrays that broadcast, so that millions of designs of one node, style and kind of memory are priced in one call.
Figures are :class:`~hardware.silicon.interval.Interval`: a value with the lowest and highest that its sources allow.

Area of a die, mm² (:mod:`hardware.silicon.area`)::

    blocks = style factor · (arrays + lanes + local SRAM + scratchpads) · scale of the node
    die    = blocks + caches + network on chip + PHYs and controllers of memory, links, die-to-die and host

Areas of blocks are stated in 7 nm (``specs/silicon/blocks.yaml``). Logic scales by million transistors a mm², SRAM by
its bit cell, PHYs not at all. The *style* says what surrounds an array: ``systolic`` (few large arrays, SIMD lanes,
scratchpads), ``simt`` (many cores with lanes that fetch for themselves, caches), ``tile`` (many small cores, SRAM
beside each). Its factor is what a real die has beyond the blocks that are named: control, wiring, spare units. It does
not apply to what was measured in place.

Power, W (:mod:`hardware.silicon.power`)::

    demand(clock) = static + clock · (tree · area + switching · logic at work) + traffic of memory and links
    clock(cap)    = min(clock, (cap - demand(0)) / slope)

at one voltage, so that a capped clock is a lower bound on that of a chip which lowers its voltage too.

Money and carbon (:mod:`hardware.silicon.money`, :mod:`hardware.silicon.carbon`): dies from wafers by the usual edge
formula, negative-binomial yield with spare cores, memory by the GB, package by mm², test; dollars an hour by
depreciation, space and electricity.

Monotone, so that a bound may be taken at a corner of a box of sizes: areas, demand, cost and carbon rise with every
size; demand with the clock; the capped clock falls with every size and rises with the cap; yield falls with area and
rises with spare cores. A finer node never has a larger area.

Six constants are fitted (``specs/silicon/fitted.yaml``), by ``python -m benchmarks.silicon --fit``, to dies and servers
that were marked before: the factors of ``simt`` and ``systolic``, static, clock-tree and switching power, and what a
watt of a server takes with its network and building. The factor of ``tile`` is 1.
"""
