"""Results that someone edited: show, explain and compare say so in one message, or tell what is left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import yaml

from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from harness.cli.app import invoke
from harness.sim.queue.run import simulate
from harness.stored import damaged
from tests.unit.report.folders import judged, killed, recorded, woven

BUGS: Final = frozenset({"lose-acked", "aborted-visible", "dirty-read", "reorder"})
ODD: Final[tuple[Any, ...]] = ({"a": 1}, [[]], "text", None, 1 << 63, -1, 1.5, True)
PIPELINE: Final = {"inputs": 1, "done": 1, "outputs": 1, "expected": 1, "extra": 0, "aborted": 0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged run of several anomalies, with faults."""
    ops = woven(simulate(3, ops=300, keys=2, bugs=BUGS), killed(0.1, 0.2, "n1"))
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260101T000000-kill-leader", ops, txn=True)
    judged(folder)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / run.name))


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "results.json"
    data = orjson.loads(path.read_bytes())
    change(data)
    path.write_bytes(json.dumps(data).encode())


def _statistic(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["statistics"].update({name: value})


REFUSED: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "promised": lambda data: data.update(promised="perhaps"),
    "promised, a list": lambda data: data.update(promised=[]),
    "promised of an anomaly": lambda data: data["anomalies"][0].update(promised="perhaps"),
    "promised of an anomaly, a list": lambda data: data["anomalies"][0].update(promised=[]),
    "bad": lambda data: data["anomalies"][0].update(bad="yes"),
    "acknowledged": _statistic("acknowledged", "x"),
    "seen": _statistic("seen", "x"),
    "ops": _statistic("ops", {}),
    "by_f": _statistic("by_f", {"send": 7}),
    "by_f, texts": _statistic("by_f", {"send": {"ok": "many"}}),
    "pipeline": _statistic("pipeline", {**PIPELINE, "extra": "x"}),
    "pipeline, half": _statistic("pipeline", {"inputs": 1}),
    "offsets": _statistic("offsets", {"events": {"commit": "x"}}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_edited_results_are_refused_with_the_file(copy: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    _edit(copy, REFUSED[what])
    for command in (["show"], ["show", "--json"], ["explain"], ["compare", str(copy)]):
        code = invoke([*command, str(copy)])
        output = capsys.readouterr()
        assert (code, output.out, output.err.count("\n")) == (254, "", 1), (command, output)
        assert f"{copy / 'results.json'}:" in output.err and f"harness check {copy}" in output.err


def _places(data: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The way to everything that is in plain data."""
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, part in parts:
        yield (*path, name)
        yield from _places(part, *path, name)


def test_witnesses_with_odd_fields_never_crash(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (run / "results.json").read_bytes()
    data = orjson.loads(whole)
    assert len(data["anomalies"]) >= 4
    tried = 0
    try:
        for number, anomaly in enumerate(data["anomalies"]):
            for place in list(_places(anomaly["witnesses"][:1]))[1:5]:
                odd = ODD[tried % len(ODD)]
                changed = orjson.loads(whole)
                *way, last = place
                inside = changed["anomalies"][number]["witnesses"]
                for name in way:
                    inside = inside[name]
                inside[last] = odd
                (run / "results.json").write_bytes(json.dumps(changed).encode())
                for command in (["show", str(run)], ["explain", str(run), anomaly["name"]]):
                    code = invoke(command)
                    output = capsys.readouterr()
                    assert code in (0, 254), (anomaly["name"], place, odd, command, output.err)
                    assert code == 0 or f"harness check {run}" in output.err, output.err
                tried += 1
    finally:
        (run / "results.json").write_bytes(whole)
    assert tried > 12


@pytest.mark.parametrize("name", sorted({*OUTPUTS, *OFFSETS}))
def test_witnesses_of_pipelines_that_hold_little_never_crash(
    copy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    anomaly = {"name": name, "summary": "", "count": 1, "bad": True, "promised": None}
    for witness in ({}, {"id": [], "around": [7]}, {"topic": "t", "around": "x", "time_ns": 1e300}):
        _edit(copy, lambda data, stored=witness: data.update(anomalies=[{**anomaly, "witnesses": [stored]}]))
        for command in (["show", str(copy)], ["explain", str(copy), name]):
            assert invoke(command) in (0, 254), capsys.readouterr().err
            capsys.readouterr()


@pytest.mark.parametrize("name", [7, 2026, True, None, 1.5])
def test_a_plan_with_a_number_as_a_name_is_compared(
    run: Path, copy: Path, capsys: pytest.CaptureFixture[str], name: Any
) -> None:
    plan = yaml.safe_load((copy / "plan.yaml").read_text())
    (copy / "plan.yaml").write_text(yaml.safe_dump({**plan, name: "odd"}))
    for more in ([], ["--json"]):
        assert invoke(["compare", *more, str(run), str(copy)]) == 0
        assert f"{name}" in capsys.readouterr().out


def test_what_the_machine_lacks_is_not_called_damage(run: Path) -> None:
    with pytest.raises(PermissionError), damaged.reporting_damage(run):
        raise PermissionError(13, "Permission denied", "file")
    with pytest.raises(damaged.BadInput, match="edited or damaged"), damaged.reporting_damage(run):
        raise ValueError("first\nsecond")
