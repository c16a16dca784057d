"""Draws plots in a second process, which imports matplotlib while this process still checks the history.

    python -m harness.report.plots.second_process

The second process reads the paths of run folders from its standard input, one JSON string per line. For each run, it
draws the plots and writes their paths to its standard output, as one JSON list per line. It ends when its input ends,
which also happens if this process is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DRAWN: Final = "plots/drawn.json"  # see harness.report.plots.all_plots, which takes long to import
DRAW_S: Final = 300.0  # for the plots of one run
END_S: Final = 5.0  # for the end of the process after its last plot


def _draw(run: Path, processes: int = 1) -> list[Path]:
    from harness.report.plots import all_plots

    return all_plots.draw(run, processes)


class SecondProcess:
    """A process that draws plots. If it fails or takes longer than `DRAW_S`, this process draws them instead."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, run: Path) -> Callable[[], list[Path]]:
        """Begins to draw the plots of a run. Returns a function that waits for them and returns their paths."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(str(run.absolute())) + "\n")
            stdin.flush()
        except OSError:  # the process has ended
            return lambda: _draw(run)

        def wait() -> list[Path]:
            timer = threading.Timer(DRAW_S, self._process.kill)
            timer.start()
            try:
                answer = stdout.readline()
            finally:
                timer.cancel()
            return [run / "plots" / name for name in json.loads(answer)] if answer else _draw(run)

        return wait

    def end(self) -> None:
        """Ends the process."""
        try:
            self._process.communicate(timeout=END_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


@contextmanager
def for_runs(runs: Iterable[Path]) -> Iterator[SecondProcess | None]:
    """Starts a second process if any of the runs has no plots yet, and ends it after the block.

    Yields None if there is nothing to gain: all runs have plots, or there is only one core.
    """
    if len(os.sched_getaffinity(0)) < 2 or all((run / DRAWN).is_file() for run in runs):
        yield None
        return
    command = [sys.executable, "-m", __name__]
    pipe = subprocess.PIPE
    second = SecondProcess(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True))
    try:
        yield second
    finally:
        second.end()


def main() -> None:
    import matplotlib.figure  # the longest part of the start

    assert matplotlib.figure is not None
    for line in sys.stdin:
        drawn = _draw(Path(json.loads(line)), processes=2)
        print(json.dumps([path.name for path in drawn]), flush=True)


if __name__ == "__main__":
    main()
