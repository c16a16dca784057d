"""`harness run` on a terminal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness_command import HARNESS
from tests.terminal import Terminal

WAIT_S = 400.0
FAULTS = """
- {fault: "pause:client", at: 1s, for: 500s}
- {fault: "kill:client", at: 400s}
"""


@pytest.fixture
def runs() -> Iterator[str]:
    """A folder with a short name: the test counts lines, and longer ones would wrap."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_a_run_at_a_terminal(tmp_path: Path, runs: str) -> None:
    """The panel during the run, also in a smaller window; Ctrl-C; then the verdict and the next steps."""
    (tmp_path / "faults.yaml").write_text(FAULTS)
    command = [
        *HARNESS, "run", "--cluster", "mock", "--runs", runs, "--time-limit", "500",
        "--rate", "50", "--schedule", str(tmp_path / "faults.yaml"),
    ]  # fmt: skip
    with Terminal(command, 120, 60) as terminal:
        shown = ("load, ", " of 500", "ok a second", "unseen  ", "faults on   pause:client w",
                 "next        kill:client in ", "╯")  # fmt: skip
        terminal.until(lambda text: all(part in text for part in shown), WAIT_S)
        terminal.resize(70, 60)
        terminal.until(
            lambda text: (
                any(len(line) == 70 and line.endswith("╯") for line in text.splitlines())
                and "faults on   pause:client w" in text
            ),
            WAIT_S,
        )
        terminal.press(b"\x03")
        assert terminal.end(WAIT_S) == 130
        assert not terminal.screen.cursor.hidden and "╯" not in terminal.text
        lines = terminal.text.splitlines()
        verdict = next(n for n, line in enumerate(lines) if line.startswith(("UNKNOWN", "INVALID")))
        onward = next(n for n, line in enumerate(lines) if line.startswith("next: harness open "))
        assert verdict < onward and len(lines) - verdict <= 40
