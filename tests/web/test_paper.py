"""The run page in a real browser: a time range with many witnesses, a pipeline's run, and printing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from harness.model.check_options import CheckOptions, Settings
from harness.report.page import run_page
from harness.sim.queue.run import simulate
from tests.unit.report.folders import S, judged, killed, recorded, woven
from tests.unit.report.piped_run import piped
from tests.web.opened import opened

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

PAPER: Final = 718  # width in pixels between the margins of A4
LINES: Final = "#lost-write .lines li"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that lost many records, with a fault."""
    ops = simulate(3, ops=1500, txn=False, bugs=frozenset({"lose-acked", "truncate-acked"}))
    end_s = ops[-1].time_ns / S
    fault = killed(end_s * 0.1, end_s * 0.25, "n2")
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260102T030405-lost", woven(ops, fault), acks="1")
    judged(folder, CheckOptions(settings=Settings(acks="1")))
    return run_page.draw(folder)


def test_every_range_that_witnesses_are_in_has_some_to_read(browser: Any, lost: Path, shots: Path) -> None:
    with opened(browser, lost) as one:
        page = one.page
        assert page.locator(LINES).count() == 0 and page.locator(".figures .whole").is_visible()
        cell = page.evaluate("Run.end / Run.windows")
        track = page.evaluate("Run.anomalies.find((one) => one.slug === 'lost-write')")
        seen = 0
        for n in range(10):
            page.evaluate(f"Range.set({n} / 10 * Run.end, {n + 1} / 10 * Run.end)")
            begin, end = page.evaluate("Range.get()")
            inside = [at for _, at, _ in track["listed"] if begin <= at <= end]
            assert page.locator(LINES).count() == min(len(inside), 60)
            count = int(page.locator("#lost-write .inrange").inner_text().split()[0].replace(",", ""))
            to_read = page.locator(f"{LINES}:visible, #lost-write details.witness:visible").count()
            assert bool(to_read) >= bool(count) and end - begin >= cell
            seen += bool(inside)
        assert seen >= 3
        number, at, _ = track["listed"][0]
        page.evaluate(f"Range.set({at}, {at} + {cell})")
        row = page.locator(LINES).first.inner_text()
        assert f"#{number} " in row and f"harness explain {lost.parent} 'lost-write#{number}'" in row
        assert page.locator("#unseen details.witness:visible").count() == 1
        page.locator("#lost-write").screenshot(path=shots / "range-lines.png")
        page.evaluate("Range.all()")
        assert page.locator(LINES).count() == 0


def test_a_pipeline(browser: Any, tmp_path: Path, shots: Path) -> None:
    path = run_page.draw(piped(tmp_path))
    with opened(browser, path, "missing-output-1") as one:
        page = one.page
        first = page.locator("#missing-output-1[open]")
        assert first.locator("[data-draw=lanes] .own").count() == 1
        assert first.locator("[data-draw=lanes] .event").count() == 1
        strip = first.locator("[data-draw=strips] svg")
        assert strip.locator(".mark").count() == 1 and "never" not in strip.text_content()
        assert page.locator("#tracks .tick").count() == 2
        first.screenshot(path=shots / "pipeline-witness.png")
        page.evaluate("Range.set(8.5, 9.5)")
        assert first.is_visible() and page.locator("#missing-output .inrange").inner_text().startswith("1 of 1 ")
        page.evaluate("Range.set(16, 20)")
        assert not first.is_visible()


def test_on_paper_nothing_is_cut_off_and_the_screen_comes_back(browser: Any, lost: Path, shots: Path) -> None:
    with opened(browser, lost, "lost-write-1", color_scheme="dark") as one:
        page = one.page
        before = page.evaluate("document.querySelector('#charts canvas').width")
        page.evaluate(
            "addEventListener('beforeprint', () => queueMicrotask(() => {"
            "  window.printed = [document.querySelector('#charts canvas').width, isDark()]; }))"
        )
        assert page.pdf(format="A4").startswith(b"%PDF")
        ratio = page.evaluate("devicePixelRatio")
        assert page.evaluate("window.printed") == [pytest.approx(994 * ratio), False]
        assert page.evaluate("document.querySelector('#charts canvas').width") == before
        assert page.evaluate("isDark()") is True

        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
        drawn = page.evaluate(
            "[...document.querySelectorAll('#charts canvas, #tracks > svg, .draw svg')]"
            "  .map((one) => one.getBoundingClientRect()).filter((box) => box.width)"
            "  .map((box) => [box.left, box.right, box.height])"
        )
        assert len(drawn) >= 8
        for left, right, height in drawn:
            assert left >= 0 and right <= PAPER and height > 20
        assert page.locator(".paper").is_visible()
        page.screenshot(path=shots / "paper.png", full_page=True)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("isDark()") is True
