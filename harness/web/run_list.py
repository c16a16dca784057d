"""The rows of the server's list of runs: what `harness list` shows, and also settings, versions and length."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from harness.model.errors_and_exit_codes import BadInput
from harness.model.values_as_text import plain
from harness.report.page import settings_and_command as settings
from harness.report.text import client_names
from harness.stored import find_runs
from harness.web import paths
from harness.web.cache import Cache, stamp

QUIET_S: Final = 60.0  # a run in progress writes to its history more often than this
TAIL_BYTES: Final = 1 << 20
# Options that have their own columns, or are too long for one.
ELSEWHERE: Final = frozenset(
    {"--workload", "--nemesis", "--schedule", "--seed", "--time-limit", "--kafka-version", "--cluster"}
)
GOING: Final = "running"
CUT: Final = "cut off"


@dataclass(frozen=True, slots=True)
class Row:
    """One run.

    verdict     valid, invalid, unknown, running, cut off, not judged or unreadable
    settings    options that differ from the defaults, such as "acks 1"
    versions    the versions of the system under test and of its clients, as text
    seconds     time of the last operation; if it is not known, the time limit of the load
    anomalies   (name, number of witnesses) of each anomaly that affects the verdict
    going       whether the run is in progress, or was cut off before it was judged
    """

    id: str
    path: Path
    started: str
    verdict: str
    workload: str
    faults: tuple[str, ...]
    settings: tuple[str, ...]
    versions: str
    seconds: float | None
    anomalies: tuple[tuple[str, int], ...]
    going: bool

    @property
    def found(self) -> int:
        """The total number of witnesses of anomalies that affect the verdict."""
        return sum(count for _, count in self.anomalies)


def _read(folder: Path) -> Row:
    if paths.leaving(folder):
        return Row(folder.name, folder, "", "unreadable", "", (), (), "", None, (), False)
    plan = find_runs.plan_of(folder)
    listed = find_runs.row(folder, plan)
    return Row(
        listed.id,
        folder,
        listed.started,
        listed.verdict,
        listed.workload,
        listed.nemesis,
        _settings(plan),
        _versions(plan),
        _length_s(folder) or listed.seconds,
        listed.anomalies,
        listed.verdict == "not judged" and (folder / find_runs.OWNER).exists(),
    )


def _settings(plan: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        changed = settings.changed(plan)
    except (BadInput, ValueError, TypeError, AttributeError):  # an edited plan
        return ()
    return tuple(f"{setting.option[2:]} {setting.value}" for setting in changed if setting.option not in ELSEWHERE)


def _versions(plan: Mapping[str, Any]) -> str:
    versions = plan.get("versions")
    named: Mapping[Any, Any] = versions if isinstance(versions, dict) else {}
    cluster = plan.get("cluster", "local")
    kafka = f"Kafka {plain(named['kafka'])}" if "kafka" in named else ""
    where = "" if cluster == "local" else plain(cluster)
    return ", ".join(part for part in (kafka, where, plain(client_names.client_text(plan))) if part) if plan else ""


def last_segment(folder: Path) -> Path | None:
    """Returns the path of the last file of a run's history; None if there is none."""
    try:
        return max((folder / "history").glob("*.jsonl"), default=None)
    except OSError:
        return None


def _length_s(folder: Path) -> float | None:
    """Returns the time in the last complete line of the history, in seconds; None if it is not known."""
    path = last_segment(folder)
    if path is None or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).splitlines()[-3:]
    except OSError:
        return None
    for line in reversed(lines):
        try:
            at = orjson.loads(line).get("time_ns")
        except (orjson.JSONDecodeError, AttributeError):
            continue
        if type(at) is int and at > 0:
            return at / 1e9
    return None


class Catalogue:
    """The list of the runs in a folder. Runs that have not changed are not read again."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._cache = Cache(_read)

    def rows(self) -> list[Row]:
        """Returns all rows, the newest first; none if the folder does not exist. Raises BadInput if it is a file."""
        folders = find_runs.folders(self.runs)
        self._cache.keep(folders)
        found = [self._row(folder) for folder in folders]
        return sorted(found, key=lambda row: (row.started or row.id, row.id), reverse=True)

    def row(self, folder: Path) -> Row:
        """Returns the row of a run folder."""
        return self._row(folder)

    def _row(self, folder: Path) -> Row:
        plan, results, owner = (folder / name for name in ("plan.yaml", "results.json", find_runs.OWNER))
        files = [plan, results, owner]
        if not results.exists():
            files.append(last_segment(folder) or folder / "history")
        now = stamp(*files)
        row = self._cache.get(folder, now)
        if not row.going:
            return row
        changed_ns = now[-1][0] if now[-1] is not None else 0
        return replace(row, verdict=GOING if time.time() - changed_ns / 1e9 < QUIET_S else CUT)
