"""The speed of the checker, compared with reading and shuffling the same rows in the same run.

    python -m tests.bench.checker [--sizes 10k,100k-txn,600k,1M,1M-txn,10M,10M-key,growth,workers,edn,log]

Each history is valid and generated (tests/bench/histories.py); its tables are in the layout of a run. A row's time is
that of `checker.check.check` on these tables, with a running session and warm Python workers; the best of `--repeat`
counts. Memory is the peak of the summed resident sets of this process and its descendants (JVM and Python workers),
sampled every 50 ms; the generator runs before, in a separate process. `cpu` is the processor time of all of them in
seconds, which depends less on other work of the machine.

Baselines, on the same files:
  read      pyarrow reads every file in two processes
  shuffle   Spark shuffles sends and polls by key and aggregates, in the JVM
The requirement from a million ops on: check <= 3 * (read + shuffle). For smaller sizes, the time of an empty Spark job
with as many tasks is shown. Other rows:
  growth    time(10M) / time(1M), at most 11
  workers   two one-core workers of a standalone cluster against one, on 10 M ops: at least 1.6 times faster
  edn       the whole command on a Jepsen EDN file, with import
  log       conversion of a log of 10 M ops (--log-ops) to tables in Spark
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from checker import check
from checker.spark import session
from checker.tables import join_segments, make_tables
from harness.model.check_options import CheckOptions
from harness.run.spark import session_now
from tests.bench import histories
from tests.bench.histories import Shape

BAR, GROWTH_BAR, WORKERS_BAR, MEMORY_BAR_GIB = 3.0, 11.0, 1.6, 10.0
PAGE = os.sysconf("SC_PAGE_SIZE")
PORT = 17077


@dataclass(frozen=True, slots=True)
class Row:
    shape: Shape
    guide_s: float


ROWS = {
    "10k": Row(Shape(10_000), 1.5),
    "100k-txn": Row(Shape(100_000, txn=True), 2),
    "600k": Row(Shape(600_000), 4),
    "1M": Row(Shape(1_000_000), 8),
    "1M-txn": Row(Shape(1_000_000, txn=True), 8),
    "10M": Row(Shape(10_000_000, keys=640), 50),
    "10M-key": Row(Shape(8_000_000, keys=1, txn=True, fan=1), 100),
}
OTHERS = ("growth", "workers", "edn", "log")
WORKERS_SHAPE = Shape(10_000_000, keys=640)


# --- memory -------------------------------------------------------------------------------------------


TICKS = os.sysconf("SC_CLK_TCK")


def _used(root: int) -> dict[int, tuple[int, float]]:
    """Resident bytes and processor seconds so far, of a process and its descendants."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = (int(fields[21]) * PAGE, sum(map(int, fields[11:13])) / TICKS)
    wanted, more = {root}, {root}
    while more:
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= more
    return {pid: used[pid] for pid in wanted & used.keys()}


class Peak:
    """The peak of resident memory during the block, and the processor time used."""

    def __init__(self) -> None:
        self.bytes, self._began, self._last = 0, dict[int, float](), dict[int, float]()
        self._stop = threading.Event()

    @property
    def cpu_s(self) -> float:
        return sum(last - self._began.get(pid, 0) for pid, last in self._last.items())

    def __enter__(self) -> Peak:
        self._began = {pid: cpu for pid, (_, cpu) in _used(os.getpid()).items()}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        used = _used(os.getpid())
        self.bytes = max(self.bytes, sum(size for size, _ in used.values()))
        self._last.update((pid, cpu) for pid, (_, cpu) in used.items())

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self._look()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()


# --- measuring ----------------------------------------------------------------------------------------


def timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _read(files: list[Path]) -> int:
    return sum(pq.ParquetFile(file).read().num_rows for file in files)


def read_floor(tables: Path) -> float:
    """Seconds in which two processes read every file."""
    files = sorted(tables.rglob("*.parquet"), key=lambda file: -file.stat().st_size)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_read, [[files[0]], [files[0]]]))  # warm up
        return timed(lambda: list(pool.map(_read, [files[0::2], files[1::2]])))


def shuffle_floor(spark: Any, tables: Path) -> float:
    """Seconds in which Spark shuffles the rows of sends and polls by key and aggregates them."""
    from pyspark.sql import functions as F

    def job() -> None:
        frames = []
        for kind in ("sends", "polls"):
            frame = spark.read.option("recursiveFileLookup", "true").parquet(str(tables / kind))
            frames.append(frame.select(*POLL_COLUMNS))
        rows = frames[0].unionByName(frames[1]).repartition(8, "key")
        sums = [F.max(name) for name in POLL_COLUMNS if name != "key"]
        rows.groupBy("key").agg(F.count("*"), *sums).collect()

    return timed(job)


POLL_COLUMNS = ("key", "value", "offset", "op", "mop", "process", "type", "invoke_ns", "complete_ns")


def empty_job(spark: Any, tasks: int) -> float:
    """Seconds of a Spark job with this many empty Python tasks."""
    context = spark.sparkContext
    return timed(lambda: context.parallelize(range(tasks), tasks).map(int).collect())


def _generate(shape: Shape, folder: Path, log: bool, copies: int) -> None:
    history = histories.make(shape)
    histories.write_log(history, folder) if log else histories.write_tables(history, folder, copies=copies)


@contextmanager
def made(shape: Shape, work: Path, log: bool = False, copies: int = 1) -> Iterator[Path]:
    """A run folder with the history, deleted after the block."""
    folder = work / f"{shape.ops}-{shape.keys}-{shape.txn}-{'log' if log else 'tables'}"
    process = get_context("spawn").Process(target=_generate, args=(shape, folder, log, copies))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the history of {shape} could not be made")
    yield folder
    shutil.rmtree(folder)


def judge(spark: Any, run: Path) -> None:
    result = check.check(spark, run, CheckOptions(), progress=lambda text: None)
    if result.valid != "valid":
        raise SystemExit(f"{run}: {result.valid}: {result.reasons} {[a.name for a in result.anomalies]}")


def measure(name: str, row: Row, spark: Any, work: Path, repeat: int) -> float:
    """Prints the line of one size; returns the seconds of its check."""
    with made(row.shape, work) as run:
        meta = make_tables.read_meta(run / "tables")
        assert meta is not None
        session.warm_up(spark)
        with Peak() as peak:
            seconds = min(timed(lambda: judge(spark, run)) for _ in range(repeat))
        reading = min(read_floor(run / "tables") for _ in range(repeat))
        with Peak() as shuffle:
            shuffling = min(shuffle_floor(spark, run / "tables") for _ in range(repeat))
        nothing = min(empty_job(spark, meta["buckets"]) for _ in range(3))
    ratio, gib = seconds / (reading + shuffling), peak.bytes / 2**30
    memory = f"{gib:.2f} GiB" + (" MISSED" if gib > MEMORY_BAR_GIB else "")
    verdict = "" if row.shape.ops < 1_000_000 else " met" if ratio <= BAR else " MISSED"
    print(
        f"{name:9}{meta['ops']:>11,} ops{meta['buckets']:>4} buckets {seconds:7.2f} s (guide "
        f"{row.guide_s:g}; cpu {peak.cpu_s / repeat:.1f})  {memory}  "
        f"read {reading:.2f} shuffle {shuffling:.2f} (cpu {shuffle.cpu_s / repeat:.1f}) "
        f"ratio {ratio:.2f}{verdict}  "
        f"empty job {nothing:.2f} (x{seconds / nothing:.1f})",
        flush=True,
    )
    return seconds


# --- two workers against one ---------------------------------------------------------------------------


def _spark_class(*words: str, log: Path) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with log.open("ab") as stream:
        return subprocess.Popen([str(home / "bin" / "spark-class"), *words], stdout=stream, stderr=stream, env=env)


def _one_cluster(workers: int, run: Path, work: Path) -> float:
    """Seconds of a check on a standalone cluster with this many one-core workers."""
    port, log = PORT + workers, work / f"cluster-{workers}.log"
    package = "org.apache.spark.deploy"
    own = ("--host", "127.0.0.1")
    processes = [_spark_class(f"{package}.master.Master", *own, "--port", str(port), "--webui-port", "0", log=log)]
    try:
        for _ in range(workers):
            processes.append(
                _spark_class(
                    f"{package}.worker.Worker",
                    *own,
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--webui-port",
                    "0",
                    "--work-dir",
                    str(work / "spark-work"),
                    f"spark://127.0.0.1:{port}",
                    log=log,
                )
            )
        command = [
            sys.executable,
            "-m",
            "tests.bench.checker",
            "--one-check",
            str(run),
            "--master",
            f"spark://127.0.0.1:{port}",
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
        return float(done.stdout.split()[-1])
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


def one_check(run: Path, master: str, repeat: int) -> None:
    """Prints the seconds of a check on a master, after a check to warm up."""
    spark = session_now(master)
    context = spark.sparkContext
    deadline = time.monotonic() + 60
    cores = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    while cores < 1 and time.monotonic() < deadline:
        time.sleep(0.5)
        cores = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    time.sleep(5)  # wait for the other executor, if there is one
    session.warm_up(spark)
    judge(spark, run)
    print(min(timed(lambda: judge(spark, run)) for _ in range(repeat)))


def two_workers(work: Path) -> None:
    with made(WORKERS_SHAPE, work) as run:
        one, two = (_one_cluster(workers, run, work) for workers in (1, 2))
    verdict = "met" if one / two >= WORKERS_BAR else "MISSED"
    print(
        f"workers    {WORKERS_SHAPE.ops:>11,} ops  one worker {one:.2f} s, two {two:.2f} s: x{one / two:.2f} "
        f"(bar {WORKERS_BAR}) {verdict}",
        flush=True,
    )


# --- from a file ----------------------------------------------------------------------------------------


def _edn_file(ops: int, work: Path) -> Path:
    """The same history as Jepsen writes it."""
    folder = work / f"edn-{ops}"
    history = histories.make(Shape(ops))
    file = work / f"{ops}.edn"
    with file.open("w") as out:
        for data in histories.ops_of(history):
            out.write(edn_line(data))
    shutil.rmtree(folder, ignore_errors=True)
    return file


def edn_line(data: dict[str, Any]) -> str:
    """One op as Jepsen prints it."""
    if data["f"] == "assign":
        value = "[" + " ".join(map(str, data["value"])) + "]"
    else:
        value = "[" + " ".join(map(_edn_mop, data["value"])) + "]"
    return (
        f"{{:index {data['index']}, :time {data['time_ns']}, :type :{data['type']}, "
        f":process {data['process']}, :f :{data['f']}, :value {value}}}\n"
    )


def _edn_mop(mop: list[Any]) -> str:
    if mop[0] == "send":
        sent = f"[{mop[2][0]} {mop[2][1]}]" if isinstance(mop[2], list) else str(mop[2])
        return f"[:send {mop[1]} {sent}]"
    if len(mop) == 1:
        return "[:poll]"
    keys = ", ".join(f"{key} [{' '.join(f'[{offset} {value}]' for offset, value in pairs)}]" for key, pairs in mop[1])
    return f"[:poll {{{keys}}}]"


def from_edn(work: Path) -> None:
    harness = Path(sys.executable).parent / "harness"
    for ops in (100_000, 600_000):
        file = _edn_file(ops, work)
        seconds = timed(
            lambda file=file: subprocess.run(  # type: ignore[misc]
                [str(harness), "check", str(file)], check=True, stdout=subprocess.DEVNULL
            )
        )
        size = file.stat().st_size
        print(f"edn        {ops:>11,} ops  {size >> 20} MiB  whole command {seconds:.2f} s", flush=True)
        file.unlink()


def from_log(spark: Any, ops: int, work: Path) -> None:
    with made(Shape(ops, keys=max(64, ops // 16_000)), work, log=True) as run:
        size = sum(file.stat().st_size for file in (run / "history").iterdir())
        with Peak() as peak:
            seconds = timed(lambda: join_segments.make(run, run / "tables", None, lambda text: None, spark))
        print(
            f"log        {ops:>11,} ops  {size >> 20} MiB of log  tables in {seconds:.1f} s "
            f"({2 * ops / seconds:,.0f} lines/s)  {peak.bytes / 2**30:.2f} GiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", default=",".join([*ROWS, *OTHERS]))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--log-ops", type=int, default=10_000_000)
    parser.add_argument("--one-check", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_check:
        one_check(given.one_check, given.master, given.repeat)
        return
    sizes = given.sizes.split(",")
    unknown = set(sizes) - ROWS.keys() - set(OTHERS)
    if unknown:
        parser.error(f"unknown sizes {', '.join(sorted(unknown))}; there are {', '.join([*ROWS, *OTHERS])}")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        work = Path(folder)
        if set(sizes) - {"workers", "edn"}:
            run_here(given, sizes, work)
        if "workers" in sizes:
            two_workers(work)
        if "edn" in sizes:
            from_edn(work)


def run_here(given: argparse.Namespace, sizes: list[str], work: Path) -> None:
    """The rows that share one session."""
    spark = session_now(given.master)
    took = {}
    with made(Shape(20_000), work) as run:
        judge(spark, run)  # warm up
        shuffle_floor(spark, run / "tables")
    for name in ROWS:
        if name in sizes or (name in ("1M", "10M") and "growth" in sizes):
            took[name] = measure(name, ROWS[name], spark, work, given.repeat)
    if "1M" in took and "10M" in took:
        growth = took["10M"] / took["1M"]
        print(f"growth     time(10M) / time(1M) = {growth:.1f} (bar {GROWTH_BAR:g})", flush=True)
    if "log" in sizes:
        from_log(spark, given.log_ops, work)
    spark.stop()


if __name__ == "__main__":
    main()
