"""The delivery workload: writers send records, everything is read back, and each record is accounted for.

Every client sends one record at a time, `records` of them in all (0: until the time limit), to keys 0 to
`keys` - 1 in turn. With `primer`, one record goes ahead alone, sent patiently, and the rest only when it is
acknowledged: the followers have then just begun to wait for more. Final polls as in the queue workload, but
a log counts as ended only when it has not grown for `settle_s`: what replicas fetch late shows up late.
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
    """See `harness run --help`."""

    records: int = 0
    keys: int = 1
    primer: bool = False
    settle_s: float = STABLE_S


@dataclass(frozen=True, slots=True)
class Primed:
    """One patient send, and `inner` once it has completed, whatever came of it."""

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
    """Sends of single records: the n-th goes to key n mod `keys`, and its value is n div `keys`."""

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
    """The delivery workload under `options`."""
    writers: Generator = Writers(options)
    return Workload(
        "delivery",
        Primed(writers) if options.primer else writers,
        FinalPolls(settle_ns=int(options.settle_s * 1e9)),
        client="queue",
        checks=("queue", "delivery"),
    )
