"""AdminClient.list_offsets, while the broker answers every request but ListOffsets."""

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from local_kafka import LIST_OFFSETS, Cluster, Proxy

TOPIC = "list-offsets"


def drop(api, frame, _):
    return None if api == LIST_OFFSETS else frame


def main(kafka):
    proxy = Proxy(on_request=drop)
    with Cluster(kafka, advertised_port=proxy.port) as cluster:
        proxy.serve(cluster.brokers[0])
        cluster.create_topic(TOPIC)
        partition = TopicPartition(TOPIC, 0)
        admin = AdminClient(proxy.clients)
        answer = admin.list_offsets({partition: OffsetSpec.latest()}, request_timeout=5)[partition]
        try:
            found = f"success: offset {answer.result(20).offset}"
        except KafkaException as raised:
            found = f"an error: {raised.args[0].name()}"
    return ("an error, because no broker has answered", found, found.startswith("success"))
