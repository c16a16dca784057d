"""Compares two runs: settings that differ, verdicts, anomalies, and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import AS_JSON, Result
from harness.model.errors_and_exit_codes import BadInput
from harness.model.values_as_text import plain
from harness.plan.test_plan import TestPlan
from harness.stored import find_runs

# Fields that differ between any two runs.
OWN: Final = frozenset({"run", "started", "schema"})
DETAILS: Final = ("versions", "broker_config", "producer_config", "consumer_config")
QUANTILES: Final = ("p50_ms", "p99_ms", "max_ms")
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """A setting, anomaly or figure with its values in the two runs. A value is None if the run has none."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of two runs, `a` and `b`.

    settings   settings that differ
    anomalies  counts of every anomaly that was found in at least one of the runs
    figures    all figures of both runs
    """

    a: Path
    b: Path
    verdict: Row
    settings: tuple[Row, ...]
    anomalies: tuple[Row, ...]
    figures: tuple[Row, ...]


NOTHING: Final = Row("none", (), ())


def compare(a: Path, b: Path) -> Compared:
    """Compares two run folders. A run that was not judged has no verdict and no figures.

    Raises BadInput if neither run was judged, or if the results of one of them cannot be used.
    """
    one, two = (find_runs.result_of(folder) for folder in (a, b))
    if one is None and two is None:
        raise BadInput(f"{a} and {b}: neither run has been judged yet; run: harness check {a} {b}")
    figures = tuple(_rows(dict(_figures(a, one)), dict(_figures(b, two))))
    return Compared(
        a,
        b,
        Row("verdict", _verdict(one), _verdict(two)),
        tuple(row for row in _rows(_settings(a), _settings(b)) if row.a != row.b),
        tuple(_rows(_anomalies(one), _anomalies(two))),
        figures,
    )


def _rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Row]:
    for name in dict.fromkeys((*a, *b)):
        yield Row(name, a.get(name), b.get(name))


def _settings(folder: Path) -> dict[str, Any]:
    """Returns a run's plan as a flat mapping. A field that is missing in the plan has its default."""
    plan = find_runs.plan_of(folder)
    if not plan:
        return {}
    defaults = {
        field.alias or name: field.get_default(call_default_factory=False)
        for name, field in TestPlan.model_fields.items()
    }
    flat: dict[str, Any] = {}
    for name, value in {**defaults, **{str(name): setting for name, setting in plan.items()}}.items():
        if name in DETAILS and isinstance(value, Mapping):
            flat |= {f"{name} {part}": setting for part, setting in value.items()}
        elif name not in OWN:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def _verdict(result: Result | None) -> str | None:
    return None if result is None else result.valid


def _anomalies(result: Result | None) -> dict[str, int]:
    return {} if result is None else {anomaly.name: anomaly.count for anomaly in result.anomalies}


def _figures(folder: Path, result: Result | None) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of the counts, rates and latencies of a judged run."""
    if result is None:
        return
    statistics = result.statistics
    for name in ("ops", "sent", "acknowledged", "seen", "polled_records"):
        yield name, statistics.get(name)
    seconds, acknowledged = find_runs.plan_of(folder).get("time_limit_s"), statistics.get("acknowledged")
    if isinstance(seconds, int | float) and seconds > 0 and isinstance(acknowledged, int):
        yield "acknowledged records/s", acknowledged / seconds
    for name, share in _mapping(statistics.get("rates")).items():
        yield f"share {name}", share
    for f, kinds in _mapping(statistics.get("by_f")).items():
        for kind, count in _mapping(kinds).items():
            yield f"{f} {kind}", count
    for f, found in _mapping(statistics.get("latencies")).items():
        for name in QUANTILES:
            if name in _mapping(found):
                yield f"{f} {name.replace('_', ' ')}", found[name]
    lag = _mapping(statistics.get("worst_realtime_lag")).get("lag_ns")
    if isinstance(lag, int):
        yield "worst lag ms", lag / 1e6


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text(found: Compared) -> str:
    """Formats the comparison in columns for a terminal."""
    parts = [
        ("", [Row("", found.a.name, found.b.name), found.verdict]),
        ("settings that differ", list(found.settings) or [NOTHING]),
        ("anomalies", list(found.anomalies) or [NOTHING]),
        ("figures", list(found.figures)),
    ]
    rows = [row for _, listed in parts for row in listed]
    wide = max(len(row.name) for row in rows)
    first = max(len(cell(row.a)) for row in rows)
    lines: list[str] = []
    for title, listed in parts:
        lines += ["", title] if title else []
        lines += [f"  {row.name:{wide}}  {cell(row.a):{first}}  {cell(row.b)}".rstrip() for row in listed]
    return "\n".join(lines).lstrip("\n")


def cell(value: Any) -> str:
    """Formats a value for a column."""
    if value is None:
        return NONE
    if value == ():
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}" if value < 1 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return plain(", ".join(map(str, value))) or "none"
    return plain(value) if value != "" else '""'


def data(found: Compared) -> dict[str, Any]:
    """Returns the comparison as plain data, with {"a": ..., "b": ...} for each setting, anomaly and figure."""

    def both(rows: tuple[Row, ...]) -> dict[str, Any]:
        return {row.name: {"a": row.a, "b": row.b} for row in rows}

    valid = (None if verdict is None else AS_JSON[verdict] for verdict in (found.verdict.a, found.verdict.b))
    return {
        "a": str(found.a),
        "b": str(found.b),
        "valid": dict(zip("ab", valid, strict=True)),
        "settings": both(found.settings),
        "anomalies": both(found.anomalies),
        "figures": both(found.figures),
    }
