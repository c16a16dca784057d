"""A browser for the tests of pages: the system's Chromium, without a window, through Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import absent

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
# Looked at by people; the last ones stay.
SHOTS: Final = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file: tests of other files cannot have an event loop meanwhile.
    Without one: a failure in CI, a skip elsewhere."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("the Python package playwright; make setup installs it")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        absent("Chromium, for the tests of pages; as root: make system-deps (on Ubuntu: install Chrome)")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=found, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where screenshots are kept."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS
