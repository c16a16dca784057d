"""The pipeline workload: instances of a consume-transform-produce application, which should work exactly once.

What can go wrong, with input partition 3 of the group:

    instance A  polls offsets 40 to 49, and is paused for longer than its session timeout
    instance B  is assigned partition 3, polls offsets 40 to 49, produces their outputs, commits offset 50
    instance A  is resumed, produces outputs of offsets 40 to 49 and commits its transaction
    final read  each of these inputs has two committed outputs

Instance A is a zombie: it was removed from the group, so its transaction must be fenced (KIP-447). If it is not, the
outputs are duplicated (`duplicate-output`).

The first slots are writers, the other slots are instances. A writer's op sends a batch of records to the input topics.
The ids of a writer's records increase, each key has one writer, and the key determines the partition. If topics can
grow, writers query the sizes of the topics regularly, and use new keys for new partitions. An instance's op lasts about
a second, and the instance's next op continues where this one stopped. If the process is killed or replaced, the next op
starts a new incarnation of the instance. With `churn_s`, instances leave the group cleanly one after another, and
rejoin it later.

At the end the writers stop. The instances work until the group has committed everything, and then leave. The offsets
that a member commits when it leaves may be below the log end. If this leaves a lag, the instances rejoin, work and
leave again, as often as the time limit allows. Finally every slot reads its share of the topics. If there is still a
lag, the records that are not processed are not judged, and the verdict is unknown. For the instances themselves, see
harness.pipeline_app.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from harness.generator import NOTHING, Barrier, EachSlot, Fn, Limit, Rate, Then, TimeLimit, op
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending, Workload
from harness.model.op import INVOKE, OK, Op
from harness.pipeline_app.partition_numbers import number_of, place_of
from harness.pipeline_app.ports import Options as InstanceOptions

Answer = tuple[Op | Pending, Generator] | None

WORK_S: Final = 1.0  # duration of an instance's op
LAG_EVERY_NS: Final = 500_000_000
LAST_LAGS: Final = 5
SIZES_EVERY_NS: Final = 500_000_000
DRAIN_SHARE: Final = 0.6  # maximum share of the final time limit for the instances to catch up


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the workload. `harness run --help` describes them from the user's side.

    writers        number of slots that are writers
    instances      number of slots that are instances
    keys           number of keys, rounded up to a multiple of `writers`
    inputs         number of input topics, with `partitions` partitions each, like the output topic
    batch          records in a writer's op
    churn_s        interval in seconds at which one instance leaves; it rejoins after half of that time; 0: none leaves
    final_s        time limit of the final phase
    instance       what each instance does
    assignor       range | roundrobin | cooperative-sticky | consumer
    one_poll       whether a revocation and the following assignment happen in a single poll
    grows          whether input topics may get more partitions during the run
    group_existed  whether, before the load begins, the group commits the start offset of every partition
    """

    writers: int = 2
    instances: int = 4
    keys: int = 24
    inputs: int = 1
    partitions: int = 12
    batch: int = 5
    churn_s: float = 10.0
    final_s: float = 90.0
    instance: InstanceOptions = field(default_factory=InstanceOptions)
    assignor: str = "range"
    static_members: bool = False
    one_poll: bool = False
    grows: bool = False
    group_existed: bool = False

    @property
    def key_count(self) -> int:
        return -(-self.keys // self.writers) * self.writers


def partition_of(options: Options, key: int) -> int:
    """Returns the number of the partition to which the records of a key are sent.

    Keys from `key_count` on are for partitions that are added during the run. Each writer has one key for each of these
    partitions.
    """
    added = key - options.key_count
    if added >= 0:
        return options.inputs * options.partitions + added // options.writers
    topic = key // options.partitions % options.inputs
    return number_of(topic, key % options.partitions, options.inputs)


@dataclass(frozen=True, slots=True)
class Writer:
    """Generates the sends of one writer.

    The n-th record of writer w has the id n * W + w, where W is the number of writers. Its key is the id modulo the
    number of keys, so different writers use different keys. An id whose partition does not exist yet is skipped.

    sizes  the latest known number of partitions of each input topic; empty if it has not been queried
    """

    options: Options
    slot: int
    n: int = 0
    sizes: tuple[int, ...] = ()
    sizes_asked_ns: int | None = None

    def op(self, ctx: Context) -> Answer:
        options = self.options
        if options.grows and (self.sizes_asked_ns is None or ctx.time_ns - self.sizes_asked_ns >= SIZES_EVERY_NS):
            return op("sizes"), replace(self, sizes_asked_ns=ctx.time_ns)
        largest = max(self.sizes, default=options.partitions)
        keys = options.key_count + options.writers * options.inputs * (largest - options.partitions)
        n, value = self.n, list[list[Any]]()
        while len(value) < options.batch:
            id = n * options.writers + self.slot
            n += 1
            number = partition_of(options, id % keys)
            topic, partition = place_of(number, options.inputs)
            if not self.sizes or partition < self.sizes[topic]:
                value.append(["send", number, id])
        return op("send", value, keys=keys), replace(self, n=n)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.f != "sizes" or event.type != OK:
            return self
        return replace(self, sizes=tuple(map(int, event.value)))


@dataclass(frozen=True, slots=True)
class Worker:
    """Generates endless `work` ops for one instance, and, with `churn_s`, `leave` ops at regular intervals.

    turn      the number of the instance; the instances leave one after another, in this order
    leave_ns  the time of the next `leave` op; None before the first op
    """

    options: Options
    turn: int
    leave_ns: int | None = None
    back_ns: int = 0

    def op(self, ctx: Context) -> Answer:
        churn_ns = int(self.options.churn_s * 1e9)
        if not churn_ns:
            return op("work"), self
        leave_ns = self.leave_ns
        if leave_ns is None:
            leave_ns = ctx.time_ns + churn_ns * (self.turn + 1)
        if ctx.time_ns < self.back_ns:
            return PENDING, self
        if ctx.time_ns >= leave_ns:
            later = ctx.time_ns + churn_ns * self.options.instances
            return op("leave"), replace(self, leave_ns=later, back_ns=ctx.time_ns + churn_ns // 2)
        return op("work"), replace(self, leave_ns=leave_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


@dataclass(frozen=True, slots=True)
class Until:
    """Generates the ops of `inner`, until an op named `f` is ok and the field `field` of its value equals `wanted`.

    Without `field`, any op named `f` that is ok is the last one. Ops before the first op of `inner` do not count.
    """

    inner: Generator
    f: str
    field: str | None = None
    wanted: Any = None
    begun: bool = False
    done: bool = False

    def op(self, ctx: Context) -> Answer:
        if self.done:
            return None
        answer = self.inner.op(ctx)
        return None if answer is None else (answer[0], replace(self, inner=answer[1], begun=True))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        fits = self.begun and event.type == OK and event.f == self.f
        if fits and (self.field is None or event.value.get(self.field) == self.wanted):
            return replace(self, inner=inner, done=True)
        return self if inner is self.inner else replace(self, inner=inner)


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Generates endless ops named `f`, each when the previous one has completed."""

    f: str
    final: bool = True
    open: bool = False

    def op(self, ctx: Context) -> Answer:
        extra = {"final": True} if self.final else {}
        return (PENDING, self) if self.open else (op(self.f, **extra), replace(self, open=True))

    def update(self, ctx: Context, event: Op) -> Generator:
        return self if event.f != self.f else replace(self, open=event.type == INVOKE)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Generates rounds until the lag is 0. Each round ends with a `lag` op. No round starts after the time limit.

    make  function: remaining time in ns -> the generator of a round
    open  whether a `lag` op has been invoked and has not completed
    lag   the consumer group's lag according to the latest `lag` op; None if that op failed
    """

    make: Callable[[int], Generator]
    limit_ns: int
    until_ns: int | None = None
    round: Generator = NOTHING
    open: bool = False
    lag: int | None = None

    def op(self, ctx: Context) -> Answer:
        now = ctx.time_ns
        until_ns = now + self.limit_ns if self.until_ns is None else self.until_ns
        answer = self.round.op(ctx)
        if answer is None and self.open:
            return PENDING, self
        if answer is None and self.lag != 0 and now < until_ns:
            answer = self.make(until_ns - now).op(ctx)
        return None if answer is None else (answer[0], replace(self, until_ns=until_ns, round=answer[1]))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.round.update(ctx, event)
        if event.f != "lag":
            return self if inner is self.round else replace(self, round=inner)
        lag = event.value["left"] if event.type == OK else None
        return replace(self, round=inner, open=event.type == INVOKE, lag=lag)


def load(options: Options) -> Generator:
    """Returns the generator of the load, which is endless: writers send, instances work."""

    def part(slot: int) -> Generator:
        return Writer(options, slot) if slot < options.writers else Worker(options, slot - options.writers)

    every = EachSlot(part)
    if not options.group_existed:
        return every
    return Then((Until(OneByOne("begin", final=False), "begin", "committed", True), Barrier(every)))


def final(options: Options) -> Generator:
    """Returns the generator of the final phase. The instances work and then leave, repeatedly until the lag is 0.

    Then all slots read the topics.
    """

    def drain(slot: int) -> Generator:
        if slot == 0:
            return Rate(OneByOne("lag"), LAG_EVERY_NS)
        return Fn(lambda ctx, n: op("work", final=True)) if slot >= options.writers else NOTHING

    def leave(slot: int) -> Generator:
        return Limit(Fn(lambda ctx, n: op("leave", final=True)), int(slot >= options.writers))

    def read(slot: int) -> Generator:
        return Until(OneByOne("read"), "read", "done", True)

    def drained(remaining_ns: int) -> Generator:
        worked = TimeLimit(Until(EachSlot(drain), "lag", "left", 0), remaining_ns)
        return Then((worked, Barrier(EachSlot(leave)), Barrier(last_lag())))

    return Then((Rounds(drained, int(options.final_s * DRAIN_SHARE * 1e9)), Barrier(EachSlot(read))))


def last_lag() -> Generator:
    """Returns the generator of the `lag` op once all instances have left, repeated if it fails.

    It may fail at first, for example after an election.
    """
    return Until(Limit(Rate(OneByOne("lag"), LAG_EVERY_NS), LAST_LAGS), "lag")


def consumer_config(assignor: str) -> dict[str, str]:
    """Returns the consumer properties that select the assignor or the group protocol (KIP-429, KIP-848)."""
    if assignor == "consumer":
        return {"group.protocol": "consumer"}
    return {"partition.assignment.strategy": assignor}


def workload(options: Options) -> Workload:
    """Returns the pipeline workload with these options."""
    options_of_client: Mapping[str, Any] = {
        "options": asdict(options.instance),
        "inputs": options.inputs,
        "partitions": options.partitions,
        "work_s": WORK_S,
        "assignor": options.assignor,
        "static_members": options.static_members,
        "one_poll": options.one_poll,
    }
    return Workload(
        "pipeline",
        load(options),
        final(options),
        client="pipeline",
        checks=("pipeline", "offsets"),
        client_options=options_of_client,
        consumer_config=consumer_config(options.assignor),
    )
