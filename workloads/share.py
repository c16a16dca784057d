"""The share workload: senders write records, and the members of share groups (KIP-932) acknowledge each of them.

What can go wrong, in a group whose locks last 3 seconds:

    member 2.0  polls offset 17 of key 1, which is delivered for the first time, and accepts it; the broker confirms
    member 4.0  polls offset 17 of key 1, which is delivered for the second time

A record that was accepted must not be delivered again (`redelivered-after-accept`).

The first slots are senders, the others are members. A sender's op sends records to some keys; a key stands for a
partition. A member polls, and acknowledges what it got: it accepts, releases, rejects or, if its library can, renews
each record. Sometimes it keeps a batch for longer than the lock lasts, leaves the group, or crashes, with the records
that it has. With implicit acknowledgement, a member's poll accepts what its poll before returned.

Before the load, members poll until every group reads partitions. The groups' start offsets are requested regularly.

Halfway through the load, the topics may be deleted and created again: see workloads.topic_recreation.

At the end, new members poll and accept everything, until nothing has come for longer than locks and sessions last.
Then the start offsets are requested again, the records in the groups' dead letter queues are listed, if there are
queues, and every client reads the logs: see workloads.final_polls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from harness.generator import NOTHING, Any_, Barrier, EachSlot, Fn, Rate, Then, TimeLimit, op, sequence
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending, Workload
from harness.model.op import EMPTY, INVOKE, OK, Op
from harness.model.randomness import Draw
from workloads.final_polls import FinalPolls
from workloads.topic_recreation import PARTITIONS_MAX, Afterwards, Recreation

Answer = tuple[Op | Pending, Generator] | None

STRIDE: Final = 1000  # key = topic number * STRIDE + partition
SIZES_EVERY_NS: Final = 250_000_000
OFFSETS_EVERY_NS: Final = 2_000_000_000
BEFORE_S: Final = 10.0
HOLD_SHARE: Final = 1.5  # how long a batch is kept beyond the lock, as a multiple of the lock's duration
DRAIN_SHARE: Final = 0.5  # fraction of the final phase in which members may poll
SPARE_S: Final = 2.0
IDLE_S: Final = 16.0  # the check needs 15 s
FINAL: Final = {"final": True}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the workload. `harness run --help` describes most of them.

    writers      number of slots that send
    members      number of slots that are members of groups
    renews       whether the client of each slot can renew locks; slots use the entries in turn
    hold_p       probability that a member keeps a batch for longer than the lock lasts
    leave_p      probability that a member leaves the group with the records of a batch
    crash_p      probability that a member crashes with the records of a batch
    dead_letters  whether each group has a dead letter queue
    grows        whether topics may get more partitions during the run
    recreate_s   after how many seconds of load the topics are deleted and created again; 0: never
    """

    writers: int = 2
    members: int = 6
    topics: int = 1
    partitions: int = 4
    groups: int = 1
    acknowledgement: str = "explicit"
    lock_s: float = 3.0
    session_s: float = 5.0
    final_s: float = 90.0
    txn: bool = False
    min_txn_length: int = 1
    max_txn_length: int = 1
    abort_p: float = 0.05
    release_p: float = 0.1
    reject_p: float = 0.03
    renew_p: float = 0.1
    hold_p: float = 0.03
    leave_p: float = 0.02
    crash_p: float = 0.01
    renews: tuple[bool, ...] = (False,)
    dead_letters: bool = False
    grows: bool = False
    recreate_s: float = 0.0

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the partitions that the topics have at the start."""
        return tuple(topic * STRIDE + number for topic in range(self.topics) for number in range(self.partitions))

    @property
    def idle_ns(self) -> int:
        """How long nothing must come at the end. By then, locks and sessions of members that are gone have ended."""
        return int(max(IDLE_S, self.lock_s + self.session_s + SPARE_S) * 1e9)

    def group(self, slot: int) -> str:
        """Returns the group of a member's slot. If there are enough members, each group has one of each library."""
        libraries = len(self.renews)
        enough = self.members >= libraries * self.groups
        return f"g{(slot - self.writers) // (libraries if enough else 1) % self.groups}"


@dataclass(frozen=True, slots=True)
class Sender:
    """The sends of one slot. The values of a key are unique, since each sender numbers its own.

    keys  the keys of the existing partitions
    """

    options: Options
    slot: int
    keys: tuple[int, ...]
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        options, draw = self.options, ctx.draw(f"share sends {self.slot}", self.n)
        count = draw.between(options.min_txn_length, options.max_txn_length)
        first = self.n * options.max_txn_length
        values = [(first + i) * options.writers + self.slot for i in range(count)]
        mops = [["send", draw.choice(self.keys), value] for value in values]
        abort = options.txn and draw.random() < options.abort_p
        made = Op(-1, -1, -1, INVOKE, "send", mops, None, {"abort": True} if abort else EMPTY)
        return made, replace(self, n=self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.f != "share-sizes" or event.type != OK:
            return self
        keys = tuple(int(topic) * STRIDE + n for topic, count in event.value.items() for n in range(count))
        return self if keys == self.keys else replace(self, keys=keys)


@dataclass(frozen=True, slots=True)
class Member:
    """The ops of a member's slot.

    process    the process that the state belongs to; a new process has no records
    closes     how often the process has left the group
    acquired   (key, offset) of the records that the process has to acknowledge
    plan       what it does with them: acknowledge, leave, or crash
    until_ns   it emits no op before this time
    polled_ns  when the last record came; in the final phase, the start of the phase
    last       before the final phase: the slot's last process of the load that was a member, and the member's name
    final      whether it is the final phase: everything is accepted until nothing has come for `idle_ns`
    """

    options: Options
    slot: int
    final: bool = False
    last: tuple[Any, str] = (None, "")
    process: Any = None
    closes: int = 0
    acquired: tuple[tuple[int, int], ...] = ()
    plan: str = "acknowledge"
    until_ns: int = 0
    polled_ns: int | None = None
    waiting: bool = False
    done: bool = False
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        if self.done:
            return None
        process = ctx.all[0]
        state = self
        if process != self.process:
            state = replace(self, process=process, closes=0, acquired=(), plan="acknowledge", waiting=False, until_ns=0)
            if self.final and self.process is None and self.last[0] == process:
                return state._leave_load()
        if state.waiting or ctx.time_ns < state.until_ns:
            return PENDING, state
        made = state._next(ctx)
        return made, replace(state, waiting=True, n=state.n + 1)

    def _leave_load(self) -> tuple[Op, Generator]:
        """Returns the close of the process's member of the load, which releases what the member has."""
        named = {"group": self.options.group(self.slot), "member": self.last[1]}
        closes = int(self.last[1].rpartition(".")[2])
        return op("share-close", None, **named, **FINAL), replace(self, waiting=True, closes=closes)

    def _next(self, ctx: Context) -> Op:
        named: dict[str, Any] = {"group": self.options.group(self.slot)}
        named["member"] = f"{self.process}.{self.closes}"
        named |= FINAL if self.final else {}
        if self.plan == "crash":
            return op("crash", None, **named)
        if self.plan == "leave":
            return op("share-close", None, **named)
        if self.acquired and self.options.acknowledgement == "explicit":
            draw = ctx.draw(f"share acknowledgements {self.slot}", self.n)
            rows = [[key, offset, "accept" if self.final else self._kind(draw)] for key, offset in self.acquired]
            return op("share-acknowledge", rows, **named)
        return op("share-poll", None, **named)

    def _kind(self, draw: Draw) -> str:
        """Draws how a record is acknowledged."""
        options = self.options
        can_renew = options.renews[self.slot % len(options.renews)]
        kinds = [("release", options.release_p), ("reject", options.reject_p)]
        kinds += [("renew", options.renew_p)] if can_renew else []
        at = draw.random()
        for kind, probability in kinds:
            if at < probability:
                return kind
            at -= probability
        return "accept"

    def update(self, ctx: Context, event: Op) -> Generator:
        if self.final and self.process is None and "member" in event.extra:
            return replace(self, last=(event.process, event.extra["member"]))
        if event.type == INVOKE or not self.waiting or event.process != self.process:
            return self
        rested = replace(self, waiting=False, plan="acknowledge")
        if event.f == "share-close":
            closed = replace(rested, closes=self.closes + 1, acquired=())
            return replace(closed, done=True) if self.final and self.plan == "leave" else closed
        if event.f != "share-poll" or event.type != OK:
            return replace(rested, acquired=())
        return rested._polled(ctx, event)

    def _polled(self, ctx: Context, event: Op) -> Member:
        rows = [*event.value["records"], *event.value.get("renewed", ())]
        acquired = tuple((row[0], row[1]) for row in rows)
        if self.final:
            polled_ns = event.time_ns if rows or self.polled_ns is None else self.polled_ns
            idle = event.time_ns - polled_ns >= self.options.idle_ns
            return replace(self, acquired=acquired, polled_ns=polled_ns, plan="leave" if idle else "acknowledge")
        if not rows:
            return replace(self, acquired=())
        at = ctx.draw(f"share batches {self.slot}", self.n).random()
        options = self.options
        if at < options.hold_p:
            held_ns = int(HOLD_SHARE * options.lock_s * 1e9)
            return replace(self, acquired=acquired, until_ns=event.time_ns + held_ns)
        at -= options.hold_p
        plan = "leave" if at < options.leave_p else "crash" if at < options.leave_p + options.crash_p else "acknowledge"
        return replace(self, acquired=acquired, plan=plan)


@dataclass(frozen=True, slots=True)
class Started:
    """Generates the ops of `inner` until a `share-offsets` op has shown for each group that it reads partitions.

    found  the groups that read partitions
    """

    inner: Generator
    groups: int
    found: frozenset[str] = frozenset()

    def op(self, ctx: Context) -> Answer:
        answer = self.inner.op(ctx) if len(self.found) < self.groups else None
        return None if answer is None else (answer[0], replace(self, inner=answer[1]))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        found = self.found
        if event.f == "share-offsets" and event.type == OK and event.extra.get("partitions"):
            found |= {event.extra["group"]}
        return self if inner is self.inner and found == self.found else replace(self, inner=inner, found=found)


def _offsets(options: Options) -> Generator:
    """Returns the generator of requests for the start offsets of all groups in turn, without end."""
    return Fn(lambda ctx, n: op("share-offsets", None, group=f"g{n % options.groups}"))


def before(options: Options) -> Generator:
    """Returns the ops before the load: members poll until each group has been set up, for BEFORE_S at most."""

    def part(slot: int) -> Generator:
        if slot >= options.writers:
            return Member(options, slot)
        return Rate(_offsets(options), SIZES_EVERY_NS) if slot == 0 else NOTHING

    return TimeLimit(Started(EachSlot(part), options.groups), int(BEFORE_S * 1e9))


def load(options: Options) -> Generator:
    """Returns the generator of the load, which is endless."""

    def part(slot: int) -> Generator:
        if slot >= options.writers:
            return Member(options, slot)
        sender: Generator = Sender(options, slot, options.keys)
        if slot == 0:
            sender = Any_((Rate(_offsets(options), OFFSETS_EVERY_NS), sender))
        if options.grows:
            sender = Any_((Rate(Fn(lambda ctx, n: op("share-sizes")), SIZES_EVERY_NS), sender))
        return sender

    slots = EachSlot(part)
    return Recreation(slots, int(options.recreate_s * 1e9), options.writers) if options.recreate_s else slots


def final(options: Options) -> Generator:
    """Returns the generator of the final phase."""

    def drain(slot: int) -> Generator:
        return Member(options, slot, final=True) if slot >= options.writers else NOTHING

    def offsets(slot: int) -> Generator:
        requests = ("share-offsets", "share-dead-letters") if options.dead_letters else ("share-offsets",)
        asks = [op(f, None, group=f"g{number}", **FINAL) for f in requests for number in range(options.groups)]
        return sequence(asks) if slot == 0 else NOTHING

    members = TimeLimit(EachSlot(drain), int(options.final_s * DRAIN_SHARE * 1e9))
    phases = Then((Barrier(members), Barrier(EachSlot(offsets)), Barrier(FinalPolls())))
    return Afterwards(phases) if options.recreate_s else phases


def workload(options: Options) -> Workload:
    """Returns the share workload with these options."""
    client_options: dict[str, Any] = {"topics": options.topics, "acknowledgement": options.acknowledgement}
    if options.recreate_s:
        client_options["partitions_max"] = PARTITIONS_MAX
    return Workload(
        "share",
        load(options),
        final(options),
        client="share",
        checks=("queue", "share"),
        client_options=client_options,
        before=before(options),
    )
