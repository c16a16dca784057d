"""The run page in a real browser: of lost writes, of a cycle, and of a run full of hostile strings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.model.check_options import CheckOptions, Settings
from harness.model.op import FAIL, INFO, INVOKE, OK, Op
from harness.report.page import run_page
from harness.sim.queue.run import simulate
from harness.stored import find_runs
from tests.unit.report.folders import S, judged, killed, recorded, woven
from tests.web.hostile import STRINGS
from tests.web.opened import opened

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that lost records, with two faults."""
    ops = simulate(3, ops=1500, txn=False, bugs=frozenset({"lose-acked", "truncate-acked"}))
    end_s = ops[-1].time_ns / S
    faults = [
        *killed(end_s * 0.1, end_s * 0.25, "n2"),
        *killed(end_s * 0.2, end_s * 0.4, "n1", effect=False, fault="isolate:leader"),
    ]
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260102T030405-lost", woven(ops, faults), acks="1")
    judged(folder, CheckOptions(settings=Settings(acks="1")))
    return run_page.draw(folder)


@pytest.fixture(scope="module")
def cyclic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which transactions saw each other's records."""
    ops = simulate(1, ops=400, bugs=frozenset({"dirty-read"}))
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260102T030405-cycle", ops, txn=True)
    judged(folder, CheckOptions(settings=Settings(acks="all", txn=True, isolation_level="read_committed")))
    return run_page.draw(folder)


def painted(page: Any) -> int:
    """How many charts have something drawn on them."""
    found: int = page.evaluate(
        """() => [...document.querySelectorAll("#charts canvas")].filter((canvas) => {
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return data.some((one, n) => n % 4 === 3 && one > 0);
        }).length"""
    )
    return found


def drag(page: Any, number: int, begin: float, end: float) -> None:
    """Drag over a chart from one share of its width to another."""
    box = page.locator("#charts .u-over").nth(number).bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (begin + end) / 2, middle)
    page.mouse.move(box["x"] + box["width"] * end, middle)
    page.mouse.up()


def becomes(page: Any, condition: str) -> None:
    """Wait in the page: its policy lets nobody evaluate text there, as `wait_for_function` does."""
    page.evaluate(
        "async () => { for (let n = 0; n < 1800; n++) {"
        f"if ({condition}) return; await new Promise(requestAnimationFrame); }}"
        "throw new Error('it did not come about'); }"
    )


def test_a_lost_write(browser: Any, lost: Path, shots: Path) -> None:
    result = find_runs.require_result(lost.parent)
    with opened(browser, lost) as one:
        page = one.page
        assert page.locator(".verdict").inner_text().casefold().endswith("invalid")
        page.locator("#charts canvas").first.wait_for()
        assert page.locator("#charts canvas").count() == painted(page) == 5
        page.screenshot(path=shots / "lost-light.png", full_page=True)

        # Brush: everything follows, and comes back.
        whole = page.locator("#counts tbody tr").first.inner_text()
        every = page.locator("details.witness:visible").count()
        drag(page, 0, 0.05, 0.5)
        page.wait_for_function("Range.whole() === false")
        begin, end = page.evaluate("Range.get()")
        width = page.evaluate("Run.end / Run.windows")
        assert begin == pytest.approx(0.05 * page.evaluate("Run.end"), abs=width)
        assert page.locator("#counts tbody tr").first.inner_text() != whole
        inside = page.locator("details.witness:visible").count()
        assert inside < every
        for shown in page.locator(".group:not(#unseen) details.witness:visible").all():
            ends = [float(shown.get_attribute(f"data-{name}")) for name in ("begin", "end")]
            assert any(begin <= at <= end for at in ends)
        assert "in the selected range" in page.locator("#lost-write .inrange").inner_text()
        assert page.evaluate("Run.ops[0].rates.ok.slice(...Range.cells()).reduce((one, two) => one + two, 0)") >= int(
            page.locator("#counts tbody tr td").first.inner_text().replace(",", "")
        )
        page.locator("#reset").click()
        assert page.locator("#counts tbody tr").first.inner_text() == whole
        assert page.locator("details.witness:visible").count() == every

        # Open a witness: lanes, the strip of its key, the fault, prose, a link.
        first = page.locator("#lost-write-1")
        first.locator("summary").click()
        lanes = first.locator("[data-draw=lanes] svg")
        lanes.wait_for()
        writer = result.anomalies[[anomaly.name for anomaly in result.anomalies].index("lost-write")].witnesses[0]
        assert lanes.locator(".own").count() >= 1
        assert f"op {writer['writer']}" in lanes.text_content()
        strip = first.locator("[data-draw=strips] svg").first
        assert strip.locator(".mark").count() >= 1 and "never" in strip.text_content()
        assert "acknowledged after" in first.locator(".proof").inner_text()
        first.scroll_into_view_if_needed()
        page.screenshot(path=shots / "lost-witness.png")
        first.locator(".zoom").click()
        assert page.evaluate("Range.whole()") is False
        first.locator("a.link").click()
        assert page.evaluate("location.hash") == "#lost-write-1"

        # The faults are named with what they hit, and so is one without effect.
        page.locator("#reset").click()
        tracks = page.locator("#tracks svg").text_content()
        assert "kill:leader n2" in tracks and "isolate:leader n1 (no effect)" in tracks


def test_a_finger_chooses_a_range(browser: Any, lost: Path) -> None:
    """Across a chart it brushes as the mouse does; a tap and a finger that scrolls choose nothing."""
    with opened(browser, lost, has_touch=True, viewport={"width": 420, "height": 900}) as one:
        page = one.page
        page.locator("#charts .u-over").first.scroll_into_view_if_needed()
        box = page.locator("#charts .u-over").first.bounding_box()
        fingers = page.context.new_cdp_session(page)

        def touch(kind: str, across: float, down: float) -> None:
            at = {"x": box["x"] + box["width"] * across, "y": box["y"] + box["height"] * down}
            points = [] if kind == "End" else [at]
            fingers.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})

        def drag_finger(*way: tuple[float, float]) -> None:
            touch("Start", *way[0])
            for at in way[1:]:
                touch("Move", *at)

        drag_finger((0.2, 0.5), (0.3, 0.5), (0.5, 0.5), (0.7, 0.5))
        becomes(page, "document.querySelector('#charts .u-select').clientWidth > 100")
        touch("End", 0.7, 0.5)
        becomes(page, "!Range.whole()")
        begin, end = page.evaluate("Range.get()")
        whole, cell = page.evaluate("[Run.end, Run.end / Run.windows]")
        assert begin == pytest.approx(0.2 * whole, abs=2 * cell)
        assert end == pytest.approx(0.7 * whole, abs=2 * cell)
        assert page.evaluate("document.querySelector('#charts .u-select').clientWidth") == 0
        page.evaluate("Range.all()")
        drag_finger((0.5, 0.5))
        touch("End", 0.5, 0.5)
        drag_finger((0.5, 0.9), (0.5, 0.6), (0.52, 0.1))
        touch("End", 0.52, 0.1)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("Range.whole()") is True


def test_links_keys_and_themes(browser: Any, lost: Path, shots: Path) -> None:
    dark = {"color_scheme": "dark", "viewport": {"width": 420, "height": 900}}
    with opened(browser, lost, "lost-write-2", **dark) as one:
        page = one.page
        assert page.locator("#lost-write-2[open] [data-draw=lanes] svg").count() == 1
        page.wait_for_function("document.activeElement.closest('details')?.id === 'lost-write-2'")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=shots / "lost-narrow-dark.png", full_page=True)
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert page.locator("#lost-write-2 [data-draw=lanes] svg").count() == 1

        page.locator("#charts").focus()
        page.keyboard.press("+")
        half = page.evaluate("Range.get()")
        assert half[1] - half[0] == pytest.approx(page.evaluate("Run.end") / 2, rel=0.05)
        page.keyboard.press("ArrowRight")
        assert page.evaluate("Range.get()[0]") > half[0]
        page.keyboard.press("Escape")
        assert page.evaluate("Range.whole()") is True

        page.locator("#lost-write-3 summary").focus()
        page.keyboard.press("Enter")
        page.locator("#lost-write-3[open] [data-draw=lanes] svg").wait_for()
        page.locator("#from").fill("0.1")
        page.locator("#to").fill("0.2")
        page.keyboard.press("Enter")
        assert page.evaluate("Range.whole()") is False
        page.get_by_role("button", name="send", exact=True).click()
        assert page.locator("#kinds [aria-pressed=true]").inner_text() == "send"
        assert painted(page) == 5


def test_a_cycle(browser: Any, cyclic: Path, shots: Path) -> None:
    with opened(browser, cyclic) as one:
        page = one.page
        cycle = page.locator("details.witness:has(.chain)").first
        slug = cycle.get_attribute("id")
        page.evaluate("(slug) => { location.hash = slug; }", slug)
        graph = page.locator(f"#{slug} [data-draw=graph] svg")
        graph.wait_for()
        steps = cycle.locator(".chain li").count()
        assert graph.locator(".step").count() == steps >= 2
        assert graph.locator(".node").count() == steps
        labels = graph.locator(".step .label").all_text_contents()
        assert all(re.match(r"(ww|wr|rw|process|realtime)", label) for label in labels)
        assert "a contradiction!" in cycle.locator(".chain").inner_text()
        cycle.locator(".chain li").first.hover()
        assert graph.locator(".step.on").count() == 1
        assert page.locator(f"#{slug} [data-draw=lanes] .own").count() >= 2
        cycle.screenshot(path=shots / "cycle.png")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(f"#{slug} [data-draw=graph] svg").is_visible()
        assert not page.locator("#theme").is_visible()


def test_without_scripts_the_words_are_there(browser: Any, lost: Path) -> None:
    with opened(browser, lost, java_script_enabled=False) as one:
        one.page.locator("#lost-write-1 summary").click()
        assert "acknowledged after" in one.page.locator("#lost-write-1 .proof").inner_text()
        assert one.page.locator("noscript").count() == 1


def hostile_ops() -> list[Op]:
    """Each string is a key, a value, an error and an f; records of half of them are lost."""
    ops: list[Op] = []

    def add(process: int, type_: str, f: str, value: Any, error: Any = None, **extra: Any) -> None:
        ops.append(Op(len(ops), len(ops) * 1_000_000, process, type_, f, value, error, extra))

    for number, text in enumerate(STRINGS):
        process = number % 5
        add(process, INVOKE, "send", [["send", text, text]])
        add(process, OK, "send", [["send", text, [number % 3, text]]])
        add(process, INVOKE, "send", [["send", text, f"{text}!"]])
        add(process, (INFO, FAIL)[number % 2], "send", [["send", text, f"{text}!"]], [text, text])
        add(process, INVOKE, text or "f", text)
        add(process, OK, text or "f", text)
    keys = sorted(set(STRINGS))
    add(9, INVOKE, "assign", keys, seek_to_beginning=True, final=True)
    add(9, OK, "assign", keys, seek_to_beginning=True, final=True)
    for text in STRINGS:
        add(9, INVOKE, "poll", [["poll"]], final=True)
        add(9, OK, "poll", [["poll", [[text, [[5, f"{text}?"]]]]]], final=True)
    return ops


def test_hostile_strings_stay_text(browser: Any, tmp_path: Path, shots: Path) -> None:
    """As key, value, error, f, fault, node, setting, name of the run, log line, and in edited results."""
    assert len(set(STRINGS)) >= 100
    bad = STRINGS[:12]
    faults = [
        fault
        for number, text in enumerate(bad)
        for fault in killed(0.02 + number / 50, 0.03 + number / 50, text, fault=text or "f")
    ]
    ops = woven(hostile_ops(), faults)
    folder = recorded(tmp_path, "<img src=x onerror=alert(1)>", ops, acks=STRINGS[0], nemesis=list(STRINGS))
    node = folder / "logs" / "<b>n1"
    node.mkdir(parents=True)
    lines = [f"[1970-01-01 00:00:00,{100 + n:03}] ERROR Truncating to {one!r}\n" for n, one in enumerate(STRINGS)]
    (node / "server.log").write_text("".join(lines), encoding="utf-8", errors="replace")
    result = judged(folder, CheckOptions(settings=Settings(auto_offset_reset="earliest")))
    assert any(anomaly.name == "lost-write" for anomaly in result.anomalies)
    data = orjson.loads((folder / "results.json").read_bytes())
    data["reasons"] = list(STRINGS)
    data["checker_version"] = STRINGS[3]
    data["anomalies"] += [
        {
            "name": text,
            "summary": text,
            "count": 3,
            "bad": True,
            "promised": None,
            "witnesses": [{"key": text, "value": text, "op": 1, text: text}],
        }
        for text in STRINGS[:40]
    ]
    (folder / "results.json").write_bytes(orjson.dumps(data))
    path = run_page.draw(folder)
    with opened(browser, path) as one:
        page = one.page
        assert page.locator("h1").inner_text() == "<img src=x onerror=alert(1)>"
        assert page.locator(".reasons li").count() == len(STRINGS)
        for details in page.locator("details.witness").all():
            details.evaluate("(one) => { one.open = true; }")
        page.wait_for_function("[...document.querySelectorAll('details.witness')].every((one) => one.dataset.painted)")
        assert page.locator("details.witness").count() >= 20
        assert page.locator("script").count() == 2  # the data, and the page's own
        foreign = "img, iframe, object, embed, link, base, form:not(#range), math, [onerror], [onload]"
        assert page.locator(foreign).count() == 0
        hrefs = page.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert all(re.match(r"#|orders/key-", href) for href in hrefs)
        assert page.evaluate("window.hit === undefined")
        page.screenshot(path=shots / "hostile.png")
