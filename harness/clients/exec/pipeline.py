"""Runs the pipeline workload on client programs (`exec:`).

Implements `harness.clients.pipeline.library` with instances whose consumer and producer share one
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.clients.confluent.pipeline import BesideConfluent
from harness.clients.exec import adapter
from harness.clients.exec.adapter import Exec
from harness.clients.exec.pipeline_sink import ExecSink
from harness.clients.exec.pipeline_source import ExecSource
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.producer_sink import ProducerWriter
from harness.pipeline_app.ports import Sink, Source


class ExecPipeline(BesideConfluent):
    """`pipeline.library.PipelineLibrary` for a client program."""

    def __init__(self, program: Exec) -> None:
        super().__init__()
        self._program = program

    def source(self, pipeline: PipelineConfig) -> Source:
        return ExecSource(self._program, pipeline, self)

    def sink(self, pipeline: PipelineConfig) -> Sink:
        return ExecSink(self._program, pipeline)

    def writer(self, pipeline: PipelineConfig) -> ProducerWriter:
        producer = self._program.producer(replace(pipeline.settings, txn=False))
        return ProducerWriter(producer, partial(self.sizes, pipeline))

    def close(self) -> None:
        self._program.close()


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: see `pipeline.client`."""
    from harness.clients.pipeline.client import PipelineClient
    from harness.clients.pipeline.config import parse_pipeline_config

    return PipelineClient(parse_pipeline_config(config), ExecPipeline(adapter.program_of(config)))
