"""The checkpoint folder of a live comparison, from which the comparison continues after it was killed.

    query.json       what is compared; a comparison with another query.json is rejected
    spark/           Spark's own checkpoint: the offsets of each batch, and which batches are done
    state/<batch>/   ids/ (Parquet) and book.json: the complete state after that batch
    windows.jsonl    a line for each window that was closed, and another line whenever the window's counts change

Spark stores the offsets of a batch before the batch starts. If the process is killed during a batch, the next process
reads the batch again with the same offsets. The folder state/<batch>/ is complete or absent, because it appears by a
rename. The records of a batch are therefore added exactly once.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from checker.qos import window_state
from checker.qos.comparison_settings import Settings, difference
from checker.qos.window_state import Book
from harness.model.errors_and_exit_codes import BadInput

QUERY: Final = "query.json"
WINDOWS: Final = "windows.jsonl"
_BATCHES_KEPT: Final = 2


class Store:
    """The checkpoint folder of one comparison, locked against other processes while this object is open."""

    def __init__(self, folder: Path, lock: IO[str]) -> None:
        self.folder, self._lock = folder, lock

    @property
    def spark(self) -> str:
        """The folder of Spark's own checkpoint."""
        return str(self.folder / "spark")

    def ids(self, batch: int) -> str:
        """Returns the path of the table of ids after a batch, a Parquet folder (see `checker.qos.spark_batch`)."""
        return str(self.folder / "state" / str(batch) / "ids")

    def book(self) -> Book:
        """Returns the state after the last complete batch, or an empty `Book` if there is none. Raises BadInput."""
        batches = self._batches()
        if not batches:
            if any((self.folder / "spark" / "commits").glob("[0-9]*")):
                raise BadInput(f"--checkpoint {self.folder}: its state is missing; remove the folder and try again")
            return Book()
        path = self.folder / "state" / str(batches[-1]) / "book.json"
        try:
            return window_state.from_data(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"--checkpoint {self.folder}: {path} cannot be used ({error}); remove the folder and try again"
            ) from None

    def begin(self, batch: int) -> str:
        """Creates an empty folder for a new batch. Returns the path to which its table of ids must be written."""
        unfinished = self.folder / "state" / f"{batch}.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        return str(unfinished / "ids")

    def finish(self, book: Book, lines: Iterable[Mapping[str, Any]]) -> None:
        """Completes a batch: appends its lines to windows.jsonl, then renames its folder.

        If the process is killed between these two steps, the next call of `opened` removes the lines.
        """
        self.tell(lines)
        unfinished = self.folder / "state" / f"{book.batch}.part"
        (unfinished / "book.json").write_text(json.dumps(window_state.to_data(book)))
        unfinished.rename(self.folder / "state" / str(book.batch))
        for batch in self._batches()[:-_BATCHES_KEPT]:
            shutil.rmtree(self.folder / "state" / str(batch), ignore_errors=True)

    def tell(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Appends lines to windows.jsonl."""
        if text := "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines):
            with (self.folder / WINDOWS).open("a", encoding="utf-8") as file:
                file.write(text)

    def offsets(self, batch: int) -> dict[str, dict[str, int]] | None:
        """Returns the offsets at which a batch ends, by topic and partition; None if Spark's file has none.

        The file has one line per source. The line of the Kafka source is a JSON object topic -> partition -> offset;
        see "checkpointing" in https://spark.apache.org/docs/latest/structured-streaming-programming-guide.html.
        """
        try:
            lines = (self.folder / "spark" / "offsets" / str(batch)).read_text().splitlines()
        except OSError:
            return None
        for line in lines[2:]:
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict) and data and all(isinstance(partitions, dict) for partitions in data.values()):
                return data
        return None

    def _batches(self) -> list[int]:
        found = (path.name for path in (self.folder / "state").glob("*") if path.name.isdigit())
        return sorted(map(int, found))

    def close(self) -> None:
        """Releases the lock."""
        self._lock.close()


def opened(folder: Path, settings: Settings) -> Store:
    """Opens the store in a folder, which is created if necessary.

    Raises BadInput if the folder belongs to a comparison with other settings, is in use, or cannot be written.
    """
    query = settings.query()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise BadInput(f"--checkpoint {folder}: cannot be written ({error.strerror})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BadInput(
            f"--checkpoint {folder}: another process is using it; stop that process, or give another folder"
        ) from None
    try:
        path = folder / QUERY
        if path.exists():
            if differs := difference(path.read_text(errors="replace"), query):
                raise BadInput(
                    f"--checkpoint {folder} is of another comparison: {differs}; give a new folder, or the same "
                    "settings"
                )
        elif any(entry.name != "lock" for entry in folder.iterdir()):
            raise BadInput(f"--checkpoint {folder}: it has files that are not a checkpoint; give a new folder")
        else:
            path.write_text(json.dumps(query, indent=1))
        store = Store(folder, lock)
        _take_back(folder / WINDOWS, store.book().batch)
    except BaseException:
        lock.close()
        raise
    return store


def _take_back(path: Path, batch: int) -> None:
    """Removes lines of incomplete batches (those after `batch`) and an incomplete last line from windows.jsonl."""
    if not path.exists():
        return
    complete, intact = [], True
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            good = line.endswith("\n") and json.loads(line)["batch"] <= batch
        except (ValueError, KeyError, TypeError):
            good = False
        if good:
            complete.append(line)
        intact = intact and good
    if not intact:
        changed = path.with_name(f"{path.name}.part")
        changed.write_text("".join(complete), encoding="utf-8")
        changed.replace(path)
