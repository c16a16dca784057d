"""Archives of loaded classes (class data sharing, JEP 350), which make JVMs start faster.

A JVM that maps an archive need not read, verify and link the classes again. Starting a broker then takes 3 s of
processor time instead of 5 s, and judging a small run with Spark 9 to 12 s instead of 17 s. An archive is valid for one
Java and one class path. An archive takes 50 MB for a Kafka version, and 120 MB for Spark. It is written once, when a
broker (for Kafka) or a run on the simulated log (for Spark) exits. Without a suitable archive everything works, only
more slowly. If an archive could not be written, the reason is in a file with the ending `.failed`, and no further
attempt is made. A JVM that maps a truncated archive crashes, so the archive's file name contains its size.

`python -m harness.cluster.distribution.cds_archive` writes the archives for the default version and for Spark. The
archive of any other version is written when that version is first started.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.cluster.distribution import combined_output, download_cache, jars
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java, find
from harness.model.errors_and_exit_codes import HarnessError, Missing

_KEPT: Final = 3  # archives for Spark: each environment has its own
TIMEOUT_S: Final = 240.0
_SILENT: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
TO: Final = "HARNESS_CLASSES_TO"  # if set, JVMs started by this process write an archive to this path when they exit


def of_kafka(java: Java, fetched: Jars, progress: Progress) -> tuple[str, ...]:
    """Returns the JVM flags that make the brokers of a version use its class archive; no flags if there is none.

    Writes the archive first, unless it exists or an earlier attempt failed.
    """
    stem = _stem(f"kafka-{fetched.version}", java, fetched.classpath)
    argv = [sys.executable, "-m", "harness.cluster.local.write_cds_archive", fetched.version]
    return _using(_made(stem, argv, f"Kafka {fetched.version}", progress))


def of_spark(java: Java) -> tuple[str, ...]:
    """Returns the JVM flags that make Spark's driver use its class archive; no flags if there is none."""
    to = os.environ.get(TO)
    if to:
        return writing(to)
    with suppress(Missing):  # without a writable cache there is no archive
        found = _found(_of_spark(java))
        if found is not None:
            with suppress(OSError):  # the file may belong to another user
                os.utime(found)
        return _using(found)
    return ()


def make_spark(java: Java, progress: Progress) -> None:
    """Writes Spark's archive, unless it exists or an earlier attempt failed."""
    stem = _of_spark(java)
    with tempfile.TemporaryDirectory(prefix="classes-") as runs:
        argv = [sys.executable, "-m", "harness.cli.app", "run", "--cluster", "sim", "--time-limit", "1",
                "--rate", "50", "--quiet", "--runs", runs]  # fmt: skip
        _made(stem, argv, "Spark", progress)
    kept = sorted(stem.parent.glob("spark-*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)
    for one in kept[_KEPT:]:
        one.unlink(missing_ok=True)


def _of_spark(java: Java) -> Path:
    where = importlib.metadata.distribution("pyspark")
    return _stem(f"spark-{where.version}", java, str(where.locate_file("pyspark")))


def _stem(name: str, java: Java, class_path: str) -> Path:
    """Returns the path of an archive without the ending "-SIZE.jsa": `name` and a hash of the Java and class path."""
    what = f"{Path(java.path).resolve()}\n{java.full}\n{class_path}"
    key = hashlib.sha256(what.encode()).hexdigest()[:12]
    return download_cache.root() / "classes" / f"{name}-{key}"


def _found(stem: Path) -> Path | None:
    for path in stem.parent.glob(f"{stem.name}-*.jsa"):
        if path.stem == f"{stem.name}-{path.stat().st_size}":
            return path
    return None


def _using(path: Path | None) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={path}", *_SILENT) if path else ()


def writing(path: str) -> tuple[str, ...]:
    return (f"-XX:ArchiveClassesAtExit={path}", *_SILENT)


def _made(stem: Path, argv: Sequence[str], what: str, progress: Progress) -> Path | None:
    """Returns the archive, after writing it with the command `argv` if necessary.

    `what` is the name of the program in messages, such as "Spark". Returns None if the archive cannot be written, or
    could not be written by an earlier attempt.
    """
    failed = Path(f"{stem}.failed")
    found = _found(stem)
    if found or failed.exists():
        return found
    with download_cache.locked(Path(f"{stem}.lock"), progress, f"preparing {what}"):
        found = _found(stem)
        if found or failed.exists():
            return found
        progress(f"preparing {what} for faster starts (once; takes some seconds)")
        part = Path(f"{stem}.part")
        part.unlink(missing_ok=True)
        output, ended = _run(argv, {**os.environ, TO: str(part)})
        if not (ended and part.exists()):
            failed.write_text(output)
            return None
        with part.open("rb") as written:
            os.fsync(written.fileno())
        return part.rename(f"{stem}-{part.stat().st_size}.jsa")


def _run(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, bool]:
    """Returns a process's output, and whether the process ended within the time limit.

    Waits also for its child processes, as long as they hold its output open.
    """
    try:
        done = combined_output.run(argv, TIMEOUT_S, env=env)
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT_S:.0f} s", False
    return done.stdout[-4000:], True


def main() -> int:
    """Writes the archives for the default version and for Spark, unless they exist."""
    try:
        java = find()
        of_kafka(java, jars.ensure(jars.DEFAULT_VERSION, java, print), print)
        make_spark(java, print)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
