"""Copies records from Kafka to Kafka with Spark Structured Streaming, which promises at-least-once for this sink.

Spark keeps its positions in a checkpoint, not in a consumer group. So this program commits the offsets of each complete
batch for a group, where monitoring, and the harness, can see them.
"""

import json
import signal
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

bootstrap, group, inputs, output, state = sys.argv[1:]
checkpoint = Path(state, "checkpoint")
stopping: list[bool] = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))


def done() -> tuple[int, list[TopicPartition]]:
    """Returns the number and the end offsets of the last batch that is complete; (-1, []) if there is none."""
    batches = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdigit()]
    if not batches:
        return -1, []
    last_line = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[-1]
    offsets = json.loads(last_line)
    ends = [TopicPartition(topic, int(each), offsets[topic][each]) for topic in offsets for each in offsets[topic]]
    return max(batches), ends


jars = ",".join(str(path) for path in Path(__file__).parent.glob("build/jars/*.jar"))
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.driver.memory", "600m")
    .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", inputs)
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    records.select("key", "value")
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", output)
    .option("checkpointLocation", str(checkpoint))
    .trigger(processingTime="500 milliseconds")
    .start()
)
print("started", flush=True)
committer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
committed = -1
while query.isActive and not stopping:
    time.sleep(0.5)
    batch, offsets = done()
    try:
        if batch > committed:
            committer.commit(offsets=offsets, asynchronous=False)
            committed = batch
    except KafkaException as error:
        print(f"commit: {error}", flush=True)  # it commits again with the next batch
query.stop()
committer.close()
