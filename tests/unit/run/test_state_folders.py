"""The folder of the state folders of an application: deleted with the run, or by the next run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.run import state_folders

OWNER = "import contextlib, time; from harness.run import state_folders as s; k = contextlib.ExitStack(); "


def test_the_folder_is_deleted_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with contextlib.ExitStack() as stack:
        folder = Path(state_folders.make(stack))
        (folder / "1").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o711
    assert not folder.exists()


def test_only_folders_of_killed_runs_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "harness-app-other"
    other.mkdir()
    command = [sys.executable, "-c", OWNER + "print(s.make(k), flush=True); time.sleep(600)"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        try:
            with contextlib.ExitStack() as stack:
                state_folders.make(stack)
                assert folder.exists(), "its harness is running"
        finally:
            run.send_signal(signal.SIGKILL)
    with contextlib.ExitStack() as stack:
        state_folders.make(stack)
        assert not folder.exists()
        assert other.exists(), "not made by a harness"
