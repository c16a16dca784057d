// A send of KafkaJS to a partition that does not exist: node reproduce.js HOST:PORT
const { Kafka, logLevel } = require(require.resolve('kafkajs', { paths: [process.cwd()] }))

async function main() {
  const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
  const topic = `kafkajs-partition-${Date.now()}`
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] })
  let acknowledged = false
  for (const idempotent of [false, true]) {
    const producer = kafka.producer({ idempotent, retry: idempotent ? undefined : { retries: 2 } })
    await producer.connect()
    const outcome = await Promise.race([
      producer.send({ topic, acks: -1, messages: [{ partition: 7, value: 'lost' }] }).then(
        result => {
          acknowledged = true
          return `the promise is resolved with ${JSON.stringify(result)}`
        },
        error => `the promise is rejected: ${error.message}`),
      new Promise(resolve => setTimeout(resolve, 10000, 'no result after 10 s')),
    ])
    console.log(`idempotent: ${idempotent}\n  expected: the promise is rejected\n  found:    ${outcome}`)
    await producer.disconnect()
  }
  const ends = await admin.fetchTopicOffsets(topic)
  console.log(`end offsets: ${ends.map(({ partition, high }) => `${partition}: ${high}`).sort().join(', ')}`)
  await admin.disconnect()
  process.exit(acknowledged ? 0 : 1)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
