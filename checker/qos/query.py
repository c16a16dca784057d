"""Runs a live comparison: a streaming query that updates the checkpoint folder with each batch.

Spark provides batches with their offsets, order and checkpoint. `spark_batch` and `window_state` process a batch. If a
broker does not answer, the query fails and is restarted from its checkpoint, for up to `Until.patience_s`.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation

from checker.qos import losses, source, spark_batch
from checker.qos.checkpoint_store import Store
from checker.qos.comparison_settings import Settings
from checker.qos.window_state import END, UNKNOWN_MS, Book, Window, after_judging, after_reading
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing

SPARK: Final = {
    "spark.sql.ansi.enabled": "false",  # a failed cast gives null, which is a reject
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # By default Spark keeps a thousand jobs and plans for its UI, which is off here.
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "5",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}
PARTITIONS: Final = 2
EXAMPLES: Final = 20
ANSWER_S: Final = 10.0
RETRY_S: Final = 2.0
LOOK_S: Final = 0.25
STOP_S: Final = 120.0
# For Kafka clients in Spark: how soon a broker that is down is noticed; Spark tries three times.
_PATIENT: Final = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}
_AWAY: Final = re.compile(
    r"TimeoutException|DisconnectException|NetworkException|NotAvailableException|NotLeaderOrFollower|"
    r"Connection refused|Failed to get offsets|Cannot fetch offset"
)
_NO_TOPIC: Final = "UnknownTopicOrPartitionException"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Until:
    """When to end a comparison.

    idle_s      ends after this many seconds without a record; None: no such limit
    for_s       ends this many seconds after the start; None: no such limit
    patience_s  fails after the brokers have not answered for this many seconds
    every_s     interval between batches in seconds
    """

    idle_s: float | None = None
    for_s: float | None = None
    patience_s: float = 600.0
    every_s: float = 2.0


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window to be reported, because it was closed or its counts changed, with examples of its anomalies."""

    window: Window
    examples: tuple[dict[str, Any], ...]

    def line(self, batch: int) -> dict[str, Any]:
        """Returns the line for windows.jsonl."""
        window = self.window
        return {
            "schema": 1,
            "batch": batch,
            "start_ms": window.start_ms,
            "in": window.records_in,
            "out": window.records_out,
            "missing": window.missing,
            "duplicate": window.duplicate,
            "late": window.late,
            "unmatched": window.unmatched,
            "revision": window.revision,
            "examples": list(self.examples),
        }


class Live:
    """A running comparison. Other threads may read its state (`book`) and set `ended` to end it, at any time."""

    def __init__(self, spark: Any, settings: Settings, store: Store, tell: Callable[[JudgedWindow], None]) -> None:
        self._spark, self._store, self._tell = spark, store, tell
        self.settings = replace(settings, kafka={**_PATIENT, **settings.kafka})
        self.book: Book = store.book()
        self.ended = threading.Event()
        self._batch = threading.Lock()
        self._failure: Exception | None = None
        self._stopping = False
        self._first_ms = 0  # when this process read its first batch, which may repeat an old one
        self._admin: Any = None

    def check(self) -> None:
        """Raises Missing if no broker answers, and BadInput if a topic does not exist."""
        at = self.settings.bootstrap
        try:
            self._admin = losses.admin(self._spark, at, self.settings.kafka, ANSWER_S)
            topics = (*self.settings.inputs, *self.settings.outputs)
            absent = losses.absent(self._spark, self._admin, topics, ANSWER_S + 2)
        except (Py4JError, PySparkException) as error:
            raise Missing(
                f"--bootstrap {at}: no Kafka broker answers ({reason(error)}); check the address, and use "
                "--client-config if it needs TLS or SASL"
            ) from None
        if absent:
            raise BadInput(f"--bootstrap {at} has no topic {', '.join(absent)}; check --input and --output")

    def follow(self, until: Until, say: Say) -> None:
        """Reads and judges batches until a limit in `until` is reached or `ended` is set.

        Raises BadInput if Spark rejects the settings, and ClusterTrouble if reading cannot continue.
        """
        began, away = time.monotonic(), 0.0
        rows = source.both(self._spark, self.settings)
        while not self.ended.is_set():
            before = self.book.batch
            try:
                query = self._start(rows, until)
            except PySparkException as error:
                raise BadInput(f"Spark rejects these settings: {reason(error)}; see --client-config") from None
            try:
                while query.isActive and not self._over(until, began):
                    self.ended.wait(LOOK_S)
                    if away and self.book.batch > before:
                        say("the brokers answer again")
                        away = 0.0
                if query.isActive:
                    return
                why = self._failure or query.exception()
            except (Py4JError, ConnectionError) as error:
                raise ClusterTrouble(
                    f"Spark's JVM has exited ({reason(error)}); the checkpoint is intact, so run the command again"
                ) from None
            finally:
                self._stop(query)
            first = not away
            away = away or time.monotonic()
            if not _AWAY.search(str(why)) or time.monotonic() - away > until.patience_s:
                raise ClusterTrouble(self._trouble(why))
            if first:
                say(f"the brokers do not answer ({reason(why)}); trying again")
            self.ended.wait(RETRY_S)

    def _over(self, until: Until, began: float) -> bool:
        if self.ended.is_set() or (until.for_s is not None and time.monotonic() - began > until.for_s):
            return True
        if until.idle_s is None or not self._first_ms:
            return False
        return self.book.read_ms - max(self.book.data_ms, self._first_ms) > until.idle_s * 1000

    def _start(self, rows: DataFrame, until: Until) -> Any:
        self._failure = None
        self._stopping = False
        return (
            rows.writeStream.queryName("qos")
            .foreachBatch(self._each)
            .option("checkpointLocation", self._store.spark)
            .trigger(processingTime=f"{round(until.every_s * 1000)} milliseconds")
            .start()
        )

    def _stop(self, query: Any) -> None:
        """Stops the query after the current batch. Raises ClusterTrouble if the batch takes too long."""
        self._stopping = True
        if not self._batch.acquire(timeout=STOP_S):
            raise ClusterTrouble(f"a Spark batch did not finish within {STOP_S:.0f} s and was abandoned")
        self._batch.release()
        with contextlib.suppress(Py4JError, PySparkException, ConnectionError):
            query.stop()

    def _each(self, rows: DataFrame, batch: int) -> None:
        with self._batch:
            if self._stopping:
                raise InterruptedError("the comparison ends")  # so that Spark does not mark the batch as done
            if batch <= self.book.batch:
                return  # already complete; only Spark had not recorded it
            try:
                self._take(rows, batch)
            except Exception as error:
                self._failure = error
                raise

    def _take(self, rows: DataFrame, batch: int) -> None:
        now_ms, settings, old = time.time_ns() // 1_000_000, self.settings, self.book
        began = old.began_ms if old.batch >= 0 else self._began(now_ms)
        before = replace(old, began_ms=began, cleared_ms=old.edge_ms)
        if not self._first_ms and old.batch >= 0:  # restarted: records that arrived meanwhile are still unread
            before = replace(before, read_ms=UNKNOWN_MS, hold_ms=0)
        watch = Observation()
        new = spark_batch.of_batch(rows.where("side <> 'tick'"), before, settings, now_ms, watch)
        path = self._store.begin(batch)
        spark = rows.sparkSession  # the query's own session: an observation only sees what runs in its session
        earlier = self._ids(spark, old.batch)
        if old.edge_ms > old.cleared_ms:
            earlier = spark_batch.remembered(earlier, old.edge_ms)
        spark_batch.merged(earlier, new, PARTITIONS).write.mode("overwrite").parquet(path)
        seen = spark_batch.seen(watch.get)
        lost, resets = self._lost(rows, batch)
        book = after_reading(before, replace(seen, lost=lost, resets=resets), batch, now_ms, settings)
        book, judged = self._judge(spark.read.schema(spark_batch.IDS).parquet(path), book)
        self._store.finish(book, [window.line(batch) for window in judged])
        self.book, self._first_ms = book, self._first_ms or now_ms
        for window in judged:
            self._tell(window)

    def _began(self, now_ms: int) -> int:
        """Returns the event time before which an output without an input is not an anomaly.

        If reading starts at the latest record, the inputs of the first outputs are not read.
        """
        settings = self.settings
        return now_ms + settings.padding_ms if settings.start == "latest" else Book().began_ms

    def _ids(self, spark: Any, batch: int) -> DataFrame:
        if batch < 0:
            return spark_batch.nothing(spark)
        found: DataFrame = spark.read.schema(spark_batch.IDS).parquet(self._store.ids(batch))
        return found

    def _judge(self, ids: DataFrame, book: Book) -> tuple[Book, list[JudgedWindow]]:
        judged = spark_batch.judged(ids, book, self.settings)
        book, windows = after_judging(book, spark_batch.windows(judged), self.settings)
        wrong = [window.start_ms for window in windows if window.missing or window.duplicate or window.unmatched]
        examples = spark_batch.examples(judged, wrong, EXAMPLES) if wrong else []
        return book, [
            JudgedWindow(window, tuple(example for example in examples if example["window"] == window.start_ms))
            for window in windows
        ]

    def _lost(self, rows: DataFrame, batch: int) -> tuple[int, int]:
        """Returns (number of offsets deleted before this batch could read them, number of recreated partitions)."""
        begin, end = self._store.offsets(batch - 1), self._store.offsets(batch)
        if begin is None or end is None:
            return 0, 0
        earliest = losses.earliest(self._spark, self._admin, begin, ANSWER_S)
        lost, recreated = losses.between(begin, end, earliest)
        for (topic, partition), (first, limit) in lost.items():
            # This batch may have read some of them before they were deleted.
            at = (rows["place"] == f"{topic}-{partition}") & (rows["offset"] < limit)
            highest = rows.where(at).agg({"offset": "max"}).collect()[0][0]
            lost[topic, partition] = (first if highest is None else highest + 1, limit)
        return sum(limit - first for first, limit in lost.values()), recreated

    def drain(self, idle: bool) -> None:
        """If `idle`, judges all remaining windows, even those whose padding has not passed.

        `idle`: whether reading ended because no more records came.
        """
        if self.book.batch < 0 or not idle:
            return
        final = replace(self.book, judged_ms=END, read_ms=END)
        book, judged = self._judge(self._ids(self._spark, self.book.batch), final)
        self._store.tell(window.line(book.batch) for window in judged)
        self.book = book
        for window in judged:
            self._tell(window)

    def _trouble(self, error: Any) -> str:
        at = f"--bootstrap {self.settings.bootstrap}"
        if _NO_TOPIC in str(error):
            return f"{at}: a topic was deleted during the comparison ({reason(error)})"
        return f"{at}: the comparison cannot continue ({reason(error)})"


def reason(error: Any) -> str:
    """Returns the line of an error that names the root cause: the last cause in a Java or Kafka stack trace."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:") or "org.apache.kafka" in line]
    chosen = causes[-1] if causes else (lines[0] if lines else type(error).__name__)
    return re.sub(r"^Caused by: |\b(?:[a-z]+\.)+(?=[A-Z])", "", chosen)[:300]
