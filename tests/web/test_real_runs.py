"""The pages of runs on real brokers: a record that was lost, and a cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import run
from tests.web.opened import opened
from tests.web.test_run_page import drag, painted

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]


def test_the_page_of_a_record_that_was_really_lost(browser: Any, tmp_path: Path, shots: Path) -> None:
    ran = run(tmp_path, "--nemesis", "leader-isolate", "--acks", "1", "--time-limit", "20", "--seed", "1")
    assert "lost-write" in ran.anomalies, ran.out + ran.err
    with opened(browser, ran.folder / "report.html") as one:
        page = one.page
        page.locator("#charts canvas").first.wait_for()
        assert painted(page) == page.locator("#charts canvas").count() == 5
        assert "isolate:leader" in page.locator("#tracks svg").text_content()
        page.screenshot(path=shots / "real-lost-light.png", full_page=True)

        whole = page.locator("#counts tbody tr").first.inner_text()
        drag(page, 0, 0.2, 0.6)
        page.wait_for_function("Range.whole() === false")
        assert page.locator("#counts tbody tr").first.inner_text() != whole
        page.locator("#reset").click()

        first = page.locator("#lost-write-1")
        first.locator("summary").click()
        first.locator("[data-draw=lanes] svg").wait_for()
        assert "never" in first.locator("[data-draw=strips] svg").first.text_content()
        text = first.inner_text()
        assert "isolate:leader" in text and "Broker logs" in text
        first.scroll_into_view_if_needed()
        page.screenshot(path=shots / "real-lost-witness.png")
        first.locator("a.link").click()
        assert page.evaluate("location.hash") == "#lost-write-1"


def test_the_page_of_a_real_cycle(browser: Any, tmp_path: Path, shots: Path) -> None:
    """Writes of transactions are interleaved on any brokers: G0, which does not count against the verdict."""
    ran = run(tmp_path, "--txn", "--acks", "all", "--key-count", "4", "--time-limit", "15", "--seed", "1")
    assert "G0" in {found["name"] for found in ran.result["anomalies"]}, ran.out + ran.err
    with opened(browser, ran.folder / "report.html") as one:
        cycle = one.page.locator("details.witness:has(.chain)").first
        slug = cycle.get_attribute("id")
        one.page.evaluate("(slug) => { location.hash = slug; }", slug)
        graph = one.page.locator(f"#{slug} [data-draw=graph] svg")
        graph.wait_for()
        assert graph.locator(".step").count() == cycle.locator(".chain li").count() >= 2
        assert "a contradiction!" in cycle.locator(".chain").inner_text()
        cycle.screenshot(path=shots / "real-cycle.png")
