"""Traffic of aiokafka: python wire_client_aiokafka.py BOOTSTRAP; prints how many records it read."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

RECORDS = 100


async def main(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("aiokafka", 2, 3)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aiokafka")
    await producer.start()
    for _ in range(RECORDS // 10):
        async with producer.transaction():
            for n in range(10):
                await producer.send_and_wait("aiokafka", b"x" * 1000, partition=n % 2)
    await producer.stop()
    careless = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=0)
    await careless.start()
    for n in range(RECORDS):
        await careless.send_and_wait("aiokafka", b"y" * 1000, partition=n % 2)
    await careless.stop()
    consumer = AIOKafkaConsumer(
        "aiokafka", bootstrap_servers=bootstrap, group_id="aiokafka", auto_offset_reset="earliest"
    )
    await consumer.start()
    read = 0
    for _ in range(60):
        read += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        if read >= 2 * RECORDS:
            break
    await consumer.commit()
    await consumer.stop()
    print(f"read {read}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
