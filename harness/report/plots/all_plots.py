"""Draws all plots of a run as PNG and SVG, from its tables and results.

If the tables for a plot are missing or empty, the plot says "no data". The plots do not influence the verdict.

Drawing takes longer than checking a short run. Existing plots are therefore kept if everything that they depend on is
unchanged. To find this out, plots/drawn.json records:

    {"inputs": a digest of the files that the plots show and of the code that draws them, "files": {name: CRC-32}}
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Final
from zlib import crc32

import orjson

from harness.report.plots import bin_operations, lag, latency, rate, unseen
from harness.stored import fault_spans, find_runs

DRAWN: Final = "drawn.json"
# The metadata of the tables has the sizes of all of them, and the checksums of the history that they were made from.
INPUTS: Final = (
    "tables/_schema.json",
    "tables/nemesis.parquet",
    "results/unseen.parquet",
    "results/realtime_lag.parquet",
)


def draw(run: Path, processes: int = 1) -> list[Path]:
    """Draws the plots of a run into the folder plots/ of its run folder, unless they exist and are up to date.

    Returns the paths of the PNG and SVG files.

    processes  how many processes draw at the same time. If there are several, they are forked from this process. It
               must have a single thread then.
    """
    folder = run / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    subtitle = _subtitle(run)
    inputs = _digest(run, subtitle)
    kept = _unchanged(folder, inputs)
    if kept:
        return kept
    (folder / DRAWN).unlink(missing_ok=True)
    data = bin_operations.read(run)
    faults = fault_spans.of_run(run)
    of_all = (data, faults, subtitle, folder)
    plots: list[Callable[[], list[Path]]] = [
        partial(latency.points, *of_all),
        partial(latency.quantiles, *of_all),
        partial(rate.draw, *of_all),
        partial(unseen.draw, run, *of_all),
        partial(lag.draw, run, *of_all),
    ]
    drawn = [path for paths in _results(plots, processes) for path in paths]
    files = {path.name: crc32(path.read_bytes()) for path in drawn}
    (folder / DRAWN).write_bytes(orjson.dumps({"inputs": inputs, "files": files}))
    return drawn


def _results(plots: Sequence[Callable[[], list[Path]]], processes: int) -> list[list[Path]]:
    if processes == 1:
        return [plot() for plot in plots]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return [drawing.result() for drawing in [pool.submit(plot) for plot in plots]]


def _subtitle(run: Path) -> str:
    plan = find_runs.plan_of(run)
    acks = f"   acks={plan['acks']}" if plan.get("acks") is not None else ""
    return f"{plan.get('run') or run.resolve().name}{acks}"


def _unchanged(folder: Path, inputs: str | None) -> list[Path]:
    """Returns the existing plots; none if they are incomplete or were drawn from other inputs.

    inputs  the digest of the inputs; None if they are incomplete
    """
    if inputs is None:
        return []
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        drawn = orjson.loads((folder / DRAWN).read_bytes())
        files = {folder / name: crc for name, crc in drawn["files"].items()}
        if drawn["inputs"] == inputs and all(crc32(path.read_bytes()) == crc for path, crc in files.items()):
            return list(files)
    return []


def _digest(run: Path, subtitle: str) -> str | None:
    """Returns a digest of everything that the plots depend on; None if the run has no complete tables."""
    if not (run / INPUTS[0]).is_file():
        return None
    found = hashlib.sha256(f"{_code()} {subtitle}".encode(errors="backslashreplace"))
    for content in _contents(run):
        found.update(content)
    return found.hexdigest()


def _contents(run: Path) -> Iterator[bytes]:
    """Yields the length and the content of each input; an input that does not exist has the length -1."""
    for name in INPUTS:
        path = run / name
        content = path.read_bytes() if path.is_file() else None
        yield b"%d:" % (-1 if content is None else len(content))
        yield content or b""


@cache
def _code() -> str:
    """Returns a digest of the code that draws: the modules of this package, and the version of matplotlib."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    text = b"".join(path.read_bytes() for path in (*sources, Path(fault_spans.__file__)))
    return hashlib.sha256(text + metadata.version("matplotlib").encode()).hexdigest()
