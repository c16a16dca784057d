"""The queue workload: transactions of sends and polls over rotating keys, mixed with subscribes and assigns.

What can go wrong, in key 3:

    process 0  invoke  send  [["send", 3, 7]]
    process 0  ok      send  [["send", 3, [4, 7]]]
    process 1  ok      poll  [["poll", [[3, [[2, 5], [3, 6]]]]]]
    process 1  ok      poll  [["poll", [[3, [[5, 8]]]]]]

Value 7 was acknowledged at offset 4. Process 1 reads offsets 2, 3 and 5, but not 4. If no other poll returns offset 4
either, including the polls at the end of the run, the acknowledged record is lost (`lost-write`).

During the load, each op is a list of micro-ops: a send of a key's next value, or a poll. An op with micro-ops of only
one kind is named `send` or `poll`, a mixed one `txn`. Keys come from a pool of `key_count`. A key that has had
`max_writes_per_key` values is retired, and the next integer replaces it. Occasionally an op is an `assign` or a
`subscribe` of recently used keys. Sometimes it also includes keys with acknowledged values that no client has polled
yet. With `crash_clients`, a client crashes at a regular interval.

The final polls are those of workloads.final_polls.

Modelled on jepsen.tests.kafka. Unlike in Jepsen, each op is drawn from the seed, so the stream of ops does not depend
on timing. The only exception is that assigns and subscribes may include keys with records that nobody has polled yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.generator import Any_, Fn, Rate, op
from harness.model.fault_and_generator_protocols import Context, Generator, Pending, Workload
from harness.model.op import EMPTY, INVOKE, OK, Op, polls, sends
from harness.model.randomness import Draw
from workloads.final_polls import FinalPolls, keys_of

Answer = tuple[Op | Pending, Generator] | None

CATCH_UP_P: Final = 0.3  # probability that an assign or subscribe adds keys with unseen values
UNSEEN_KEYS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the workload. `txn`: whether ops are transactions.

    `harness run --help` describes the other options.
    """

    txn: bool = False
    min_txn_length: int = 1
    max_txn_length: int = 1
    key_count: int = 12
    max_writes_per_key: int = 1024
    key_dist: str = "exponential"
    key_dist_base: float = 2.0
    abort_p: float = 0.05
    sub_p: float = 1 / 64
    sub_via: tuple[str, ...] = ("assign",)
    crash_clients: bool = False
    crash_client_interval_s: float = 30.0
    reuse_producers: bool = False


def tagged(mops: list[list[Any]]) -> str:
    """Returns the name of an op with these micro-ops: `send` or `poll` if all of them are of this kind,
    otherwise `txn`.
    """
    kinds = {mop[0] for mop in mops}
    return kinds.pop() if len(kinds) == 1 else "txn"


@dataclass(frozen=True, slots=True)
class Txns:
    """Generates endless ops, each of which is a list of sends and polls.

    `pool` has (key, number of values sent so far) for each active key.
    """

    options: Options
    pool: tuple[tuple[int, int], ...]
    next_key: int
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        options, draw = self.options, ctx.draw("txn", self.n)
        pool, next_key = self.pool, self.next_key
        mops: list[list[Any]] = []
        for _ in range(draw.between(options.min_txn_length, options.max_txn_length)):
            if draw.random() < 0.5:
                mops.append(["poll"])
                continue
            at = pick(options, draw, len(pool))
            key, sent = pool[at]
            mops.append(["send", key, sent])
            if sent + 1 >= options.max_writes_per_key:
                pool, next_key = (*pool[:at], *pool[at + 1 :], (next_key, 0)), next_key + 1
            else:
                pool = (*pool[:at], (key, sent + 1), *pool[at + 1 :])
        abort = options.txn and draw.random() < options.abort_p
        made = Op(-1, -1, -1, INVOKE, tagged(mops), mops, None, {"abort": True} if abort else EMPTY)
        return made, Txns(options, pool, next_key, self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


def pick(options: Options, draw: Draw, count: int) -> int:
    """Draws which of the `count` active keys to use. Returns its index.

    The distribution is uniform or exponential. If it is exponential, each key is `key_dist_base` times as likely as the
    previous one.
    """
    base = options.key_dist_base
    if options.key_dist == "uniform" or base == 1.0:
        return draw.below(count)
    # Inverse of the distribution function of P(i) ~ base**i over 0..count-1.
    at = math.log1p(draw.random() * (base**count - 1.0)) / math.log(base)
    return min(count - 1, max(0, int(at)))


def txns(options: Options) -> Generator:
    return Txns(options, tuple((key, 0) for key in range(options.key_count)), options.key_count)


@dataclass(frozen=True, slots=True)
class InterleaveSubscribes:
    """Generates the ops of `inner`.

    With probability `sub_p`, an assign or subscribe of some recently used keys is inserted before an op.

    recent  the keys of earlier ops, the most recent last; at most twice as many as there are active keys
    """

    options: Options
    inner: Generator
    recent: tuple[int, ...] = ()
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        draw = ctx.draw("subscribe", self.n)
        if self.recent and draw.random() < self.options.sub_p:
            f = draw.choice(self.options.sub_via)
            count = draw.between((len(self.recent) + 1) // 2, len(self.recent))
            keys = sorted(draw.shuffled(self.recent)[:count])
            return op(f, keys), replace(self, n=self.n + 1)
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        made, inner = answer
        if isinstance(made, Pending):
            return made, replace(self, inner=inner)
        recent = self.recent
        for key in keys_of(made):
            if key not in recent[-self.options.key_count // 2 :]:
                others = tuple(k for k in recent if k != key)
                recent = (*others, key)[-2 * self.options.key_count :]
        return made, InterleaveSubscribes(self.options, inner, recent, self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else replace(self, inner=inner)


@dataclass(frozen=True, slots=True)
class PollUnseen:
    """Generates the ops of `inner`, but adds the keys in `unseen` to some of the assigns and subscribes.

    unseen  key -> [highest acknowledged offset, highest polled offset], for keys that have not been polled up to the
            highest acknowledged offset
    """

    inner: Generator
    unseen: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        made, inner = answer
        if isinstance(made, Pending) or made.f not in ("assign", "subscribe") or not self.unseen:
            return made, PollUnseen(inner, self.unseen, self.n)
        if ctx.draw("catch-up", self.n).random() < CATCH_UP_P:
            made = made.with_(value=sorted({*made.value, *self.unseen}))
        return made, PollUnseen(inner, self.unseen, self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        unseen = self._unseen_after(event) if event.type == OK else self.unseen
        if inner is self.inner and unseen is self.unseen:
            return self
        return PollUnseen(inner, unseen, self.n)

    def _unseen_after(self, event: Op) -> Mapping[int, tuple[int, int]]:
        changed: dict[int, tuple[int, int]] = {}
        for key, offset, _ in sends(event):
            acknowledged, polled = changed.get(key) or self.unseen.get(key, (-1, -1))
            if offset is not None and offset > acknowledged:
                changed[key] = (offset, polled)
        last: dict[int, int] = {}
        for key, offset, _ in polls(event):
            last[key] = offset
        for key, offset in last.items():
            highest = changed.get(key) or self.unseen.get(key)
            if highest is not None:
                changed[key] = (highest[0], max(highest[1], offset))
        if not changed:
            return self.unseen
        merged = {**self.unseen, **changed}
        unseen = {key: (sent, seen) for key, (sent, seen) in merged.items() if seen < sent}
        while len(unseen) > UNSEEN_KEYS_MAX:
            unseen.pop(next(iter(unseen)))
        return unseen


def crashes(interval_s: float) -> Generator:
    """Returns the generator of a `crash` op every `interval_s` seconds, each on a free client."""
    return Rate(Fn(lambda ctx, n: op("crash")), int(interval_s * 1e9))


def workload(options: Options) -> Workload:
    """Returns the queue workload with these options."""
    load = PollUnseen(InterleaveSubscribes(options, txns(options)))
    generator: Generator = load
    if options.crash_clients:
        generator = Any_((crashes(options.crash_client_interval_s), load))
    return Workload(
        "queue", generator, FinalPolls(send_first=options.reuse_producers), client="queue", checks=("queue", "liveness")
    )
