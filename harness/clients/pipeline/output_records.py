"""Encodes the outputs of an instance as records."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from harness.clients.pipeline.config import PipelineConfig
from harness.pipeline_app.ports import Output

Outgoing = tuple[str, int, bytes, bytes]  # (topic, partition, key, value)


def output_rows(pipeline: PipelineConfig, outputs: Sequence[Output], generation: int | None) -> list[Outgoing]:
    """Returns one record for each output.

    The record's value contains the output, the instance, its incarnation and the group's generation.
    """
    topic, partitions, dumps = pipeline.output_topic, pipeline.partitions, orjson.dumps
    common = dumps({"instance": pipeline.slot, "incarnation": pipeline.settings.process, "generation": generation})
    rest = b"," + common[1:]
    return [
        (topic, key % partitions, str(key).encode(), dumps({"id": id, "key": key, "n": n})[:-1] + rest)
        for id, key, n in outputs
    ]
