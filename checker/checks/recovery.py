"""The recovery check: compares how servers started with what the scenario expects of each start.

A scenario is a list of acts, and the nemesis executes each act as a `step` op. The history contains all the data: each
completed act has the state of the disk before and after the start, the lines of the server's log, and the scenario's
expectation. It is a `recovery-divergence` if a server recovers other segments than it should, logs other lines than it
should, starts although it should refuse to, or accepts wrong sequence numbers. The verdict is unknown if an act was not
executed or had no effect, or if no consumer read the damaged data.

A server should recover the segment that contains the recovery point and all later ones (KAFKA-615; Kafka's
LogLoader). If recovery finds corruption, it truncates the log there and does not examine the segments that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.recovery_divergence import ANOMALY
from checker.checks import replicas
from checker.kernels.missing_lines import lines_missing
from checker.tables.buckets_of_a_history import Source
from checker.verdict import unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict
from harness.model.errors_and_exit_codes import BadHistory

SHOWN: Final = 8
SHOWN_ERROR: Final = 80  # characters
MET: Final = b"_BAD_MSG"  # librdkafka's name for a batch whose checksum is wrong
DUPLICATE: Final = 46  # DUPLICATE_SEQUENCE_NUMBER
Act = Mapping[str, Any]


def acts(source: Source) -> list[dict[str, Any]]:
    """Returns the request and the result of each completed act, in order.

    If an act failed with an error, its result only says that the act had no effect.
    """
    found, requested = [], dict[str, Any]()
    for row in source.small("nemesis").to_pylist():
        value = orjson.loads(row["value"]) if row["f"] == "step" else None
        if isinstance(value, dict) and row["phase"] == "complete":
            found.append({**requested, **value})
        elif isinstance(value, dict):
            requested = value
    return found


def due(log: Mapping[str, Any], recovers: str) -> list[int]:
    """Returns the base offsets of those segments of a log that the broker must recover when it starts.

    `recovers` is "none", "all", or any other text for the segment with the recovery point and all later ones.
    """
    bases = [base for base, _ in log["segments"]]
    if recovers == "none":
        return []
    if recovers == "all":
        return bases
    point = log["point"] or 0
    first = max((base for base in bases if base <= point), default=0)
    return [base for base in bases if base >= first]


def differences(act: Act) -> list[dict[str, Any]]:
    """Returns one row for each difference between how a node started in an act and what the scenario expects."""
    expect = act.get("expect") or {}
    found: list[dict[str, Any]] = []
    for node in act.get("log", ()) if act.get("do") == "start" else ():
        log_lines, before = act["log"][node], act["before"][node]["logs"]
        at = {"act": act.get("number"), "node": node}
        ended = node in act.get("ended", ())
        if not ended and node not in act.get("started_s", {}):
            continue  # neither started nor ended within the time limit
        if ended != bool(expect.get("ends")):
            what = ("refuses to start", "starts")
            found.append({**at, "expected": what[ended], "seen": what[not ended]})
        recovers = expect.get("recovers", "any")
        cut_off = "corrupt" in log_lines["said"]
        for name, log in before.items() if recovers != "any" else ():
            wanted, seen = due(log, recovers), log_lines["segments"].get(name, [])
            if seen != wanted and not (cut_off and seen and seen == wanted[: len(seen)]):
                found.append({**at, "log": name, "expected": f"recovers {wanted}", "seen": f"recovers {seen}"})
        for phrase in expect.get("says", ()):
            if not log_lines["said"].keys() & set(phrase.split("|")):
                found.append({**at, "expected": f"logs {phrase}", "seen": "no such line"})
        for phrase in expect.get("never", ()):
            if phrase in log_lines["said"]:
                found.append({**at, "expected": f"does not log {phrase}", "seen": log_lines["said"][phrase][0]})
    return found


def accepted(done: Sequence[Act]) -> list[dict[str, Any]]:
    """Returns each batch that a broker accepted although its sequence number was wrong.

    A broker must recognize a repeated batch, and reject a batch after a gap in sequence numbers (KIP-98).
    """
    found, offsets = [], list[int]()
    for act in done:
        offsets = act.get("offsets", offsets)
        sequences = act.get("sequences")
        if sequences is None or not offsets:
            continue
        error, base = sequences["retry"]
        at = {"act": act.get("number")}
        if not (error == DUPLICATE or (error == 0 and base == offsets[-1])):
            seen = f"error {error}, offset {base}"
            found.append({**at, "expected": f"a retried batch keeps offset {offsets[-1]}", "seen": seen})
        if not sequences["gap"] or sequences["end"] != offsets[-1] + 1:
            seen = f"error {sequences['gap']}, and the log ends at {sequences['end']}"
            found.append({**at, "expected": "a batch after a gap in sequence numbers is rejected", "seen": seen})
    return found


def starts(done: Sequence[Act]) -> Iterator[dict[str, Any]]:
    """Yields one row for each start of a server: how many segments it recovered, and how long it took."""
    for act in done:
        for node in act.get("log", ()) if act.get("do") == "start" else ():
            logs, log_lines = act["before"][node]["logs"], act["log"][node]
            sizes = {name: dict(map(tuple, log["segments"])) for name, log in logs.items()}
            recovered = [(name, base) for name, bases in log_lines["segments"].items() for base in bases]
            yield {
                "act": act.get("number"),
                "node": node,
                "segments": sum(map(len, sizes.values())),
                "recovered": len(recovered),
                "recovered_bytes": sum(sizes.get(name, {}).get(base, 0) for name, base in recovered),
                "load_ms": log_lines["all_ms"],
                "started_s": act.get("started_s", {}).get(node),
                "ended": node in act.get("ended", ()),
                "said": sorted(log_lines["said"]),
            }


def _met(run: Path | None) -> bool:
    """Returns whether a client of the run reported a batch with a wrong checksum."""
    for file in sorted((run / "history").glob("*.jsonl")) if run is not None else ():
        with file.open("rb") as lines:
            if any(MET in line for line in lines):
                return True
    return False


def _reasons(done: Sequence[Act], run: Path | None) -> list[str]:
    if not done:
        return ["no act of the scenario was executed"]
    found = []
    if len(done) < done[0]["of"]:
        found.append(f"the scenario was cut short: {len(done)} of its {done[0]['of']} acts were executed")
    for act in done:
        if not act.get("took_effect"):
            why = f" ({act['why']})" if act.get("why") else ""
            found.append(f"act {act.get('number')}, {act.get('do')} {act.get('who')}, had no effect{why}")
        if act.get("unhealthy_still"):
            found.append(f"after act {act.get('number')} the cluster was not healthy: {act['unhealthy_still']}")
    if (done[0].get("rule") or {}).get("reported") and not _met(run):
        found.append("no client reported a batch with a wrong checksum")
    return found


@contextmanager
def _as_recorded(run: Path | None) -> Iterator[None]:
    """Context manager that raises BadHistory if an act does not have the form in which the harness records it."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BadHistory(
            f"{run or 'the history'}: an act of the scenario (`step`, of the nemesis) is not as the harness records it "
            f"({type(error).__name__}: {str(error)[:SHOWN_ERROR]}); use the history as the run wrote it"
        ) from None


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the starts of the servers, and the replicas at the end of the run. The queue check judges the records."""
    done, run = acts(source), source.run or source.noted
    with _as_recorded(run):
        # If lines are missing, one of them may contain what was expected of an act.
        whole = not lines_missing(source.meta)
        found = [*(row for act in done for row in differences(act)), *accepted(done)] if whole else []
        undone, begun = _reasons(done, run), list(starts(done))
    disk = replicas.look(run, options.settings)
    own = AnomalyFound(
        ANOMALY.name,
        ANOMALY.summary,
        len(found),
        ANOMALY.bad(found, options),
        ANOMALY.promised(options.settings),
        tuple(found[:SHOWN]),
    )
    anomalies = (*([own] if found else []), *disk.anomalies)
    reasons = (*source.meta["doubts"], *unknown_reasons.truncated_history(source.meta), *undone, *disk.reasons)
    figures = {
        "undone": undone,
        "scenario": done[0].get("scenario") if done else None,
        "starts": begun,
        "refused": sum(row["ended"] for row in begun),
        "replicas": list(disk.figures),
    }
    verdict: Verdict = "invalid" if anomalies else "unknown" if reasons else "valid"
    answers = {anomaly.promised for anomaly in anomalies}
    promise = True if True in answers else None if None in answers or not answers else False
    return Result(verdict, promise, reasons, anomalies, {"recovery": figures}, VERSION)
