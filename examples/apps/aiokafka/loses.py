"""Makes an invoice of every order, with aiokafka.

It has a common mistake: the consumer commits automatically, also the offsets of orders that are still being processed.
"""

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord


async def main(bootstrap: str, group: str, orders: str, invoices: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    consumer = AIOKafkaConsumer(
        *orders.split(","),
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        auto_commit_interval_ms=200,  # enable_auto_commit is true by default
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)

    async def make_invoice(order: ConsumerRecord) -> None:
        await asyncio.sleep(0.5)  # the work
        await producer.send_and_wait(invoices, order.value, order.key)

    async with consumer, producer:
        print("subscribed", flush=True)
        while not stopping.is_set():
            batches = await consumer.getmany(timeout_ms=500)
            await asyncio.gather(*(make_invoice(order) for batch in batches.values() for order in batch))


asyncio.run(main(*sys.argv[1:]))
