"""Detects edited or damaged results, plans and tables, and reports the damage in one message.

`well_formed` checks the parts of results.json that are the same for all anomalies. The format of a witness depends on
its anomaly, so an error in it causes an exception only when the witness is described. `reporting_damage` turns such
exceptions into the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import NOT_OURS, BadInput

# The exceptions that code may raise when it reads edited files, or files of another version.
DAMAGED: Final = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
    pa.ArrowException,
)
COUNTS: Final = ("ops", "sent", "acknowledged", "seen", "lost", "duplicated", "phantom")
OF_PIPELINES: Final = ("inputs", "done", "outputs", "expected", "extra", "aborted")


@contextmanager
def reporting_damage(*runs: Path) -> Iterator[None]:
    """Context manager for code that describes the results of runs. Raises BadInput if the results are damaged.

    An OSError because of a full disk or a missing permission does not mean damage, so it is not changed.
    """
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno in NOT_OURS:
            raise
        named = " or ".join(str(run / "results.json") for run in runs)
        first = (str(error).splitlines() or [""])[0]
        again = " ".join(map(str, runs))
        raise BadInput(
            f"{named}: edited or damaged, so the results cannot be shown ({type(error).__name__}: {first}); "
            f"check the run again: harness check {again}"
        ) from None


def well_formed(result: Result) -> Result:
    """Returns the result unchanged. Raises TypeError if a part has the wrong type; the fields of witnesses are not
    checked."""
    for anomaly in result.anomalies:
        if not (isinstance(anomaly.name, str) and isinstance(anomaly.summary, str) and _count(anomaly.count)):
            raise TypeError(f"anomaly {anomaly.name!r}: `name`, `summary` or `count` has the wrong type")
        if not all(isinstance(witness, dict) for witness in anomaly.witnesses):
            raise TypeError(f"anomaly {anomaly.name}: a witness is not an object")
        if not (_promise(anomaly.promised) and isinstance(anomaly.bad, bool)):
            raise TypeError(f"anomaly {anomaly.name}: `promised` or `bad` has the wrong type")
    if not _promise(result.promised):
        raise TypeError("`promised` has the wrong type")
    if not isinstance(result.statistics, dict) or not all(isinstance(reason, str) for reason in result.reasons):
        raise TypeError("`statistics` or `reasons` has the wrong type")
    if wrong := _wrong(result.statistics):
        raise TypeError(f"statistics: `{wrong}` has the wrong type")
    return result


def _count(value: Any) -> bool:
    return type(value) is int


def _promise(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_count, value.values()))


def _wrong(figures: Mapping[str, Any]) -> str:
    """Returns the name of a statistic with a wrong type, or "" if there is none. Statistics may be missing."""
    for name in COUNTS:
        if name in figures and not _count(figures[name]):
            return name
    by_f = figures.get("by_f", {})
    if not isinstance(by_f, Mapping) or not all(map(_counts, by_f.values())):
        return "by_f"
    through = figures.get("pipeline", {})
    if not isinstance(through, Mapping):
        return "pipeline"
    if "inputs" in through and not all(_count(through.get(name)) for name in OF_PIPELINES):
        return "pipeline"
    offsets = figures.get("offsets", {})
    if not isinstance(offsets, Mapping) or not _counts(offsets.get("events", {})):
        return "offsets"
    return ""
