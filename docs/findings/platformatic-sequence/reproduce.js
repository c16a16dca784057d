// Concurrent sends of an idempotent producer of @platformatic/kafka: node reproduce.js HOST:PORT
const { createRequire } = require('node:module')
const { Admin, ListOffsetTimestamps, Producer, Consumer } = createRequire(`${process.cwd()}/`)('@platformatic/kafka')

const COUNT = 10
const connection = { clientId: 'reproduce', bootstrapBrokers: [process.argv[2]] }

async function main() {
  const topic = `platformatic-sequence-${Date.now()}`
  const admin = new Admin(connection)
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })
  await admin.close()
  const producer = new Producer({ ...connection, idempotent: true })
  const send = value => producer.send({ messages: [{ topic, partition: 0, value: Buffer.from(value) }] })
  await send('first')
  const results = await Promise.allSettled(Array.from({ length: COUNT }, (_, number) => send(String(number))))
  await producer.close()
  const offsets = results.filter(each => each.status === 'fulfilled').map(each => each.value.offsets[0].offset)
  const consumer = new Consumer({ ...connection, groupId: `${topic}-reader` })
  const ends = await consumer.listOffsets({ topics: [topic], timestamp: ListOffsetTimestamps.LATEST })
  await consumer.close(true)
  const stored = Number(ends.get(topic)[0]) - 1
  console.log(`expected: ${offsets.length} acknowledged sends have different offsets, and are stored`)
  console.log(`found:    they have the offsets ${offsets.join(', ')}; ${stored} of them stored`)
  process.exit(stored < offsets.length ? 0 : 1)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
