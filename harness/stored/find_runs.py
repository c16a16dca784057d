"""Lists the runs in a folder, and finds the run that a user names.

This reads plan.yaml and results.json. A run that is in progress, was interrupted, or was never judged is also listed,
with what is known about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from checker.tables.storage import uri_of
from harness.model.check_result import Result, from_data
from harness.model.errors_and_exit_codes import BadInput
from harness.stored import damaged, staged_runs

LATEST: Final = "latest"
OWNER: Final = "owner"  # a file in the run folder while the run is in progress; see `harness.history_writer`
PAGE: Final = "report.html"  # the run page, in the run folder
CANDIDATES: Final = 8
PLAN_BYTES_MAX: Final = 1 << 20
BRACKETS_MAX: Final = 500
LINE_BYTES_MAX: Final = 2_000
INT_MAX: Final = 1 << 63
VALUES_MAX: Final = 100_000
SCHEMA: Final = 1
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the list of runs.

    seconds  duration of the load according to the plan

    A value that is not known is an empty text or None.
    """

    id: str
    path: Path
    started: str
    verdict: str
    workload: str
    nemesis: tuple[str, ...]
    acks: str
    seconds: float | None
    anomalies: tuple[tuple[str, int], ...]


def is_run(folder: Path) -> bool:
    """Returns whether a folder is a run folder: it contains a plan or a history."""
    return folder.is_dir() and ((folder / "history").is_dir() or (folder / "plan.yaml").is_file())


def plan_of(folder: Path) -> Mapping[str, Any]:
    """Returns the content of plan.yaml; an empty mapping if it is missing or damaged."""
    try:
        with (folder / "plan.yaml").open("rb") as file:
            raw = file.read(PLAN_BYTES_MAX + 1)
        data = yaml.load(raw, Loader=_loader(raw)) if len(raw) <= PLAN_BYTES_MAX else None
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return data if isinstance(data, dict) and _small(data) else {}


def _loader(raw: bytes) -> type[yaml.SafeLoader | yaml.CSafeLoader]:
    """Returns the class to use for loading a YAML text.

    The loader in C is eight times faster, but crashes if the text is deeply nested. It is returned only if the text
    cannot be deeply nested.
    """
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    shallow = raw.count(b"[") + raw.count(b"{") < BRACKETS_MAX
    if shallow and max(map(len, raw.splitlines()), default=0) < LINE_BYTES_MAX:
        return quick
    return yaml.SafeLoader


def _small(data: Any) -> bool:
    """Returns whether a plan has at most VALUES_MAX values and no huge numbers.

    A value that is repeated through YAML aliases is counted once per occurrence.
    """
    pending = [data]
    for _ in range(VALUES_MAX):
        if not pending:
            return True
        value = pending.pop()
        if isinstance(value, int) and abs(value) >= INT_MAX:  # not a valid setting, and may be too large for a float
            return False
        pending.extend(
            (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
    return False


def result_of(folder: Path) -> Result | None:
    """Returns the result of a run, or None if there is no results.json. Raises BadInput if the file cannot be used."""
    path = folder / "results.json"
    if not path.is_file():
        return None
    again = f"check the run again: harness check {folder}"
    try:
        data = orjson.loads(path.read_bytes())
        found_schema = data.get("schema", SCHEMA)
        if not isinstance(found_schema, int) or found_schema > SCHEMA:
            raise BadInput(
                f"{path}: schema {found_schema}; this version reads schemas up to {SCHEMA}; "
                f"use a newer version of the harness, or {again}"
            )
        return damaged.well_formed(from_data(data))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {again}") from None
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{path}: not JSON ({error}); {again}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not a valid result (missing or wrong: {error}); {again}") from None


def rows(runs: Path) -> list[RunRow]:
    """Returns the runs in a folder or at a URI, the newest first; none if the folder does not exist.

    Raises BadInput if it is a file.
    """
    uri = uri_of(runs)
    runs = runs if uri is None else staged_runs.stage_all(uri, staged_runs.listed)
    found = [row(folder, plan_of(folder)) for folder in folders(runs)]
    return sorted(found, key=lambda row: (row.started or row.id, row.id), reverse=True)


def folders(runs: Path) -> list[Path]:
    """Returns the run folders in a folder, in any order; none if the folder does not exist. Raises BadInput if it is a
    file."""
    return [folder for folder in _entries(runs) if not folder.is_symlink() and is_run(folder)]


def _entries(runs: Path) -> list[Path]:
    """Returns what a folder of runs contains; nothing if it does not exist. Raises BadInput if it is a file."""
    try:
        return list(runs.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(f"{runs}: not a folder of runs ({error.strerror}); choose one with --runs") from None


def faults_of(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the faults in a plan: in its `nemesis` list and in its schedule."""
    listed, schedule = plan.get("nemesis"), plan.get("schedule")
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    lines = schedule if isinstance(schedule, list) else []
    names += [str(line["fault"]) for line in lines if isinstance(line, dict) and "fault" in line]
    return tuple(dict.fromkeys(names))


def row(folder: Path, plan: Mapping[str, Any]) -> RunRow:
    """Returns the row of a run in the list of runs."""
    try:
        result = result_of(folder)
        verdict: str = "not judged" if result is None else result.valid
    except BadInput:
        result, verdict = None, "unreadable"
    seconds = plan.get("time_limit_s")
    return RunRow(
        id=folder.name,
        path=folder,
        started=str(plan.get("started") or ""),
        verdict=verdict,
        workload=str(plan.get("workload") or ""),
        nemesis=faults_of(plan),
        acks=str(plan.get("acks") or ""),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        anomalies=tuple((found.name, found.count) for found in result.anomalies if found.bad) if result else (),
    )


HEAD: Final = ("run", "verdict", "workload", "nemesis", "acks", "seconds", "anomalies")


def table(listed: Sequence[RunRow], limit: int = 30) -> str:
    """Formats the first `limit` runs as a table, and says how many more there are."""
    if not listed:
        return "no runs yet; start one: harness run --nemesis leader-kill"
    lines = [HEAD, *(_cells(row) for row in listed[: max(limit, 0)])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD) - 1)]
    text = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
    if len(listed) > limit:
        text.append(f"... and {len(listed) - limit} older runs; use --limit to show more")
    return "\n".join(text)


def _cells(row: RunRow) -> tuple[str, ...]:
    return (
        row.id,
        row.verdict,
        row.workload or NONE,
        ",".join(row.nemesis) or NONE,
        row.acks or NONE,
        NONE if row.seconds is None else f"{row.seconds:g}",
        ", ".join(f"{name} {count:,}" for name, count in row.anomalies) or NONE,
    )


def resolve(runs: Path, name: str, wanted: staged_runs.Wanted = staged_runs.everything) -> Path:
    """Returns the run folder that a user names: by a path, an id, `latest`, or the beginning of an id.

    For a run at a URI, returns a temporary copy of it, with the files that `wanted` selects.

    Raises BadInput if there is no such run, or if the path is not that of a run folder. If several ids begin with the
    text, the message lists them.
    """
    if not name.strip():
        raise BadInput("the name of the run is empty; choose a run folder, an id, or latest")
    plain = "/" not in name and name not in (".", "..")
    if (uri := uri_of(name)) is not None:
        return staged_runs.stage(uri, wanted)
    if plain and (above := uri_of(runs)) is not None:
        return staged_runs.stage_named(above, name, wanted)
    if plain and name == LATEST:
        return _latest(runs)
    if plain and is_run(runs / name):
        return runs / name
    path = Path(name)
    if path.is_dir():
        return _run_at(path)
    if path.exists():
        raise BadInput(f"{path}: a file, not a run folder; choose the folder that contains plan.yaml and history/")
    if not plain:
        raise BadInput(f"{path}: no such file or folder; `harness list` shows the runs in {runs}")
    return _by_prefix(runs, name)


def judged(runs: Path, name: str) -> Path:
    """Returns the run folder that a user names, for commands that need its results (which may still be missing).

    Raises BadInput if there is no such run folder, or if the user names a history file.
    """
    path = Path(name)
    if path.is_file():
        raise BadInput(
            f"{path}: a history file has no results; create a run folder from it, and check that: harness import {path}"
        )
    return resolve(runs, name)


def require_result(folder: Path) -> Result:
    """Returns the result of a run folder. Raises BadInput if there is none yet."""
    result = result_of(folder)
    if result is not None:
        return result
    if (folder / OWNER).is_file():
        raise BadInput(
            f"{folder}: no result yet: the run is in progress, or was interrupted; to watch it: harness serve; "
            f"to check the history so far: harness check {folder}"
        )
    raise BadInput(f"{folder}: not judged yet (no results.json); run: harness check {folder}")


def history(runs: Path, name: str) -> Path:
    """Returns what a user names: a run folder, or a history file in JSON lines. Raises BadInput if there is neither."""
    path = Path(name)
    if not path.is_file():
        return resolve(runs, name)
    if ".jsonl" not in path.suffixes[-2:]:
        raise BadInput(f"{path}: not a history in JSON lines; create a run folder from it: harness import {path}")
    return path


def _run_at(path: Path) -> Path:
    if not is_run(path):
        hint = f" ({path / LATEST} is one)" if is_run(path / LATEST) else ""
        raise BadInput(
            f"{path}: not a run folder: it has neither plan.yaml nor history/{hint}; "
            "choose a folder that `harness list` shows"
        )
    return path.resolve() if path.is_symlink() else path


def _latest(runs: Path) -> Path:
    pointer = runs / LATEST
    if is_run(pointer):
        return runs / pointer.resolve().name if pointer.is_symlink() else pointer
    newest = rows(runs)  # the link is broken if its run was removed, or was not copied with it
    if not newest:
        raise BadInput(f"{runs}: no runs yet; start one: harness run --nemesis leader-kill")
    return newest[0].path


def _by_prefix(runs: Path, name: str) -> Path:
    ids = sorted(folder.name for folder in _entries(runs) if is_run(folder) and not folder.is_symlink())
    starts = [run_id for run_id in ids if run_id.startswith(name)]
    if len(starts) == 1:
        return runs / starts[0]
    if starts:
        listed = ", ".join(starts[:CANDIDATES]) + (", ..." if len(starts) > CANDIDATES else "")
        raise BadInput(f"{name}: {len(starts)} runs in {runs} begin with this: {listed}; use a longer prefix")
    if name.endswith((".edn", ".jsonl", ".json", ".gz")):
        raise BadInput(f"{name}: no such file; choose an existing history, or a run (`harness list`)")
    if not ids:
        raise BadInput(f"{name}: there are no runs in {runs}; start one, or choose another folder with --runs")
    raise BadInput(
        f"{name}: no such file or folder, and no run in {runs} begins with this; `harness list` shows the {len(ids)} "
        "existing runs"
    )
