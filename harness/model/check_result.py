"""The result of checking a history: the verdict, the anomalies found, and `results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Verdict = Literal["valid", "unknown", "invalid"]

VALID: Final = "valid"
UNKNOWN: Final = "unknown"
INVALID: Final = "invalid"
SEVERITY: Final[dict[str, int]] = {VALID: 0, UNKNOWN: 1, INVALID: 2}
AS_JSON: Final[dict[str, Any]] = {VALID: True, UNKNOWN: "unknown", INVALID: False}

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class AnomalyFound:
    """One type of anomaly that was found in a history.

    count      number of witnesses, which are single occurrences; all of them are in results/witnesses/<name>.parquet
    bad        whether the anomaly makes the verdict invalid, according to the checker's options
    promised   whether Kafka promises that the anomaly cannot occur with the run's settings; None if these are not known
    witnesses  the few most severe witnesses, as plain data with op indices
    """

    name: str
    summary: str
    count: int
    bad: bool
    promised: bool | None
    witnesses: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one history.

    valid       valid | unknown | invalid
    promised    for an invalid run: whether Kafka promises that at least one of the bad anomalies cannot occur with the
                run's settings
    reasons     why the verdict is unknown: one sentence for each reason
    anomalies   the anomalies found, the most severe first
    statistics  additional counts and rates
    """

    valid: Verdict
    promised: bool | None = None
    reasons: tuple[str, ...] = ()
    anomalies: tuple[AnomalyFound, ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)
    checker_version: str = ""


def worst(*verdicts: Verdict) -> Verdict:
    """Returns the most severe of the given verdicts: "invalid" is more severe than "unknown", and "unknown" than
    "valid".

    Returns "unknown" if there are no verdicts.
    """
    return max(verdicts, key=lambda verdict: SEVERITY[verdict], default="unknown")


def to_data(result: Result) -> dict[str, Any]:
    """Returns the result as plain data for `results.json`, in which `valid` is true, "unknown" or false."""
    return {
        "schema": SCHEMA,
        "valid": AS_JSON[result.valid],
        "promised": result.promised,
        "reasons": list(result.reasons),
        "anomalies": [
            {
                "name": found.name,
                "summary": found.summary,
                "count": found.count,
                "bad": found.bad,
                "promised": found.promised,
                "witnesses": [dict(witness) for witness in found.witnesses],
            }
            for found in result.anomalies
        ],
        "statistics": dict(result.statistics),
        "checker_version": result.checker_version,
    }


def from_data(data: Mapping[str, Any]) -> Result:
    """Converts the decoded content of a `results.json` back into a result."""
    verdicts: dict[Any, Verdict] = {True: "valid", "unknown": "unknown", False: "invalid"}
    return Result(
        valid=verdicts[data["valid"]],
        promised=data.get("promised"),
        reasons=tuple(data.get("reasons", ())),
        anomalies=tuple(
            AnomalyFound(
                found["name"],
                found["summary"],
                found["count"],
                found["bad"],
                found.get("promised"),
                tuple(found.get("witnesses", ())),
            )
            for found in data.get("anomalies", ())
        ),
        statistics=data.get("statistics", {}),
        checker_version=data.get("checker_version", ""),
    )
