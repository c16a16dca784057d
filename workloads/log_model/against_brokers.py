"""Runs a topic on real brokers alongside the model: applies each action to the brokers and to the model, and compares
what can be observed.

Brokers do some things asynchronously: they advance the high watermark, write the markers of ended transactions, and run
retention and the cleaner periodically. The model does all of this immediately after each action; the brokers have until
a deadline to reach the state of the model. If the brokers are in a state from which they can no longer reach it, a
divergence is reported without waiting. Where Kafka allows several outcomes, all of them are accepted, and a comment in
the code says why.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from harness.sim.log_model.action_types import Action, Outcome, resolve
from harness.sim.log_model.model import NO_TXN, SimulatedLog
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import LogSettings
from workloads.log_model import invariants
from workloads.log_model.draw_broker_actions import BROKERS, Target
from workloads.log_model.ledger import ABORTED, OPEN, Ledgers
from workloads.log_model.session import Divergence

_LOOK_S: Final = 0.02
_BEYOND: Final = 1 << 40
_SIZED: Final = frozenset({"append", "retry", "gap"})
_NO_VALUE: Final = frozenset({"init", "commit", "abort", "set", "clean", "elect", "restart", "hold", "advance"})
# Actions possible while followers are held back. Any other may have to wait for them, so it releases them first.
_WHILE_HELD: Final = frozenset({"append", "read", "read-all", "list", "hold"})
_READS: Final = frozenset({"read", "read-all"})
_FORGOTTEN: Final = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"})
# The invariants that can be checked with what requests show.
_FROM_REQUESTS: Final = (
    "offsets in order",
    "log start never goes back",
    "the high watermark never goes back",
    "only appends move the log end",
    "reads return the acknowledged records",
)
UNCLEANED: Final = "superseded records are cleaned"


class Remote(NamedTuple):
    """What brokers show about the local log and the remote tier of a partition.

    local_start  start offset of the local log
    last         the last copied offset; None if brokers do not report it
    copies       (base, end, bytes, largest timestamp in ms) of each copied segment; the timestamp is None if unknown
    """

    local_start: int
    last: int | None
    copies: tuple[tuple[int, int, int, int | None], ...]


class Seen(NamedTuple):
    """The observed state of a partition. `bases` is read from the brokers' disks, everything else from requests.

    bases  the base offsets of each replica's segments, those of the leader first

    The segments of all replicas must agree before the next action, because each replica applies retention by itself. If
    a replica received the next append before its retention check, a segment might no longer be due for deletion.
    """

    start: int
    high_watermark: int
    last_stable: int
    end: int
    bases: tuple[tuple[int, ...], ...] | None = None
    remote: Remote | None = None


class Brokers(Protocol):
    """A fresh topic on real brokers."""

    def apply(self, action: Action, now: int) -> tuple[Outcome, int]:
        """Executes the action on the brokers. Positions in it must be numbers.

        `now` is the time of the model's clock in ms. Returns the outcome. For an append, also returns the size of the
        batch in bytes. Raises ClusterTrouble.
        """

    def seen(self) -> Sequence[Seen]:
        """Returns the observed state of each partition. Raises ClusterTrouble."""


class BrokerSession:
    """Compares a fresh topic on brokers with a fresh model, action by action.

    ignored  the kinds of differences that are not reported
    """

    def __init__(
        self,
        settings: LogSettings,
        brokers: Brokers,
        target: Target = BROKERS,
        ignored: frozenset[str] = frozenset(),
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.model, self._brokers, self._now_ms = SimulatedLog(settings), brokers, now_ms
        self._ignored, self._target = ignored, target
        self._full = target.full and not settings.tiered  # a fetch returns at most one remote segment
        self._tick()
        self._ledgers = Ledgers(settings, self.model.now)
        for ledger in self._ledgers.partitions:
            ledger.cleaned = settings.compacts
        self._before = self.model.views()
        self._compacts, self._reloaded = settings.compacts, False
        self._uneven = False  # whether replicas' segments differ: the leader must not change any more
        self._steps, self._previous = 0, ""
        self._held: set[int] = set()
        self.done: Action | None = None
        self.got = Outcome()

    def _tick(self) -> int:
        """Sets the model's clock to the current time, and returns this time in ms."""
        self.model.apply(Action("tick", {"ms": self._now_ms() - self.model.now}))
        return self.model.now

    def _needs_no_follower(self, action: Action) -> bool:
        """Returns whether the brokers can complete the action even if no follower fetches."""
        if action.f == "delete-records":  # a rejection comes at once
            return bool(action.arg("at") > self.model.views()[action.arg("partition")].high_watermark)
        numbered = action.f == "append" and action.arg("producer") >= 0
        return action.f in _WHILE_HELD and not numbered and action.arg("partition") in self._held

    def skips(self, action: Action) -> bool:
        """Returns whether `step` skips the action.

        An action is skipped for one of three reasons: it would show a difference that is ignored, the model cannot
        predict its outcome, or these brokers do not support it.
        """
        if action.f == "append" and action.arg("magic") < 2 and not self._target.old:
            return True
        if not self._target.known and self._shows_known_deviation(action):
            return True
        return f"outcome of {action.f}" in self._ignored or (self._uneven and action.f in ("elect", "restart"))

    def _shows_known_deviation(self, action: Action) -> bool:
        """Returns whether the action shows one of two known cases in which brokers deviate from Kafka's rules.

        One is a retry of a batch whose transaction has ended. The other is DeleteRecords with an offset above the last
        stable offset that lies within a batch.
        """
        if action.f == "retry" and action.arg("producer") > 1:
            return not self.model.in_transaction(action.arg("producer"), action.arg("partition"))
        if action.f != "delete-records":
            return False
        views, partition = self.model.views(), action.arg("partition")
        at = resolve(action, views).arg("at")
        return views[partition].last_stable < at and self.model.within_batch(partition, at)

    def step(self, action: Action) -> Divergence | None:
        """Applies the action to the brokers and to the model. Returns the first divergence, or None.

        Afterwards, `done` is the action with its position as a number (None if it was skipped), and `got` is its
        outcome on the brokers. No further step is possible after a divergence. Raises ClusterTrouble.
        """
        self._steps += 1
        self.done = None
        if self.skips(action):
            return None
        now = self._tick()
        self._ledgers.take(Action("tick"), Outcome(value=now), self._before)
        exact = self.done = resolve(action, self.model.views())
        if exact.f == "hold":
            self._held.add(exact.arg("partition"))
        elif self._held and not self._needs_no_follower(exact):
            if exact.f != "advance":
                self._brokers.apply(Action("advance", {"at": _BEYOND}), now)
            self._held = set()
        self.got, size = self._brokers.apply(exact, now)
        segments = [len(view.local) for view in self.model.views()]
        expected = self._expected(exact, size)
        if exact.f in ("retry", "gap") and segments != [len(view.local) for view in self.model.views()]:
            self._uneven = True
        wanted = self.model.views()
        seen = self._settled(wanted)
        # A follower may roll at another offset than its leader, depending on the batches it fetches together.
        pairs = list(zip(wanted, seen, strict=True))
        if any(self._segments(*pair, followers=True) and not self._segments(*pair) for pair in pairs):
            self._uneven = True
        views = [
            want._replace(start=offsets[0], high_watermark=offsets[1], last_stable=offsets[2], end=offsets[3])
            for want, offsets in zip(wanted, seen, strict=True)
        ]
        if exact.f == "advance":
            expected = Outcome(value=wanted[exact.arg("partition")].high_watermark)
        outcome = expected if exact.f in _NO_VALUE and not self.got.error else self.got
        findings = self._findings(exact, outcome, expected, wanted, seen, views)
        divergence = next((finding for finding in findings if finding[0] not in self._ignored), None)
        self._ledgers.take(exact, outcome, views)
        self._before, self._previous = views, exact.f
        self._reloaded = self._reloaded or exact.f in ("restart", "elect")
        return Divergence(self._steps - 1, *divergence) if divergence else None

    def _expected(self, action: Action, size: int) -> Outcome:
        """Applies the action to the model, and returns its outcome there.

        Also makes the model do what brokers do asynchronously, such as retention and cleaning.
        """
        if action.f == "restart" and not self._target.alone:
            # The in-sync followers still have what a killed broker forgets (KIP-107).
            action = Action("restart", {"how": "clean"})
        elif action.f in _SIZED and size:
            action = Action(action.f, {**action.args, "size": size})
        expected = Outcome() if action.f in ("clean", "advance") else self.model.apply(action)
        for partition in set(range(len(self._before))) - self._held:
            self.model.apply(Action("advance", {"partition": partition, "at": _BEYOND}))
        self.model.apply(Action("check"))
        if self.model.settings.tiered:
            tier(self.model)
        return expected

    def _settled(self, wanted: Sequence[View]) -> Sequence[Seen]:
        """Waits until the brokers' state equals the model's, until it can no longer become equal, or until the
        deadline.

        Returns the brokers' state.
        """
        deadline = time.monotonic() + self._target.deadline_s
        while True:
            seen = self._brokers.seen()
            pairs = list(zip(wanted, seen, strict=True))
            if not any(self._unsettled(want, one) for want, one in pairs):
                return seen
            beyond = any(
                one.start > want.start or one.high_watermark > want.high_watermark or one.end > want.end
                for want, one in pairs
            )
            if beyond or time.monotonic() > deadline:
                return seen
            time.sleep(_LOOK_S)

    def _unsettled(self, want: View, seen: Seen) -> bool:
        if "segments" not in self._ignored and self._segments(want, seen, followers=True):
            return True
        return any(True for _ in self._differences(want, seen))

    def _differences(self, want: View, seen: Seen) -> Iterator[tuple[str, str]]:
        """Yields (kind, description) for every difference between the two states that is not ignored."""
        found = [
            (name.replace("_", " "), f"{getattr(seen, name)}, the model: {getattr(want, name)}")
            for name in ("start", "high_watermark", "end", "last_stable")
            if getattr(seen, name) != getattr(want, name)
        ]
        if segments := self._segments(want, seen):
            found.append(("segments", segments))
        if seen.remote is not None:
            found += _tiers(want, seen.remote)
        yield from (difference for difference in found if difference[0] not in self._ignored)

    def _segments(self, want: View, seen: Seen, followers: bool = False) -> str:
        """Compares the base offsets of the leader's segments with those of the model.

        Returns the difference; "" if there is none. With `followers`, compares the segments of every replica.
        """
        if seen.bases is None or self._compacts:
            return ""
        bases = [span.base for span in want.local]
        # A broker that loads an emptied log starts a new segment at log start; others keep the old one.
        allowed = (bases, [max(base, want.local_start) for base in bases])
        for replica_bases in seen.bases if followers and not self._uneven else seen.bases[:1]:
            if list(replica_bases) not in allowed:
                return f"base offsets {list(replica_bases)} on a replica, the model: {bases}"
        return ""

    # --- judging ---

    def _findings(
        self,
        action: Action,
        outcome: Outcome,
        expected: Outcome,
        wanted: Sequence[View],
        seen: Sequence[Seen],
        views: Sequence[View],
    ) -> Iterator[tuple[str, str]]:
        """Yields (kind, description) for every divergence after an action, starting with the most informative one."""
        leaked = list(self._uncommitted(action, outcome))
        yield from leaked
        if not leaked and not self._agrees(action, expected, outcome):
            text = f"{_outcome_text(outcome)}, the model: {_outcome_text(expected)}"
            yield f"outcome of {action.f}", f"{action.text()}: {text}"
        for at, (before, after, ledger) in enumerate(zip(self._before, views, self._ledgers.partitions, strict=True)):
            step = invariants.Step(action, outcome, before, after, at, ledger, self._ledgers, self._previous)
            for name in _FROM_REQUESTS:
                if not (leaked and action.f in _READS) and (why := invariants.PROPERTIES[name](step)):
                    yield name, f"partition {at}: {why}"
        for at, (want, seen_partition) in enumerate(zip(wanted, seen, strict=True)):
            for what, text in self._differences(want, seen_partition):
                yield what, f"partition {at} after {action.text()}: {text}"
        if action.f == "clean":
            yield from self._uncleaned()

    def _uncommitted(self, action: Action, outcome: Outcome) -> Iterator[tuple[str, str]]:
        """Yields (kind, description) for records that were returned, although read_committed must not return them."""
        if action.f not in _READS or action.arg("isolation") != "read_committed" or outcome.error:
            return
        ledger = self._ledgers.partitions[action.arg("partition")]
        for state in (ABORTED, OPEN):
            for record in outcome.value[0]:
                acked = ledger.records.get(record[0])
                if acked is not None and self._ledgers.state(acked) == state:
                    description = f"{action.text()} returns {record}, whose transaction is {state}"
                    yield f"records of {state} transactions are read under read_committed", description
                    break

    def _agrees(self, action: Action, expected: Outcome, got: Outcome) -> bool:
        if action.f in ("commit", "abort"):
            # A coordinator treats a second end of the same kind as a retry (KIP-98).
            return got.error == expected.error or (expected.error == NO_TXN and not got.error)
        if action.f == "retry":
            return got == expected or self._retry(action, expected, got)
        if action.f == "read" and not self._full and not got.error and not expected.error:
            fewer = got.value[0]
            return fewer == expected.value[0][: len(fewer)] and bool(fewer) == bool(expected.value[0])
        if action.f in _NO_VALUE or action.f == "zombie":
            return got.error == expected.error
        if self._compacts and (action.f in _READS or (action.f == "list" and action.arg("what") == "time")):
            return got.error == expected.error  # the cleaner may run at any time; the invariants judge
        return got == expected

    def _retry(self, action: Action, expected: Outcome, got: Outcome) -> bool:
        """Returns whether Kafka allows the outcome `got` of a retried batch, although it differs from the expected one.

        A separate invariant checks that the retry did not append anything.
        """
        if {got.error, expected.error} <= _FORGOTTEN:
            return True
        # A broker that has reloaded the log remembers each producer's last batch only, not five (KAFKA-5494).
        if self._reloaded and action.arg("back") > 0 and got.error in _FORGOTTEN:
            return True
        # Brokers first verify with the coordinator that the transaction is open (KIP-890).
        return got.error == NO_TXN and action.arg("producer") > 1

    def _uncleaned(self) -> Iterator[tuple[str, str]]:
        """Yields (kind, description) for records that the model's cleaner removes, but that brokers still return at the
        deadline.
        """
        cleaned = copy.deepcopy(self.model)
        cleaned.apply(Action("clean"))
        deadline = time.monotonic() + self._target.deadline_s
        for partition in range(len(self._before)):
            read = Action("read-all", {"partition": partition})
            remaining, all_ = ({record[0] for record in log.apply(read).value[0]} for log in (cleaned, self.model))
            while True:
                got, _ = self._brokers.apply(read, self.model.now)
                uncleaned = {record[0] for record in got.value[0]} & (all_ - remaining) if not got.error else all_
                if not uncleaned:
                    break
                if time.monotonic() > deadline:
                    yield UNCLEANED, f"partition {partition}: offsets {sorted(uncleaned)[:10]} have not been removed"
                    break
                time.sleep(_LOOK_S)


def tier(log: SimulatedLog) -> None:
    """Makes the model do what the brokers of a tiered topic do asynchronously, until nothing changes any more.

    These are two things: copying every segment that may be copied, and applying retention to both tiers.
    """
    before: Sequence[View] = ()
    while before != (before := log.views()):
        for partition in range(len(before)):
            while log.apply(Action("upload", {"partition": partition})).value is not None:
                pass
            log.apply(Action("commit-tier", {"partition": partition}))
        log.apply(Action("check"))
        log.apply(Action("check-tier"))


def _tiers(want: View, tiers: Remote) -> Iterator[tuple[str, str]]:
    if tiers.local_start != want.local_start:
        yield "local log start", f"{tiers.local_start}, the model: {want.local_start}"
    wanted = [(span.base, span.end, span.size, span.max_timestamp) for span in want.remote]
    copied = [
        (*copy[:3], wish[3] if copy[3] is None else copy[3])
        for copy, wish in itertools.zip_longest(tiers.copies, wanted, fillvalue=(-1, -1, -1, -1))
        if copy[0] >= 0
    ]
    if copied != wanted:
        yield "copied segments", f"{copied}, the model: {wanted}"
    if tiers.last is not None and wanted and tiers.last != wanted[-1][1] - 1:
        yield "the last copied offset", f"{tiers.last}, the model: {wanted[-1][1] - 1}"


def _outcome_text(outcome: Outcome) -> str:
    return outcome.error or str(outcome.value)


def run(
    settings: LogSettings,
    actions: Sequence[Action],
    brokers: Brokers,
    ignored: frozenset[str],
    target: Target = BROKERS,
) -> Divergence | None:
    """Applies the actions to a fresh topic and to a model. Returns the first divergence, or None.

    Raises ClusterTrouble.
    """
    session = BrokerSession(settings, brokers, target, ignored)
    for action in actions:
        if (found := session.step(action)) is not None:
            return found
    return None
