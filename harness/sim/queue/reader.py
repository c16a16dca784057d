"""The consumer side of a simulated client: assignment, positions, rewinding, and the bugs of polls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.sim.queue.group import Group
from harness.sim.queue.log import SimLog


class Reading(Protocol):
    """The settings that a `Reader` needs."""

    @property
    def isolation_level(self) -> str: ...
    @property
    def records_max(self) -> int: ...


class Reader:
    """The consumer of one process, which gets its keys by assign or by subscribe. Call `mark` when an op starts."""

    def __init__(self, log: SimLog, group: Group, process: int, settings: Reading) -> None:
        self._log, self._group, self._process, self._settings = log, group, process, settings
        self._positions: dict[int, int] = {}
        self._origin: dict[int, int] = {}
        self._generation = -1
        self._rebalances: list[dict[str, Any]] = []
        # The last record of each key in this op, and in earlier ok ops since the key was assigned.
        self._now: dict[int, tuple[int, Any]] = {}
        self._last: dict[int, tuple[int, Any]] = {}
        self.subscribed = False

    # --- what to read ---

    def assign(self, keys: Sequence[int], seek_to_beginning: bool) -> None:
        """Assigns exactly these keys.

        Keys that were already assigned keep their positions; other keys start at offset 0.

        seek_to_beginning  all keys start at offset 0
        """
        if self.subscribed:
            self._revoke()
            self._group.leave(self._process)
        kept_positions = {} if seek_to_beginning else self._positions
        self.subscribed = False
        self._positions = {key: kept_positions.get(key, 0) for key in keys}
        self._last = {key: last for key, last in self._last.items() if key in kept_positions and key in keys}

    def subscribe(self, keys: Sequence[int]) -> None:
        self._group.subscribe(self._process, keys)
        if not self.subscribed:
            self.subscribed, self._generation = True, -1
            self._positions, self._last = {}, {}

    def leave(self) -> None:
        self._group.leave(self._process)

    def _revoke(self) -> None:
        if self._positions:
            self._rebalances.append({"event": "revoked", "keys": sorted(self._positions)})

    def _sync(self, bug: Callable[[str], bool]) -> None:
        """Takes the keys that the group assigns to this process, if the group has a new generation.

        The keys start at their committed offsets. `bug` returns whether the bug of this name occurs now.
        """
        if self._generation == self._group.generation:
            return
        self._revoke()
        self._generation = self._group.generation
        share = self._group.share(self._process)
        if bug("concurrent-owners"):
            share = sorted({*share, *self._group.of_others(self._process)[:1]})
        self._positions, self._origin, self._last = {}, {}, {}
        found: list[list[int | None]] = []
        for key in share:
            if bug("lose-commit"):
                self._group.forget(key)
            committed = self._group.committed(key)
            found.append([key, committed])
            at = 0 if committed is None else committed
            if bug("start-beyond"):
                _, at = self._log.read(key, at, 1, self._settings.isolation_level)
            self._positions[key] = at
        self._rebalances.append({"event": "assigned", "keys": share, "committed": found})

    def rebalances(self) -> list[dict[str, Any]]:
        """Returns the rebalance events since the previous call."""
        events, self._rebalances = self._rebalances, []
        return events

    # --- reading ---

    def mark(self) -> None:
        """Starts a new op: forgets which records the previous op read, and at which positions it started."""
        self._origin, self._now = {}, {}

    def reported(self) -> None:
        """Notes that the op was ok: its last record of each key becomes the last one that the process has reported."""
        self._last |= self._now

    def rewind(self) -> None:
        """Notes that the op failed: moves every key back to its position before the op."""
        self._positions |= {key: at for key, at in self._origin.items() if key in self._positions}

    def poll(self, txn: int | None, bug: Callable[[str], bool], ghosts: Mapping[int, list[int]]) -> list[list[Any]]:
        """Polls once, within the transaction `txn` if there is one. Returns [[key, [[offset, value], ...]], ...].

        bug     returns whether the bug of this name occurs now
        ghosts  key -> values of sends that timed out and are not in the log (for the bug `diverge`)
        """
        own = txn if txn is not None and bug("precommitted-visible") else None
        dirty = txn if txn is not None and bug("dirty-read") else None
        if self.subscribed:
            self._sync(bug)
        found: list[list[Any]] = []
        for key in sorted(self._positions):
            at = self._positions[key]
            count, level = self._settings.records_max, self._settings.isolation_level
            if dirty is None:
                records, after = self._log.read(key, at, count, level, own)
            else:
                records, after = self._log.read_dirty(key, at, count, dirty)
            if not self.subscribed:
                records = self._mangled(key, records, bug, ghosts)
            self._positions[key] = after
            if records:
                self._origin.setdefault(key, at)
                self._now[key] = records[-1]
                found.append([key, [[offset, value] for offset, value in records]])
        return found

    def _mangled(
        self,
        key: int,
        records: list[tuple[int, Any]],
        bug: Callable[[str], bool],
        ghosts: Mapping[int, list[int]],
    ) -> list[tuple[int, Any]]:
        first_time = key in self._last and key not in self._now
        if first_time and len(records) > 1 and bug("skip-poll"):
            records = records[1:]
        if first_time and bug("repeat-poll"):
            records = [self._last[key], *records]
        if len(records) > 2 and bug("int-skip-poll"):
            records = [records[0], *records[2:]]
        if records and bug("int-repeat-poll"):
            records = [records[0], *records]
        if records and ghosts.get(key) and bug("diverge"):
            records = [(records[0][0], ghosts[key].pop()), *records[1:]]
        return records

    def moved(self) -> dict[int, int]:
        """Returns key -> position to commit, for the keys read since `mark`.

        Returns no positions if the process is not subscribed.
        """
        return {key: self._positions[key] for key in self._origin} if self.subscribed else {}

    def commit(self) -> bool:
        """Commits the positions of the keys read since `mark`.

        Returns False if the group has a newer generation than this process.
        """
        if not self._origin:
            return True
        return self._group.commit(self._generation, self.moved())

    def current(self) -> bool:
        """Returns whether the group would accept a commit now."""
        return not self._origin or self._generation == self._group.generation

    def positions(self) -> list[tuple[int, int]]:
        """Returns (key, position) of every assigned key."""
        return sorted(self._positions.items())
