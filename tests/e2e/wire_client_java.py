"""Traffic of the Java client through py4j: python wire_client_java.py BOOTSTRAP CLASSPATH; prints what it read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

RECORDS = 100
TEXT = "org.apache.kafka.common.serialization.String"


def main(bootstrap: str, classpath: str) -> None:
    jar = next(Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))
    port = launch_gateway(jarpath=str(jar), classpath=classpath, die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    jvm: Any = gateway.jvm
    clients = jvm.org.apache.kafka.clients

    def settings(**given: str) -> Any:
        made = jvm.java.util.Properties()
        for name, value in {"bootstrap_servers": bootstrap, **given}.items():
            made.put(name.replace("_", "."), value)
        return made

    def listed(item: Any) -> Any:
        made = jvm.java.util.ArrayList()
        made.add(item)
        return made

    admin = clients.admin.Admin.create(settings())
    admin.createTopics(listed(clients.admin.NewTopic("java", 2, 3))).all().get()
    admin.close()
    texts = {"key_serializer": TEXT + "Serializer", "value_serializer": TEXT + "Serializer"}
    producer = clients.producer.KafkaProducer(settings(transactional_id="java", **texts))
    producer.initTransactions()
    for n in range(RECORDS):
        if n % 10 == 0:
            producer.beginTransaction()
        producer.send(clients.producer.ProducerRecord("java", n % 2, "k", "x" * 1000))
        if n % 10 == 9:
            producer.commitTransaction()
    producer.close()
    careless = clients.producer.KafkaProducer(settings(acks="0", enable_idempotence="false", **texts))
    for n in range(RECORDS):
        careless.send(clients.producer.ProducerRecord("java", n % 2, "k", "y" * 1000))
    careless.close()
    texts = {"key_deserializer": TEXT + "Deserializer", "value_deserializer": TEXT + "Deserializer"}
    consumer = clients.consumer.KafkaConsumer(
        settings(group_id="java", auto_offset_reset="earliest", isolation_level="read_committed", **texts)
    )
    consumer.subscribe(listed("java"))
    read = 0
    for _ in range(60):
        read += consumer.poll(jvm.java.time.Duration.ofMillis(500)).count()
        if read >= 2 * RECORDS:
            break
    consumer.commitSync()
    consumer.close()
    print(f"read {read}")
    gateway.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
