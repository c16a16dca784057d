"""Starts the Spark session: quiet, local by default, with warmed-up Python workers.

Starting the JVM takes 6-7 s, so a run starts the session while the cluster heals from the faults. Only `start` imports
pyspark, so that the kernels work without pyspark.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from checker.spark import executors, packed_environment
from harness.model.errors_and_exit_codes import BadInput, Missing

_LOG4J: Final = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


# With only the first JIT compiler, Spark starts in 7.6 s of processor time instead of 12.3 s; a job of minutes runs
# faster with both.
_BRIEF: Final = "-XX:TieredStopAtLevel=1"


_MASTER: Final = re.compile(
    r"local|local\[(\*|[1-9]\d{0,3})(,\d+)?\]|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://\S+", re.ASCII
)


def _settings(master: str, log4j: Path, brief: bool, jvm_flags: Sequence[str]) -> dict[str, str]:
    java = shlex.join((f"-Dlog4j2.configurationFile=file:{log4j}", "-XX:+UseSerialGC", *jvm_flags))
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.python.worker.reuse": "true",
        "spark.driver.extraJavaOptions": f"{java} {_BRIEF}" if brief else java,
        "spark.driver.memory": os.environ.get("HARNESS_SPARK_MEMORY", "2g"),
        "spark.locality.wait": "0s",
    }
    if not executors.is_cluster(master):  # a cluster's application has a web page, as its users expect
        settings["spark.ui.enabled"] = "false"
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


# Imported by name in a worker, with every kernel, so that this module depends on none of them.
_WARMED: Final = "checker.checks.table"


def _import_kernels(_: int) -> str:
    """Imports the modules that a task needs, in the Python worker that executes it."""
    return import_module(_WARMED).__name__


def _launch(settings: dict[str, str], noise: Path) -> None:
    """Starts the JVM with its standard error redirected to the file `noise`, because no setting silences the JVM."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAll(list(settings.items()))
    try:
        with noise.open("ab") as stream:
            gateway = launch_gateway(conf=conf, popen_kwargs={"stderr": stream})
    except (PySparkRuntimeError, OSError) as error:
        output = noise.read_text(errors="replace").strip().splitlines() if noise.exists() else []
        raise Missing(
            f"Spark's JVM did not start ({output[-1] if output else error}); "
            "it needs Java 17 or newer; `harness doctor` shows whether there is one"
        ) from None
    SparkContext._ensure_initialized(gateway=gateway)


def _made(builder: Any, master: str) -> Any:
    """Returns the session from its builder.

    Raises Missing if Spark fails. Spark's message is often a page long; the error has only its first line.
    """
    from py4j.protocol import Py4JError

    try:
        return builder.getOrCreate()
    except Py4JError as error:
        message = str(getattr(error, "java_exception", error)).splitlines()[0]
        if "stopped SparkContext" in message:
            message = (
                "the master does not answer, or it ended the application because its executors failed; see the logs of "
                "the workers"
            )
        raise Missing(f"Spark did not start with --spark-master {master}: {message}") from None


def warm_up(session: Any) -> None:
    """Makes every Python worker import the kernels, so that the next job starts quickly.

    The effect lasts for a minute, because Spark ends workers that have been idle for a minute.
    """
    slots = session.sparkContext.defaultParallelism
    session.sparkContext.parallelize(range(2 * slots), 2 * slots).map(_import_kernels).collect()


def start(
    master: str = "local[*]",
    app: str = "harness",
    warm: bool = True,
    brief: bool = False,
    extra: Mapping[str, str] | None = None,
    jvm_flags: Sequence[str] = (),
    cache: Path | None = None,
    paths: Sequence[str] = (),
) -> Any:
    """Returns the existing SparkSession, or starts one.

    master     the Spark master, in the form of --spark-master
    app        the name under which Spark shows the session
    warm       whether to make every Python worker import the kernels now
    brief      whether the session will check only one run's history
    extra      further Spark settings
    jvm_flags  options of the JVM
    cache      the folder for the archive of packages that a cluster's executors get; None: they get none
    paths      local files that a cluster's executors must be able to read

    If there is a session already, only `warm` has an effect.

    Raises BadInput for an invalid master. Raises Missing if there is no Java that Spark can use, or if the master does
    not answer, or if a cluster's executors do not fit (`checker.spark.executors`).
    """
    if not _MASTER.fullmatch(master):
        raise BadInput(f"--spark-master {master}: must be local[N], local[*], spark://HOST:PORT, yarn or k8s://URL")
    # Warnings about pandas versions; the checker does not use pandas there.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    cluster = executors.is_cluster(master)
    os.environ.setdefault("PYSPARK_PYTHON", executors.PYTHON if cluster else sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if SparkContext._gateway is None:
        folder = Path(tempfile.mkdtemp(prefix="harness-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        log4j = folder / "log4j2.properties"
        log4j.write_text(_LOG4J)
        settings = _settings(master, log4j, brief, jvm_flags) | dict(extra or {})
        if cluster and cache is not None:
            settings |= executors.settings(packed_environment.pack(cache))
        _launch(settings, folder / "jvm.log")
        if cluster:
            settings |= executors.credentials(os.environ)
    else:
        settings = {}
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = _made(builder, master)
    session.sparkContext.setLogLevel("ERROR")
    if cluster:
        executors.require_fit(session, master, paths)  # this imports the kernels, too
    elif warm:
        warm_up(session)
    return session
