"""What the commands on stored histories do: finding them, judging many, and importing and exporting them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness import history_writer
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.errors_and_exit_codes import BadInput
from harness.run import test
from harness.stored import find_runs

Say = Callable[[str], None]
SUFFIXES: Final = (".gz", ".edn")
PARTS: Final = ("history", "pipeline", "events")  # of a run, in which checks find what happened


def find(runs: Path, name: str) -> Path:
    """A history file or Parquet folder by its path, or a run as `find_runs.resolve` has it. Raises BadInput."""
    from checker.tables import parquet_folder

    path = Path(name)
    if name.strip() and (path.is_file() or parquet_folder.is_tables(path)):
        return path
    return history_writer.require_run(find_runs.resolve(runs, name))


def bytes_of(path: Path) -> int:
    """About how much text a check of it reads; of tables, how large they are."""
    from checker.tables import make_tables, parquet_folder

    if path.is_file():
        return make_tables.size_of([path])
    if parquet_folder.is_tables(path):
        return make_tables.size_of(path.rglob("*.parquet"))
    return make_tables.size_of(one for part in PARTS for one in (path / part).glob("*.jsonl*"))


def title(path: Path) -> str:
    """What a history is called in answers: its file's name, of EDN without its endings."""
    name = path.name or path.resolve().name
    if ".edn" in path.suffixes[-2:] and path.is_file():
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
    return name


def line(path: Path, result: Result) -> dict[str, Any]:
    """The JSON line of a judged history: Jepsen's fields, then ours."""
    from checker.verdict import jepsen_shape

    ours = {name: value for name, value in to_data(result).items() if name != "valid"}
    return {"history": title(path), **jepsen_shape.answer(result), **ours}


def judge(items: Sequence[tuple[Path, CheckOptions]], session: Any, say: Say) -> Iterator[tuple[Path, Result, str]]:
    """Histories in the order given: (path, result, what is wrong with its content or "").

    Small files share one Spark job. Runs get their results.json; nothing is written beside other histories.
    """
    from checker import check

    for (path, _), (_, answer) in zip(items, check.check_each(session, items, say), strict=True):
        if isinstance(answer, Mapping):
            yield path, Result("unknown", reasons=(answer["error"],)), answer["error"]
            continue
        if history_writer.is_run(path):
            history_writer.write_json(path / "results.json", to_data(answer))
        yield path, answer, ""


def import_(path: Path, runs: Path, say: Say) -> Path:
    """Make a run of a history file; nothing is left of it when that fails. Raises HarnessError."""
    from checker import convert

    if not path.is_file():
        raise BadInput(f"{path}: no such file; give a history.edn or history.jsonl, plain or gzipped")
    folder = history_writer.new_run(runs, f"import-{title(path).partition('.')[0] or 'history'}")
    try:
        lines, notes = convert.to_log(path, folder / "history", folder.name, say)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if notes.truncated:
        say(f"cut short: {notes.truncated}")
    history_writer.point_latest(folder)
    say(f"{folder}: {lines:,} lines")
    return folder


def export(path: Path, form: str, out: Path | None, say: Say) -> Path:
    """Write a history in another form, to `out` or the working directory. Raises HarnessError."""
    from checker import convert
    from checker.tables import parquet_folder

    if form not in convert.FORMATS:
        raise BadInput(f"--format {form}: one of {', '.join(convert.FORMATS)}")
    if parquet_folder.is_tables(path):
        raise BadInput(f"{path}: tables do not hold all of a history; give the run that they were made from")
    target = Path(f"{title(path)}.{form}") if out is None else out
    if target.exists() or target.is_symlink():
        raise BadInput(f"{target}: is there already; remove it, or name another place with --out")
    if not target.parent.is_dir():
        raise BadInput(f"{target.parent}: no such folder; make it, or name another place with --out")
    lines = convert.FORMATS[form](path, target, say)
    say(f"{target}: {lines:,} lines")
    return target


def options(path: Path, changes: Mapping[str, Any]) -> CheckOptions:
    """How a history is judged: as its plan says, where it has one, with the user's changes."""
    return test.options_of(path if path.is_dir() else path.parent / "-", **changes)
