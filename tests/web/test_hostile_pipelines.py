"""The page of a pipeline run whose topics, instances, events, run and nodes have hostile names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import yaml

from harness.model.values_as_text import plain
from harness.report.page import run_page
from tests.unit.report.folders import S
from tests.unit.report.piped_run import DONE, GAP, MISSING, piped
from tests.web.hostile import STRINGS
from tests.web.opened import opened

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

FIELDS: Final = ("topic", "instance", "said", "event")
NAMES: Final = ("missing-output", "offset-gap", "work-skipped")
EACH: Final = 10  # occurrences of each name on the page
# Names of runs and nodes: markup, ends of quotes and scripts, a template, and right-to-left text.
FOLDERS: Final = (
    "<script>window.hit=1<!--",
    '"><svg onload="window.hit=1">',
    "';window.hit=1;'",
    "{{constructor.constructor('window.hit=1')()}} \u202ereversed",
)
FOREIGN: Final = "img, iframe, object, embed, link, base, form:not(#range), math, [onerror], [onload]"


def witness(name: str, texts: dict[str, str]) -> dict[str, Any]:
    """A witness with a text in each of FIELDS, in every place where witnesses can have one."""
    event = {"time_ns": 8 * S, "event": texts["event"], "first": 1, "last": 1, **DONE}
    event["instance"] = texts["instance"]
    copy = {"topic": texts["topic"], "partition": 1, "offset": 4, **DONE, "instance": texts["instance"]}
    whole = MISSING if name == "missing-output" else GAP
    return {**whole, **texts, "around": [event], "outputs": [copy]}


def hostile_run(runs: Path, turn: int) -> Path:
    """A run where each string is the value of one field; each turn assigns them to other fields."""
    folder = piped(runs / str(turn))
    anomalies = []
    for number, name in enumerate(NAMES):
        witnesses = []
        for n in range(EACH):
            at = (number * EACH + n) * len(FIELDS)
            texts = {
                field: STRINGS[(at + (place + turn) % len(FIELDS)) % len(STRINGS)] for place, field in enumerate(FIELDS)
            }
            witnesses.append(witness(name, texts))
        anomalies.append(
            {"name": name, "summary": name, "count": EACH, "bad": True, "promised": None, "witnesses": witnesses}
        )
    data = {"schema": 1, "valid": False, "reasons": [], "anomalies": anomalies, "statistics": {}}
    (folder / "results.json").write_bytes(orjson.dumps(data))
    plan = yaml.safe_load((folder / "plan.yaml").read_text())
    (folder / "plan.yaml").write_text(yaml.safe_dump({**plan, "run": FOLDERS[turn]}))
    node = folder / "logs" / FOLDERS[turn - 1]
    node.mkdir(parents=True)
    (node / "server.log").write_text("[1970-01-01 00:00:08,500] ERROR Truncating to 7\n")
    return folder.rename(folder.with_name(FOLDERS[turn]))


@pytest.mark.parametrize("turn", range(len(FIELDS)))
def test_hostile_names_of_pipelines_stay_text(browser: Any, tmp_path: Path, turn: int) -> None:
    assert len(NAMES) * EACH * len(FIELDS) >= len(STRINGS)
    folder = hostile_run(tmp_path, turn)
    with opened(browser, run_page.draw(folder)) as one:
        page = one.page
        assert page.locator("h1").inner_text() == plain(FOLDERS[turn])
        for details in page.locator("details.witness").all():
            details.evaluate("(one) => { one.open = true; }")
        page.wait_for_function("[...document.querySelectorAll('details.witness')].every((one) => one.dataset.painted)")
        assert page.locator("details.witness").count() == len(NAMES) * EACH
        text = page.locator("body").inner_text()
        assert plain(FOLDERS[turn - 1]) in text  # the node, next to its log lines
        assert sum(text in text for text in STRINGS if text.startswith("<") and len(text) < 100) >= 20
        assert page.locator("script").count() == 2  # the data, and the page's own script
        assert page.locator(FOREIGN).count() == 0
        hrefs = page.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert all(re.match(r"#|orders/key-", href) for href in hrefs)
        assert page.evaluate("window.hit === undefined")
