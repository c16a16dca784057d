"""The Spark session of a run, started in the background.

With `--spark-master none` there is no session. With `auto`, a run does not start one either: once there is a history to
check, `harness.run.choose_spark` decides whether Spark is worth starting. With `auto`, commands that always need Spark
run it on all cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.cluster.distribution import cds_archive, download_cache, java
from harness.model.errors_and_exit_codes import BadInput, Missing

START_TIMEOUT_S: Final = 180.0
# Histories below this size are checked before JVM code compiled by C2 would pay for the compilation.
BRIEF_BYTES: Final = 30_000_000
NONE: Final = "none"  # --spark-master none
AUTO: Final = "auto"
ALL_CORES: Final = "local[*]"


def require(master: str, what: str) -> None:
    """Raises BadInput if the master is `none`. Called by commands that cannot do without Spark.

    what  name of the command, for the message
    """
    if master == NONE:
        raise BadInput(f"--spark-master none: {what} needs Spark; use local[N]")


class WarmSpark:
    """A Spark session that starts in a background thread, and is warmed up again after it has been idle.

    A starting JVM occupies both cores of a small machine for seconds. So that this does not disturb the load, the
    session starts while topics are created and workers start, and the load waits for it. An idle session uses no
    processor time. With the masters `none` and `auto` there is no session.
    """

    def __init__(self, master: str) -> None:
        self.master = master
        self._session: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the session in the background or, if it is running, warms it up."""
        if self.master in (NONE, AUTO):
            return
        if self._thread is not None:
            self._thread.join(START_TIMEOUT_S)
        if self._error is None:
            self._thread = threading.Thread(target=self._work, name="spark", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        from checker.spark import session

        try:
            if self._session is None:
                self._session = session.start(
                    self.master, brief=True, jvm_flags=_found_java(), cache=download_cache.root()
                )
            else:
                session.warm_up(self._session)
        except BaseException as error:
            self._error = error

    def get(self) -> Any:
        """Waits until the session is ready, and returns it. Returns None with the masters `none` and `auto`.

        If the session could not be started, raises the error of its start.
        """
        if self.master in (NONE, AUTO):
            return None
        if self._thread is None:
            self.start()
        assert self._thread is not None
        self._thread.join(START_TIMEOUT_S)
        if self._thread.is_alive():
            raise Missing(f"the Spark session did not start within {START_TIMEOUT_S:.0f} s; is the machine overloaded?")
        if self._error is not None:
            raise self._error
        return self._session


def _found_java() -> tuple[str, ...]:
    """Sets the environment variables that make PySpark use a suitable Java. Returns flags for the JVM."""
    found = java.find()
    java.set_env(found, os.environ)
    return cds_archive.of_spark(found)


def _named(master: str) -> str:
    """Returns the value for PySpark: the master itself, or for `auto` all local cores."""
    return ALL_CORES if master == AUTO else master


def session_now(master: str, size: int | None = None, paths: Sequence[str] = ()) -> Any:
    """Starts a session in the calling thread, and returns it. Returns None with the master `none`.

    size   size of the histories to check, in bytes; None if unknown
    paths  local files that a cluster's executors must be able to read
    """
    if master == NONE:
        return None
    from checker.spark import session

    brief = size is not None and size < BRIEF_BYTES
    flags, cache = _found_java(), download_cache.root()
    return session.start(_named(master), brief=brief, jvm_flags=flags, cache=cache, paths=paths)


def streaming(master: str, settings: Mapping[str, str], notice: Callable[[str], None]) -> Any:
    """Starts a session that reads from Kafka, in the calling thread, and returns it.

    The JVM uses only its C1 compiler, because batches are small. Raises BadInput for the master `none`, Missing if
    Spark's Kafka source is not available, and the errors that `session_now` raises.
    """
    require(master, "the live check")
    from checker.spark import session
    from harness.cluster.distribution import spark_source

    found = java.find()
    connector = spark_source.ensure(found, notice)
    if connector.note:
        notice(connector.note)
    java.set_env(found, os.environ)
    jars = ",".join(str(path) for path in connector.files)
    memory = os.environ.get("HARNESS_SPARK_MEMORY", "768m")
    return session.start(
        _named(master),
        "harness qos",
        warm=False,
        brief=True,
        extra={"spark.driver.memory": memory, "spark.jars": jars, **settings},
        # A heap that may grow does so in steps over the whole run, with more frequent collections meanwhile.
        jvm_flags=(*cds_archive.of_spark(found), f"-Xms{memory}"),
    )
