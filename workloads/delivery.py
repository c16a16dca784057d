"""The delivery workload: sends single records, reads everything back, and counts the copies of each record.

What can go wrong, with acks=all, retries and no idempotence:

    process 0  invoke  send  [["send", 0, 17]]
    process 0  info    send  [["send", 0, 17]]                          the delivery timed out
    process 4  ok      poll  [["poll", [[0, [[20, 17], [21, 17]]]]]]

The broker appended the record, but its acknowledgement was lost. The producer retried, and the broker appended the
record again. The client does not know whether value 17 was written, yet the log has it twice, at offsets 20 and 21:
a duplicate of a record that was never acknowledged.

Each client sends one record at a time, to keys 0 to `keys` - 1 in turn. All clients together send `records` records,
or, if `records` is 0, send until the time limit. With `primer`, a single record is sent first, with long timeouts and
the default retries; the other sends start when it completes. At this moment, the followers have just sent a fetch
request, which waits for more data.

The final polls are those of the queue workload. But a log counts as fully read only after it has not grown for
`settle_s` seconds, because a record becomes visible only when the followers have fetched it, which may take long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from harness.generator import op
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending, Workload
from harness.model.op import INVOKE, Op
from workloads.final_polls import STABLE_S, FinalPolls

PRIMER: Final = -1  # the value of the primer


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the workload. `harness run --help` describes them."""

    records: int = 0
    keys: int = 1
    primer: bool = False
    settle_s: float = STABLE_S
    reuse_producers: bool = False


@dataclass(frozen=True, slots=True)
class Primed:
    """Generates one send with `patient` (long timeouts, default retries).

    Once it has completed, with any result, generates the ops of `inner`.
    """

    inner: Generator
    state: str = "first"  # then "waiting", then "done"

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        if self.state == "first":
            return op("send", [["send", 0, PRIMER]], patient=True), replace(self, state="waiting")
        if self.state == "waiting":
            return PENDING, self
        return self.inner.op(ctx)

    def update(self, ctx: Context, event: Op) -> Generator:
        if self.state == "waiting" and event.type != INVOKE and event.extra.get("patient"):
            return self.inner
        return self


@dataclass(frozen=True, slots=True)
class Writers:
    """Generates sends of single records. The n-th record goes to key n mod `keys`, and has the value n div `keys`."""

    options: Options
    n: int = 0

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        if self.options.records and self.n >= self.options.records:
            return None
        value, key = divmod(self.n, self.options.keys)
        return op("send", [["send", key, value]]), replace(self, n=self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


def workload(options: Options) -> Workload:
    """Returns the delivery workload with these options."""
    writers: Generator = Writers(options)
    return Workload(
        "delivery",
        Primed(writers) if options.primer else writers,
        FinalPolls(settle_ns=int(options.settle_s * 1e9), send_first=options.reuse_producers),
        client="queue",
        checks=("queue", "delivery", "liveness"),
    )
