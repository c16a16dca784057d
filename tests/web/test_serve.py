"""The pages of `harness serve` and of its export in a real browser, with 1,000 runs and hostile files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from harness.model import op_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.op import OK, Op
from harness.report.page import run_page
from harness.sim.queue.run import simulate
from harness.web import static_site
from tests.unit.report.folders import S, judged, killed, recorded, woven
from tests.unit.web import many
from tests.unit.web.serving import Served, serving
from tests.web.hostile import STRINGS
from tests.web.opened import watched

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]
LOST: Final = "20260901T000000-lost"
BEFORE: Final = "20260801T000000-lost"
HIT: Final = "<script>window.hit=1;alert(1)</script><img src=x onerror='window.hit=1;alert(1)'>"


def lossy(runs: Path, name: str, acks: str, drawn: bool) -> None:
    """A run that lost records."""
    ops = simulate(3, ops=600, txn=False, bugs=frozenset({"lose-acked", "truncate-acked"}))
    faults = killed(ops[-1].time_ns / S * 0.1, ops[-1].time_ns / S * 0.3, "n2")
    started = f"{name[:4]}-{name[4:6]}-{name[6:8]}T00:00:00Z"
    folder = recorded(runs, name, woven(ops, faults), acks=acks, started=started)
    judged(folder, CheckOptions(settings=Settings(acks=acks)))
    if drawn:
        run_page.draw(folder)
        (folder / "plots").mkdir()
        (folder / "plots" / "rate.png").write_bytes(PNG)


PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301"
    "0100c9fe92ef0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs = tmp_path_factory.mktemp("serve") / "runs"
    names = many.many(runs, 1000)
    lossy(runs, BEFORE, "all", False)
    lossy(runs, LOST, "1", True)
    many.experiment(runs, "20260301T000000-a", "2026-03-01T00:00:00Z", 5, 5, names[:2])
    many.experiment(runs, "20260302T000000-b", "2026-03-02T00:00:00Z", 2, 5, [LOST])
    with serving(runs) as made:
        yield made


def ids(page: Any) -> list[str]:
    """Ids of the listed runs, in order."""
    found: list[str] = page.locator("td.id a").all_inner_texts()
    return found


def go(page: Any, action: Callable[[], Any]) -> None:
    """Performs an action that navigates to another page, and waits until that is loaded."""
    with page.expect_navigation():
        action()


@pytest.mark.parametrize("scripts", [True, False])
def test_find_compare_and_open_a_run(browser: Any, served: Served, shots: Path, scripts: bool) -> None:
    here = f"http://127.0.0.1:{served.port}/"
    with watched(browser, here, java_script_enabled=scripts) as one:
        page = one.page
        page.goto(here)
        assert ids(page)[:2] == [LOST, BEFORE] and len(ids(page)) == 200
        assert "1,002 runs, page 1 of 6" in page.locator(".said").inner_text()
        page.screenshot(path=shots / "serve-list.png")
        go(page, page.locator("thead a", has_text="anomalies").click)
        assert page.locator("th[aria-sort=descending]").inner_text().startswith("anomalies")
        most = page.locator("td.found").first.inner_text()
        assert int(re.sub(r"\D", "", most.rpartition(" ")[2])) > 900
        go(page, page.locator("thead a", has_text="length").click)
        go(page, page.locator("thead a", has_text="length").click)
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("length")
        go(page, page.locator("a[rel=next]").click)
        assert "page 2 of 6" in page.locator(".said").inner_text()

        go(page, page.locator(".filters a", has_text="all").click)
        page.get_by_label("verdict").select_option("invalid")
        page.get_by_label("anomaly").select_option("lost-write")
        go(page, page.get_by_role("button", name="show").click)
        assert len(ids(page)) == 52 and ids(page)[0] == LOST
        assert page.get_by_label("anomaly").input_value() == "lost-write"
        page.get_by_label("search").fill('lost "acks 1"')
        go(page, lambda: page.get_by_label("search").press("Enter"))
        found = ids(page)
        assert found[0] == LOST and BEFORE not in found

        page.goto(here)
        for name in (LOST, BEFORE):
            page.get_by_label(f"select {name}").check()
        go(page, page.get_by_role("button", name="compare").click)
        assert page.locator("tr.differs", has_text="acks").count() == 1
        page.screenshot(path=shots / "serve-compare.png")
        go(page, page.locator("th a", has_text=LOST).click)

        assert page.locator(".verdict").inner_text().casefold().endswith("invalid")
        assert "INVALID: lost-write" in page.locator(".summary").inner_text()
        image = page.locator("figure img")
        image.scroll_into_view_if_needed()
        page.screenshot(path=shots / "serve-run.png", full_page=True)
        if scripts:
            page.wait_for_function("document.querySelector('figure img').naturalWidth === 1")
        go(page, page.locator("a.main").click)
        if scripts:
            page.wait_for_selector("html[data-ready]", state="attached")
            assert page.locator("#charts canvas").count() == 5
        assert page.locator("#lost-write").count() == 1
        go(page, page.go_back)
        go(page, page.locator("a", has_text="all files").click)
        go(page, page.locator("a", has_text="plan.yaml").click)
        assert "acks: '1'" in page.locator("body").inner_text()

        page.goto(f"{here}experiments.html")
        go(page, page.locator("a", has_text="acks-1").click)
        assert page.locator("circle").count() == 2
        page.screenshot(path=shots / "serve-experiment.png")
        go(page, page.locator("a", has_text=LOST).click)
        assert page.locator("h1").inner_text() == LOST
    assert served.log == []


def test_a_run_that_goes_on_is_followed(browser: Any, tmp_path: Path, shots: Path) -> None:
    folder = many.going(tmp_path)
    with serving(tmp_path) as served:
        here = f"http://127.0.0.1:{served.port}/"
        narrow = {"color_scheme": "dark", "viewport": {"width": 420, "height": 900}}
        with watched(browser, here, **narrow) as one:
            page = one.page
            at = f"{here}runs/{folder.name}/index.html"
            page.goto(f"{at}?still=1")  # first without updates, so that no request is pending when the page is left
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert "kill:leader n2" in page.locator("#live").inner_text()
            assert page.locator("meta[http-equiv=refresh]").count() == 0
            page.screenshot(path=shots / "serve-live-narrow-dark.png", full_page=True)
            go(page, page.locator("a", has_text="Follow it").click)
            with (folder / "history" / "00000.jsonl").open("ab") as file:
                file.write(op_json.encode(Op(500, 20 * S, 1, OK, "news", [])))
            # The page reloads itself.
            page.locator("#live tbody th", has_text="news").wait_for()
        assert served.log == []


def test_nothing_of_a_run_runs(browser: Any, tmp_path: Path, shots: Path) -> None:
    """Hostile names, and files that a browser would execute if allowed: as served pages, and in an export."""
    runs = tmp_path / "runs"
    texts = [text for text in STRINGS if text and not set(text) & {"/", "\0"} and len(text) < 200]
    texts += [text.replace("/", "\\") for text in STRINGS if "/" in text and len(text) < 200]
    for number, text in enumerate(dict.fromkeys(texts)):
        many.make(runs, text, number)
    folder = many.make(runs, LOST, 10)
    (folder / "orders").mkdir()
    files = (
        "evil.html",
        "evil.svg",
        "evil.xhtml",
        "evil",
        "evil.xml",
        "evil.js",
        "orders/key-1.html",
        "report.html",
    )
    for name in files:
        (folder / name).write_text(
            f"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hit=1;alert(1)'>{HIT}</svg>"
            if name.endswith("svg")
            else f"<!doctype html><title>x</title>{HIT}"
        )
    static_site.export(runs, tmp_path / "site", print)
    with serving(runs) as served:
        here = f"http://127.0.0.1:{served.port}/"
        site = (tmp_path / "site").as_uri()
        for root in (here, f"{site}/"):
            with watched(browser, root) as one:
                page = one.page
                page.goto(f"{root}index.html")
                assert len(ids(page)) == len(set(texts)) + 1 >= 100
                for at in range(0, len(set(texts)), 12):
                    page.goto(f"{root}index.html")
                    name = ids(page)[at]
                    go(page, page.locator("td.id a").nth(at).click)
                    assert page.locator("h1").inner_text().strip() == name.strip()
                    assert page.evaluate("window.hit === undefined")
                page.goto(f"{root}runs/{LOST}/files.html")
                assert page.locator("td.id a").count() >= len(files)
                page.screenshot(path=shots / "serve-files.png")
            for name in files:
                # The browser reports refused scripts on its console; nothing else may happen.
                with watched(browser, root) as one:
                    at = f"{root}runs/{LOST}/files/{quote(name)}"
                    if root != here and not (tmp_path / "site" / "runs" / LOST / "files" / name).exists():
                        at += ".txt"
                    one.page.goto(at)
                    one.page.wait_for_load_state()
                    assert one.page.evaluate("window.hit === undefined"), name
                    one.trouble[:] = [line for line in one.trouble if not line.startswith("console: ")]
        assert served.log == []


def test_an_export_opens_from_disk(browser: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    many.many(runs, 30)
    lossy(runs, BEFORE, "all", False)
    lossy(runs, LOST, "1", True)
    static_site.export(runs, tmp_path / "site", print)
    with watched(browser, (tmp_path / "site").as_uri()) as one:
        page = one.page
        page.goto((tmp_path / "site" / "index.html").as_uri())
        go(page, page.locator("thead a", has_text="workload").click)
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("workload")
        go(page, page.locator("td.id a", has_text=LOST).click)
        go(page, page.locator("a", has_text="compare with the previous run").click)
        assert page.locator("tr.differs", has_text="acks").count() == 1
        go(page, page.locator("th a", has_text=LOST).click)
        page.wait_for_function("document.querySelector('figure img').naturalWidth === 1")
        go(page, page.locator("a.main").click)
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.locator("#charts canvas").count() == 5
