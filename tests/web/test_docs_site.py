"""The documentation site: it builds without a dead link, loads nothing from elsewhere, and fits every screen."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import absent
from tests.web.opened import watched

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    "index.html",
    "start/tutorial.html",
    "use/runs.html",
    "understand/results.html",
    "reference/faults.html",
)
WIDTHS_PX: Final = (360, 1360)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without logging requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built in strict mode and served from this machine."""
    if importlib.util.find_spec("material") is None:
        absent("the Python package mkdocs-material; make setup-dev installs it")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(
    browser: Any, site: str, shots: Path, scheme: str, width_px: int
) -> None:
    with watched(browser, site, viewport={"width": width_px, "height": 900}, color_scheme=scheme) as one:
        one.page.route(lambda url: not url.startswith(site), lambda route: route.abort())
        for page in PAGES:
            one.page.goto(site + page)
            one.page.wait_for_load_state("networkidle")
            width = one.page.evaluate("document.documentElement.scrollWidth")
            assert width <= width_px, f"{page} is {width} px wide"
            wanted = {"light": "default", "dark": "slate"}[scheme]
            assert one.page.evaluate("document.body.dataset.mdColorScheme") == wanted
            name = page.replace("/", "-").removesuffix(".html")
            one.page.screenshot(path=str(shots / f"docs-{name}-{scheme}-{width_px}.png"))


def test_the_search_finds_a_word_and_leads_to_its_page(browser: Any, site: str) -> None:
    with watched(browser, site) as one:
        one.page.route(lambda url: not url.startswith(site), lambda route: route.abort())
        one.page.goto(site + "index.html")
        one.page.wait_for_load_state("networkidle")  # the search's index has been loaded
        one.page.click("input[name=query]")
        one.page.locator("input[name=query]").press_sequentially("torn-transaction", delay=20)
        result = one.page.locator(".md-search-result__link").first
        result.wait_for(state="visible")
        result.click()
        one.page.wait_for_url(lambda url: not url.endswith("index.html"))
        assert "torn-transaction" in one.page.inner_text("article").lower()
