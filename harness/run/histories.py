"""Functions behind the commands for stored histories: finding, checking, importing and exporting them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checker.tables.remote_run import RemoteRun
from harness import history_writer
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.errors_and_exit_codes import BadInput
from harness.run import check_and_draw
from harness.stored import find_runs, staged_runs

Say = Callable[[str], None]
SUFFIXES: Final = (".gz", ".edn")


def find(runs: Path, name: str, wanted: staged_runs.Wanted = staged_runs.judged) -> Path:
    """Returns the path of a history, given its path or the name of a run. Raises BadInput.

    wanted  selects the files to copy of a run at a URI

    If `name` is not the path of a history file or of a Parquet folder, it is resolved by `find_runs.resolve`.
    """
    from checker.tables import parquet_folder, storage

    path = Path(name)
    if storage.uri_of(name) is None and name.strip() and (path.is_file() or parquet_folder.is_tables(path)):
        return path
    return history_writer.require_run(find_runs.resolve(runs, name, wanted))


def title(path: Path) -> str:
    """Returns the name under which a history is displayed: its file name. The suffixes of an EDN file are removed."""
    name = path.name or path.resolve().name
    if ".edn" in path.suffixes[-2:] and path.is_file():
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
    return name


def line(path: Path, result: Result) -> dict[str, Any]:
    """Returns the result of checking a history, as a dict for JSON: Jepsen's fields first, then the harness's own."""
    from checker.verdict import jepsen_shape

    ours = {name: value for name, value in to_data(result).items() if name != "valid"}
    return {"history": title(path), **jepsen_shape.answer(result), **ours}


def judge(
    items: Sequence[tuple[Path, CheckOptions]],
    session: Any,
    say: Say,
    stored: Mapping[Path, RemoteRun] | None = None,
) -> Iterator[tuple[Path, Result, str]]:
    """Checks histories in the given order. Yields (path, result, error) for each; error is "" if it could be read.

    stored  the runs in object stores that tasks on a cluster read and write, by the paths of their copies

    Small files share one Spark job. results.json is written only into run folders, not beside other histories.
    """
    from checker import check

    for (path, _), (_, answer) in zip(items, check.check_each(session, items, say, stored), strict=True):
        if isinstance(answer, Mapping):
            yield path, Result("unknown", reasons=(answer["error"],)), answer["error"]
            continue
        if history_writer.is_run(path):
            history_writer.write_json(path / "results.json", to_data(answer))
        yield path, answer, ""


def import_(path: Path, runs: Path, say: Say) -> Path:
    """Makes a run folder from a history file. If that fails, removes the folder again and raises HarnessError."""
    from checker import convert

    if not path.is_file():
        raise BadInput(f"{path}: no such file; choose a history.edn or history.jsonl, plain or gzipped")
    folder = history_writer.new_run(runs, f"import-{title(path).partition('.')[0] or 'history'}")
    try:
        lines, notes = convert.to_log(path, folder / "history", folder.name, say)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if notes.truncated:
        say(f"the history is truncated: {notes.truncated}")
    history_writer.point_latest(folder)
    say(f"{folder}: {lines:,} lines")
    return folder


def export(path: Path, form: str, out: Path | None, say: Say) -> Path:
    """Writes a history in another format, to the path `out`, or into the working directory if `out` is not given.

    Returns the path of what was written. Raises HarnessError.
    """
    from checker import convert
    from checker.tables import parquet_folder

    if form not in convert.FORMATS:
        raise BadInput(f"--format {form}: no such format; use one of {', '.join(convert.FORMATS)}")
    if parquet_folder.is_tables(path):
        raise BadInput(f"{path}: tables contain only part of a history; choose the run that they were made from")
    target = Path(f"{title(path)}.{form}") if out is None else out
    if target.exists() or target.is_symlink():
        raise BadInput(f"{target}: exists already; remove it, or choose another path with --out")
    if not target.parent.is_dir():
        raise BadInput(f"{target.parent}: no such folder; create it, or choose another path with --out")
    lines = convert.FORMATS[form](path, target, say)
    say(f"{target}: {lines:,} lines")
    return target


def options(path: Path, changes: Mapping[str, Any]) -> CheckOptions:
    """Returns the check options of a history: those of its plan, if it has one, overridden by the user's changes."""
    return check_and_draw.options_of(path if path.is_dir() else path.parent / "-", **changes)
