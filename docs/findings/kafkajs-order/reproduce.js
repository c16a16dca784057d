// Concurrent sends of one KafkaJS producer to one partition: node reproduce.js HOST:PORT
const { Kafka, logLevel } = require(require.resolve('kafkajs', { paths: [process.cwd()] }))

const COUNT = 10

async function stored(kafka, topic, count) {
  const consumer = kafka.consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const values = []
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`read ${values.length} of ${count} records in 20 s`)), 20000).unref()
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === count) resolve()
      },
    })
  })
  await consumer.disconnect()
  return values
}

async function main() {
  const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  let wrong = false
  for (const options of [{}, { maxInFlightRequests: 1 }, { idempotent: true, maxInFlightRequests: 1 }]) {
    const topic = `kafkajs-order-${Date.now()}`
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] })
    const producer = kafka.producer(options)
    await producer.connect()
    const send = value => producer.send({ topic, messages: [{ partition: 0, value }] })
    await send('first') // metadata and connections are there when the next sends begin
    const values = Array.from({ length: COUNT }, (_, number) => String(number))
    await Promise.all(values.map(send))
    await producer.disconnect()
    const expected = ['first', ...values].join(' ')
    const found = (await stored(kafka, topic, COUNT + 1)).join(' ')
    console.log(`${JSON.stringify(options)}\n  expected ${expected}\n  stored   ${found}`)
    wrong ||= found !== expected
  }
  await admin.disconnect()
  process.exit(wrong ? 0 : 1)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
