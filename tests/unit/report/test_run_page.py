"""The text of the run page: its statements, its embedded data, and its handling of damaged and edited files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.history_writer import write_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import AnomalyFound, Result, to_data
from harness.report.page import (
    chart_series,
    document,
    operation_lanes,
    run_page,
    settings_and_command,
)
from harness.run import check_and_draw
from harness.sim.queue.run import simulate
from harness.stored import find_runs
from tests.unit.report.folders import S, judged, killed, recorded, woven

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "harness" / "report" / "page" / "assets"
BUGS = frozenset({"lose-acked"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checked run with lost records and a fault."""
    ops = simulate(3, ops=400, txn=False, bugs=BUGS)
    end_s = ops[-1].time_ns / S
    folder = recorded(
        tmp_path_factory.mktemp("runs"),
        "20260102T030405-kill",
        woven(ops, killed(end_s * 0.2, end_s * 0.5, "n2")),
        acks="1",
    )
    judged(folder, CheckOptions(settings=Settings(acks="1")))
    return folder


def embedded(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found.group(1))


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_it_says_what_was_found_and_lets_nothing_else_run(run: Path) -> None:
    path = run_page.draw(run)
    text = path.read_text(encoding="utf-8")
    result = find_runs.require_result(run)
    lost = next(found for found in result.anomalies if found.name == "lost-write")
    assert f"lost-write ({lost.count:,})" in text
    command = re.search(r'<code id="repeat">(.*?)</code>', text)
    plain_command = re.sub("<[^>]*>", "", command.group(1)) if command else ""
    assert re.fullmatch(r"harness run .*--acks 1 .*--nemesis kill:leader.* --seed 1", plain_command)
    assert 'id="lost-write-1"' in text and "acknowledged after" in text

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (script,), (style,) = (
        re.findall(r"<script>(.*?)</script>", text, re.S),
        re.findall(r"<style>(.*?)</style>", text, re.S),
    )
    assert policy
    allowed = policy.group(1).replace("&#39;", "'")
    assert allowed.startswith("default-src 'none';") and "unsafe" not in allowed
    assert digest(script) in allowed and digest(style) in allowed
    assert not re.search(r'\bon[a-z]+="|\bstyle="|\bsrc="|<link|<img|@import|url\(http', text.replace(script, ""))

    data = embedded(text)
    (fault,) = data["faults"]
    assert fault["spans"][0]["label"] == "kill:leader n2" and fault["spans"][0]["effect"] is True
    whole = data["ops"][0]
    assert whole["name"] == "all" and whole["count"] == result.statistics["ops"]
    rates = sum(sum(counts) for counts in whole["rates"].values())
    assert 0 < rates <= whole["count"]
    (track,) = [one for one in data["anomalies"] if one["name"] == "lost-write"]
    assert track["known"] == sum(track["counts"]) == lost.count

    witness = data["witnesses"]["lost-write-1"]
    own = {bar[5] for bars in witness["lanes"]["bars"] for bar in bars if bar[6]}
    assert lost.witnesses[0]["writer"] in own
    key, value = lost.witnesses[0]["key"], lost.witnesses[0]["value"]
    strip = next(one for one in witness["strips"] if one["key"] == str(key))
    marked = [cell for one in strip["sections"] for cell in one["cells"] if len(cell) == 5 and cell[4]]
    assert [(cell[1], cell[3]) for cell in marked] == [(str(value), 0)]  # never polled


def test_the_end_of_a_run_names_the_page(run: Path) -> None:
    printed: list[str] = []
    drawn = check_and_draw.draw(run, printed.append)
    assert printed[-1] == f"open: {run / 'report.html'}" and drawn[-1] == run / "report.html"
    text = drawn[-1].read_text(encoding="utf-8")
    assert text == run_page.page(run)
    pages = set(re.findall(r'href="(orders/[^"]*)"', text))
    assert pages and all((run / page).is_file() for page in pages)


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "results.json"
        data = orjson.loads(path.read_bytes())
        change(data)
        path.write_bytes(orjson.dumps(data))

    return edit


def cut_in_half(folder: Path) -> None:
    shutil.rmtree(folder / "tables")
    (folder / "results.json").unlink()
    history = folder / "history" / "00000.jsonl"
    history.write_bytes(history.read_bytes()[: history.stat().st_size // 2])
    (folder / "owner").write_text("1 2")


def damaged(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.write_bytes(b"PAR1 nothing")

    return damage


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "not judged": (lambda folder: (folder / "results.json").unlink(), "was not judged"),
    "half a run": (cut_in_half, "still in progress, or had been interrupted"),
    "newer": (edited(lambda data: data.update(schema=99)), "schema 99"),
    "older": (edited(lambda data: data.update(schema=0)), "lost-write"),
    "not JSON": (lambda folder: _write(folder / "results.json", b"{"), "not JSON"),
    "no verdict": (edited(lambda data: data.pop("valid")), "not a valid result"),
    "edited promise": (edited(lambda data: data.update(promised="perhaps")), "cannot be used"),
    "edited witnesses": (
        edited(lambda data: data["anomalies"][0].update(witnesses=[{"key": [], "ops": {"a": 1}}])),
        "lost-write",
    ),
    "edited counts": (edited(lambda data: data["anomalies"][0].update(count="many")), "cannot be used"),
    "damaged tables": (damaged("tables/**/*.parquet"), "No charts: "),
    "damaged series": (damaged("results/*.parquet"), "lost-write"),
    "no plan": (lambda folder: (folder / "plan.yaml").unlink(), "Check it again"),
    "odd plan": (lambda folder: _write(folder / "plan.yaml", b"seed: [1]\n5: {a: b}\nnemesis: 7\n"), "--5"),
}


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize("what", WRONG)
def test_the_page_reports_problems_of_a_run(run: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / run.name
    shutil.copytree(run, folder)
    damage, note = WRONG[what]
    damage(folder)
    text = run_page.draw(folder).read_text(encoding="utf-8")
    assert note in re.sub(r"&#39;|&#34;", "'", text), what
    embedded(text)


def test_many_witnesses_are_shown_in_part_and_counted_in_full(run: Path, tmp_path: Path) -> None:
    """40 different anomalies: each has its place on the page, and as many witnesses as fit."""
    folder = tmp_path / run.name
    shutil.copytree(run, folder)
    anomaly = AnomalyFound("x", "of many.", 500, True, None, ({"op": 3},) * 8)
    names = [f"a-{number}" for number in range(38)] + ["a b", "a&b"]
    result = Result("invalid", anomalies=tuple(AnomalyFound(name, *_rest(anomaly)) for name in names))
    write_json(folder / "results.json", to_data(result))
    text = run_page.page(folder)
    slugs = re.findall(r'<article class="group bad" id="([^"]*)"', text)
    assert len(set(slugs)) == 40 and {"a-b", "a-b-x"} <= set(slugs)
    assert len(re.findall(r'<details class="witness"', text)) == 30
    assert text.count("of 500") >= 40


def test_a_page_that_would_be_too_large_shows_fewer(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_page.page(run)
    monkeypatch.setattr(run_page, "BYTES_MAX", len(whole.encode()) - 1)
    less = run_page.page(run)
    every, kept = (len(re.findall(r'<details class="witness"', text)) for text in (whole, less))
    assert 0 < kept < every and len(embedded(less)["witnesses"]) == kept
    assert len(less.encode()) < len(whole.encode())


def _rest(anomaly: AnomalyFound) -> tuple[Any, ...]:
    return anomaly.summary, anomaly.count, anomaly.bad, anomaly.promised, anomaly.witnesses


def test_json_cannot_end_its_element() -> None:
    text = document.as_json({"a": "</script><!--<script>\u2028\u2029&"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"a": "</script><!--<script>\u2028\u2029&"}


def test_windows_join_where_moments_are_close_and_when_there_are_too_many() -> None:
    assert operation_lanes.windows_of([(100, 110), (115, 120), (1000, 1010)], 10) == [(90, 130), (990, 1020)]
    many = [(at * 1000, at * 1000 + 1) for at in (1, 2, 10, 20, 30, 33)]
    assert len(operation_lanes.windows_of(many, 10)) == 4
    assert operation_lanes.windows_of(many, 10)[0] == (990, 2011)
    assert (
        operation_lanes.margin_ns(0, 0.0)
        == operation_lanes.MARGINS_NS[0]
        < operation_lanes.margin_ns(100, 60.0)
        == operation_lanes.MARGINS_NS[1]
    )


def test_moments_are_counted_by_cells_of_time() -> None:
    found = chart_series.moments([0.0, 0.0, 5.0, 10.0, 11.0], 10.0)
    assert found == {"cells": [0, 600, 1199], "counts": [2, 1, 2], "known": 5}
    assert chart_series.moments([1.0], 0.0)["known"] == 0


def test_the_command_repeats_what_is_not_the_default() -> None:
    plan = {
        "acks": "1",
        "txn": False,
        "seed": 7,
        "nemesis": ["kill:leader"],
        "rate_hz": 50.0,
        "crash_clients": True,
        "idempotence": False,
        "broker_config": {"a.b": "c d"},
        "run": "r",
        "time_limit_s": 60.0,
    }
    shown_command = settings_and_command.command(plan, "runs/r")
    assert shown_command.startswith("harness run ") and shown_command.endswith(" --seed 7")
    for part in ("--acks 1", "--rate 50", "--crash-clients", "--no-idempotence", "--broker-config 'a.b=c d'"):
        assert f" {part}" in shown_command
    assert "time-limit" not in shown_command and "--txn" not in shown_command
    options = {one.option for one in settings_and_command.changed(plan)}
    assert {"--acks", "--seed", "--nemesis"} <= options and "--run" not in options
    scheduled = {**plan, "schedule": [{"fault": "kill:leader", "at": 3}]}
    assert settings_and_command.command(scheduled, "runs/r") == "harness run --plan runs/r/plan.yaml"
    assert settings_and_command.command({}, "runs/a b") == "harness check 'runs/a b'"


def test_what_is_vendored_is_what_is_noted_and_all_of_it_is_packaged() -> None:
    noted = (ASSETS / "uplot" / "SOURCE.md").read_text()
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        assert hashlib.sha256((ASSETS / "uplot" / name).read_bytes()).hexdigest() in noted
    package = ROOT / "harness" / "report" / "page"
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {path for pattern in globs["harness.report.page"] for path in package.glob(pattern)}
    assert packaged == {
        path for folder in ("assets", "templates") for path in (package / folder).rglob("*") if path.is_file()
    }
