"""The Spark session: quiet, local by default, with its Python workers warmed.

Starting the JVM takes 6-7 s, so a run starts the session while it heals. Import of pyspark is left to
`start`, so that the plain kernels work without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

_LOG4J: Final = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def _settings(master: str, log4j: Path) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.python.worker.reuse": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -XX:+UseSerialGC",
        "spark.driver.memory": os.environ.get("HARNESS_SPARK_MEMORY", "2g"),
        "spark.locality.wait": "0s",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _use_everything(_: int) -> int:
    """What a task needs, imported once in a worker that is kept."""
    from checker.checks import table

    return len(table.CHECKS)


def start(master: str = "local[*]", app: str = "harness", warm: bool = True) -> Any:
    """A SparkSession, the one that exists already if there is one. `warm` makes every worker import the kernels."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log4j = Path(tempfile.mkdtemp(prefix="harness-spark-")) / "log4j2.properties"
    log4j.write_text(_LOG4J)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in _settings(master, log4j).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if warm:
        slots = session.sparkContext.defaultParallelism
        session.sparkContext.parallelize(range(2 * slots), 2 * slots).map(_use_everything).collect()
    return session
