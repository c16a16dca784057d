"""The checks of pipelines over one run or many: what is compared, and why a verdict is withheld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from checker.anomalies.pipeline_modes import AGGREGATE
from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.pipeline import (
    context,
    events,
    foreign_logs,
    offset_tasks,
    outputs,
    tables,
    witnesses,
)
from checker.pipeline.context import Faults
from checker.pipeline.foreign_logs import LogPattern
from checker.pipeline.tables import COMMITTED, Setting, Table
from harness.model.check_options import Settings
from harness.model.check_result import Result

# What cannot be said where lines are not there of the reading (of which copies of an input record are a part), of
# the committed offsets, of what the writers sent, and of the instances' events.
NEED_ALL: Final = frozenset(
    {"missing-output", "phantom-output", "lost-input", "duplicate-output", "reordered-output", "uncommitted-output"}
)
NEED_NTH: Final = frozenset({"wrong-output"})  # of a transform that counts the records of a key
NEED_OFFSETS: Final = frozenset({"uncommitted-output"})
NEED_SENT: Final = frozenset({"phantom-input"})
NEED_EVENTS: Final = frozenset({"aborted-output"})
# What one event shows beside an earlier one of the same instance, whatever else there was.
OF_EVENTS_ALONE: Final = frozenset({"stale-generation"})
AHEAD: Final = frozenset({"at-most-once", "auto-commit"})


def batch(
    spark: Any, runs: Sequence[Path], faults: Mapping[str, Faults] | None = None, store: bool = False
) -> dict[Path, Result]:
    """Outputs against inputs.

    faults  run -> its faults
    store   write all witnesses below results/ of each run
    """
    read, sent, event_table = (tables.read(spark, runs, kind) for kind in (tables.READ, tables.SENT, tables.EVENT))
    settings = {str(run): tables.setting(run) for run in runs}
    compared = outputs.compare(spark, read.rows, sent.rows, event_table.rows, settings)
    placed = events.by_partition(event_table.rows)
    rows = context.witnesses(compared.findings, placed, dict(faults or {})).persist()
    found = witnesses.first_few(rows)
    endings = _endings(read.rows)
    answers = {}
    for run in runs:
        name = str(run)
        unread, figures = (
            _unread(name, settings[name], read, endings.get(name, [])),
            compared.figures.get(name, {}),
        )
        unsent = _unsent(name, sent)
        mute = _muted(settings[name], bool(unread), bool(unsent), bool(event_table.rejected.get(name)))
        mine = {anomaly: few for anomaly, few in found.get(name, {}).items() if anomaly not in mute}
        why = [
            *settings[name].wrong,
            *unread,
            *unsent,
            *_undone(settings[name], figures, endings.get(name, [])),
        ]
        if store:
            witnesses.store(run, rows, mine, OUTPUTS)
        answers[run] = witnesses.result(
            settings[name], mine, why, {"pipeline": _figures(settings[name], figures, mine)}
        )
    tables.forget(rows, *compared.cached, *(table.cached for table in (read, sent, event_table)))
    return answers


def _muted(setting: Setting, unread: bool, unsent: bool, without_events: bool) -> frozenset[str]:
    """What is not claimed, since it would follow from lines that are not there."""
    counts = setting.transform == AGGREGATE
    offsets = setting.committed and not any(COMMITTED in wrong for wrong in setting.wrong)
    return frozenset().union(
        NEED_ALL if unread else (),
        NEED_NTH if unread and counts else (),
        () if offsets else NEED_OFFSETS,
        NEED_SENT if unsent else (),
        NEED_EVENTS if without_events else (),
    )


def _figures(setting: Setting, counts: Mapping[str, int], found: Mapping[str, witnesses.Found]) -> dict[str, Any]:
    return {
        "mode": setting.mode,
        "transform": setting.transform,
        "mistake": setting.mistake,
        **counts,
        "anomalies": {name: few.count for name, few in found.items()},
    }


def _endings(rows: Any) -> dict[str, list[Any]]:
    """run -> the last line of each of its read-*.jsonl."""
    found: dict[str, list[Any]] = {}
    for row in rows.where("end").select("run", "ends", "caught_up").collect():
        found.setdefault(row["run"], []).append(row)
    return found


def _rejected(name: str, table: Table, files: str) -> list[str]:
    count = table.rejected.get(name, 0)
    if not count:
        return []
    lines = "1 line" if count == 1 else f"{count:,} lines"
    return [f"{lines} of {files} cannot be used: no JSON, or without what each line must have"]


def _unread(name: str, setting: Setting, read: Table, endings: Sequence[Any]) -> list[str]:
    """Why the reading does not show all."""
    files = read.files.get(name, 0)
    if not files:
        return ["there is no pipeline/read-*.jsonl: the topics were not read in the end"]
    why = _rejected(name, read, "pipeline/read-*.jsonl")
    if files < setting.readers:
        why.append(f"{setting.readers - files} of {setting.readers} pipeline/read-*.jsonl are not there")
    if len(endings) < files:
        why.append(f"{files - len(endings)} of {files} pipeline/read-*.jsonl break off: the reading did not end")
    if any(not ending["caught_up"] for ending in endings):
        why.append("the reading did not come to the end of the topics")
    read_partitions = {at for ending in endings for at in ending["ends"]}
    if lacking := sorted(f"{topic}/{n}" for topic, n in setting.committed if f"{topic}/{n}" not in read_partitions):
        why.append(f"the reading left out partitions that the group has committed: {', '.join(lacking)}")
    return why


def _unsent(name: str, sent: Table) -> list[str]:
    if not sent.files.get(name, 0):
        return ["there is no pipeline/sent-*.jsonl: what the writers sent is not known"]
    return _rejected(name, sent, "pipeline/sent-*.jsonl")


def _undone(setting: Setting, figures: Mapping[str, int], endings: Sequence[Any]) -> list[str]:
    """Why not all of the input is judged. What is wrong with the setting itself has been said."""
    if not setting.transform:
        return []
    if not figures.get("inputs"):
        return ["there is nothing in the input"]
    if not setting.committed:
        return ["the group committed no offset, so no input record counts as done"]
    left = figures["inputs"] - figures["done"]
    if left:
        return [f"{left:,} of {figures['inputs']:,} input records stand at or beyond the committed offsets"]
    return []


# --- offsets ------------------------------------------------------------------------------------------


def offsets(
    spark: Any, runs: Sequence[Path], faults: Mapping[str, Faults] | None = None, store: bool = False
) -> dict[Path, Result]:
    """The offset state machine over the events of the instances; arguments as of `batch`."""
    event_table, read = (tables.read(spark, runs, kind) for kind in (tables.EVENT, tables.READ))
    settings = {str(run): tables.setting(run) for run in runs}
    placed = events.by_partition(event_table.rows).persist()
    counts = event_counts(event_table.rows)
    kinds = {run: frozenset(counted) for run, counted in counts.items()}
    ahead = [run for run, setting in settings.items() if setting.mode in AHEAD]
    records = read.rows.where("side = 'input' and coalesce(committed, true)")
    found = offset_tasks.states(placed, kinds, dict(faults or {}), 0, ahead)
    rows = offset_tasks.verified(found, records).select("run", "name", "place", "witness").persist()
    few = witnesses.first_few(rows)
    answers = {}
    for run in runs:
        name = str(run)
        rejected = _rejected(name, event_table, "events/instance-*.jsonl")
        mine = {each: some for each, some in few.get(name, {}).items() if not rejected or each in OF_EVENTS_ALONE}
        why = [*settings[name].wrong, *rejected]
        if not event_table.files.get(name, 0):
            why.append("there is no events/instance-*.jsonl: what the instances did is not known")
        why += unjudged(counts.get(name, {}))
        if store:
            witnesses.store(run, rows, mine, OFFSETS)
        figures = {
            "events": counts.get(name, {}),
            "anomalies": {anomaly: shown.count for anomaly, shown in mine.items()},
        }
        answers[run] = witnesses.result(settings[name], mine, why, {"offsets": figures})
    tables.forget(rows, placed, event_table.cached, read.cached)
    return answers


def event_counts(rows: Any) -> dict[str, dict[str, int]]:
    """run -> kind of event -> how many lines."""
    found: dict[str, dict[str, int]] = {}
    for row in rows.groupBy("run", "event").count().orderBy("event").collect():
        found.setdefault(row["run"], {})[row["event"]] = row["count"]
    return found


def unjudged(counts: Mapping[str, int]) -> list[str]:
    """Why events show too little to say that all is well."""
    if not counts:
        return ["there are no events, so nothing is known of offsets"]
    if "assigned" not in counts:
        return ["no assignment was told, so who might work on what is not known"]
    if not {"position", "polled"} & counts.keys():
        return ["neither positions nor polls were told, so nothing is known of gaps"]
    if not {"committed", "polled"} & counts.keys():
        return ["neither commits nor polls were told, so positions can be compared with nothing"]
    return []


# --- logs of other programs ---------------------------------------------------------------------------


def of_logs(spark: Any, files: Sequence[Path], pattern: LogPattern, markers: int = 0) -> Result:
    """The offset state machine over anybody's logs.

    markers  gaps of so many offsets are taken for markers of transactions
    """
    from pyspark.sql import functions as F

    lines = foreign_logs.read(spark, files, pattern).persist()
    counted = {row["status"]: row["n"] for row in lines.groupBy("status").agg(F.sum("n").alias("n")).collect()}
    event_rows = foreign_logs.events(lines).persist()
    counts = event_counts(event_rows).get("", {})
    placed = events.by_partition(event_rows)
    found = offset_tasks.states(placed, {"": frozenset(counts)}, {}, None)
    wide = found.where(~F.col("verify") | (F.col("until") - F.col("first") > markers))
    mine = witnesses.first_few(wide).get("", {})
    instances = event_rows.select("instance").distinct().count()
    tables.forget(event_rows, lines)
    figures = {
        "files": len(files),
        "instances": instances,
        "events": counts,
        "lines": {
            name: int(counted.get(name, 0))
            for name in (foreign_logs.REJECTED, foreign_logs.UNMATCHED, foreign_logs.CUT)
        },
    }
    why = unjudged(counts)
    if figures["lines"][foreign_logs.REJECTED]:
        why.append(
            f"{figures['lines'][foreign_logs.REJECTED]:,} lines tell of an event without what it must have, or "
            "with a time or a number that is none"
        )
    result = witnesses.result(Setting(mode="exactly-once"), mine, why, {"offsets": figures})
    unknown = Settings()  # of their brokers, and of what befell them
    anomalies = tuple(replace(one, promised=witnesses.kept(one, unknown)) for one in result.anomalies)
    return replace(result, anomalies=anomalies, promised=witnesses.promise(anomalies))
