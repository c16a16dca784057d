"""The pipeline's sink for client programs: a producer, transactional or not."""

from __future__ import annotations

from collections.abc import Mapping

from harness.clients.exec.adapter import Exec
from harness.clients.exec.pipeline_source import ExecSource
from harness.clients.exec.producer import ExecProducer
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.producer_sink import ProducerSink
from harness.clients.pipeline.transaction import step
from harness.clients.settings import Settings
from harness.pipeline_app.ports import Mark, Partition, Source


class ExecSink(ProducerSink[ExecProducer]):
    """`pipeline_app.ports.Sink` for a client program."""

    def __init__(self, program: Exec, pipeline: PipelineConfig) -> None:
        self._program = program
        super().__init__(pipeline)

    def _opened(self, settings: Settings) -> ExecProducer:
        return self._program.producer(settings)

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        assert isinstance(source, ExecSource)
        if marks:
            offsets, consumer = {at: mark.offset for at, mark in marks.items()}, source.consumer()
            step(lambda left_s: self._producer.send_offsets(offsets, consumer, left_s), "send_offsets")
