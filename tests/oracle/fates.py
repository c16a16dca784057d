"""The true fate of every record, and which anomalies can have happened at all."""

from __future__ import annotations

from collections import defaultdict

from harness.model.op import FAIL, INVOKE, NEMESIS, OK, polls, sends
from tests.oracle.history import pairs
from tests.oracle.log import ABORTED, COMPACTED, DELETED, LOST
from tests.oracle.run import Run

KEPT, NEVER = "kept", "never"


class Fates:
    """fate      by (key, value): kept, lost, deleted, compacted, aborted, never (in the log)
    cut_off     records that were deleted or compacted, or copies of them, from a part of the log that was cut off
    troubled    keys of which records were lost, doubled, or put elsewhere, so that orders look wrong
    """

    def __init__(self, run: Run) -> None:
        world = run.truth.world
        self.run = run
        self.fate: dict[tuple[int, object], str] = {}
        self.cut_off: set[tuple[int, object]] = set()
        self.troubled: set[int] = set()
        copies: dict[tuple[int, object], int] = defaultdict(int)
        cut_last: dict[tuple[int, object], bool] = {}  # whether the last copy of it was cut off
        for key, partition in world.logs.partitions.items():
            for entry in partition.history:
                if entry.value is None:
                    continue
                record = (key, entry.value)
                copies[record] += 1
                hidden = run.case.isolation == "read_committed" or entry.gone != LOST
                aborted = entry.txn is not None and world.logs.txns[entry.txn] == ABORTED and hidden
                fate = ABORTED if aborted else entry.gone or KEPT
                if self.fate.get(record) != KEPT and (record not in self.fate or fate in (KEPT, DELETED, COMPACTED)):
                    self.fate[record] = fate
                if entry.gone in (DELETED, COMPACTED) and any(to <= entry.offset for to in partition.truncations):
                    self.cut_off.add(record)
                cut_last[record] = entry.gone == LOST and any(to <= entry.offset for to in partition.truncations)
                if entry.gone == LOST:
                    self.troubled.add(key)
            if partition.truncations:
                self.troubled.add(key)
        deleted = {record for record, fate in self.fate.items() if fate in (DELETED, COMPACTED)}
        self.cut_off |= {record for record in deleted if cut_last[record]}
        self.troubled |= {key for (key, _), count in copies.items() if count > 1}
        self.doubled = {record for record, count in copies.items() if count > 1}
        self.sent = {
            (key, value) for op in run.ops if op.type == INVOKE and op.process != NEMESIS for key, _, value in sends(op)
        }
        self.type_of: dict[tuple[int, object], str] = {}
        self.op_of: dict[tuple[int, object], int] = {}
        for asked in pairs(run.ops):
            for key, _, value in asked.sends:
                self.type_of[key, value] = asked.type
                self.op_of[key, value] = asked.invoked.index
        for record in self.sent - self.fate.keys():
            self.fate[record] = NEVER

    def lost(self, record: tuple[int, object]) -> bool:
        """Whether a record that was acknowledged, or that was in the log for good, is gone illegally."""
        fate = self.fate.get(record)
        return fate == LOST or (fate == NEVER and self.type_of.get(record) == OK)

    def unread_by_lies(self) -> bool:
        """Whether records were passed over, read damaged, or moved: nobody can tell that from their loss."""
        return bool({"skip-poll", "int-skip-poll", "bad-payload", "stale-place"} & set(self.run.truth.world.told))

    def happened(self) -> set[str]:
        """Anomalies that may have happened, by what was done to the logs and told by clients."""
        world, case = self.run.truth.world, self.run.case
        found: set[str] = set()
        order = {"nonmonotonic-send", "int-nonmonotonic-send", "stale-send"}
        reads = {"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"}
        told = set(world.told)
        if any(map(self.lost, self.fate)):
            found |= {"lost-write", "unseen"} | ({"torn-transaction"} if case.txn or case.plain else set())
        if self.troubled:
            found |= {"inconsistent-offsets", "duplicate"} | order | reads
        if told & {"duplicate", "early-read", "stale-place", "reorder", "overwritten"}:
            found |= order | reads | {"duplicate", "inconsistent-offsets"}
        if told & {"skip-poll", "int-skip-poll", "repeat-poll", "int-repeat-poll", "own-visible"}:
            found |= reads
        if told & {"phantom", "early-read", "bad-payload"}:
            found |= {"phantom-read", "G1a", "inconsistent-offsets"} | order | reads
        if told & {"aborted-visible", "failed-visible"} or (case.isolation == "read_uncommitted" and case.plain):
            found |= {"G1a", "torn-transaction"}
        if "own-visible" in told or case.plain:
            found |= {"precommitted-read"}
        if "own-visible" in told:
            found |= {"G1a", "torn-transaction"}
        if told & {"lose-commit"} or (world.logs and self.troubled):
            found |= {"offset-regression"} | reads
        if any(op.type == FAIL for op in self.run.ops) and case.plain:
            found |= {"G1a"} if self._failed_polled() else set()
        return found

    def _failed_polled(self) -> bool:
        return any(self.type_of.get((key, value)) == FAIL for op in self.run.ops for key, _, value in polls(op))
