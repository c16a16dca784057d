"""The page of `harness qos`: the results of a live comparison, window by window, as HTML and as JSON.

Independent of HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.web import rendering, run_files
from harness.web.site import OWN, Answer

REFRESH_S: Final = 3
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of the page.

    rows   windows, the newest first: {"window", "state", "in", "out", "missing", "duplicate", "late",
           "unmatched", "pending"}; the state is open, good or bad
    sums   "in", "out", ..., "unmatched" -> total over all closed windows
    notes  further information; each note is one or more sentences
    """

    title: str
    verdict: str
    rows: Sequence[Mapping[str, Any]]
    sums: Mapping[str, int]
    notes: Sequence[str]


class QosSite:
    """The website of a live comparison, with a page and the same data as JSON.

    look  a function that returns the current result
    """

    def __init__(self, look: Callable[[], Shown]) -> None:
        self._look = look

    def answer(self, target: str) -> Answer:
        """Returns the answer to a request for `target`."""
        match target.partition("?")[0]:
            case "/" | "/index.html":
                shown = self._look()
                body = rendering.render("qos.html.j2", "", False, title=shown.title, shown=shown, refresh=REFRESH_S)
                return Answer(200, run_files.HTML, f"{rendering.policy()}; {OWN}", body)
            case "/windows.json":
                shown = self._look()
                data = {"verdict": shown.verdict, "sums": dict(shown.sums), "windows": list(shown.rows)}
                return Answer(200, JSON, run_files.NOTHING, json.dumps(data).encode())
            case "/favicon.ico":
                return Answer(204, run_files.TEXT, run_files.NOTHING)
        return Answer(404, run_files.TEXT, run_files.NOTHING, b"There is nothing at this address.\n")
