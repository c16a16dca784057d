"""A JVM with Kafka's Java client, as a child of a worker process, controlled through py4j.

The JVM ends when the worker process ends, because the JVM's standard input is a pipe from the worker. A call of a Java
method takes about 20 microseconds. Looking up a class by its path takes much longer, so classes are cached.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from harness.clients.java.settings_and_errors import error
from harness.protocol.error_codes import ClientError

# The first line of the JVM's output is its port. A warning before it would be mistaken for the port, such as the one
# about shared performance counters if two namespaces use the same process ids.
QUIET: Final = ("-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=warning:stderr")
# After an out of memory error any thread may have died, with the records that a poll had fetched. So the JVM exits.
NO_MEMORY: Final = "-XX:+ExitOnOutOfMemoryError"
OPTIONS: Final = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", NO_MEMORY, *QUIET)
CLASSES: Final[Mapping[str, str]] = {
    "HashMap": "java.util.HashMap",
    "ArrayList": "java.util.ArrayList",
    "Duration": "java.time.Duration",
    "TimeUnit": "java.util.concurrent.TimeUnit",
    "Integer": "java.lang.Integer",
    "TopicPartition": "org.apache.kafka.common.TopicPartition",
    "Errors": "org.apache.kafka.common.protocol.Errors",
    "KafkaProducer": "org.apache.kafka.clients.producer.KafkaProducer",
    "ProducerRecord": "org.apache.kafka.clients.producer.ProducerRecord",
    "KafkaConsumer": "org.apache.kafka.clients.consumer.KafkaConsumer",
    "Pattern": "java.util.regex.Pattern",
    "SubscriptionPattern": "org.apache.kafka.clients.consumer.SubscriptionPattern",
    "OffsetAndMetadata": "org.apache.kafka.clients.consumer.OffsetAndMetadata",
    "KafkaShareConsumer": "org.apache.kafka.clients.consumer.KafkaShareConsumer",
    "AcknowledgeType": "org.apache.kafka.clients.consumer.AcknowledgeType",
    "ConsumerGroupMetadata": "org.apache.kafka.clients.consumer.ConsumerGroupMetadata",
}
SILENT_S: Final = 30.0  # longer than any call's own timeout: the JVM is not responding
JVM_ERROR: Final = "java.lang.VirtualMachineError"  # out of memory, stack overflow, internal error
CAUSE_CHARACTERS: Final = 200
CAUSES_MAX: Final = 8
WRAPPERS: Final = ("ExecutionException", "CompletionException")


def _of_one_thread(gateway: Any, token: Any) -> Any:
    """Returns a new gateway to the JVM of `gateway`. The new one uses py4j's single-threaded model.

    The new gateway is needed because the gateway of py4j's launcher does not support this model. `token` authenticates
    its connections.
    """
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

    secret = token.decode() if isinstance(token, bytes) else token
    server = gateway.jvm.py4j.ClientServer.ClientServerBuilder().javaPort(0).authToken(secret).build()
    server.startServer()
    port = server.getJavaServer().getListeningPort()
    return ClientServer(
        JavaParameters(port=port, auth_token=secret, auto_convert=True, read_timeout=SILENT_S),
        PythonParameters(port=0, daemonize=True, daemonize_connections=True, eager_load=False),
    )


class Machine:
    """A JVM.

    java        {"path": the executable, "classpath": the client's jars}
    one_thread  whether a callback from Java runs on the Python thread that made the call, and the callback's own calls
                run on the same Java thread; needed for rebalance listeners that call their consumer
    """

    def __init__(self, java: Mapping[str, str], one_thread: bool = False) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # if the JVM has exited, calls raise an error
        port, token, self._process = launch_gateway(
            classpath=java["classpath"],
            javaopts=list(OPTIONS),
            die_on_exit=True,
            java_path=java["path"],
            enable_auth=True,
            return_proc=True,
            redirect_stdout=open(os.devnull, "w"),  # noqa: SIM115, PTH123
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway: Any = JavaGateway(gateway_parameters=parameters)
        self._one_thread = one_thread
        if one_thread:
            try:
                self._gateway = _of_one_thread(self._gateway, token)
            except Exception:
                self._process.kill()
                raise
        self._classes: dict[str, Any] = {}
        self._instances: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def __getattr__(self, name: str) -> Any:
        """Returns a Java class, given its short name in CLASSES."""
        if name not in CLASSES:
            raise AttributeError(name)
        if name not in self._classes:
            java_class = self._gateway.jvm
            for part in CLASSES[name].split("."):
                java_class = getattr(java_class, part)
            self._classes[name] = java_class
        return self._classes[name]

    def listen(self) -> None:
        """Lets Java call Python objects, such as rebalance listeners."""
        from py4j.java_gateway import CallbackServerParameters

        if self._one_thread:  # callbacks use the connection of the call
            return
        if getattr(self._gateway, "_callback_server", None) is not None:
            return
        parameters = CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True)
        self._gateway.start_callback_server(parameters)
        port = self._gateway.get_callback_server().get_listening_port()
        server = self._gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), port)

    def properties(self, config: Mapping[str, str]) -> Any:
        java_map = self.HashMap()
        for name, value in config.items():
            java_map.put(name, value)
        return java_map

    def group_without_member(self, group: str) -> Any:
        """Returns the metadata of a group without a member, to pass to sendOffsetsToTransaction.

        Given such metadata, the coordinator does not check the generation.

        Raises ClientError.
        """
        try:
            return self.ConsumerGroupMetadata(group)
        except Exception as raised:
            raise self.converted(raised) from None

    def millis(self, seconds: float) -> Any:
        """Converts seconds to a Java Duration, in whole milliseconds."""
        return self.Duration.ofMillis(max(0, int(seconds * 1000)))

    def converted(self, raised: Exception) -> ClientError:
        """Returns the ClientError for an exception that a call raised.

        The error is fatal if the JVM does not respond any more.
        """
        try:
            return self._converted(raised)
        except Exception as error:  # the JVM ended during the conversion
            return self._dead(error)

    def _dead(self, raised: Exception) -> ClientError:
        code = self._process.poll()
        what = f"does not answer: {raised}" if code is None else f"has ended ({code})"
        return ClientError("_JVM", f"the client's JVM {what}", "fatal")

    def _converted(self, raised: Exception) -> ClientError:
        thrown = getattr(raised, "java_exception", None)
        if thrown is None:
            return self._dead(raised)
        name = str(thrown.getClass().getSimpleName())
        if self._failed(thrown):
            text = str(thrown.toString())
            self.kill()  # it does not exit at out of memory errors that Kafka's or Java's own code throws
            return ClientError("_JVM", f"the client's JVM failed and was killed: {text}", "fatal")
        cause = thrown.getCause()
        if name in WRAPPERS and cause is not None:
            thrown, name = cause, str(cause.getClass().getSimpleName())
        code = None
        if self._is("org.apache.kafka.common.errors.ApiException", thrown):
            code = str(self.Errors.forException(thrown).name())
        retriable = self._is("org.apache.kafka.common.errors.RetriableException", thrown)
        text, cause = str(thrown.getMessage()), thrown.getCause()
        if code is None and cause is not None:  # of an error in a callback in Python, the last line names the exception
            text = f"{text} ({str(cause.toString()).strip().splitlines()[-1][:CAUSE_CHARACTERS]})"
        return error(code, name, text, retriable)

    def _failed(self, thrown: Any) -> bool:
        """Returns whether the Java exception, or one of its causes, is a VirtualMachineError."""
        for _ in range(CAUSES_MAX):
            if thrown is None:
                break
            if self._is(JVM_ERROR, thrown):
                return True
            thrown = thrown.getCause()
        return False

    def _is(self, name: str, thrown: Any) -> bool:
        if name not in self._instances:
            self._instances[name] = self._gateway.jvm.java.lang.Class.forName(name)
        return bool(self._instances[name].isInstance(thrown))

    def kill(self) -> None:
        """Kills the JVM as a crash would: it neither flushes nor leaves the group."""
        self._process.kill()
        self._process.wait()
        if self._one_thread:
            with contextlib.suppress(Exception):
                self._gateway.shutdown()  # ends a thread of py4j, although the JVM is gone
        with contextlib.suppress(Exception):
            self._gateway.shutdown_callback_server()
        with contextlib.suppress(Exception):
            self._gateway.close()
