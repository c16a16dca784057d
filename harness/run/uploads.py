"""Uploads runs to an object store: after the run (`harness upload`), or while it goes on (`harness run --runs URI`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from checker.tables import storage
from harness.cluster.local import process_owner
from harness.history_writer import OWNER, require_run
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.stored import find_runs, uploaded_run
from harness.stored.uploaded_run import Manifest

INTERVAL_S: Final = 2.0
STOP_S: Final = 60.0

Say = Callable[[str], None]
log = logging.getLogger("harness")


def upload(runs: Path, name: str, uri: str, say: Say) -> None:
    """Uploads the run that a user names. Raises BadInput if it is in progress or the URI is not one, Missing."""
    place = storage.uri_of(uri)
    if place is None:
        raise BadInput(f"{uri}: not a URI; use one such as s3://bucket/runs")
    folder = require_run(find_runs.resolve(runs, name))
    owner = folder / OWNER
    if owner.is_file() and process_owner.in_use(owner.read_text()):
        raise BadInput(f"{folder}: the run is in progress; upload it when it has ended")
    _whole(folder, storage.open_store(place), say)


def _whole(folder: Path, store: storage.Store, say: Say) -> None:
    place = store if store.uri.endswith(f"/{folder.name}") else store.below(folder.name)
    done = uploaded_run.upload(folder, place, say)
    say(f"{place.uri}: {done.files} files uploaded ({done.bytes:,} bytes), {done.unchanged} were there already")


class LiveUpload:
    """Uploads the segments of a run while it goes on. A segment is uploaded when the next one has begun.

    A store that fails does not disturb the run: the upload is completed at the end, or later by `harness upload`.
    """

    def __init__(self, uri: str) -> None:
        """Opens the store. Raises BadInput and Missing."""
        self._store = storage.open_store(uri)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.complete = False

    def begin(self, folder: Path) -> None:
        """Uploads the plan, so that a store that cannot be written is found before the run. Raises Missing."""
        self._folder, self._place = folder, self._store.below(folder.name)
        empty = Manifest(folder.name, False)
        self._manifest = uploaded_run.commit(folder, self._place, empty, ["plan.yaml"], [], complete=False)
        self._thread = threading.Thread(target=self._work, name="upload", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            try:
                self._uploaded_segments()
            except (HarnessError, OSError) as error:
                log.warning("not uploaded, will be tried again: %s", error)

    def _uploaded_segments(self) -> None:
        finished = sorted((self._folder / "history").glob("*.jsonl"))[:-1]
        names = [name for file in finished if (name := f"history/{file.name}") not in self._manifest.files]
        if names:
            events = self._folder / "events" / "harness.jsonl"
            names += ["events/harness.jsonl"] if events.is_file() else []
            self._manifest = uploaded_run.commit(self._folder, self._place, self._manifest, names, [], complete=False)

    def finish(self, say: Say) -> None:
        """Uploads the rest of a run that has ended; removes the upload of a run that was refused.

        Does not raise, so that the run's own error is reported: `complete` says whether the store has everything.
        """
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join(STOP_S)
        try:
            if self._folder.exists():
                _whole(self._folder, self._place, say)
                self.complete = True
            else:
                self._place.remove([*self._place.sizes()])
        except (HarnessError, OSError) as error:
            say(
                f"the run is complete in {self._folder}, but not in the store ({error}); complete the upload: "
                f"harness upload {self._folder} {self._place.uri}"
            )
