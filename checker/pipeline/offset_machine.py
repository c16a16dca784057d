"""The offset state machine: finds anomalies in what the instances of a group did with one partition, event by event.

Pure: takes the events of one partition in order of time and yields findings. A rule applies only if the log has the
kinds of events that the rule needs, so logs of other programs can be judged as far as their events allow.

Three circumstances are taken into account:

- An instance that was killed may have committed offsets without logging the commit. Reading must therefore start at the
  last logged commit, or at the end of what some instance had produced but neither committed nor aborted.
- An instance that was paused may log a commit late. If an instance logs a commit after the partition was assigned to
  another instance, the commit is therefore an anomaly only if its offset is beyond the offset where the new owner
  started to read.
- If a partition is revoked from an instance and assigned to the same instance again at once, the instance may continue
  at its old position. It must then report that it still has the earlier records buffered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

ASSIGNED, REVOKED, LOST, POSITION, POLLED = "assigned", "revoked", "lost", "position", "polled"
BUFFERED, DROPPED, PRODUCED, COMMITTED = "buffered", "dropped", "produced", "committed"
ABORTED, PAUSED, RESUMED, STARTED, CLOSED = "aborted", "paused", "resumed", "started", "closed"
EVENTS: Final = frozenset(
    {ASSIGNED, REVOKED, LOST, POSITION, POLLED, BUFFERED, DROPPED, PRODUCED, COMMITTED, ABORTED, PAUSED}
    | {RESUMED, STARTED, CLOSED}
)
OF_PARTITIONS: Final = frozenset({ASSIGNED, REVOKED, LOST})
OF_OFFSET: Final = frozenset({POSITION, COMMITTED})
OF_RANGE: Final = frozenset({POLLED, BUFFERED, DROPPED, PRODUCED})


@dataclass(frozen=True, slots=True)
class Event:
    """One event of one partition. If the event is a position or a commit, `first` is its offset.

    incarnation  the start of the instance's process to which the event belongs
    first, last  the offsets that the event concerns, both inclusive; None if it concerns no offsets
    count        number of records from `first` to `last`; None if unknown
    gaps         number of offsets from `first` to `last` that are known to have no record
    """

    time_ns: int
    instance: str
    incarnation: int
    generation: int | None
    event: str
    first: int | None = None
    last: int | None = None
    count: int | None = None
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly at an event. It concerns the input offsets from `first` up to but excluding `until`.

    verify  if true, the anomaly counts only if the input has a record at these offsets; if there are only transaction
            markers, the finding is dropped
    """

    anomaly: str
    event: Event
    first: int | None
    until: int | None
    text: str
    verify: bool = False


@dataclass(frozen=True, slots=True)
class _Began:
    """A start of reading beyond the last logged commit.

    The start is a gap, unless a commit that was not logged explains it, or the next event reports that the earlier
    records are still buffered.

    at       the offset where reading started
    may      the offsets that may have been committed, ascending
    finding  the gap to report
    """

    at: int
    may: list[int]
    finding: Finding


@dataclass(slots=True)
class _Member:
    """The state of one incarnation of an instance, according to its events."""

    owned: bool | None = None  # None: never assigned
    fresh: bool = True  # its position since the last assignment is not known yet
    rewind: bool = False  # since it last read, it aborted or dropped records
    began: _Began | None = None
    since_ns: int | None = None
    begin: int | None = None  # where reading started after the last assignment
    read: int | None = None  # the offset that it should poll next
    work: int | None = None  # the input offset that it should produce outputs of next
    base: int | None = None  # the offset to which an abort returns
    open_to: int | None = None  # up to where it may have committed without logging it
    generation: int = -1


@dataclass(slots=True)
class _Machine:
    kinds: frozenset[str]
    start: int | None
    ahead: bool
    committed: int | None = None
    members: dict[tuple[str, int], _Member] = field(default_factory=dict)

    def step(self, event: Event) -> Iterator[Finding]:
        member = self.members.setdefault((event.instance, event.incarnation), _Member())
        if member.began is not None and event.event not in (PAUSED, RESUMED):
            yield from self._settled(member, member.began, event)
        if event.event == COMMITTED:
            yield from self._stale(member, event)
        if event.generation is not None:
            member.generation = max(member.generation, event.generation)
        if event.event == ASSIGNED:
            member.owned, member.fresh, member.rewind = True, True, False
            member.since_ns, member.begin = event.time_ns, None
        elif event.event in (REVOKED, LOST):
            member.owned = False
        elif event.event == POSITION and event.first is not None:
            yield from self._position(member, event, event.first)
        elif event.event == ABORTED:
            member.work, member.rewind = member.base, True
            member.open_to = member.open_to if self.ahead else None
        elif event.event == CLOSED:
            member.owned = False if member.owned else member.owned
        elif event.event in OF_RANGE and event.first is not None and event.last is not None:
            yield from self._owned(member, event)
            if event.event == DROPPED:
                member.rewind = True
            elif event.event == POLLED:
                yield from self._polled(member, event, event.first, event.last + 1)
            elif event.event == PRODUCED:
                yield from self._produced(member, event, event.first, event.last + 1)
        elif event.event == COMMITTED and event.first is not None:
            yield from self._committed(member, event, event.first)

    # --- ownership ----------------------------------------------------------------------------------

    def _owned(self, member: _Member, event: Event) -> Iterator[Finding]:
        if ASSIGNED not in self.kinds or member.owned or event.event == DROPPED:
            return
        until = None if event.last is None else event.last + 1
        if member.owned is None:
            text = f"{event.event} without ever having been assigned the partition"
            yield Finding("work-unassigned", event, event.first, until, text)
        elif event.event != BUFFERED:
            text = f"{event.event} after the partition was revoked"
            yield Finding("work-unowned", event, event.first, until, text)

    def _stale(self, member: _Member, event: Event) -> Iterator[Finding]:
        if event.generation is not None and event.generation < member.generation:
            text = f"committed in generation {event.generation}, after an event of generation {member.generation}"
            yield Finding("stale-generation", event, event.first, None, text)

    # --- positions ---------------------------------------------------------------------------------

    def _position(self, member: _Member, event: Event, offset: int) -> Iterator[Finding]:
        if member.fresh or member.read is None:
            yield from self._began(member, event, offset)
        elif offset > member.read:
            text = f"the position went from {member.read} to {offset}"
            yield Finding("offset-gap", event, member.read, offset, text, verify=True)
        elif offset < member.read and not member.rewind:
            text = f"the position went back from {member.read} to {offset}"
            yield Finding("position-back", event, offset, member.read, text)
        member.read = member.work = member.base = offset
        member.fresh = member.rewind = False

    def _began(self, member: _Member, event: Event, offset: int) -> Iterator[Finding]:
        """Checks the offset at which reading starts after an assignment."""
        member.begin = offset
        expected = self.start if self.committed is None else self.committed
        if expected is None or COMMITTED not in self.kinds:
            return
        unlogged = {other.open_to for other in self.members.values() if other.open_to is not None}
        may = sorted({expected} | {offset for offset in unlogged if offset > expected})
        what = "no offset was committed" if self.committed is None else f"offset {expected} was committed"
        text = f"reading started at {offset}, but {what}"
        if offset < expected:
            yield Finding("offset-reset", event, offset, expected, text)
        elif offset > expected:
            gap = Finding("offset-gap", event, may[-1], offset, text, verify=True)
            member.began = _Began(offset, may, gap)
            if event.event == POLLED:  # no buffered records were reported
                yield from self._settled(member, member.began, event)

    def _settled(self, member: _Member, began: _Began, event: Event) -> Iterator[Finding]:
        """Decides whether a start beyond the last logged commit is a gap.

        `event` is the member's next event after the start.
        """
        member.began = None
        from_buffer = event.event == BUFFERED and event.last is not None and event.last + 1 == began.at
        begin = event.first if from_buffer and event.first is not None else began.at
        if begin > began.may[-1]:
            yield replace(began.finding, until=begin)
        if not from_buffer:
            self.committed = min(begin, began.may[-1])
        else:
            # A transaction marker may be between the committed offset and the buffered records.
            self.committed = max((offset for offset in began.may if offset <= begin), default=self.committed)
            member.work = member.base = member.begin = begin
        # Fetching the committed offset waits for open transactions and fences them.
        for other in self.members.values():
            other.open_to = None
        if from_buffer and self.ahead:
            member.open_to = began.at  # it may commit the buffered records before it processes them

    def _polled(self, member: _Member, event: Event, first: int, until: int) -> Iterator[Finding]:
        if member.fresh or member.read is None:
            yield from self._began(member, event, first)
            member.work = member.base = first
        elif first > member.read:
            text = f"polled {first} directly after {member.read - 1}"
            yield Finding("offset-gap", event, member.read, first, text, verify=True)
        elif first < member.read:
            if not member.rewind:
                text = f"polled {first} again, although {member.read} was next"
                yield Finding("position-back", event, first, member.read, text)
            member.work = member.base = first
        missed = until - first - event.gaps - event.count if event.count is not None else 0
        if missed > 0:
            text = f"polled only {event.count} of the {until - first} offsets from {first} to {until - 1}"
            yield Finding("offset-gap", event, first, until, text)
        member.read, member.fresh, member.rewind = until, False, False
        if self.ahead:
            member.open_to = until

    # --- produced and committed------------------------------------------------------------------------

    def _produced(self, member: _Member, event: Event, first: int, until: int) -> Iterator[Finding]:
        if member.work is not None and first > member.work:
            text = f"produced from {first} on, although {member.work} was next"
            yield Finding("work-skipped", event, member.work, first, text, verify=True)
        elif member.work is not None and first < member.work:
            text = f"produced {first} again, although {member.work} was next"
            yield Finding("work-repeated", event, first, min(member.work, until), text)
        member.work = until if member.work is None else max(member.work, until)
        if not self.ahead:
            member.open_to = until

    def _committed(self, member: _Member, event: Event, offset: int) -> Iterator[Finding]:
        if ASSIGNED in self.kinds and not member.owned:
            never = member.owned is None
            circumstance = "without ever having been assigned" if never else "after the revocation of"
            text = f"committed {offset} {circumstance} the partition"
            yield Finding("work-unassigned" if never else "commit-unowned", event, offset, None, text)
        if not self.ahead and PRODUCED in self.kinds and member.work is not None and offset > member.work:
            text = f"committed {offset}, but had produced only up to {member.work}"
            yield Finding("commit-unprocessed", event, member.work, offset, text, verify=True)
        if not self.ahead:
            member.open_to = None
        if (later := self._later(member)) is not None:
            name, process, begin = later
            if offset <= begin:  # logged late: the other instance started from this commit
                return
            text = f"committed {offset} after instance {name} (process {process}) had started at {begin}"
            yield Finding("two-owners", event, begin, offset, text)
        if self.committed is not None and offset < self.committed:
            text = f"committed {offset} after {self.committed} had been committed"
            yield Finding("commit-back", event, offset, self.committed, text)
        self.committed = member.base = offset

    def _later(self, member: _Member) -> tuple[str, int, int] | None:
        """Returns the current owner of the partition if it was assigned the partition later than `member`, else None.

        The owner is (instance, incarnation, offset where it started to read). If several members own the partition, the
        one with the latest assignment is returned.
        """
        found: tuple[int, tuple[str, int, int]] | None = None
        for (instance, incarnation), other in self.members.items():
            if not other.owned or other.begin is None or other.since_ns is None or member.since_ns is None:
                continue
            if other.since_ns > max(member.since_ns, found[0] if found is not None else 0):
                found = other.since_ns, (instance, incarnation, other.begin)
        return None if found is None else found[1]


def findings(
    events: Iterable[Event],
    kinds: frozenset[str] = EVENTS,
    start: int | None = 0,
    ahead: bool = False,
) -> Iterator[Finding]:
    """Yields the anomalies in the events of one partition, in order of time.

    kinds  the kinds of events that occur in the whole log
    start  the offset where reading starts when no offset was committed; None: unknown
    ahead  whether offsets are committed before the outputs are produced
    """
    machine = _Machine(kinds, start, ahead)
    for event in events:
        yield from machine.step(event)
    for member in machine.members.values():
        if member.began is not None and member.began.at > member.began.may[-1]:
            yield member.began.finding
