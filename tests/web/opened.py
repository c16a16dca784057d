"""A page in the browser, with everything that it should not do written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Opened:
    """An open page; `trouble`: errors, messages of the console, dialogs, and requests but for the file."""

    page: Any
    trouble: list[str] = field(default_factory=list)


@contextmanager
def opened(browser: Any, path: Path, fragment: str = "", **context: Any) -> Iterator[Opened]:
    """Open a file, wait until it is ready, and require afterwards that it did nothing that it should not."""
    held = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **context})
    try:
        held.set_default_timeout(60_000)
        page = held.new_page()
        one = Opened(page)
        url = path.as_uri()

        def dialog(shown: Any) -> None:
            one.trouble.append(f"dialog: {shown.message}")
            shown.dismiss()

        def request(asked: Any) -> None:
            if asked.url.partition("#")[0] != url:
                one.trouble.append(f"request: {asked.url[:200]}")

        page.on("console", lambda said: one.trouble.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: one.trouble.append(f"error: {error}"))
        page.on("dialog", dialog)
        page.on("request", request)
        page.goto(url + (f"#{fragment}" if fragment else ""))
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached")
        yield one
        assert one.trouble == []
    finally:
        held.close()
