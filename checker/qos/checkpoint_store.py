"""What survives a kill: a folder for each batch, complete or absent, beside Spark's own checkpoint.

    query.json       what is compared: another comparison is refused
    spark/           Spark's checkpoint: offsets that each batch reads, and which are done
    state/<batch>/   ids/ (Parquet) and book.json: all that is known after that batch
    windows.jsonl    a line for each window that was closed, and another when its counts changed

A batch that was killed is read again over the same offsets: Spark wrote them down before it began. Its folder
appears by a rename, so what it adds is added once.
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
_KEPT: Final = 2


class Store:
    """The folder of one comparison, held against other processes while this one lives."""

    def __init__(self, folder: Path, lock: IO[str]) -> None:
        self.folder, self._lock = folder, lock

    @property
    def spark(self) -> str:
        """Where Spark keeps its checkpoint."""
        return str(self.folder / "spark")

    def ids(self, batch: int) -> str:
        """The Parquet folder of a batch's ids."""
        return str(self.folder / "state" / str(batch) / "ids")

    def book(self) -> Book:
        """What the last whole batch left; an empty book before the first. Raises BadInput."""
        batches = self._batches()
        if not batches:
            if any((self.folder / "spark" / "commits").glob("[0-9]*")):
                raise BadInput(f"--checkpoint {self.folder}: its state is gone: remove that folder, try again")
            return Book()
        path = self.folder / "state" / str(batches[-1]) / "book.json"
        try:
            return window_state.from_data(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"--checkpoint {self.folder}: {path} cannot be used ({error}): remove the folder, try again"
            ) from None

    def begin(self, batch: int) -> str:
        """Where the ids of a batch are written before it is whole."""
        unfinished = self.folder / "state" / f"{batch}.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        return str(unfinished / "ids")

    def finish(self, book: Book, lines: Iterable[Mapping[str, Any]]) -> None:
        """Make a batch whole: its lines first, which `opened` takes back when there is no more of it."""
        self.tell(lines)
        unfinished = self.folder / "state" / f"{book.batch}.part"
        (unfinished / "book.json").write_text(json.dumps(window_state.to_data(book)))
        unfinished.rename(self.folder / "state" / str(book.batch))
        for batch in self._batches()[:-_KEPT]:
            shutil.rmtree(self.folder / "state" / str(batch), ignore_errors=True)

    def tell(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append to windows.jsonl."""
        if text := "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines):
            with (self.folder / WINDOWS).open("a", encoding="utf-8") as file:
                file.write(text)

    def offsets(self, batch: int) -> dict[str, dict[str, int]] | None:
        """Where a batch ends in each partition, by topic; None when Spark's file says nothing of it.

        The file has a line for each source, and that of Kafka is the one of mappings of mappings:
        https://spark.apache.org/docs/latest/structured-streaming-programming-guide.html, checkpointing.
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
        """Let others have it."""
        self._lock.close()


def opened(folder: Path, settings: Settings) -> Store:
    """The store in a folder, made if need be. Raises BadInput: another query's, in use, not to be written."""
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
        raise BadInput(f"--checkpoint {folder}: another process uses it; end that, or name another") from None
    try:
        path = folder / QUERY
        if path.exists():
            if differs := difference(path.read_text(errors="replace"), query):
                raise BadInput(f"--checkpoint {folder} is of another query: {differs}; name a new one, or ask the same")
        elif any(entry.name != "lock" for entry in folder.iterdir()):
            raise BadInput(f"--checkpoint {folder}: holds files that are no checkpoint; name a new folder")
        else:
            path.write_text(json.dumps(query, indent=1))
        store = Store(folder, lock)
        _take_back(folder / WINDOWS, store.book().batch)
    except BaseException:
        lock.close()
        raise
    return store


def _take_back(path: Path, batch: int) -> None:
    """Leave out lines of batches that are not whole, and one that is torn."""
    if not path.exists():
        return
    kept, whole = [], True
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            good = line.endswith("\n") and json.loads(line)["batch"] <= batch
        except (ValueError, KeyError, TypeError):
            good = False
        if good:
            kept.append(line)
        whole = whole and good
    if not whole:
        changed = path.with_name(f"{path.name}.part")
        changed.write_text("".join(kept), encoding="utf-8")
        changed.replace(path)
