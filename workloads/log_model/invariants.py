"""What must hold of a log after each step, whatever the model says: judged from views, outcomes, a ledger.

Each property has a name and is a function that says what is wrong, or nothing. Sources: Bradstreet and Wong
("Checked properties"), and the rules in `harness/sim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from harness.sim.log_model.action_types import ARGUMENTS, Action, Outcome
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import LogSettings
from harness.sim.log_model.retention import local_limits
from workloads.log_model.ledger import ABORTED, COMMITTED, OPEN, Known, Ledger, Ledgers

CUTS: Final = ("restart", "elect")


class Step(NamedTuple):
    """One action on a topic: `at` the partition looked at, its views before and after, and its ledger before.

    previous  the name of the action before
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
        """Whether the action was on this partition alone."""
        return "partition" not in ARGUMENTS[self.action.f] or self.action.arg("partition") == self.at

    @property
    def settings(self) -> LogSettings:
        return self.ledgers.settings


def bounds(step: Step) -> str:
    """log start <= last stable <= high watermark <= log end."""
    view = step.after
    if view.start <= view.last_stable <= view.high_watermark <= view.end:
        return ""
    return f"start {view.start}, stable {view.last_stable}, high watermark {view.high_watermark}, end {view.end}"


def start_goes_back(step: Step) -> str:
    """Log start goes back after a kill or a loss of power alone, and not before its checkpoint."""
    low = step.before.start
    if step.action.f == "restart" and step.action.arg("how") != "clean":
        low = min(low, step.ledger.saved_start)
    return f"log start went from {step.before.start} to {step.after.start}" if step.after.start < low else ""


def high_watermark_goes_back(step: Step) -> str:
    """The high watermark goes back after a kill or a loss of power alone; the latter may lose it all."""
    low = step.before.high_watermark
    if step.action.f == "restart" and step.action.arg("how") != "clean":
        low = min(low, step.ledger.saved_high, step.after.end)
    now = step.after.high_watermark
    return f"it went from {step.before.high_watermark} to {now}" if now < low else ""


def segments_in_line(step: Step) -> str:
    """Local segments follow one another, and the last ends at log end."""
    spans = step.after.local
    for span, following in pairwise(spans):
        if span.end != following.base or span.base > span.end:
            return f"[{span.base}, {span.end}) is followed by [{following.base}, {following.end})"
    return "" if spans[-1].base <= spans[-1].end == step.after.end else f"the last is {spans[-1]}"


def covered(step: Step) -> str:
    """Everything from log start to log end is in a local segment, or in a committed remote one."""
    at = step.after.start
    for span in sorted((*step.after.remote, *step.after.local)):
        if span.base <= at:
            at = max(at, span.end)
    return "" if at >= step.after.end else f"nothing holds offset {at}"


def only_replicated_is_tiered(step: Step) -> str:
    """Nothing above the high watermark is copied to the remote tier."""
    if step.action.f != "upload" or not step.mine:
        return ""
    new = [span for span in step.after.uploading if span.end > step.after.high_watermark]
    return f"{new[-1]} is above {step.after.high_watermark}" if new else ""


def _removed(step: Step) -> Iterator[tuple[Any, int]]:
    """Each local segment that a pass took, and the bytes of those after it."""
    first, left = step.after.local[0].base, sum(span.size for span in step.before.local)
    for span in step.before.local:
        left -= span.size
        if span.end <= first and span.base < first:
            yield span, left


def nothing_deleted_early(step: Step) -> str:
    """What a pass takes is below log start, or beyond size or time; and it is in the remote tier, if any."""
    if step.action.f != "check":
        return ""
    ms, size = local_limits(step.settings)
    copied = max((span.end for span in step.before.remote), default=0)
    for span, left in _removed(step):
        if span.end <= step.before.start:
            continue
        if span.end > step.before.high_watermark:
            return f"{span} reaches above the high watermark {step.before.high_watermark}"
        if not step.settings.deletes:
            return f"{span} is of a topic that does not delete"
        old = ms >= 0 and (span.max_timestamp < 0 or step.ledgers.now - span.max_timestamp > ms)
        if not old and not (0 <= size <= left):
            return f"{span} is not older than {ms} ms, and {left} bytes are left of {size}"
        if step.settings.tiered and span.end > copied:
            return f"{span} is not in the remote tier, which holds what is below {copied}"
    return ""


def nothing_kept_late(step: Step) -> str:
    """After a pass the first segment is not below log start, nor beyond size or time."""
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
    left = sum(span.size for span in step.after.local[1:])
    return f"{span} is there, and {left} bytes without it, of {size}" if 0 <= size <= left else ""


def second_pass_finds_nothing(step: Step) -> str:
    """A retention pass right after another one takes nothing."""
    if step.action.f != "check" or step.previous != "check" or step.settings.tiered:
        return ""
    gone = [span for span, _ in _removed(step)]
    return f"it took {gone[0]}" if gone else ""


def log_end(step: Step) -> str:
    """Appends and markers alone move log end up; a retry adds nothing; what must survive a cut does."""
    f, before, after, value = step.action.f, step.before.end, step.after.end, step.outcome.value
    if f == "append" and step.mine and not step.outcome.error:
        count = len(step.action.arg("records"))
        return "" if value == [before, before + count] == [before, after] else f"{value} at {before}..{after}"
    if f in ("append", "commit", "abort", "init"):
        return "" if before <= after <= before + 1 else f"from {before} to {after}"
    if f in CUTS and step.mine:
        cut = value[step.at] if f == "restart" else value
        keep = before
        if f == "elect":
            keep = step.ledger.replicated
        elif step.action.arg("how") == "power":
            keep = step.ledger.flushed
        return "" if keep <= cut <= before else f"cut at {cut}, though everything below {keep} was safe"
    return "" if before == after else f"from {before} to {after} by {f}"


def reads(step: Step) -> str:
    """Reads give exactly what was acknowledged and may be seen, in order, from the offset asked for on."""
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
        known = step.ledger.records.get(record[0])
        if known is None or known.record != record:
            return f"{record} was never acknowledged: {known}"
        if record[0] <= last:
            return f"{record} after offset {last}, asked from {begin} on"
        if record[0] >= step.before.high_watermark:
            return f"{record} is above the high watermark {step.before.high_watermark}"
        if committed and step.ledgers.state(known) != COMMITTED:
            return f"{record} is of a transaction that is {step.ledgers.state(known)}"
        last = record[0]
    return ""


def _missing(step: Step, begin: int) -> str:
    records, position = step.outcome.value
    committed = step.action.arg("isolation") == "read_committed"
    given = {record[0] for record in records}
    for offset in range(begin, position):
        known = step.ledger.records.get(offset)
        if known is None or offset in given:
            continue
        state = step.ledgers.state(known)
        if committed and state == OPEN:
            return f"the position went past {known.record}, of a transaction that is open"
        if (committed and state == ABORTED) or (step.ledger.cleaned and _superseded(step, known)):
            continue
        return f"{known.record} was acknowledged and is left out of {begin}..{position}"
    upper = step.before.last_stable if committed else step.before.high_watermark
    if step.action.f == "read-all" and not step.ledger.cleaned:
        seen = [at for at in range(position, upper) if at in step.ledger.records]
        whole = upper == step.before.end
        return f"it ended at {position}, and {seen[0]} may be read" if seen and whole else ""
    return ""


def _superseded(step: Step, known: Known) -> bool:
    """Whether compaction may take the record."""
    offset, _, key, value = known.record
    if key is None or value is None or step.ledgers.state(known) == ABORTED:
        return True
    return any(
        other.record[2] == key and at > offset and step.ledgers.state(other) != ABORTED
        for at, other in step.ledger.records.items()
    )


PROPERTIES: Final[dict[str, Callable[[Step], str]]] = {
    "offsets in order": bounds,
    "log start never goes back": start_goes_back,
    "the high watermark never goes back": high_watermark_goes_back,
    "the log end moves by appends alone": log_end,
    "segments follow one another": segments_in_line,
    "every offset is held somewhere": covered,
    "nothing above the high watermark is tiered": only_replicated_is_tiered,
    "nothing is deleted before retention permits": nothing_deleted_early,
    "what must be deleted goes": nothing_kept_late,
    "a second pass finds nothing": second_pass_finds_nothing,
    "reads give what was acknowledged": reads,
}


def broken(steps: Sequence[Step]) -> tuple[str, str]:
    """The first property that does not hold in a partition, and why; ("", "") where all do."""
    for step in steps:
        for name, holds in PROPERTIES.items():
            if why := holds(step):
                return name, f"partition {step.at}: {why}"
    return "", ""
