"""The invariants of a log: what must be true after each action. They are checked without the model.

Each invariant has a name, and a function that returns what is wrong, or "" if the invariant holds. The functions judge
from views (the visible states of the partitions), outcomes of actions, and a ledger of acknowledged records. Sources:
Bradstreet and Wong ("Checked properties"), and the rules in `harness/sim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from harness.sim.log_model.action_types import ARGUMENTS, Action, Outcome
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import LogSettings
from harness.sim.log_model.retention import local_limits
from workloads.log_model.ledger import ABORTED, COMMITTED, OPEN, Acked, Ledger, Ledgers

CUTS: Final = ("restart", "elect")


class Step(NamedTuple):
    """One action on a topic, and its effect on one partition.

    at        the number of this partition
    before    the view of the partition before the action
    after     the view of the partition after the action
    ledger    the ledger of the partition before the action
    previous  the name of the previous action
    """

    action: Action
    outcome: Outcome
    before: View
    after: View
    at: int
    ledger: Ledger
    ledgers: Ledgers
    previous: str

    @property
    def mine(self) -> bool:
        """Returns whether the action was applied to this partition, alone or together with all others."""
        return "partition" not in ARGUMENTS[self.action.f] or self.action.arg("partition") == self.at

    @property
    def settings(self) -> LogSettings:
        return self.ledgers.settings


def bounds(step: Step) -> str:
    """Checks: log start offset <= last stable offset <= high watermark <= log end offset."""
    view = step.after
    if view.start <= view.last_stable <= view.high_watermark <= view.end:
        return ""
    return f"start {view.start}, stable {view.last_stable}, high watermark {view.high_watermark}, end {view.end}"


def start_goes_back(step: Step) -> str:
    """Checks: the log start offset decreases only in a kill or a power loss, and then not below its checkpoint."""
    low = step.before.start
    if step.action.f == "restart" and step.action.arg("how") != "clean":
        low = min(low, step.ledger.saved_start)
    return f"log start went from {step.before.start} to {step.after.start}" if step.after.start < low else ""


def high_watermark_goes_back(step: Step) -> str:
    """Checks: the high watermark decreases only in a kill or a power loss.

    It then does not fall below its checkpoint, unless the log now ends at a lower offset.
    """
    low = step.before.high_watermark
    if step.action.f == "restart" and step.action.arg("how") != "clean":
        low = min(low, step.ledger.saved_high, step.after.end)
    now = step.after.high_watermark
    return f"the high watermark went from {step.before.high_watermark} to {now}" if now < low else ""


def segments_in_line(step: Step) -> str:
    """Checks: local segments are adjacent, and the last one ends at the log end offset."""
    spans = step.after.local
    for span, following in pairwise(spans):
        if span.end != following.base or span.base > span.end:
            return f"[{span.base}, {span.end}) is followed by [{following.base}, {following.end})"
    return "" if spans[-1].base <= spans[-1].end == step.after.end else f"the last segment is {spans[-1]}"


def covered(step: Step) -> str:
    """Checks: every offset from log start to log end is in a local segment or a committed remote segment."""
    at = step.after.start
    for span in sorted((*step.after.remote, *step.after.local)):
        if span.base <= at:
            at = max(at, span.end)
    return "" if at >= step.after.end else f"offset {at} is in no segment"


def only_replicated_is_tiered(step: Step) -> str:
    """Checks: nothing above the high watermark is copied to the remote tier."""
    if step.action.f != "upload" or not step.mine:
        return ""
    new = [span for span in step.after.uploading if span.end > step.after.high_watermark]
    return f"{new[-1]} is above {step.after.high_watermark}" if new else ""


def _removed(step: Step) -> Iterator[tuple[Any, int]]:
    """Yields each local segment that a retention pass deleted, and the total size in bytes of the segments after it."""
    first, later_bytes = step.after.local[0].base, sum(span.size for span in step.before.local)
    for span in step.before.local:
        later_bytes -= span.size
        if span.end <= first and span.base < first:
            yield span, later_bytes


def nothing_deleted_early(step: Step) -> str:
    """Checks: a retention pass deletes only segments that are below the log start offset, or exceed a retention limit.

    A retention limit is a size or a time. In a tiered topic, deleted segments must also be in the remote tier.
    """
    if step.action.f != "check":
        return ""
    ms, size = local_limits(step.settings)
    copied = max((span.end for span in step.before.remote), default=0)
    for span, later_bytes in _removed(step):
        if span.end <= step.before.start:
            continue
        if span.end > step.before.high_watermark:
            return f"{span} extends above the high watermark {step.before.high_watermark}"
        if not step.settings.deletes:
            return f"{span} was deleted, but the topic's cleanup policy is not delete"
        old = ms >= 0 and (span.max_timestamp < 0 or step.ledgers.now - span.max_timestamp > ms)
        if not old and not (0 <= size <= later_bytes):
            return f"{span} is not older than {ms} ms, and only {later_bytes} bytes come after it, below {size}"
        if step.settings.tiered and span.end > copied:
            return f"{span} is not in the remote tier, which ends at {copied}"
    return ""


def nothing_kept_late(step: Step) -> str:
    """Checks: a retention pass keeps no segment that it must delete. Only the first segment that it keeps is checked.

    A segment must be deleted if it is below the log start offset, or exceeds the retention size or time.
    """
    if step.action.f != "check" or step.settings.tiered:
        return ""
    span, more = step.after.local[0], len(step.after.local) > 1
    if more and span.end <= step.after.start:
        return f"{span} is below log start {step.after.start}"
    if not step.settings.deletes or span.base == span.end or span.end > step.after.high_watermark:
        return ""
    ms, size = local_limits(step.settings)
    if span.max_timestamp >= 0 and 0 <= ms < step.ledgers.now - span.max_timestamp:
        return f"{span} is older than {ms} ms"
    later_bytes = sum(span.size for span in step.after.local[1:])
    if 0 <= size <= later_bytes:
        return f"{span} was kept, although the later segments have {later_bytes} bytes; the limit is {size}"
    return ""


def second_pass_finds_nothing(step: Step) -> str:
    """Checks: a retention pass directly after another one deletes nothing."""
    if step.action.f != "check" or step.previous != "check" or step.settings.tiered:
        return ""
    removed = [span for span, _ in _removed(step)]
    return f"the second pass deleted {removed[0]}" if removed else ""


def log_end(step: Step) -> str:
    """Checks: the log end offset increases only by appends and markers, and not by retries.

    After a restart or an election, the log must still have what was safe: all flushed records after a power loss, all
    replicated records after an election, and otherwise all records.
    """
    f, before, after, value = step.action.f, step.before.end, step.after.end, step.outcome.value
    if f == "append" and step.mine and not step.outcome.error:
        count = len(step.action.arg("records"))
        right = value == [before, before + count] == [before, after]
        return "" if right else f"the append got the offsets {value}; log end went from {before} to {after}"
    if f in ("append", "commit", "abort", "init"):
        return "" if before <= after <= before + 1 else f"log end went from {before} to {after}"
    if f in CUTS and step.mine:
        cut = value[step.at] if f == "restart" else value
        keep = before
        if f == "elect":
            keep = step.ledger.replicated
        elif step.action.arg("how") == "power":
            keep = step.ledger.flushed
        return "" if keep <= cut <= before else f"truncated to {cut}, although everything below {keep} was safe"
    return "" if before == after else f"log end went from {before} to {after}, because of {f}"


def reads(step: Step) -> str:
    """Checks: a read skips no acknowledged record that its isolation level permits, and returns no other records.

    The records must be in the order of their offsets.
    """
    if step.action.f not in ("read", "read-all") or not step.mine:
        return ""
    view = step.before
    begin = step.action.arg("at") if step.action.f == "read" else view.start
    outside = not view.start <= begin <= view.end
    if outside or step.outcome.error:
        refused = step.outcome.error == "OFFSET_OUT_OF_RANGE"
        return "" if outside and refused else f"at {begin} of {view.start}..{view.end}: {step.outcome}"
    return _served(step, begin) or _missing(step, begin)


def _served(step: Step, begin: int) -> str:
    committed = step.action.arg("isolation") == "read_committed"
    last = begin - 1
    for record in step.outcome.value[0]:
        acked = step.ledger.records.get(record[0])
        if acked is None or acked.record != record:
            return f"{record} was never acknowledged; the ledger has {acked}"
        if record[0] <= last:
            return f"{record} came after offset {last}; requested from {begin}"
        if record[0] >= step.before.high_watermark:
            return f"{record} is above the high watermark {step.before.high_watermark}"
        if committed and step.ledgers.state(acked) != COMMITTED:
            return f"{record} belongs to a transaction that is {step.ledgers.state(acked)}"
        last = record[0]
    return ""


def _missing(step: Step, begin: int) -> str:
    records, position = step.outcome.value
    committed = step.action.arg("isolation") == "read_committed"
    given = {record[0] for record in records}
    for offset in range(begin, position):
        acked = step.ledger.records.get(offset)
        if acked is None or offset in given:
            continue
        state = step.ledgers.state(acked)
        if committed and state == OPEN:
            return f"the position went past {acked.record}, whose transaction is open"
        if (committed and state == ABORTED) or (step.ledger.cleaned and _superseded(step, acked)):
            continue
        return f"{acked.record} was acknowledged but is missing from {begin}..{position}"
    upper = step.before.last_stable if committed else step.before.high_watermark
    if step.action.f == "read-all" and not step.ledger.cleaned:
        unread = [at for at in range(position, upper) if at in step.ledger.records]
        whole = upper == step.before.end
        return f"it ended at {position}, although {unread[0]} is readable" if unread and whole else ""
    return ""


def _superseded(step: Step, acked: Acked) -> bool:
    """Returns whether compaction may have removed the record, for example because a later record has the same key."""
    offset, _, key, value = acked.record
    if key is None or value is None or step.ledgers.state(acked) == ABORTED:
        return True
    return any(
        other.record[2] == key and at > offset and step.ledgers.state(other) != ABORTED
        for at, other in step.ledger.records.items()
    )


PROPERTIES: Final[dict[str, Callable[[Step], str]]] = {
    "offsets in order": bounds,
    "log start never goes back": start_goes_back,
    "the high watermark never goes back": high_watermark_goes_back,
    "only appends move the log end": log_end,
    "segments are adjacent": segments_in_line,
    "every offset is in a segment": covered,
    "nothing above the high watermark is tiered": only_replicated_is_tiered,
    "nothing is deleted before retention permits": nothing_deleted_early,
    "expired segments are deleted": nothing_kept_late,
    "a second pass deletes nothing": second_pass_finds_nothing,
    "reads return the acknowledged records": reads,
}


def broken(steps: Sequence[Step]) -> tuple[str, str]:
    """Returns (name, what is wrong) for the first violated invariant. Returns ("", "") if none is violated.

    steps  the same action as seen by each partition
    """
    for step in steps:
        for name, holds in PROPERTIES.items():
            if why := holds(step):
                return name, f"partition {step.at}: {why}"
    return "", ""
