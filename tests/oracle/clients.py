"""Processes of a run: what they ask of the logs, step by step, and what is recorded as their answer.

Each operation is a generator: it yields where other things may happen in between, and returns its completion as
(type, value, error, extra). What is a definite failure, and what nobody knows, follows docs/reference/formats.md:
`fail` only where certainly nothing was appended.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.model.op import FAIL, INFO, OK, Op
from tests.oracle.log import ABORTED, COMMITTED, OPEN

if TYPE_CHECKING:
    from tests.oracle.run import World

Done = tuple[str, Any, Any, dict[str, Any]]
Steps = Generator[None, None, Done]
ACKED, REFUSED, UNKNOWN = "acked", "refused", "unknown"


class Group:
    """One consumer group: who subscribes to what, and what was committed."""

    def __init__(self) -> None:
        self.members: dict[int, list[int]] = {}
        self.generation = 0
        self.committed: dict[int, int] = {}

    def join(self, process: int, keys: list[int]) -> None:
        self.members[process] = keys
        self.generation += 1

    def leave(self, process: int) -> None:
        if self.members.pop(process, None) is not None:
            self.generation += 1

    def share(self, process: int) -> list[int]:
        """Keys in turn among those who subscribe to them."""
        mine = []
        for key in sorted({key for keys in self.members.values() for key in keys}):
            who = sorted(member for member, keys in self.members.items() if key in keys)
            if who[key % len(who)] == process:
                mine.append(key)
        return mine


@dataclass(slots=True)
class Consumer:
    """Positions of a process; `epochs`: of the leader that each position was valid under."""

    positions: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    last: dict[int, tuple[int, int]] = field(default_factory=dict)
    origin: dict[int, int] = field(default_factory=dict)  # where the operation found every key that it read
    subscribed: bool = False
    generation: int = -1
    rebalances: list[dict[str, Any]] = field(default_factory=list)


class Client:
    """One process."""

    def __init__(self, world: World, process: int) -> None:
        self.world, self.process = world, process
        self.consumer = Consumer()
        self.txn: int | None = None

    # --- the end of a client ---

    def crash(self) -> None:
        """It is gone: its group notices, and an open transaction is aborted when its time is up."""
        self.world.group.leave(self.process)
        if self.txn is not None and self.world.logs.txns[self.txn] == OPEN:
            self.world.abandoned.append(self.txn)

    # --- operations ---

    def steps(self, op: Op) -> Steps:
        self.consumer.origin = {}
        if op.f in ("assign", "subscribe"):
            return self._assign(op) if op.f == "assign" else self._subscribe(op)
        if op.f == "crash":
            return self._crash(op)
        if op.f == "delete-records":
            return self._delete(op)
        if op.f == "debug-topic-partitions":
            return self._debug(op)
        return self._transaction(op) if self.world.case.txn else self._plain(op)

    def _crash(self, op: Op) -> Steps:
        yield
        return INFO, op.value, "closed", {}

    def _debug(self, op: Op) -> Steps:
        yield
        found = []
        for key in op.value:
            partition = self.world.logs.partitions[key]
            found.append(
                [
                    key,
                    {
                        "leader": f"n{partition.leader + 1}",
                        "isr": [f"n{copy + 1}" for copy in sorted(partition.isr)],
                        "start": partition.start,
                        "end": self.world.logs.stable(key, False),
                    },
                ]
            )
        return OK, found, None, {}

    def _delete(self, op: Op) -> Steps:
        yield
        world = self.world
        outcome = world.draw.choice(("ok", "ok", "info-done", "info-not", "fail"))
        if outcome == "fail":
            return FAIL, op.value, "out of range", {}
        before = []
        for key, offset in op.value:
            partition = world.logs.partitions[key]
            until = partition.high_watermark if offset < 0 else min(offset, partition.high_watermark)
            if outcome != "info-not":
                partition.delete_before(until)
            before.append([key, until])
        yield
        if outcome == "ok":
            return OK, before if world.draw.random() < 0.5 else op.value, None, {}
        return INFO, op.value, "timeout", {}

    def _assign(self, op: Op) -> Steps:
        yield
        world, consumer = self.world, self.consumer
        if consumer.subscribed:
            world.group.leave(self.process)
            self.consumer = consumer = Consumer()
        begin = bool(op.extra.get("seek_to_beginning"))
        kept = {} if begin else consumer.positions
        consumer.last = {key: last for key, last in consumer.last.items() if key in kept and key in op.value}
        consumer.positions = {}
        for key in op.value:
            partition = world.logs.partitions[key]
            known = kept.get(key)
            consumer.epochs[key] = consumer.epochs.get(key, partition.epoch) if known is not None else partition.epoch
            consumer.positions[key] = (partition.start if begin else self._reset(key)) if known is None else known
        return OK, op.value, None, dict(op.extra)

    def _subscribe(self, op: Op) -> Steps:
        yield
        self.world.group.join(self.process, list(op.value))
        if not self.consumer.subscribed:
            self.consumer = Consumer(subscribed=True)
        return OK, op.value, None, {}

    def _reset(self, key: int) -> int:
        """auto.offset.reset: where a consumer without a valid position begins."""
        if self.world.case.reset == "earliest":
            return self.world.logs.partitions[key].start
        return self.world.logs.stable(key, self.world.committed_only)

    # --- sends ---

    def _send(self, key: int, value: int, txn: int | None) -> Generator[None, None, tuple[str, int | None]]:
        """One record to a log: (what the client knows of it, its offset)."""
        world, case = self.world, self.world.case
        partition, acks = world.logs.partitions[key], case.true_acks
        nothing: tuple[str, int | None] = (ACKED, None) if acks == "0" else (UNKNOWN, None)
        yield
        if not partition.available or world.chance(case.trouble):
            return nothing
        if world.chance(case.trouble) or world.compacting:
            refused = (ACKED, None) if acks == "0" else (REFUSED, None)
            if refused[0] == REFUSED and world.lie("failed-visible", not world.compacting):
                world.append(key, value, txn)
                partition.replicate()
            return refused
        enough = partition.replicate()
        if acks == "all" and not enough:
            return REFUSED, None
        if (
            world.lie("stale-place")
            and len(partition.entries) > 1
            and partition.entries[-1].txn is None
            and txn is None
        ):
            return self._squeezed(key, value)
        early = world.early.pop((key, value), None)
        if early is not None and not early.gone:
            return ACKED, None if acks == "0" else early.offset
        epoch = partition.epoch
        entry = world.append(key, value, txn)
        if acks == "all":
            yield
            if partition.epoch != epoch or entry.gone or not partition.available or not partition.replicate():
                return UNKNOWN, None
        elif world.chance(0.6):
            partition.replicate()
        offset: int | None = entry.offset
        if acks != "0" and world.chance(case.trouble):  # the answer is lost on its way
            if case.retries == 0 or world.chance(0.4):
                return UNKNOWN, None
            yield
            if partition.epoch != epoch or not partition.available:
                return UNKNOWN, None
            if not case.idempotent:
                offset = world.append(key, value, txn).offset
                partition.replicate()
            elif world.chance(0.3):
                offset = None
        if world.lie("duplicate", txn is None):
            world.append(key, value, txn)
            partition.replicate()
        if world.lie("lose-record", not entry.gone):
            world.lose(key, entry)
        elif world.lie("overwritten", not entry.gone and entry.offset == partition.end - 1):
            partition.truncate(entry.offset)
        return ACKED, None if acks == "0" else offset

    def _squeezed(self, key: int, value: int) -> tuple[str, int | None]:
        """A record takes the place of the last one, which moves behind it: the order of the log is a lie."""
        partition = self.world.logs.partitions[key]
        last = partition.entries[-1]
        entry = self.world.append(key, value, None)
        partition.replicate()
        entry.value, last.value = last.value, entry.value
        return ACKED, None if self.world.case.true_acks == "0" else last.offset

    def _plain(self, op: Op) -> Steps:
        """Micro-ops outside a transaction."""
        results: list[Any] = [list(mop) for mop in op.value]
        states: list[str] = []
        polled: dict[int, int] = {}
        for at in self._order(op.value):
            mop = op.value[at]
            if mop[0] == "poll":
                yield
                if self.world.chance(self.world.case.trouble):
                    self._rewind()
                    surely_nothing = all(state == REFUSED for state in states)
                    return (FAIL if surely_nothing else INFO), op.value, "poll failed", self._extra()
                results[at] = ["poll", self._poll(polled)]
            else:
                state, offset = yield from self._send(mop[1], mop[2], None)
                states.append(state)
                if state == ACKED:
                    results[at] = ["send", mop[1], [offset, mop[2]]]
        if UNKNOWN in states or (REFUSED in states and (ACKED in states or polled)):
            return INFO, results, "timeout", self._extra()
        if REFUSED in states:
            return FAIL, op.value, "refused", self._extra()
        extra = self._commit(polled)
        if extra is None:
            self._rewind()
            return (
                (INFO, results, "not committed", self._extra())
                if states
                else (FAIL, op.value, "not committed", self._extra())
            )
        return OK, results, None, self._extra() | extra

    def _order(self, mops: list[Any]) -> list[int]:
        """In which order micro-ops reach the log: as they stand, unless a lie turns sends round."""
        order = list(range(len(mops)))
        if len(mops) > 1 and all(mop[0] == "send" for mop in mops) and self.world.lie("reorder"):
            order.reverse()
        return order

    def _transaction(self, op: Op) -> Steps:
        world = self.world
        self.txn = txn = world.logs.begin()
        world.txn_of[op.index] = txn
        polled: dict[int, int] = {}
        results: list[Any] = [list(mop) for mop in op.value]
        failed = ""
        for at in self._order(op.value):
            mop = op.value[at]
            if mop[0] == "poll":
                yield
                results[at] = ["poll", self._poll(polled, txn)]
                continue
            state, offset = yield from self._send(mop[1], mop[2], txn)
            if state != ACKED:
                failed = "send failed"
                break
            results[at] = ["send", mop[1], [offset, mop[2]]]
        yield
        if failed or op.extra.get("abort") or world.chance(world.case.trouble):
            if world.chance(0.2):
                return INFO, results, "abort timed out", self._extra()
            if world.lie("aborted-visible", any(mop[0] == "send" for mop in op.value)):
                world.make_visible(txn)
            world.logs.finish(txn, ABORTED, world.now_ms)
            self.txn = None
            self._rewind()
            return FAIL, op.value, failed or "aborted", self._extra()
        if world.chance(world.case.trouble):
            return INFO, results, "commit timed out", self._extra()  # abandoned: it will be aborted
        extra = self._commit(polled)
        if extra is None:
            world.logs.finish(txn, ABORTED, world.now_ms)
            self.txn = None
            self._rewind()
            return FAIL, op.value, "fenced", self._extra()
        world.logs.finish(txn, COMMITTED, world.now_ms)
        yield
        if world.chance(world.case.trouble):
            return INFO, results, "commit timed out", self._extra()
        self.txn = None
        return OK, results, None, self._extra() | extra

    def _rewind(self) -> None:
        """Back to where the operation found its keys: what it polled was not consumed."""
        held = self.consumer.positions
        self.consumer.positions = held | {key: at for key, at in self.consumer.origin.items() if key in held}
        self.consumer.last = {}

    # --- polls ---

    def _extra(self) -> dict[str, Any]:
        events, self.consumer.rebalances = self.consumer.rebalances, []
        return {"rebalance_log": events} if events else {}

    def _sync(self) -> None:
        """A new generation of the group: other keys, from where the group has committed."""
        world, consumer = self.world, self.consumer
        if consumer.generation == world.group.generation:
            return
        if consumer.positions:
            consumer.rebalances.append({"event": "revoked", "keys": sorted(consumer.positions)})
        share = world.group.share(self.process)
        consumer.generation = world.group.generation
        consumer.positions, consumer.last, consumer.origin = {}, {}, {}
        committed = []
        for key in share:
            if world.lie("lose-commit", key in world.group.committed):
                del world.group.committed[key]
            found = world.group.committed.get(key)
            committed.append([key, found])
            consumer.positions[key] = self._reset(key) if found is None else found
            consumer.epochs[key] = world.logs.partitions[key].epoch
        consumer.rebalances.append({"event": "assigned", "keys": share, "committed": committed})

    def _poll(self, polled: dict[int, int], txn: int | None = None) -> list[Any]:
        """[[key, [[offset, value], ...]], ...]; `polled` learns the positions to commit."""
        world, consumer = self.world, self.consumer
        if consumer.subscribed:
            self._sync()
        found = []
        for key in sorted(consumer.positions):
            partition = world.logs.partitions[key]
            if not partition.available:
                continue
            self._validate(key)
            at = consumer.positions[key]
            most = world.draw.between(1, 6)
            entries, after = world.logs.read(key, at, most, world.committed_only)
            records = [(entry.offset, entry.value) for entry in entries]
            records, after = self._lied(key, records, after, txn)
            consumer.positions[key] = after
            if records:
                consumer.origin.setdefault(key, at)
                polled[key] = after
                consumer.last[key] = records[-1]  # type: ignore[assignment]
                found.append([key, [[offset, value] for offset, value in records]])
        return found

    def _validate(self, key: int) -> None:
        """A position beyond a truncated log goes back to where the logs part (KIP-320); one out of range resets."""
        world, consumer = self.world, self.consumer
        partition = world.logs.partitions[key]
        if consumer.epochs.get(key) != partition.epoch:
            cut = min([partition.end, *partition.truncations[-1:]])
            if consumer.positions[key] > cut and world.chance(0.7):
                consumer.positions[key] = cut
            consumer.epochs[key] = partition.epoch
        if not partition.start <= consumer.positions[key] <= partition.end:
            world.resets.append((self.process, key))
            consumer.positions[key] = self._reset(key)

    def _lied(self, key: int, records: list[Any], after: int, txn: int | None) -> tuple[list[Any], int]:
        world, last = self.world, self.consumer.last.get(key)
        if txn is not None and world.committed_only:
            own = [
                entry for entry in world.logs.partitions[key].entries if entry.txn == txn and entry.value is not None
            ]
            if own and world.lie("own-visible"):
                records = sorted({*records, *((entry.offset, entry.value) for entry in own)})
        if self.consumer.subscribed:
            return records, after
        if last and len(records) > 1 and world.lie("skip-poll"):
            records = records[1:]
        if last and records and last[0] < records[0][0] and world.lie("repeat-poll"):
            records = [last, *records]
        if len(records) > 2 and world.lie("int-skip-poll"):
            records = [records[0], *records[2:]]
        if records and world.lie("int-repeat-poll"):
            records = [records[0], *records]
        if records and world.lie("bad-payload"):
            records = [(records[0][0], f"bad-payload:checksum:{records[0][1]:08x}"), *records[1:]]
        return records, after

    def _commit(self, polled: dict[int, int]) -> dict[str, Any] | None:
        """Commit what was read, of a member of the group; None where the group has moved on."""
        if not self.consumer.subscribed or not polled:
            return {}
        if self.consumer.generation != self.world.group.generation:
            return None
        self.world.group.committed |= polled
        return {"committed": [[key, offset] for key, offset in sorted(polled.items())]}
