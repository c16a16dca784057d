"""The pipeline's library for Kafka's Java client: sources, sinks and writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.clients.confluent.pipeline import BesideConfluent
from harness.clients.java.jvm import Machine
from harness.clients.java.pipeline_sink import JavaSink, opened
from harness.clients.java.pipeline_source import JavaSource
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.producer_sink import ProducerWriter
from harness.pipeline_app.ports import Failed, Sink, Source
from harness.protocol.error_codes import ClientError


class JavaPipeline(BesideConfluent):
    """`pipeline.library.PipelineLibrary` for the Java client.

    Starts the JVM when it is first needed. Starts a new one if the JVM has been killed.
    """

    def __init__(self, java: Mapping[str, str]) -> None:
        super().__init__()
        self._java = java
        self._machine: Machine | None = None

    def _running(self) -> Machine:
        """Returns the JVM. Starts it if it does not run. Raises ClientError."""
        if self._machine is None or self._machine.ended:
            try:
                self._machine = Machine(self._java, one_thread=True)
            except Exception as error:  # an OSError, or one of py4j's exceptions, which have no common base class
                raise ClientError("_JVM", f"the client's JVM did not start: {error}", "fatal") from None
        return self._machine

    def _for_an_instance(self) -> Machine:
        try:
            return self._running()
        except ClientError as error:
            raise Failed("fatal", str(error)) from None

    def source(self, pipeline: PipelineConfig) -> Source:
        return JavaSource(self._for_an_instance(), pipeline)

    def sink(self, pipeline: PipelineConfig) -> Sink:
        return JavaSink(self._for_an_instance(), pipeline)

    def writer(self, pipeline: PipelineConfig) -> ProducerWriter:
        producer = opened(self._running(), replace(pipeline.settings, txn=False))
        return ProducerWriter(producer, partial(self.sizes, pipeline))

    def close(self) -> None:
        if self._machine is not None:
            self._machine.kill()


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `pipeline.client.PipelineClient`."""
    from harness.clients.pipeline.client import PipelineClient
    from harness.clients.pipeline.config import parse_pipeline_config

    return PipelineClient(parse_pipeline_config(config), JavaPipeline(config["java"]))
