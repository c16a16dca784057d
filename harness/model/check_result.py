"""What a check answers."""

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
    """One type of anomaly in a history.

    count      how many witnesses there are; all of them are in results/witnesses/<name>.parquet
    bad        whether it counts against the verdict under the options
    promised   whether the settings forbade it; None when the settings are not known
    witnesses  the most severe few, plain data, with op indices
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
    promised    of an invalid run: whether the settings forbade any of what was found
    reasons     why the verdict is unknown, each a sentence
    anomalies   what was found, the worst first
    statistics  counts and rates beside the verdict
    """

    valid: Verdict
    promised: bool | None = None
    reasons: tuple[str, ...] = ()
    anomalies: tuple[AnomalyFound, ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)
    checker_version: str = ""


def worst(*verdicts: Verdict) -> Verdict:
    """invalid wins over unknown, unknown over valid; nothing checked at all is unknown."""
    return max(verdicts, key=lambda verdict: SEVERITY[verdict], default="unknown")


def to_data(result: Result) -> dict[str, Any]:
    """`results.json`: plain data, with `valid` as true, "unknown" or false."""
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
    """The result of a `results.json`."""
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
