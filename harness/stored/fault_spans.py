"""Converts the nemesis's operations to spans: for each injection of a fault, its targets, begin, end and effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq

from harness.stored import upgrade_text

# Fields of a completed nemesis operation's value that name the targets, in order of preference.
HIT_FIELDS: Final = ("nodes", "clients", "workers", "processes")


@dataclass(frozen=True, slots=True)
class Span:
    """One injection of a fault.

    fault         name of the fault, such as "kill:leader"
    hit           the targets: nodes or client processes; empty if not known
    begin_ns      time at which the operation that starts the fault was invoked
    end_ns        time at which the operation that ends the fault completed; None: it lasted until the history's end
    took_effect   whether the fault had an effect; None if it did not report this
    new_leaders   partition -> its new leader, for partitions whose leader changed
    detail        other effects, as text; may be empty
    """

    fault: str
    hit: tuple[str, ...]
    begin_ns: int
    end_ns: int | None = None
    took_effect: bool | None = None
    new_leaders: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""

    @property
    def label(self) -> str:
        """The fault and its targets."""
        return f"{self.fault} {'+'.join(self.hit)}".rstrip()


def _hit(value: Any) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return ()
    for name in HIT_FIELDS:
        names = value.get(name)
        if isinstance(names, list) and names:
            return tuple(map(str, names))
    return ()


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Returns the spans for the rows of tables/nemesis.parquet, in order of time.

    Usually one operation starts a fault and another one stops it. A fault with a single operation (its field `span` is
    "") lasts from the operation's invocation to its completion. Operations that belong to no fault, such as the final
    wait for a healthy cluster, are ignored.
    """
    done: list[Span] = []
    on: dict[str, Span] = {}
    for row in rows:
        fault = row.get("fault")
        if not fault:
            continue
        kind, complete = row.get("span") or "", row.get("phase") == "complete"
        at = int(row["time_ns"])
        if kind == "stop":
            if complete and fault in on:
                detail = "; ".join(filter(None, (on[fault].detail, _detail(_data(row)))))
                done.append(replace(on.pop(fault), end_ns=at, detail=detail))
        elif not complete:
            if fault in on:  # started again without a stop: the first span ends here
                done.append(replace(on.pop(fault), end_ns=at))
            on[fault] = Span(fault, (), at)
        else:
            span = _completed(on.pop(fault, Span(fault, (), at)), row)
            if kind == "start":
                on[fault] = span
            else:
                done.append(replace(span, end_ns=at))
    return sorted([*done, *on.values()], key=lambda span: (span.begin_ns, span.fault))


def _data(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = orjson.loads(row.get("value") or "null")
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {}


def _completed(span: Span, row: Mapping[str, Any]) -> Span:
    data = _data(row)
    effect, leaders = data.get("took_effect"), data.get("new_leaders")
    return replace(
        span,
        hit=_hit(data),
        took_effect=effect if isinstance(effect, bool) else None,
        new_leaders=leaders if isinstance(leaders, dict) else {},
        detail=_detail(data),
    )


def _detail(data: Mapping[str, Any]) -> str:
    """Describes the effects that a completed operation reports, except its targets and new leaders."""
    parts = []
    lost, damage, deleted = (data.get(name) for name in ("lost_bytes", "damage", "deleted"))
    if isinstance(lost, dict):
        parts.append(f"{sum(map(int, lost.values())):,} bytes of logs had not been flushed to disk")
    if isinstance(damage, dict):
        files = [done["file"] for done in damage.values() if isinstance(done, dict) and "file" in done]
        parts.append(f"damaged {', '.join(map(str, files))}" if files else "")
    if isinstance(data.get("without_leader"), int):
        parts.append(f"{data['without_leader']} partitions had no leader")
    if isinstance(deleted, list):
        parts.append(f"records were deleted from the start of {len(deleted)} logs")
    moved, grown, settings = (data.get(name) for name in ("moved", "partitions", "settings"))
    if isinstance(moved, int):
        parts.append(f"the replicas of {moved} partitions were moved to other brokers")
    if isinstance(grown, dict):
        parts.append(f"one partition was added to each of {len(grown)} topics")
    if isinstance(settings, dict):
        parts.append(", ".join(f"{name}={value}" for name, value in settings.items()))
    if isinstance(data.get("shared"), int):
        parts.append(f"a foreign consumer joined the group {data['shared']} times")
    if isinstance(data.get("fenced"), dict):
        parts.append(f"another producer took over {', '.join(data['fenced']) or 'no transactional id'}")
    rules = data.get("rules")
    if isinstance(rules, list):
        applied = sum(int(rule.get("applied", 0)) for rule in rules if isinstance(rule, dict))
        parts.append(f"the rules were applied {applied:,} times")
    parts += upgrade_text.of_value(data)
    parts += _of_directories(data)
    if isinstance(data.get("trigger"), str):
        late = data.get("after_ms")
        delay = f", {late:.0f} ms after that" if isinstance(late, int | float) else ""
        parts.append(f"when {data['trigger']}{delay}")
    return "; ".join(filter(None, parts))


def _of_directories(data: Mapping[str, Any]) -> list[str]:
    """Describes what a fault on log directories, or with stale pages, did."""
    found = []
    offline, moved, damage = (data.get(name) for name in ("offline", "moved", "damage"))
    if isinstance(offline, dict):
        names = [f"{name} of {node}" for node, listed in offline.items() for name in listed]
        found.append(f"offline: {', '.join(names) or 'no log directory'}")
    if isinstance(moved, dict):
        count = sum(len(logs) for logs in moved.values())
        found.append(f"{count} logs were moved to other directories of their broker")
    for done in damage.values() if isinstance(damage, dict) else ():
        if isinstance(done, dict) and isinstance(done.get("restored"), dict):
            pages = sum(len(places) for places in done["restored"].values())
            found.append(f"{pages} pages in {len(done['restored'])} files are as they were before")
    return found


def of_run(run: Path) -> list[Span]:
    """Returns the spans of a run folder, read from its tables; none if the table of the nemesis does not exist."""
    path = run / "tables" / "nemesis.parquet"
    if not path.is_file():
        return []
    return of_rows(pq.ParquetFile(path).read().to_pylist())


def during(spans: Sequence[Span], begin_ns: int, end_ns: int) -> list[Span]:
    """Returns the spans that overlap with the time from `begin_ns` to `end_ns`."""
    return [span for span in spans if span.begin_ns <= end_ns and (span.end_ns is None or begin_ns <= span.end_ns)]
