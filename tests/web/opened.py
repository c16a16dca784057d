"""Opens a page in the browser and records everything that it should not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Opened:
    """An open page; `trouble`: errors, console messages, dialogs, and requests to other places."""

    page: Any
    trouble: list[str] = field(default_factory=list)


@contextmanager
def watched(browser: Any, allowed: str, **context: Any) -> Iterator[Opened]:
    """An empty page that may request only URLs starting with `allowed`; anything else fails after the block."""
    browser_context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **context})
    try:
        browser_context.set_default_timeout(60_000)
        page = browser_context.new_page()
        one = Opened(page)

        def dialog(shown: Any) -> None:
            one.trouble.append(f"dialog: {shown.message}")
            shown.dismiss()

        def request(requested: Any) -> None:
            if not requested.url.partition("#")[0].startswith(allowed):
                one.trouble.append(f"request: {requested.url[:200]}")

        page.on("console", lambda message: one.trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: one.trouble.append(f"error: {error}"))
        page.on("dialog", dialog)
        page.on("request", request)
        yield one
        assert one.trouble == []
    finally:
        browser_context.close()


@contextmanager
def opened(browser: Any, path: Path, fragment: str = "", **context: Any) -> Iterator[Opened]:
    """Opens a file, waits until it is ready, and checks after the block that the page did nothing forbidden."""
    url = path.as_uri()
    with watched(browser, url, **context) as one:
        one.page.goto(url + (f"#{fragment}" if fragment else ""))
        if context.get("java_script_enabled", True):
            one.page.wait_for_selector("html[data-ready]", state="attached")
        yield one
