"""The pipeline check: judges the outputs of a pipeline in one run (checker.pipeline.outputs)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.pipeline_outputs import OF_WRITERS
from checker.pipeline import judge, witnesses
from checker.pipeline.context import Faults
from checker.tables.buckets_of_a_history import Source
from checker.verdict import unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import AnomalyFound, Result, Verdict

EVERY: Final = 1 << 31
SKIPPED: Final = frozenset({"missing-output", "offset-gap"})
Judge = Callable[..., dict[Path, Result]]


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the outputs of a pipeline. The verdict is unknown without Spark or without a run folder."""
    return of_run(judge.batch, source, options)


def of_run(judge_runs: Judge, source: Source, options: CheckOptions) -> Result:
    """Judges a run folder with the function `judge_runs`, and adds the reasons for `unknown` that the run recorded."""
    folder = source.run or source.noted
    if folder is None or source.spark is None:
        lacks = "a run folder" if folder is None else "Spark"
        reason = f"the checks of a pipeline need {lacks}, which is not available here"
        return Result("unknown", None, (reason,), (), {}, VERSION)
    faults = {str(folder): faults_of(source)}
    found = judge_runs(source.spark, [folder], faults, store=source.run is not None)[folder]
    why = (
        *source.meta["doubts"],
        *unknown_reasons.truncated_history(source.meta),
        *found.reasons,
        *_run_reasons(source, folder, options),
    )
    valid: Verdict = "unknown" if why and found.valid == "valid" else found.valid
    figures = {"ops": source.meta["ops"], **found.statistics}
    at_first = _at_first(folder)
    promises = {one.name: _promised(one, options.settings, at_first) for one in found.anomalies}
    if _about(folder).get("application") is not None:
        promises |= {name: _of_application(name, promise) for name, promise in promises.items()}
    anomalies = tuple(replace(one, promised=promises[one.name]) for one in found.anomalies)
    judged = replace(found, valid=valid, reasons=why, anomalies=anomalies, statistics=figures)
    return replace(judged, promised=witnesses.promise(anomalies))


def _promised(one: AnomalyFound, settings: Settings, at_first: int) -> bool | None:
    """Returns whether the mode and the settings rule the anomaly out; None if that is unknown.

    With auto.offset.reset=latest a consumer may skip records in partitions that were added during the run
    (KAFKA-12478). It cannot skip records in the first `at_first` partitions, which existed from the beginning, because
    the group committed offsets of these partitions before the load began.
    """
    promise = witnesses.still_promised(one, settings)
    if settings.auto_offset_reset != "latest" or one.name not in SKIPPED:
        return promise
    return promise if any(int(each.get("partition", 0)) < at_first for each in one.witnesses) else False


def _of_application(name: str, promise: bool | None) -> bool | None:
    """Returns whether the settings rule an anomaly out for an application of the user; None if that is unknown.

    The settings of the application's producers are unknown.

    promise  whether the settings rule the anomaly out for the harness's own pipeline
    """
    return promise if name in OF_WRITERS or promise is False else None


def _at_first(folder: Path) -> int:
    """Returns the initial number of partitions of each topic; EVERY if the run did not record it."""
    try:
        return int(_about(folder)["partitions"])
    except (ValueError, KeyError, TypeError):
        return EVERY


def _about(folder: Path) -> Mapping[str, Any]:
    """Returns what the run recorded in pipeline.json; nothing if it cannot be read."""
    try:
        found = orjson.loads((folder / "pipeline" / "pipeline.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def faults_of(source: Source) -> Faults:
    """Returns (time, description) of each beginning and end of a fault, in order of time."""
    rows: Sequence[Mapping[str, Any]] = source.small("nemesis").to_pylist()
    return sorted((row["time_ns"], _fault_text(row)) for row in rows if row["fault"] and row["phase"] == "complete")


def _fault_text(row: Mapping[str, Any]) -> str:
    try:
        value = orjson.loads(row["value"])
    except (orjson.JSONDecodeError, TypeError):
        value = None
    details = value if isinstance(value, dict) else {}
    hit = ", ".join(str(name) for names in ("nodes", "clients") for name in _names(details.get(names)))
    done = f"{row['fault']}: {row['f']}" if row["f"] != row["fault"].partition(":")[0] else row["fault"]
    return f"{done} {hit}".strip()


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _run_reasons(source: Source, folder: Path, options: CheckOptions) -> list[str]:
    """Returns the reasons for `unknown`: faults without effect, unfinished final polls, and trouble of the harness."""
    if source.meta["ops"] == 0:
        return ["the history contains no operations"]
    idle = unknown_reasons.faults_without_effect(source.small("nemesis"), options.expected_faults)
    return [
        *(f"the fault {fault} never took effect" for fault in idle),
        *unknown_reasons.unfinished_final_polls(folder, options),
        *unknown_reasons.trouble(folder),
    ]
