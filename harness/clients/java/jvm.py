"""A JVM with Kafka's own Java client in it, beside a worker, spoken to through py4j.

It ends with this process: its standard input is a pipe from here. A call on an object takes some 20
microseconds; looking a class up by its path takes far more, so classes are kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from harness.clients.java.settings_and_errors import error
from harness.protocol.error_codes import ClientError

# The first line of its output is the port it listens at: a warning before that would be taken for it, such as
# of its shared counters where two namespaces have the same process ids.
QUIET: Final = ("-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=warning:stderr")
# Without memory any of its threads may be gone, and what a poll had fetched with it: it ends rather than go on.
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
    "OffsetAndMetadata": "org.apache.kafka.clients.consumer.OffsetAndMetadata",
    "ConsumerGroupMetadata": "org.apache.kafka.clients.consumer.ConsumerGroupMetadata",
}
SILENT_S: Final = 30.0  # beyond any call's own limit: the JVM does not answer
JVM_ERROR: Final = "java.lang.VirtualMachineError"  # out of memory, of stack, or broken
CAUSES_MAX: Final = 8
WRAPPERS: Final = ("ExecutionException", "CompletionException")


def _of_one_thread(gateway: Any, token: Any) -> Any:
    """A gateway to the same JVM in py4j's other threading model, which its launcher does not offer."""
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
    """One JVM. `java`: {"path": the executable, "classpath": the client's jars}.

    one_thread  calls back on the thread that called, which may then call Java again, on its thread there:
                for rebalance listeners that use their consumer
    """

    def __init__(self, java: Mapping[str, str], one_thread: bool = False) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # that a JVM is gone is told by its calls
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
        """A class of the table, by its short name."""
        if name not in CLASSES:
            raise AttributeError(name)
        if name not in self._classes:
            java_class = self._gateway.jvm
            for part in CLASSES[name].split("."):
                java_class = getattr(java_class, part)
            self._classes[name] = java_class
        return self._classes[name]

    def listen(self) -> None:
        """Let Java call Python objects: rebalance listeners."""
        from py4j.java_gateway import CallbackServerParameters

        if self._one_thread:  # calls come back on the connection that they were made by
            return
        if getattr(self._gateway, "_callback_server", None) is not None:
            return
        parameters = CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True)
        self._gateway.start_callback_server(parameters)
        port = self._gateway.get_callback_server().get_listening_port()
        server = self._gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), port)

    def properties(self, config: Mapping[str, str]) -> Any:
        made = self.HashMap()
        for name, value in config.items():
            made.put(name, value)
        return made

    def nobody(self, group: str) -> Any:
        """Metadata of a member of no generation, which the coordinator does not check. Raises ClientError."""
        try:
            return self.ConsumerGroupMetadata(group)
        except Exception as raised:
            raise self.converted(raised) from None

    def millis(self, seconds: float) -> Any:
        """A Duration."""
        return self.Duration.ofMillis(max(0, int(seconds * 1000)))

    def converted(self, raised: Exception) -> ClientError:
        """A ClientError of what a call raised; one that the JVM does not answer any more is fatal."""
        try:
            return self._converted(raised)
        except Exception as error:  # it died while it was asked
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
            self.kill()  # some out of memory errors are Kafka's or Java's own, at which it does not end
            return ClientError("_JVM", f"the client's JVM failed, and was ended: {text}", "fatal")
        cause = thrown.getCause()
        if name in WRAPPERS and cause is not None:
            thrown, name = cause, str(cause.getClass().getSimpleName())
        code = None
        if self._is("org.apache.kafka.common.errors.ApiException", thrown):
            code = str(self.Errors.forException(thrown).name())
        retriable = self._is("org.apache.kafka.common.errors.RetriableException", thrown)
        return error(code, name, str(thrown.getMessage()), retriable)

    def _failed(self, thrown: Any) -> bool:
        """Whether what was thrown is an error of the JVM, or has one as its cause."""
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
        """End the JVM as a crash would: nothing is flushed, and no group is left."""
        self._process.kill()
        self._process.wait()
        if self._one_thread:
            with contextlib.suppress(Exception):
                self._gateway.shutdown()  # ends a thread of py4j's, although nobody hears it
        with contextlib.suppress(Exception):
            self._gateway.shutdown_callback_server()
        with contextlib.suppress(Exception):
            self._gateway.close()
