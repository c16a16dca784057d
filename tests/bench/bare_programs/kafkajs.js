// A bare KafkaJS producer in a simple loop; see bare_client.py, of which this is the counterpart in JavaScript.

const { randomBytes } = require('node:crypto')
const { Kafka, logLevel } = require('kafkajs') // found through NODE_PATH

async function main() {
  const plan = JSON.parse(process.argv[2])
  const kafka = new Kafka({ brokers: plan.bootstrap.split(','), logLevel: logLevel.WARN })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const value = randomBytes(plan.bytes)
  const send = n => {
    const [topic, partition] = plan.partitions[n % plan.partitions.length]
    return producer.send({ topic, acks: -1, messages: [{ partition, value }] })
  }
  for (let n = 0; n < plan.partitions.length; n++) await send(n) // first connect and fetch metadata
  await new Promise(resolve => setTimeout(resolve, plan.begin * 1000 - Date.now()))
  let acknowledged = 0
  for (const end = performance.now() + plan.seconds * 1000; performance.now() < end; acknowledged++) {
    await send(plan.offset + acknowledged)
  }
  console.log(acknowledged)
  await producer.disconnect()
}

main()
