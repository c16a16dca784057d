"""A browser for the tests of pages: the system's Chromium, headless, through Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import absent

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
# For people to look at; each run of the tests overwrites them.
SHOTS: Final = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of one file, closed afterwards because its event loop would block other tests.
    A missing browser is a failure in CI, a skip elsewhere."""
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
    """The folder for screenshots."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS
