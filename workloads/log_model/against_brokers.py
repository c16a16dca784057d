"""A topic of real brokers beside the model: each step is done to both, and what is seen is judged.

Brokers do some things in their own time: the high watermark follows the end of the log, markers follow the
end of a transaction, retention and the cleaner come around. The model does these at once after each step, and
what is seen of the brokers has until a deadline to become the same; what cannot become the same any more is
told at once. Where Kafka allows several answers, each is allowed, and why is said where that is decided.
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
# What can be done while the high watermark is held: anything else may wait for followers, and lets it go.
_WHILE_HELD: Final = frozenset({"append", "read", "read-all", "list", "hold"})
_READS: Final = frozenset({"read", "read-all"})
_FORGOTTEN: Final = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"})
# Of the properties, those that views from requests suffice for.
_FROM_REQUESTS: Final = (
    "offsets in order",
    "log start never goes back",
    "the high watermark never goes back",
    "the log end moves by appends alone",
    "reads give what was acknowledged",
)
UNCLEANED: Final = "what the cleaner must take goes"


class Remote(NamedTuple):
    """What is seen of a partition's tiers.

    local_start  the offset at which the local log begins
    last         the last offset that counts as copied; None where brokers do not tell it
    copies       each (base, end, bytes, largest timestamp in ms; None where nobody can know that)
    """

    local_start: int
    last: int | None
    copies: tuple[tuple[int, int, int, int | None], ...]


class Seen(NamedTuple):
    """What requests show of a partition; and disks: where each replica's segments begin, the leader's first.

    Replicas must agree before the next step: each applies retention by itself, and a segment that is appended
    to before that is not due any more there.
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
        """Do it, positions being numbers and `now` the clock in ms; what came of it, and an append's bytes.

        Raises ClusterTrouble.
        """

    def seen(self) -> Sequence[Seen]:
        """What can be seen of each partition. Raises ClusterTrouble."""


class Beside:
    """A fresh topic, and a fresh model. `passed_over`: divergences over these things are not told."""

    def __init__(
        self,
        settings: LogSettings,
        brokers: Brokers,
        target: Target = BROKERS,
        passed_over: frozenset[str] = frozenset(),
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.model, self._brokers, self._now_ms = SimulatedLog(settings), brokers, now_ms
        self._passed_over, self._target = passed_over, target
        self._full = target.full and not settings.tiered  # a fetch gives what one segment of a tier has
        self._tick()
        self._ledgers = Ledgers(settings, self.model.now)
        for ledger in self._ledgers.partitions:
            ledger.cleaned = settings.compacts
        self._before = self.model.views()
        self._compacts, self._reloaded = settings.compacts, False
        self._uneven = False  # whether replicas begin segments at other places: the leader has to stay
        self._steps, self._previous = 0, ""
        self._held: set[int] = set()
        self.done: Action | None = None
        self.got = Outcome()

    def _tick(self) -> int:
        """Let the model's clock be the right time; the time in ms."""
        self.model.apply(Action("tick", {"ms": self._now_ms() - self.model.now}))
        return self.model.now

    def _bears_holding(self, action: Action) -> bool:
        """Whether the action asks nothing of followers."""
        if action.f == "delete-records":  # what is refused is refused at once
            return bool(action.arg("at") > self.model.views()[action.arg("partition")].high_watermark)
        numbered = action.f == "append" and action.arg("producer") >= 0
        return action.f in _WHILE_HELD and not numbered and action.arg("partition") in self._held

    def leaves_out(self, action: Action) -> bool:
        """Whether `step` does nothing: it would show what is passed over, or more than the model can know, or
        these brokers do not know it."""
        if action.f == "append" and action.arg("magic") < 2 and not self._target.old:
            return True
        if not self._target.known and self._known(action):
            return True
        return f"outcome of {action.f}" in self._passed_over or (self._uneven and action.f in ("elect", "restart"))

    def _known(self, action: Action) -> bool:
        """Whether the action shows one of two things that are known of brokers: a batch of a transaction that
        has ended comes again; log start goes into a batch that open transactions hold back."""
        if action.f == "retry" and action.arg("producer") > 1:
            return not self.model.in_transaction(action.arg("producer"), action.arg("partition"))
        if action.f != "delete-records":
            return False
        views, partition = self.model.views(), action.arg("partition")
        at = resolve(action, views).arg("at")
        return views[partition].last_stable < at and self.model.within_batch(partition, at)

    def step(self, action: Action) -> Divergence | None:
        """Do the action to both; `done` and `got` are then what was asked and what came of it.

        After a divergence there is nothing more to compare. Raises ClusterTrouble.
        """
        self._steps += 1
        self.done = None
        if self.leaves_out(action):
            return None
        now = self._tick()
        self._ledgers.take(Action("tick"), Outcome(value=now), self._before)
        exact = self.done = resolve(action, self.model.views())
        if exact.f == "hold":
            self._held.add(exact.arg("partition"))
        elif self._held and not self._bears_holding(exact):
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
        # A follower rolls by what it fetches at once, and may begin segments elsewhere than its leader.
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
        divergence = next((finding for finding in findings if finding[0] not in self._passed_over), None)
        self._ledgers.take(exact, outcome, views)
        self._before, self._previous = views, exact.f
        self._reloaded = self._reloaded or exact.f in ("restart", "elect")
        return Divergence(self._steps - 1, *divergence) if divergence else None

    def _expected(self, action: Action, size: int) -> Outcome:
        """What the model says of the action; and it does what brokers do by themselves."""
        if action.f == "restart" and not self._target.alone:
            # Followers in sync have what a broker that is killed forgets (KIP-107).
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
        """What is seen once it is as wanted, or cannot become so, or the deadline has come."""
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
        if "segments" not in self._passed_over and self._segments(want, seen, followers=True):
            return True
        return any(True for _ in self._differences(want, seen))

    def _differences(self, want: View, seen: Seen) -> Iterator[tuple[str, str]]:
        """(over what, what was seen) of all that is not passed over."""
        found = [
            (name.replace("_", " "), f"{getattr(seen, name)}, the model: {getattr(want, name)}")
            for name in ("start", "high_watermark", "end", "last_stable")
            if getattr(seen, name) != getattr(want, name)
        ]
        if segments := self._segments(want, seen):
            found.append(("segments", segments))
        if seen.remote is not None:
            found += _tiers(want, seen.remote)
        yield from (difference for difference in found if difference[0] not in self._passed_over)

    def _segments(self, want: View, seen: Seen, followers: bool = False) -> str:
        """How the leader's segments, or with `followers` any replica's, begin elsewhere than the model's."""
        if seen.bases is None or self._compacts:
            return ""
        bases = [span.base for span in want.local]
        # A broker that loads an emptied log begins it anew at its log start; others keep the old segment.
        allowed = (bases, [max(base, want.local_start) for base in bases])
        for replica_bases in seen.bases if followers and not self._uneven else seen.bases[:1]:
            if list(replica_bases) not in allowed:
                return f"begin at {list(replica_bases)} on a replica, the model: {bases}"
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
        """(over what, what was seen) of every divergence, the most telling first."""
        wrongly = list(self._uncommitted(action, outcome))
        yield from wrongly
        if not wrongly and not self._agrees(action, expected, outcome):
            text = f"{_outcome_text(outcome)}, the model: {_outcome_text(expected)}"
            yield f"outcome of {action.f}", f"{action.text()}: {text}"
        for at, (before, after, ledger) in enumerate(zip(self._before, views, self._ledgers.partitions, strict=True)):
            step = invariants.Step(action, outcome, before, after, at, ledger, self._ledgers, self._previous)
            for name in _FROM_REQUESTS:
                if not (wrongly and action.f in _READS) and (why := invariants.PROPERTIES[name](step)):
                    yield name, f"partition {at}: {why}"
        for at, (want, seen_partition) in enumerate(zip(wanted, seen, strict=True)):
            for what, text in self._differences(want, seen_partition):
                yield what, f"partition {at} after {action.text()}: {text}"
        if action.f == "clean":
            yield from self._uncleaned()

    def _uncommitted(self, action: Action, outcome: Outcome) -> Iterator[tuple[str, str]]:
        """Records that read_committed must not give."""
        if action.f not in _READS or action.arg("isolation") != "read_committed" or outcome.error:
            return
        ledger = self._ledgers.partitions[action.arg("partition")]
        for state in (ABORTED, OPEN):
            for record in outcome.value[0]:
                known = ledger.records.get(record[0])
                if known is not None and self._ledgers.state(known) == state:
                    about = f"{action.text()} gives {record}, of a transaction that is {state}"
                    yield f"records of {state} transactions are read under read_committed", about
                    break

    def _agrees(self, action: Action, expected: Outcome, got: Outcome) -> bool:
        if action.f in ("commit", "abort"):
            # A coordinator takes the end of what has ended in the same way for a retry (KIP-98).
            return got.error == expected.error or (expected.error == NO_TXN and not got.error)
        if action.f == "retry":
            return got == expected or self._retry(action, expected, got)
        if action.f == "read" and not self._full and not got.error and not expected.error:
            fewer = got.value[0]
            return fewer == expected.value[0][: len(fewer)] and bool(fewer) == bool(expected.value[0])
        if action.f in _NO_VALUE or action.f == "zombie":
            return got.error == expected.error
        if self._compacts and (action.f in _READS or (action.f == "list" and action.arg("what") == "time")):
            return got.error == expected.error  # the cleaner comes when it likes: the properties judge
        return got == expected

    def _retry(self, action: Action, expected: Outcome, got: Outcome) -> bool:
        """What else a broker may say of a batch that comes again; that nothing is appended is a property."""
        if {got.error, expected.error} <= _FORGOTTEN:
            return True
        # A broker that loaded the log anew remembers the last batch of each producer, not five (KAFKA-5494).
        if self._reloaded and action.arg("back") > 0 and got.error in _FORGOTTEN:
            return True
        # Brokers ask the coordinator first whether the transaction is open (KIP-890).
        return got.error == NO_TXN and action.arg("producer") > 1

    def _uncleaned(self) -> Iterator[tuple[str, str]]:
        """What the model's cleaner would take by now, and the brokers' has not taken by the deadline."""
        cleaned = copy.deepcopy(self.model)
        cleaned.apply(Action("clean"))
        deadline = time.monotonic() + self._target.deadline_s
        for partition in range(len(self._before)):
            read = Action("read-all", {"partition": partition})
            kept, all_ = ({record[0] for record in log.apply(read).value[0]} for log in (cleaned, self.model))
            while True:
                got, _ = self._brokers.apply(read, self.model.now)
                left = {record[0] for record in got.value[0]} & (all_ - kept) if not got.error else all_
                if not left:
                    break
                if time.monotonic() > deadline:
                    yield UNCLEANED, f"partition {partition}: {sorted(left)[:10]} are still there"
                    break
                time.sleep(_LOOK_S)


def tier(log: SimulatedLog) -> None:
    """What a tiered topic's brokers do by themselves, until nothing changes: copy what may be copied, and let
    retention have what is due of both tiers."""
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
    passed_over: frozenset[str],
    target: Target = BROKERS,
) -> Divergence | None:
    """Do the actions to a fresh topic; the first divergence. Raises ClusterTrouble."""
    beside = Beside(settings, brokers, target, passed_over)
    for action in actions:
        if (found := beside.step(action)) is not None:
            return found
    return None
