"""The complete log model: partitions, a clock, producers and their transaction coordinator; with or without bugs.

`SimulatedLog` can be either side of a comparison. Without bugs it defines correct behaviour. With some of `bugs`
enabled, it stands for a broker in which the comparison must find these bugs. It is deterministic and does no input or
output.

Rules of the coordinator:
- A producer id has at most one open transaction. The transaction ends with a marker in each partition that it wrote to.
  Ending a transaction that is not open is an error (KIP-98). A new epoch aborts the open transaction, and fences the
  old epoch (KIP-98).
- A transactional batch is appended only if its transaction is open at the coordinator (KIP-890); a batch with an
  older epoch is rejected.
- Time advances only by the action `tick`, and a topic's settings change only by `set`. Cleaning, retention, uploads
  and checkpoints, which a broker does periodically, are actions.
- Brokers store only message format 2 and convert older ones: a record of format 0 has no timestamp (KIP-32,
  KIP-724).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from harness.sim.log_model import append, compaction, fetch, restarts, retention, tiered_storage
from harness.sim.log_model.action_types import Action, Outcome
from harness.sim.log_model.partition import Partition, View, new_partition
from harness.sim.log_model.producers import FENCED
from harness.sim.log_model.records import NO_TIMESTAMP, LogSettings
from harness.sim.log_model.senders import Producer, Sent

BEGIN_MS: Final = 1_000_000
SENT_KEPT: Final = 8
NO_TXN: Final = "INVALID_TXN_STATE"


class SimulatedLog:
    """The partitions of one topic, and the producers that write to them. Implements LogUnderTest."""

    def __init__(self, settings: LogSettings, bugs: frozenset[str] = frozenset()) -> None:
        self._now = BEGIN_MS
        self._partitions = [new_partition(settings, bugs) for _ in range(settings.partitions)]
        self._producers: dict[int, Producer] = {}
        self._tick(0)
        for log in self._partitions:
            log.active.created = log.active.modified = BEGIN_MS

    def apply(self, action: Action) -> Outcome:
        return _DO[action.f](self, action)

    def views(self) -> list[View]:
        return [log.view() for log in self._partitions]

    @property
    def now(self) -> int:
        """The broker's clock in ms."""
        return self._now

    def in_transaction(self, producer: int, partition: int) -> bool:
        """Returns whether the producer has an open transaction that wrote to the partition."""
        return producer in self._producers and partition in self._producers[producer].partitions

    def within_batch(self, partition: int, offset: int) -> bool:
        """Returns whether an offset lies within a batch of the local log: after the batch's first offset, up to its
        last one.
        """
        return any(batch.base < offset <= batch.last for batch in self._partitions[partition].batches())

    @property
    def settings(self) -> LogSettings:
        return self._partitions[0].settings

    def _log(self, action: Action) -> Partition:
        at: int = action.arg("partition")
        return self._partitions[at]

    def _producer(self, action: Action) -> Producer:
        return self._producers.setdefault(action.arg("producer"), Producer())

    def _tick(self, ms: int) -> None:
        self._now += max(ms, 0)
        for log in self._partitions:
            log.now = self._now

    # --- writing ---

    def append(self, action: Action) -> Outcome:
        timeless = action.arg("magic") == 0
        triples = tuple(
            (NO_TIMESTAMP if timeless else self._now - age, key, value) for key, value, age in action.arg("records")
        )
        if action.arg("producer") < 0:
            return _offsets(append.append(self._log(action), triples, size=action.arg("size")))
        partition, producer = action.arg("partition"), self._producer(action)
        sent = Sent(producer.epoch, producer.next.get(partition, 0), triples, action.arg("txn"))
        done = self._send(action, sent, action.arg("size"))
        if not done.error:
            producer.next[partition] = sent.sequence + len(triples)
            producer.sent[partition] = [
                *producer.sent.get(partition, []),
                replace(sent, end=done.value[1]),
            ][-SENT_KEPT:]
            if sent.transactional:
                producer.partitions.add(partition)
        return done

    def _send(self, action: Action, sent: Sent, size: int = 0) -> Outcome:
        return _offsets(
            append.append(
                self._log(action),
                sent.triples,
                action.arg("producer"),
                sent.epoch,
                sent.sequence,
                sent.transactional,
                size,
            )
        )

    def retry(self, action: Action) -> Outcome:
        """Sends a batch of the producer again: its last one, or the one `back` batches before that.

        Does nothing if there is no such batch.
        """
        partition, producer, back = action.arg("partition"), self._producer(action), action.arg("back")
        sent = producer.sent.get(partition, [])
        if not 0 <= back < len(sent):
            return Outcome()
        again = sent[-1 - back]
        if again.transactional and partition not in producer.partitions:
            log, name = self._log(action), action.arg("producer")
            known = log.sequences.judge(name, again.epoch, again.sequence, len(again.triples))
            if known is None:
                return Outcome(NO_TXN)
            if "retry-appended" not in log.bugs:  # the coordinator's check comes before the log's
                return Outcome(known) if isinstance(known, str) else Outcome(value=[known.base, known.end])
        return self._send(action, again, action.arg("size"))

    def gap(self, action: Action) -> Outcome:
        """Sends a batch whose sequence numbers do not follow those of the producer's previous batch.

        Does nothing if the producer has not sent any batch yet.
        """
        producer, partition = self._producer(action), action.arg("partition")
        if not producer.sent.get(partition):
            return Outcome()
        record = (self._now, "gap", "gap")
        sent = Sent(producer.epoch, producer.next[partition] + 3, (record,), False)
        return self._send(action, sent, action.arg("size"))

    def zombie(self, action: Action) -> Outcome:
        """Simulates a transactional batch with the producer's previous epoch, which is rejected.

        Does nothing if the producer has had only one epoch.
        """
        return Outcome(FENCED) if self._producer(action).epoch else Outcome()

    def init(self, action: Action) -> Outcome:
        producer = self._producer(action)
        if producer.partitions:
            self._end(action, commit=False)
        producer.epoch += 1
        producer.next, producer.sent = {}, {}
        return Outcome(value=producer.epoch)

    def commit(self, action: Action) -> Outcome:
        return self._end(action, commit=True)

    def abort(self, action: Action) -> Outcome:
        return self._end(action, commit=False)

    def _end(self, action: Action, commit: bool) -> Outcome:
        producer, name = self._producer(action), action.arg("producer")
        if not producer.partitions:
            return Outcome(NO_TXN)
        ended, producer.partitions = sorted(producer.partitions), set()
        return Outcome(
            value={at: append.end_transaction(self._partitions[at], name, producer.epoch, commit) for at in ended}
        )

    # --- reading ---

    def read(self, action: Action) -> Outcome:
        return self._fetch(action, action.arg("at"), action.arg("max_bytes"))

    def _fetch(self, action: Action, at: int, max_bytes: int) -> Outcome:
        found = fetch.fetch(self._log(action), at, action.arg("isolation"), max_bytes)
        if isinstance(found, str):
            return Outcome(found)
        return Outcome(value=[[record.plain() for record in found.records], found.position])

    def read_all(self, action: Action) -> Outcome:
        """Fetches from the log start offset on, until a fetch does not advance the position.

        Returns all records, and the position.
        """
        records: list[Any] = []
        at, before = self._log(action).start, -1
        while at != before:
            before, found = at, self._fetch(action, at, 1000)
            if found.error:
                return found
            records += found.value[0]
            at = found.value[1]
        return Outcome(value=[records, at])

    def list_offsets(self, action: Action) -> Outcome:
        log, what = self._log(action), action.arg("what")
        if what == "time":
            value = fetch.by_time(log, self._now - action.arg("age"), action.arg("isolation"))
        elif what == "latest":
            value = fetch.bound(log, action.arg("isolation"))
        elif what == "earliest-local":
            value = log.local_start
        elif what == "latest-tiered":
            value = log.copied - 1
        else:
            value = log.start
        return Outcome(value=value)

    # --- the rest ---

    def advance(self, action: Action) -> Outcome:
        log = self._log(action)
        log.high_watermark = max(log.high_watermark, min(action.arg("at"), log.end))
        log.replicated = max(log.replicated, log.high_watermark)
        return Outcome(value=log.high_watermark)

    def tick(self, action: Action) -> Outcome:
        self._tick(action.arg("ms"))
        return Outcome(value=self._now)

    def set(self, action: Action) -> Outcome:
        name, value = action.arg("name"), action.arg("value")
        if name == "cleanup" and self.settings.tiered and "compact" in value:
            return Outcome("INVALID_CONFIG")
        for log in self._partitions:
            log.settings = replace(log.settings, **{name: value})
        return Outcome()

    def delete_records(self, action: Action) -> Outcome:
        return _answered(retention.delete_records(self._log(action), action.arg("at")))

    def restart(self, action: Action) -> Outcome:
        """Restarts the broker. The outcome contains, for each partition, the offset to which its log was truncated."""
        cuts = [restarts.restart(log, action.arg("how")) for log in self._partitions]
        for at, cut in enumerate(cuts):
            self._lost(at, cut)
        return Outcome(value=cuts)

    def elect(self, action: Action) -> Outcome:
        """Elects another leader. The outcome is the offset to which the partition's log was truncated."""
        cut = restarts.elect(self._log(action), action.arg("at"))
        self._lost(action.arg("partition"), cut)
        return Outcome(value=cut)

    def _lost(self, partition: int, cut: int) -> None:
        """Forgets the batches that were removed when the partition was truncated to the offset `cut`.

        They must not be resent as retries: the log no longer knows them, and would append them.
        """
        for producer in self._producers.values():
            if sent := producer.sent.get(partition):
                producer.sent[partition] = [batch for batch in sent if batch.end <= cut]


def _answered(result: Any) -> Outcome:
    return Outcome(result) if isinstance(result, str) else Outcome(value=result)


def _offsets(result: tuple[int, int] | str) -> Outcome:
    return Outcome(result) if isinstance(result, str) else Outcome(value=list(result))


def _each(act: Callable[[Partition], Any]) -> Callable[[SimulatedLog, Action], Outcome]:
    return lambda whole, action: Outcome(value=[act(log) for log in whole._partitions])


def _one(act: Callable[[Partition], Any]) -> Callable[[SimulatedLog, Action], Outcome]:
    return lambda whole, action: Outcome(value=act(whole._log(action)))


_DO: Final[Mapping[str, Callable[[SimulatedLog, Action], Outcome]]] = {
    "append": SimulatedLog.append,
    "retry": SimulatedLog.retry,
    "gap": SimulatedLog.gap,
    "zombie": SimulatedLog.zombie,
    "init": SimulatedLog.init,
    "commit": SimulatedLog.commit,
    "abort": SimulatedLog.abort,
    "hold": _one(lambda log: log.high_watermark),  # in the model it never moves by itself
    "advance": SimulatedLog.advance,
    "read": SimulatedLog.read,
    "read-all": SimulatedLog.read_all,
    "list": SimulatedLog.list_offsets,
    "tick": SimulatedLog.tick,
    "check": _each(retention.check),
    "set": SimulatedLog.set,
    "delete-records": SimulatedLog.delete_records,
    "roll": _one(append.roll),
    "clean": _each(compaction.clean),
    "upload": _one(tiered_storage.upload),
    "commit-tier": _one(tiered_storage.commit),
    "check-tier": _each(tiered_storage.check),
    "checkpoint": _each(restarts.checkpoint),
    "flush": _one(restarts.flush),
    "restart": SimulatedLog.restart,
    "elect": SimulatedLog.elect,
}
