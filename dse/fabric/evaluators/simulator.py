"""The simulator: departures of the samples of a placed pipeline, by the rules of :mod:`dse.fabric.evaluators`.

It is compiled (:mod:`dse.fabric.evaluators.event_kernels`); :mod:`dse.fabric.evaluators.reference` is its plain form.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dse.fabric.evaluators.critical_kernels import CAUSES, trace_back
from dse.fabric.evaluators.event_kernels import run
from dse.fabric.evaluators.event_state import FAR, MAX_SLOTS, State
from dse.fabric.evaluators.layout_kernels import FabricArrays, Integers, PipelineArrays, lay_out
from dse.fabric.evaluators.outcome import Outcome, require_legal, require_samples, samples_to_feed
from dse.fabric.model import Pipeline, Placement, UnitKind
from dse.run.progress import StoppedError, StopSignal, never_stop
from dse.run.watched import watched
from hardware.fabrics import Fabric


@dataclass(frozen=True, eq=False)
class Waits:
    """What the stream waits for, between two departures: the critical path, which is 0 everywhere in a deadlock.

    Attributes:
        outcome: the departures.
        units: slots in which the data of each unit makes the stream wait for the network, [U]: each counts for the unit
            that sends the data and for the one that waits for it.
        causes: all slots, by what each goes by with (:data:`~dse.fabric.evaluators.critical_kernels.CAUSES`).
    """

    outcome: Outcome
    units: Integers
    causes: Integers


class Simulator:
    """Simulates placements of one pipeline on one fabric.

    Args:
        pipeline, fabric: of all placements.
        stop: a reason ends the simulation under way with StoppedError.
    """

    def __init__(self, pipeline: Pipeline, fabric: Fabric, stop: StopSignal = never_stop) -> None:
        self.pipeline = pipeline
        self.fabric = fabric
        self._stop = stop
        self._pipeline_arrays = _pipeline_arrays(pipeline)
        self._fabric_arrays = _fabric_arrays(fabric)

    def simulate(self, placement: Placement, samples: int, fed_samples: int | None = None) -> Outcome:
        """The slots in which the first ``samples`` samples depart.

        Args:
            placement: of the pipeline on the fabric.
            samples: to simulate, at least 1.
            fed_samples: that are fed in, no fewer than ``samples``; None: so many that no sample runs through a
                pipeline that drains (:func:`~dse.fabric.evaluators.outcome.samples_to_feed`).

        Raises:
            ValueError: an illegal placement (with all its faults), numbers of samples that break these rules, or
                samples that take more than :data:`~dse.fabric.evaluators.event_state.MAX_SLOTS` slots.
        """
        state = self._run(placement, samples, fed_samples, 0)
        departed = int(state.departed[0])
        blocked = () if departed == samples else self._ended(state)
        return Outcome(tuple(state.departs[:departed].tolist()), blocked)

    def waits(self, placement: Placement, samples: int, first: int) -> Waits:
        """As :meth:`simulate`, with what the stream waited for between departure ``first``, from 1, and the last one.

        Of flits that are equally late, the path takes the first whose slot is still recorded. See
        :mod:`dse.fabric.evaluators.critical_kernels`.
        """
        arrays, recorded_samples = self._pipeline_arrays, samples
        while True:
            state = self._run(placement, samples, None, recorded_samples)
            departed = int(state.departed[0])
            units, causes = np.zeros(len(self.pipeline.units), dtype=np.int64), np.zeros(len(CAUSES), dtype=np.int64)
            if departed < samples:
                return Waits(Outcome(tuple(state.departs[:departed].tolist()), self._ended(state)), units, causes)
            unrecorded = trace_back(state, arrays.source, arrays.kind, state.departs[first - 1], units, causes)
            if unrecorded == 0 or (state.pin["count"] <= recorded_samples * state.pin["flits"]).all():
                return Waits(Outcome(tuple(state.departs.tolist())), units, causes)
            # The path leads to a flow that is so far ahead of the departures that its slots were overwritten.
            recorded_samples *= 2

    def history(self, placement: Placement, samples: int, fed_samples: int | None = None) -> State:
        """The state in which :meth:`simulate` ends, with the slots of all flits that have passed until then.

        Among them are all flits of the samples that have departed.
        """
        recorded_samples = samples
        while True:
            state = self._run(placement, samples, fed_samples, recorded_samples)
            if (state.pin["count"] <= recorded_samples * state.pin["flits"]).all():
                return state
            recorded_samples *= 2

    def _run(self, placement: Placement, samples: int, fed_samples: int | None, recorded_samples: int) -> State:
        """The state in which a simulation ends; it records when the last samples passed each pin."""
        require_samples(samples, fed_samples)
        require_legal(self.pipeline, placement, self.fabric)
        if fed_samples is None:
            fed_samples = samples_to_feed(self.pipeline, placement, self.fabric, samples)
        state = lay_out(
            self._pipeline_arrays,
            self._fabric_arrays,
            placement.site,
            placement.route_first,
            placement.route_link,
            samples,
            fed_samples,
            recorded_samples,
        )
        slots = watched(self._stop, partial(run, state))
        if slots < 0:
            raise StoppedError(self._stop() or "stopped")
        if slots >= MAX_SLOTS:
            raise ValueError(f"at most {MAX_SLOTS:,} slots can be simulated, but {samples} samples need more")
        return State(*state)

    def _ended(self, state: State) -> tuple[int, ...]:
        """Samples that each unit has ended."""
        units = len(self.pipeline.units)
        ended = np.full(units, FAR)
        is_at_unit = state.unit >= 0
        np.minimum.at(ended, state.unit[is_at_unit], state.pin["sample"][is_at_unit])
        is_written = self._pipeline_arrays.writers > 0
        ended[is_written] = state.memory["whole"][is_written]
        is_compute = self._pipeline_arrays.kind == UnitKind.COMPUTE
        ended[is_compute] = state.actor["ended"][-units:][is_compute]
        return tuple(ended.tolist())


def simulate(
    pipeline: Pipeline, placement: Placement, fabric: Fabric, samples: int, fed_samples: int | None = None
) -> Outcome:
    """As :meth:`Simulator.simulate`, once."""
    return Simulator(pipeline, fabric).simulate(placement, samples, fed_samples)


def _pipeline_arrays(pipeline: Pipeline) -> PipelineArrays:
    units, nets = pipeline.units, pipeline.nets
    kinds = [unit.kind for unit in units]
    writers, consumers = np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.int64)
    schedule: list[int] = []
    source_schedule, sink_schedule = [], []
    for net in nets:
        source_schedule.append(len(schedule))
        if kinds[net.source] == UnitKind.COMPUTE:
            schedule += emission_steps(net.flits, int(pipeline.steps[net.source]), net.late)
        consumers[net.source] += len(net.sinks)
        for sink in net.sinks:
            sink_schedule.append(len(schedule))
            if kinds[sink.unit] == UnitKind.COMPUTE:
                schedule += reading_steps(net.flits, int(pipeline.steps[sink.unit]), sink.early)
            writers[sink.unit] += kinds[sink.unit] == UnitKind.MEMORY
    return PipelineArrays(
        kind=_integers(kinds),
        samples=_integers(unit.samples for unit in units),
        shares_banks=_integers(unit.shares_banks for unit in units),
        steps=pipeline.steps,
        writers=writers,
        consumers=consumers,
        source=_integers(net.source for net in nets),
        flits=_integers(net.flits for net in nets),
        transposed=_integers(net.transposed for net in nets),
        sink_first=np.concatenate(([0], np.cumsum([len(net.sinks) for net in nets], dtype=np.int64))),
        sink=_integers(sink.unit for net in nets for sink in net.sinks),
        schedule=_integers(schedule),
        source_schedule=_integers(source_schedule),
        sink_schedule=_integers(sink_schedule),
    )


def emission_steps(flits: int, steps: int, late: bool) -> list[int]:
    """The steps of a compute unit, from 1, in which it writes the flits of a sample."""
    start = steps // 2 if late else 0
    return [start - (-(number + 1) * (steps - start) // flits) for number in range(flits)]


def reading_steps(flits: int, steps: int, early: bool) -> list[int]:
    """The steps of a compute unit, from 1, in which it reads the flits of a sample."""
    end = (steps + 1) // 2 if early else steps
    return [number * end // flits + 1 for number in range(flits)]


def _fabric_arrays(fabric: Fabric) -> FabricArrays:
    grid = fabric.grid
    return FabricArrays(
        site_cell=grid.site_cell,
        link_from=grid.link_from,
        link_to=grid.link_to,
        first_io=grid.sites("io")[0],
        cells=grid.cells,
        read_ports=fabric.read_ports,
        write_ports=fabric.write_ports,
        transposed_read_slots=fabric.transposed_read_slots,
        tracks=fabric.tracks,
        hop_slots=fabric.hop_slots,
        buffer_flits=fabric.buffer_flits,
        min_flow_flits=fabric.min_flow_flits,
        max_flow_flits=fabric.max_flow_flits,
        burst_flits=fabric.burst_flits,
        switch_slots=fabric.switch_slots,
        port_slots=fabric.port_slots,
        port_flits=fabric.port_flits,
        channels=fabric.channel_count,
        channel_slots=fabric.channel_slots,
        channel_latency_slots=fabric.channel_latency_slots,
    )


def _integers(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)
