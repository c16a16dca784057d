"""Runs the pipeline workload on client programs (`exec:`).

Implements `harness.clients.pipeline.library` with writers, and with instances whose consumer and producer share one
process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.clients.confluent.pipeline import BesideConfluent
from harness.clients.exec import adapter
from harness.clients.exec.adapter import Exec
from harness.clients.exec.pipeline_sink import ExecSink, sent
from harness.clients.exec.pipeline_source import ExecSource
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.library import Sent
from harness.pipeline_app.ports import Sink, Source
from harness.protocol.error_codes import TopicPartition


class ExecWriter:
    """`pipeline.library.Writer`, with the plan's acks, retries and idempotence; never transactional."""

    def __init__(self, program: Exec, pipeline: PipelineConfig, library: BesideConfluent) -> None:
        self._producer = program.producer(replace(pipeline.settings, txn=False))
        self._pipeline, self._library = pipeline, library

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        rows = [(topic, partition, key, value) for (topic, partition), key, value in records]
        return sent(self._producer, rows, timeout_s)

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        return self._library.sizes(self._pipeline, topics, timeout_s)

    def close(self) -> None:
        self._producer.close()


class ExecPipeline(BesideConfluent):
    """`pipeline.library.PipelineLibrary` for a client program."""

    def __init__(self, program: Exec) -> None:
        super().__init__()
        self._program = program

    def source(self, pipeline: PipelineConfig) -> Source:
        return ExecSource(self._program, pipeline, self)

    def sink(self, pipeline: PipelineConfig) -> Sink:
        return ExecSink(self._program, pipeline)

    def writer(self, pipeline: PipelineConfig) -> ExecWriter:
        return ExecWriter(self._program, pipeline, self)

    def close(self) -> None:
        self._program.close()


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: see `pipeline.client`."""
    from harness.clients.pipeline.client import PipelineClient
    from harness.clients.pipeline.config import parse_pipeline_config

    return PipelineClient(parse_pipeline_config(config), ExecPipeline(adapter.program_of(config)))
