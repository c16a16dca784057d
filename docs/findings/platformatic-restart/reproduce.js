// A second producer of @platformatic/kafka with the transactional id of the first: node reproduce.js HOST:PORT
const { createRequire } = require('node:module')
const { Admin, Producer } = createRequire(`${process.cwd()}/`)('@platformatic/kafka')

const connection = { clientId: 'reproduce', bootstrapBrokers: [process.argv[2]] }

/** Commits a transaction with a new producer, as an application does after a restart. */
async function run(topic, transactionalId) {
  const producer = new Producer({ ...connection, idempotent: true, transactionalId })
  try {
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: [{ topic, partition: 0, value: Buffer.from('x') }] })
    await transaction.commit()
    return `succeeds with producer id ${producer.producerId}`
  } catch (error) {
    return `fails with ${error.findBy('code', 'PLT_KFK_PROTOCOL')?.apiId}: ${error.message}`
  } finally {
    producer.close(true).catch(() => {})
  }
}

async function main() {
  const topic = `platformatic-restart-${Date.now()}`
  const admin = new Admin(connection)
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })
  await admin.close()
  await run(topic, `${topic}-other`) // producer id 0 of a new cluster, with which the second start would succeed
  const first = await run(topic, topic)
  if (!first.startsWith('succeeds')) throw new Error(first)
  const second = await run(topic, topic)
  console.log('expected: both starts succeed')
  console.log(`found:    first start ${first}\n          second start ${second}`)
  process.exit(second.startsWith('succeeds') ? 1 : 0)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
