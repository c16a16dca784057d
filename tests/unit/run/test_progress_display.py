"""The progress panel on real terminals, the lines elsewhere, and the figures in both."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from harness.model.op import INFO, INVOKE, NEMESIS, OK, Op
from harness.run.progress_display import Live
from harness.run.progress_panel import Figures, panel
from nemesis import table as nemeses
from nemesis.schedule.entry import LOG, Entry, Trigger
from nemesis.schedule.timing import Timing
from nemesis.schedule.upcoming import Ahead
from tests.terminal import Terminal

S = 1_000_000_000
# Variables that affect a terminal's size or colour; pytest-xdist sets the width.
SIZED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
# Shows five acknowledged records that are never read, until a line of input or the end of input.
SHOWN = """
import sys, time
from harness.run.progress_display import Live
from harness.model.op import Op
live = Live(60.0, time.monotonic_ns(), "a-run")
with live.showing():
    for n in range(5):
        live.event(Op(n, time.monotonic_ns() - live._zero_ns, 0, "ok", "send", [["send", 1, [n, n]]]))
    sys.stdin.readline()
print("still here", file=open(sys.argv[1], "w"))
"""


def shown(path: Any, columns: int = 100, rows: int = 40, **env: str) -> Terminal:
    kept = {name: value for name, value in os.environ.items() if name not in SIZED}
    given = {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
    return Terminal([sys.executable, "-c", SHOWN, str(path)], columns, rows, given)


def has_panel(text: str) -> bool:
    return "a-run" in text and "ok 5" in text and "5 acknowledged" in text and "╯" in text


def test_a_panel_that_leaves_one_line_and_nothing_switched(tmp_path: Any) -> None:
    with shown(tmp_path / "end") as terminal:
        terminal.until(has_panel)
        assert not terminal.screen.cursor.hidden
        terminal.resize(60, 20)
        terminal.until(lambda text: any(len(line) == 60 and line.endswith("╯") for line in text.split("\n")))
        terminal.press(b"\n")
        assert terminal.end() == 0
        left = terminal.text.strip().replace("\n", "")
        assert "s of 60  load         ok 5  fail 0  info 0  faults on: none" in left and "╯" not in left
        assert not terminal.screen.cursor.hidden
    assert (tmp_path / "end").read_text() == "still here\n"
    assert b"\x1b[?1049h" not in terminal.raw  # the earlier content of the screen stays


def test_a_killed_one_leaves_the_cursor_and_no_colour(tmp_path: Any) -> None:
    with shown(tmp_path / "end") as terminal:
        terminal.until(has_panel)
        terminal.process.kill()
        terminal.end()
        assert not terminal.screen.cursor.hidden
        assert terminal.screen.cursor.attrs == terminal.screen.default_char


def test_a_terminal_that_goes_away_ends_only_the_drawing(tmp_path: Any) -> None:
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)" + SHOWN
    program = program.replace("sys.stdin.readline()", "time.sleep(1)")
    with Terminal([sys.executable, "-c", program, str(tmp_path / "end")]) as terminal:
        terminal.until(lambda text: "ok 5" in text)
        terminal.hang_up()
        assert terminal.process.wait(120) == 0
    assert (tmp_path / "end").read_text() == "still here\n"


def test_no_colour_and_no_room(tmp_path: Any) -> None:
    with shown(tmp_path / "end", NO_COLOR="1") as terminal:
        terminal.until(has_panel)
        assert not re.search(rb"\x1b\[[0-9;]*[34]\d", terminal.raw)
    with shown(tmp_path / "end", 30, 8) as terminal:
        terminal.until(lambda text: re.search(r"^\d+ s load  ok 5  fail 0", text, re.M) is not None)


@pytest.mark.parametrize("dumb", [True, False])
def test_plain_lines_elsewhere(tmp_path: Any, dumb: bool) -> None:
    if dumb:
        with shown(tmp_path / "end", TERM="dumb") as terminal:
            terminal.press(b"\n")
            assert terminal.end() == 0
            output = terminal.raw
    else:
        done = subprocess.run(
            [sys.executable, "-c", SHOWN, str(tmp_path / "end")], input=b"\n", capture_output=True, check=True
        )
        output = done.stderr
        assert done.stdout == b""
    assert b"s of 60  load         ok 5  fail 0  info 0  faults on: none" in output and b"\x1b" not in output


def figures(**changed: Any) -> Figures:
    given: dict[str, Any] = {
        "title": "[red]a run[/]", "phase": "load", "now_s": 23.4, "total_s": 60.0,
        "counts": {OK: 12345, INFO: 2}, "rate": 512.3, "rates": [0, 10, 500], "unseen": 34, "lag_s": 0.41,
        "on": [(f"kill:leader [b]n{n}", 3.2) for n in range(5)], "coming": [("isolate:leader", "in 7 s")],
    }  # fmt: skip
    return Figures(**{**given, **changed})


@pytest.mark.parametrize("width", [5, 30, 48, 60, 100, 300])
def test_whatever_the_room_no_line_is_longer(width: int) -> None:
    for encoding in ("utf-8", "ascii"):
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        console = Console(file=file, width=width, height=30, force_terminal=True, color_system=None)
        console.print(panel(figures(note="look " * 20), console))
        file.flush()
        lines = file.buffer.getvalue().decode(encoding).splitlines()
        assert max(map(len, lines)) <= width and len(lines) <= 14
        if width == 100:
            text = "\n".join(lines)
            for part in ("[red]a run[/]", "12,345", "34 acknowledged, the oldest for 0.4 s", "and 2 more",
                         "[b]n0, for 3 s", "isolate:leader in 7 s", "23 s of 60"):  # fmt: skip
                assert part in text


def done(at_s: float, value: Any, f: str = "send") -> Op:
    return Op(0, int(at_s * S), 0, OK, f, value)


def test_unseen_are_those_beyond_what_was_polled() -> None:
    live = Live(60.0, 0)
    assert live.figures(S).unseen is None
    live.event(done(1, [["send", 1, [0, "a"]], ["send", 1, [1, "b"]], ["send", 2, [0, "c"]]], "txn"))
    live.event(done(2, [["send", 1, [2, "d"]]]))
    live.event(done(2, [["send", 1, [None, "e"]]]))
    now = live.figures(4 * S)
    assert (now.unseen, now.lag_s) == (4, 3.0)
    live.event(done(3, [["poll", [[1, [[0, "a"], [1, "b"]]], [2, [[0, "c"]]]]]], "poll"))
    now = live.figures(4 * S)
    assert (now.unseen, now.lag_s) == (1, 2.0)
    live.event(done(3, [["poll", [[1, [[2, "d"], [7, "z"]]], [9, []]]]], "poll"))
    live.event(done(4, [["send", 1, [6, "late"]]]))  # read before it was acknowledged
    now = live.figures(4 * S)
    assert (now.unseen, now.lag_s, now.counts[OK]) == (0, None, 6)


def nemesis(fault: str, span: str, phase: str, at_s: float) -> Op:
    extra = {"fault": fault, "span": span, "phase": phase}
    return Op(0, int(at_s * S), NEMESIS, INFO, "f", {"nodes": ["n2"]}, None, extra)


def test_faults_on_and_next() -> None:
    faults = nemeses.faults(("kill:leader", "isolate:leader", "kill:client"), Timing(5, 10))
    live = Live(60.0, 0, "", Ahead(nemeses.rotations(faults), (), Timing(5, 10), 60.0))
    assert live.figures(2 * S).coming == [("kill:leader", "in 3 s"), ("kill:client", "in 3 s")]
    live.event(nemesis("kill:client", "", "invoke", 5))
    live.event(nemesis("kill:leader", "start", "invoke", 5))
    assert live.figures(6 * S).coming == []
    live.event(nemesis("kill:client", "", "complete", 6))
    live.event(nemesis("kill:leader", "start", "complete", 8))
    now = live.figures(9 * S)
    assert (now.on, now.coming) == ([("kill:leader n2", 1.0)], [("kill:client", "in 7 s")])
    live.event(nemesis("kill:leader", "stop", "complete", 13))
    assert live.figures(13 * S).coming == [("kill:client", "in 3 s"), ("isolate:leader", "in 5 s")]
    assert live.figures(61 * S).coming == [] and live.figures(61 * S).on == []


def test_next_of_a_schedule() -> None:
    every = Entry("kill:leader", at_s=10, every_s=20, for_s=5, times=2)
    once = Entry("elect:all", at_s=15)
    waits = Entry("pause:leader", when=Trigger(LOG, "x"))
    ahead = Ahead((), (every, once, waits), Timing(), 60.0)

    def at(now_s: float) -> list[tuple[str, float]]:
        return [(one.fault, one.at_s) for one in ahead.coming(now_s)]

    assert at(0) == [("kill:leader", 10), ("elect:all", 15), ("pause:leader", 0)]
    assert at(10.5) == [("elect:all", 15), ("kill:leader", 30), ("pause:leader", 0)]
    assert at(31) == [("pause:leader", 0)] and at(60) == []
    assert Live(60.0, 0, "", ahead).figures(31 * S).coming == [("pause:leader", "at a line in the log")]


def test_invocations_and_other_values_are_not_counted() -> None:
    live = Live(60.0, 0)
    live.event(Op(0, 0, 0, INVOKE, "send", [["send", 1, 1]]))
    live.event(done(1, {"any": "thing"}, "restart"))
    assert live.figures(S).counts == {OK: 1, "fail": 0, INFO: 0}
