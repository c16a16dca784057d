"""The checks of pipelines over one or many runs: what is compared, and why a verdict is `unknown`."""

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
from harness.model.values_as_text import many

# Anomalies that missing lines could cause. Those in NEED_ALL and NEED_NTH need a complete reading of the topics (with
# all copies of each input record), those in NEED_OFFSETS the committed offsets, those in NEED_SENT the records that
# writers sent, and those in NEED_EVENTS the events of the instances.
NEED_ALL: Final = frozenset(
    {
        "missing-output",
        "phantom-output",
        "lost-input",
        "duplicate-output",
        "reordered-output",
        "uncommitted-output",
        "lost-update",
        "doubled-update",
    }
)
NEED_NTH: Final = frozenset({"wrong-output"})  # for a transform that counts the records of a key
NEED_OFFSETS: Final = frozenset({"uncommitted-output"})
NEED_SENT: Final = frozenset({"phantom-input"})
NEED_EVENTS: Final = frozenset({"aborted-output"})
# For an application of the user, only the records and the group's committed offsets are known. An application may
# deduplicate without transactions, and may process records of a key concurrently. NOT_OF_APPLICATIONS are therefore
# no anomalies of an application.
OF_APPLICATIONS: Final = frozenset({"strangers", "unnamed"})  # figures
OF_STATES: Final = frozenset({"lost-update", "doubled-update"})
NOT_OF_APPLICATIONS: Final = frozenset({"reordered-output", "uncommitted-output"})
# Shown by two events of the same instance, whatever other lines are missing.
OF_EVENTS_ALONE: Final = frozenset({"stale-generation"})
AHEAD: Final = frozenset({"at-most-once", "auto-commit"})


def batch(
    spark: Any, runs: Sequence[Path], faults: Mapping[str, Faults] | None = None, store: bool = False
) -> dict[Path, Result]:
    """Compares the outputs of pipelines with their inputs. Returns run -> result.

    faults  run -> its faults
    store   whether to write all witnesses to results/ of each run
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
        mute |= _without_names(settings[name], figures) | (OF_STATES if _all_states_wrong(figures) else frozenset())
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
    """Returns the names of the anomalies that must not be reported.

    Missing lines could have caused them or, for an application of the user, they are no anomalies.

    unread          the topics were not read to their ends
    unsent          lines of the writers are missing
    without_events  lines of the instances are missing
    """
    counts = setting.transform == AGGREGATE
    offsets = setting.committed and not any(COMMITTED in wrong for wrong in setting.wrong)
    return frozenset().union(
        NEED_ALL if unread else (),
        NEED_NTH if unread and counts else (),
        () if offsets else NEED_OFFSETS,
        NEED_SENT if unsent else (),
        NEED_EVENTS if without_events else (),
        NOT_OF_APPLICATIONS if setting.outputs is not None else (),
    )


def _figures(setting: Setting, counts: Mapping[str, int], found: Mapping[str, witnesses.Found]) -> dict[str, Any]:
    if setting.outputs is None:
        counts = {name: count for name, count in counts.items() if name not in OF_APPLICATIONS}
    return {
        "mode": setting.mode,
        "transform": setting.transform,
        "mistake": setting.mistake,
        **counts,
        "anomalies": {name: few.count for name, few in found.items()},
    }


def _endings(rows: Any) -> dict[str, list[Any]]:
    """Returns run -> the last lines of its files read-*.jsonl, one per complete file."""
    found: dict[str, list[Any]] = {}
    for row in rows.where("end").select("run", "ends", "caught_up").collect():
        found.setdefault(row["run"], []).append(row)
    return found


def _rejected(name: str, table: Table, files: str) -> list[str]:
    count = table.rejected.get(name, 0)
    if not count:
        return []
    lines = "1 line" if count == 1 else f"{count:,} lines"
    return [f"{lines} of {files} cannot be used: not JSON, or without a required field"]


def _unread(name: str, setting: Setting, read: Table, endings: Sequence[Any]) -> list[str]:
    """Returns the reasons for `unknown` if the final reading of the topics is incomplete."""
    files = read.files.get(name, 0)
    if not files:
        return ["there is no pipeline/read-*.jsonl: the topics were not read at the end"]
    why = _rejected(name, read, "pipeline/read-*.jsonl")
    if files < setting.readers:
        why.append(f"{setting.readers - files} of {setting.readers} pipeline/read-*.jsonl are missing")
    if len(endings) < files:
        why.append(
            f"{files - len(endings)} of {files} pipeline/read-*.jsonl are incomplete: the reading did not finish"
        )
    if any(not ending["caught_up"] for ending in endings):
        why.append("the reading did not reach the end of the topics")
    read_partitions = {at for ending in endings for at in ending["ends"]}
    if lacking := sorted(f"{topic}/{n}" for topic, n in setting.committed if f"{topic}/{n}" not in read_partitions):
        why.append(f"partitions with committed offsets were not read: {', '.join(lacking)}")
    return why


def _unsent(name: str, sent: Table) -> list[str]:
    if not sent.files.get(name, 0):
        return ["there is no pipeline/sent-*.jsonl: the records that writers sent are unknown"]
    return _rejected(name, sent, "pipeline/sent-*.jsonl")


def _undone(setting: Setting, figures: Mapping[str, int], endings: Sequence[Any]) -> list[str]:
    """Returns the reason for `unknown` if some input records are not judged, else an empty list.

    Problems with the run's settings are reported elsewhere.
    """
    if not setting.transform:
        return []
    if not figures.get("inputs"):
        return ["the input is empty"]
    if not setting.committed:
        return ["the group committed no offset, so no input record counts as processed"]
    why = []
    not_done = figures["inputs"] - figures["done"]
    if not_done:
        why.append(f"{not_done:,} of {figures['inputs']:,} input records are at or beyond the committed offsets")
    where = "see `output.id` in the description of the application"
    if setting.outputs is not None and figures["unnamed"]:
        why.append(f"{many(figures['unnamed'], 'output')} could not be assigned to an input record: {where}")
    if _all_strangers(setting, figures):
        why.append(f"no output names a record of the input: {where}")
    return [*why, *_unknown_states(setting, figures)]


def _unknown_states(setting: Setting, figures: Mapping[str, int]) -> list[str]:
    """Returns the reasons why the state that the outputs of an application show is not, or not always, judged."""
    if setting.state is None:
        return []
    why = []
    if unreadable := figures.get("states_unreadable", 0):
        where = "see `state.in` in the description of the application"
        why.append(f"{many(unreadable, 'output')} had no state that could be read: {where}")
    if shortened := figures.get("states_without_input", 0):
        reason = "acknowledged records are missing from the partitions of its input"
        why.append(f"the state in {many(shortened, 'output')} was not judged, because {reason}")
    if _all_states_wrong(figures):
        why.append("no output shows the state that is expected: see `state` in the description of the application")
    return why


def _all_states_wrong(figures: Mapping[str, int]) -> bool:
    """Returns whether no output of an application shows the expected state.

    Then the description of the application is probably wrong, and not the application.
    """
    return figures.get("states", 0) > 0 == figures.get("states_as_expected", 0)


def _all_strangers(setting: Setting, figures: Mapping[str, int]) -> bool:
    """Returns whether every output of an application names a record that was never in the input.

    If so, the description of the application is probably wrong, and not the application.
    """
    return setting.outputs is not None and 0 < figures.get("outputs", 0) == figures.get("strangers", 0)


def _without_names(setting: Setting, figures: Mapping[str, int]) -> frozenset[str]:
    """Returns the names of the anomalies that must not be reported, because outputs name no (known) input record.

    Outputs without the name of their input record could have caused these anomalies.
    """
    if _all_strangers(setting, figures):
        return frozenset({"missing-output", "phantom-output"})
    unnamed = setting.outputs is not None and figures.get("unnamed", 0)
    return frozenset({"missing-output"}) if unnamed else frozenset()


# --- offsets ------------------------------------------------------------------------------------------


def offsets(
    spark: Any, runs: Sequence[Path], faults: Mapping[str, Faults] | None = None, store: bool = False
) -> dict[Path, Result]:
    """Runs the offset state machine over the events of the instances. Returns run -> result.

    For the arguments, see `batch`.
    """
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
            why.append("there is no events/instance-*.jsonl: the events of the instances are unknown")
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
    """Returns run -> kind of event -> number of events."""
    found: dict[str, dict[str, int]] = {}
    for row in rows.groupBy("run", "event").count().orderBy("event").collect():
        found.setdefault(row["run"], {})[row["event"]] = row["count"]
    return found


def unjudged(counts: Mapping[str, int]) -> list[str]:
    """Returns the reason for `unknown` if the events do not suffice for a valid verdict, else an empty list."""
    if not counts:
        return ["there are no events, so offsets cannot be judged"]
    if "assigned" not in counts:
        return ["no assignment was logged, so the owners of partitions are unknown"]
    if not {"position", "polled"} & counts.keys():
        return ["neither positions nor polls were logged, so gaps cannot be found"]
    if not {"committed", "polled"} & counts.keys():
        return ["neither commits nor polls were logged, so positions cannot be compared with anything"]
    return []


# --- logs of other programs ---------------------------------------------------------------------------


def of_logs(spark: Any, files: Sequence[Path], pattern: LogPattern, markers: int = 0) -> Result:
    """Runs the offset state machine over the logs of other programs.

    markers  a gap of at most this many offsets counts as transaction markers, and is not reported
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
            f"{figures['lines'][foreign_logs.REJECTED]:,} lines have an event without a required field, or with "
            "an invalid time or number"
        )
    result = witnesses.result(Setting(mode="exactly-once"), mine, why, {"offsets": figures})
    unknown = Settings()  # the settings of their brokers and the faults are unknown
    anomalies = tuple(replace(one, promised=witnesses.still_promised(one, unknown)) for one in result.anomalies)
    return replace(result, anomalies=anomalies, promised=witnesses.promise(anomalies))
