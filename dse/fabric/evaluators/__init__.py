"""How fast a placement really is: a simulation of the fabric, slot by slot.

The rules, which :mod:`dse.fabric.evaluators.reference` states as plain code and
:mod:`dse.fabric.evaluators.simulator` follows exactly, at the speed that collecting thousands of samples needs:

**Time** goes in slots. What happens in a slot depends on what was so at its beginning; so the order in which parts of
the fabric are looked at changes nothing.

**Queues.** A net begins in a queue at its source's switch and has a queue at the end of every link of its route. A flit
written in slot t can be read from slot t + latency on: the port's latency at the source (and the off-chip latency, for
input units), a hop's on a link. All links onward and all units at a switch read the same queue: a flit leaves it when
the last of them has read it (multicast), and its place can be written in the slot after. Places at the end of a link
are an equal part of the track's buffer for each of its flows, within limits.

**Compute units** go through their steps (:attr:`dse.fabric.model.Pipeline.steps`), sample after sample, one step a slot
at most, and every step at once or not at all: it reads the flits that it needs, one of a net at most, and writes those
that it makes. The k-th of F flits (k from 0) is read in step ⌊k·B/F⌋ + 1, where B is S, the number of steps, or ⌈S/2⌉
for flits that are taken early; it is written in step A + ⌈(k + 1)·(S − A)/F⌉, where A is 0, or ⌊S/2⌋ for flits that are
emitted late.

**Servers** pass one flit at a time, of one of their flows: the tracks of links (which read one queue and write the next
one), the ports of memory units, and the channels off chip. Flows are numbered in the order of their nets; the k-th flow
of a link, of the reads of a memory unit or of its writes has its track or port number k modulo their number; where
banks are shared, one port serves all. Input and output units are dealt out to channels by the number of their site. A
flit takes one slot; more if it is read transposed, or on a slow channel. A flow is ready when the flit can be read and
its place is free, in all the ways that are listed here. The arbiter stays with its flow while this is ready, but after
a burst only as long as no other one is ready; otherwise it goes to the next ready flow in cyclic order, which costs a
track its dead slots. At first it is with flow 0.

**Memory units** hold whole samples. A sample is read from the slot after the one in which its last flit was written, by
all nets into the unit; without such nets it holds weights, of as many samples as are fed in. The place of a sample is
free when the tokens of all units that read it have arrived. A unit sends its token in the slot in which it ends the
sample: a compute unit in its last step, others when they write or put out its last flit. The token takes one slot, and
a hop's time for each link on the net's route to the unit. Where nobody reads, the place is free when the sample is
whole.

**Input units** have as many samples as are fed in. A sample *departs* in the slot in which the last of the units that
send nothing ends it.
"""
