"""The plots, and the data behind them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread

from checker.tables.schema import OPS
from harness.report.plots import all_plots, bin_operations, fault_bands, lag, unseen
from harness.sim.queue.run import simulate
from harness.stored import fault_spans
from tests.unit.report.folders import S, judged, killed, recorded, woven

NAMES = ("latency-points", "latency-quantiles", "rate", "unseen", "lag", "lag-by-process", "lag-by-key")


def ops_table(folder: Path, invoke_s: np.ndarray, latency_s: np.ndarray, **columns: list[object]) -> None:
    """The table `ops` with ok sends at these times."""
    count = len(invoke_s)
    invoke = (invoke_s * S).astype(np.int64)
    data = {
        "index": list(range(count)),
        "invoke_index": list(range(count)),
        "process": [0] * count,
        "type": ["ok"] * count,
        "f": ["send"] * count,
        "invoke_ns": invoke,
        "complete_ns": invoke + (latency_s * S).astype(np.int64),
        "error": [None] * count,
        "final": [False] * count,
        **columns,
    }
    target = folder / "tables" / "ops"
    target.mkdir(parents=True)
    pq.write_table(pa.table(data, schema=OPS), target / "00000.parquet")


def texts(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checked, simulated run with two overlapping faults."""
    ops = simulate(3, ops=400, txn=False)
    end_s = ops[-1].time_ns / S
    faults = [
        *killed(end_s * 0.2, end_s * 0.5, "n2"),
        *killed(end_s * 0.4, end_s * 0.6, "n1", effect=False, fault="isolate:leader"),
    ]
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260102T030405-kill", woven(ops, faults))
    judged(folder)
    return folder


def test_every_plot_is_drawn_twice_and_is_not_empty(run: Path) -> None:
    drawn = all_plots.draw(run)
    assert {path.name for path in drawn} == {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")}
    for path in drawn:
        if path.suffix == ".png":
            picture = imread(path)
            assert picture.shape[:2] == (500, 1200)
            assert float(np.mean(picture[:, :, :3].min(axis=2) < 0.9)) > 0.005  # the picture is not blank
        else:
            assert "kill:leader n2" in texts(path)
            assert "time since the run began [s]" in texts(path)
            assert "no data" not in texts(path)


def test_the_plots_of_one_run_are_the_same_each_time(run: Path) -> None:
    first = {path.name: path.read_bytes() for path in all_plots.draw(run)}
    (run / "plots" / all_plots.DRAWN).unlink()
    assert first == {path.name: path.read_bytes() for path in all_plots.draw(run)}


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A copy of the run with plots."""
    all_plots.draw(run)
    return Path(shutil.copytree(run, tmp_path / run.name))


def stamps(run: Path) -> dict[str, int]:
    """When each plot was written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted((run / "plots").glob("*.[ps][nv]g"))}


def test_plots_are_kept_if_nothing_that_they_show_has_changed(copy: Path) -> None:
    before = stamps(copy)
    drawn = all_plots.draw(copy)
    assert stamps(copy) == before
    assert {path.name for path in drawn} == set(before)
    judged(copy)  # makes the same tables and results again
    all_plots.draw(copy)
    assert stamps(copy) == before


@pytest.mark.parametrize(
    "changed",
    ["tables/_schema.json", "tables/nemesis.parquet", "results/unseen.parquet", "results/realtime_lag.parquet"],
)
def test_plots_are_drawn_again_if_an_input_has_changed(copy: Path, changed: str) -> None:
    before = stamps(copy)
    if changed.endswith(".json"):
        (copy / changed).write_bytes((copy / changed).read_bytes() + b" ")
    else:
        (copy / changed).unlink()
    all_plots.draw(copy)
    assert all(stamps(copy)[name] != before[name] for name in before)


@pytest.mark.parametrize("damage", ["removed", "changed", "note", "plan"])
def test_plots_are_drawn_again_if_they_are_not_those_that_were_drawn(copy: Path, damage: str) -> None:
    before = {path: path.read_bytes() for path in all_plots.draw(copy)}
    plot, note = copy / "plots" / "rate.png", copy / "plots" / all_plots.DRAWN
    if damage == "removed":
        plot.unlink()
    elif damage == "changed":
        plot.write_bytes(b"PNG")
    elif damage == "note":
        note.write_bytes(b'{"files": 3}')
    else:
        (copy / "plan.yaml").write_text("run: another\n")
    after = {path: path.read_bytes() for path in all_plots.draw(copy)}
    if damage == "plan":
        assert "another" in texts(copy / "plots" / "rate.svg")
    else:
        assert after == before


def test_units_outcomes_and_the_final_polls_are_named(run: Path) -> None:
    all_plots.draw(run)
    points = texts(run / "plots" / "latency-points.svg")
    assert "final polls" in points and " ms" in points and ">ok<" in points
    assert "operations per second" in texts(run / "plots" / "rate.svg")
    assert "lag [s]" in texts(run / "plots" / "lag.svg")


@pytest.mark.parametrize("stage", ["nothing", "plan", "recorded", "empty"])
def test_what_is_missing_makes_plots_that_say_so(tmp_path: Path, stage: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if stage == "plan":
        (folder / "plan.yaml").write_text("- not a mapping")
    if stage == "recorded":
        folder = recorded(tmp_path, "recorded", [])
    if stage == "empty":
        folder = recorded(tmp_path, "empty", [])
        judged(folder)
    drawn = all_plots.draw(folder)
    assert len(drawn) == 2 * len(NAMES)
    assert all("no data" in texts(path) for path in drawn if path.suffix == ".svg")


def test_ops_that_never_completed_are_drawn_as_such(tmp_path: Path) -> None:
    ops_table(
        tmp_path,
        np.array([1.0, 2.0]),
        np.array([0.5, 0.5]),
        complete_ns=[int(1.5 * S), None],
        type=["ok", "info"],
    )
    all_plots.draw(tmp_path)
    assert "never completed" in texts(tmp_path / "plots" / "latency-points.svg")


def test_an_f_whose_ops_never_completed_has_no_quantiles(tmp_path: Path) -> None:
    ops_table(tmp_path, np.array([1.0, 2.0]), np.array([0.5, 0.5]), complete_ns=[None, None], type=["info", "info"])
    all_plots.draw(tmp_path)
    assert "none completed" in texts(tmp_path / "plots" / "latency-quantiles.svg")


def test_quantiles_are_those_of_numpy_within_two_percent(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    invoke, latency = random.uniform(0, 10, 50_000), random.lognormal(-6, 1.5, 50_000)
    ops_table(tmp_path, invoke, latency)
    data = bin_operations.read(tmp_path)
    found = bin_operations.quantiles(data.by_f["send"], (0.5, 0.95, 1.0), 20)
    window = np.clip(((invoke + latency) / data.end_s * 20).astype(int), 0, 19)
    for number in range(20):
        mine = latency[window == number]
        if len(mine) < 500:
            continue
        assert found[0.5][number] == pytest.approx(np.quantile(mine, 0.5), rel=0.02)
        assert found[0.95][number] == pytest.approx(np.quantile(mine, 0.95), rel=0.03)
        assert found[1.0][number] == pytest.approx(mine.max(), rel=1e-6)


def test_points_are_thinned_out_but_for_the_extremes() -> None:
    screen = np.zeros((bin_operations.COLUMNS, bin_operations.ROWS), np.bool_)
    screen[:, 20:120] = True
    screen[500, 200] = True
    times, latencies = bin_operations.points(screen, 10.0, 4000)
    assert len(times) <= 4000
    assert latencies.max() == pytest.approx(
        bin_operations.LOW_S * 10 ** (200.5 / bin_operations.ROWS * bin_operations.DECADES)
    )
    whole = bin_operations.points(screen, 10.0, 10**9)[0]
    assert len(whole) == np.count_nonzero(screen)
    lowest = bin_operations.LOW_S * 10 ** (20.5 / bin_operations.ROWS * bin_operations.DECADES)
    assert np.count_nonzero(np.isclose(latencies, lowest)) >= bin_operations.COLUMNS // bin_operations.GROUP


def test_unseen_keeps_its_level_between_rows() -> None:
    table = pa.table({"time_ns": [1 * S, 5 * S, 9 * S], "key": ["1", "1", "2"], "unseen": [4, 2, 7]})
    levels = unseen.levels_of(table, 10.0)
    cell = unseen.CELLS // 10
    assert [levels["1"][n * cell] for n in (0, 1, 3, 5, 9)] == [0, 4, 4, 2, 2]
    assert levels["2"][-1] == 7 and levels["2"][0] == 0


def test_lag_has_gaps_where_nothing_was_polled() -> None:
    table = pa.table(
        {
            "time_ns": [1 * S, 1 * S, 9 * S],
            "process": [0, 1, 0],
            "key": ["a", "b", "a"],
            "lag_ns": [S, 3 * S, 2 * S],
        }
    )
    overall = lag.levels_of(table, [""] * 3, 10.0, 10)[""]
    assert (overall[1], overall[9]) == (3.0, 2.0) and np.isnan(overall[5])
    by_process = lag.levels_of(table, table.column("process").to_pylist(), 10.0, 10)
    assert (by_process[0][1], by_process[1][1]) == (1.0, 3.0)
    assert lag.cells(table) == lag.CELLS_MAX


def test_many_faults_are_no_more_than_a_screen_shows() -> None:
    extents = [(n * 0.01, 0.005) for n in range(100_000)]
    assert len(fault_bands.merged(extents, 1000 / fault_bands.PIXELS)) == 1
    assert fault_bands.merged([(0, 1), (5, 1), (5.5, 3)], 0.1) == [(0, 1), (5, 3.5)]


def test_lanes_are_few() -> None:
    found = [fault_spans.Span(f"fault:{n}", (), n, n + 1) for n in range(9)]
    lanes = fault_bands.lanes(found)
    assert len(lanes) == fault_bands.LANES_MAX
    assert sum(map(len, lanes.values())) == 9
