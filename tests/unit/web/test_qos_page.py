"""The page of a live comparison."""

from __future__ import annotations

import json

from harness.web.qos_page import QosSite, Shown

ROW = {
    "window": "2026-01-01 00:00:00",
    "state": "bad",
    "in": 1200,
    "out": 1199,
    "missing": 1,
    "duplicate": 0,
    "late": 0,
    "unmatched": 0,
    "pending": 0,
}
SUMS = {name: ROW[name] for name in ("in", "out", "missing", "duplicate", "late", "unmatched")}
SHOWN = Shown("<b>t</b> against u", "invalid", [ROW], SUMS, ["1 missing."])


def test_the_page_and_its_json() -> None:
    site = QosSite(lambda: SHOWN)
    page = site.answer("/")
    text = page.body.decode()
    assert page.status == 200 and "alarm" in text and "1,200" in text and "<b>t</b>" not in text
    answer = json.loads(site.answer("/windows.json?x=1").body)
    assert answer["verdict"] == "invalid" and answer["sums"]["missing"] == 1 and answer["windows"][0]["in"] == 1200
    assert site.answer("/../etc").status == 404
