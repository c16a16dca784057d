"""The app workload: an application of the user consumes, transforms and produces, and must keep its promise.

The first slots are writers, as in the pipeline workload; each of the other slots keeps one instance of the application
running, as a process of its own. Before the load, all instances start and get ready. At the end the writers stop. The
instances work until the group has committed everything, and are then asked to end. If this leaves a lag, they are
started again, as often as the time limit allows. Finally every slot reads its share of the topics. For the instances,
see harness.clients.app.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from harness.generator import NOTHING, Barrier, EachSlot, Fn, Rate, Then, TimeLimit, op
from harness.model.fault_and_generator_protocols import Generator, Workload
from harness.pipeline_app.ports import Options as InstanceOptions
from workloads.pipeline import DRAIN_SHARE, LAG_EVERY_NS, OneByOne, Rounds, Until, Writer, last_lag
from workloads.pipeline import Options as PipelineOptions

# Ids are larger than the other numbers in most records, so an output that is read at the wrong place names no input.
FIRST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the workload.

    app  the description of the application, as plain data: see harness.clients.app.spec
    For the others, see workloads.pipeline.Options.
    """

    app: Mapping[str, Any] = field(default_factory=dict)
    writers: int = 1
    instances: int = 2
    keys: int = 24
    inputs: int = 1
    partitions: int = 12
    batch: int = 5
    final_s: float = 90.0


def workload(options: Options) -> Workload:
    """Returns the app workload with these options."""
    records = PipelineOptions(
        writers=options.writers,
        instances=options.instances,
        keys=options.keys,
        inputs=options.inputs,
        partitions=options.partitions,
        batch=options.batch,
    )
    client_options: Mapping[str, Any] = {
        "app": dict(options.app),
        "keys": records.key_count,
        "instances": options.instances,
        "options": asdict(InstanceOptions()),
        "inputs": options.inputs,
        "partitions": options.partitions,
        "work_s": 0.0,
        "assignor": "range",
        "static_members": False,
        "one_poll": False,
    }

    def part(slot: int) -> Generator:
        return Writer(records, slot, FIRST) if slot < options.writers else Fn(lambda ctx, n: op("work"))

    return Workload(
        "app",
        EachSlot(part),
        final(options),
        client="app",
        checks=("pipeline",),
        client_options=client_options,
        before=EachSlot(lambda slot: NOTHING if slot < options.writers else _until_done("start", "ready")),
        hit=range(options.writers, options.writers + options.instances),
    )


def final(options: Options) -> Generator:
    """Returns the final phase: work and leave, again and again until the lag is 0; then read the topics."""

    def drain(slot: int) -> Generator:
        if slot == 0:
            return Rate(OneByOne("lag"), LAG_EVERY_NS)
        return Fn(lambda ctx, n: op("work", final=True)) if slot >= options.writers else NOTHING

    def leave(slot: int) -> Generator:
        return _until_done("leave", "left", final=True) if slot >= options.writers else NOTHING

    def drained(remaining_ns: int) -> Generator:
        worked = TimeLimit(Until(EachSlot(drain), "lag", "left", 0), remaining_ns)
        return Then((worked, Barrier(EachSlot(leave)), Barrier(last_lag())))

    rounds = Rounds(drained, int(options.final_s * DRAIN_SHARE * 1e9))
    return Then((rounds, Barrier(EachSlot(lambda slot: _until_done("read", "done", final=True)))))


def _until_done(f: str, field: str, final: bool = False) -> Generator:
    """Returns the generator of ops `f`, one after another, until one completes with true in the field `field`."""
    return Until(OneByOne(f, final=final), f, field, True)
