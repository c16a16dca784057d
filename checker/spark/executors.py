"""Settings of a session on a cluster whose executors have nothing of this project, and the test that they fit.

Executors get the packages as an archive (`checker.spark.packed_environment`), and the credentials of object stores as
environment variables. Spark hides these values, by their names, in its event log, web page and messages.
"""

from __future__ import annotations

import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing

UNPACKED: Final = "harness-packages"  # the folder in an executor's working folder
# Variables from which pyarrow takes credentials, endpoints and regions.
CREDENTIALS: Final = ("AWS_", "AZURE_", "GOOGLE_")
REDACTED: Final = "(?i)secret|password|passwd|token|credential|access[._-]?key|_key|" + "|".join(CREDENTIALS)
START_TIMEOUT_S: Final = 180.0
TASK_BYTES: Final = 400 << 20  # free memory that a task needs besides Spark's own: the packages and one bucket
PROBE_S: Final = 0.3  # so that the tasks of the test do not all run on the executor that starts first
_IMPORTED: Final = ("checker.checks.table", "checker.tables.storage")
_CGROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

PYTHON: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def is_cluster(master: str) -> bool:
    """Returns whether the executors run on other machines, which may have no file in common with this one."""
    return master.startswith(("spark://", "k8s://", "yarn"))


def settings(archive: Path) -> dict[str, str]:
    """Returns the Spark settings that give executors the packages in the archive."""
    return {
        "spark.archives": f"{archive}#{UNPACKED}",
        "spark.executorEnv.PYTHONPATH": UNPACKED,
        # numpy would start a thread for each core of the host in every task
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
        "spark.redaction.regex": REDACTED,
    }


def credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the Spark settings that give executors the credentials in the environment.

    They must not be passed on a command line, where other users of the machine could read them.
    """
    return {f"spark.executorEnv.{name}": value for name, value in environment.items() if name.startswith(CREDENTIALS)}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a task found out about the executor's host. `problem` is an error of importing the packages, or empty."""

    host: str
    python: str
    machine: str
    free_bytes: int
    paths: tuple[bool, ...]
    problem: str


def own_facts(paths: Sequence[str] = ()) -> Facts:
    """Returns the facts about this process.

    paths  files of which `Facts.paths` says whether they exist here
    """
    problem = ""
    try:
        for name in _IMPORTED:
            import_module(name)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    exist = tuple(Path(path).exists() for path in paths)
    return Facts(socket.gethostname(), platform.python_version(), platform.machine(), _free_bytes(), exist, problem)


def _free_bytes() -> int:
    """Returns the memory that this host or container can still use; a huge number if that is unknown."""
    free = 1 << 62
    try:
        text = Path("/proc/meminfo").read_text()
        free = next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    for file in _CGROUPS:
        try:
            free = min(free, int(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return free


def _probe(_: int, paths: Sequence[str]) -> Facts:
    time.sleep(PROBE_S)
    return own_facts(paths)


def require_fit(session: Any, master: str, paths: Sequence[str] = ()) -> None:
    """Runs a small task on the executors, and compares them with this machine.

    paths  files that executors must be able to read

    Raises Missing if an executor has another version of Python, another architecture, too little memory, or cannot
    import the packages, or if no executor starts; BadInput if one cannot read the files.
    """
    context = session.sparkContext
    slots = max(2, context.defaultParallelism)
    job = context.parallelize(range(2 * slots), 2 * slots)
    found: Sequence[Facts] = _within(START_TIMEOUT_S, lambda: job.map(lambda n: _probe(n, paths)).collect(), master)
    mine = own_facts()
    for facts in sorted({*found}, key=lambda each: each.host):
        where = f"--spark-master {master}: the executor on {facts.host}"
        if facts.machine != mine.machine:
            raise Missing(f"{where} is a {facts.machine} machine, this one is {mine.machine}; run the command on one")
        if facts.problem:
            raise Missing(f"{where} cannot import the packages that were sent to it ({facts.problem[:300]})")
        if facts.free_bytes < TASK_BYTES:
            raise Missing(
                f"{where} has {facts.free_bytes >> 20} MiB of free memory; a task needs {TASK_BYTES >> 20} MiB: "
                "give it more, or a lower spark.executor.memory"
            )
        for path, exists in zip(paths, facts.paths, strict=True):
            if not exists:
                raise BadInput(
                    f"{where} cannot read {path}; upload the run and check it there: harness upload RUN s3://bucket/runs"
                )


def _within(seconds: float, task: Callable[[], Any], master: str) -> Any:
    """Returns the result of a job. Raises Missing if it fails, or does not end in time."""
    answers: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(task())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="executors", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Missing(
            f"--spark-master {master}: no executor ran a task within {seconds:.0f} s; the cluster has no free cores or "
            "memory (see its web page), or its executors cannot reach this machine (spark.driver.host)"
        )
    if errors:
        if isinstance(errors[0], HarnessError):
            raise errors[0]
        raise Missing(f"--spark-master {master}: {_cause(str(errors[0]))}") from None
    return answers[0]


def _cause(text: str) -> str:
    """Returns what is wrong with an executor, in words, from the text of Spark's error, which is often a page long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "PYTHON_VERSION_MISMATCH" in text:
        line = next(line for line in lines if "PYTHON_VERSION_MISMATCH" in line)
        theirs = line.partition("different version: ")[2].partition(" ")[0].rstrip(",;") or "another version"
        return (
            f"an executor runs Python {theirs}, and this command Python {platform.python_version()}; the minor "
            f"versions must be the same: install {PYTHON} there, and name it with PYSPARK_PYTHON"
        )
    if "Cannot run program" in text:
        line = next(line for line in lines if "Cannot run program" in line)
        program = line.partition('Cannot run program "')[2].partition('"')[0]
        return (
            f"an executor has no {program}, and this command runs Python {platform.python_version()}; install "
            f"{PYTHON} there, or name its path with PYSPARK_PYTHON"
        )
    if "No module named 'checker'" in text:
        return "an executor did not get the packages; its Spark must support spark.archives (3.1 or newer)"
    causes = [line for line in lines if line.startswith("Caused by") or "Error" in line or "Exception" in line]
    return f"the executors do not work: {(causes or lines or ['no message'])[-1][:300]}"
