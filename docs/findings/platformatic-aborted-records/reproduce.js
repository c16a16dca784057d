// Aborted records that a read_committed consumer of @platformatic/kafka delivers: node reproduce.js HOST:PORT
const { createRequire } = require('node:module')
const { Admin, Consumer, FetchIsolationLevels, Producer } = createRequire(`${process.cwd()}/`)('@platformatic/kafka')

const connection = { clientId: 'reproduce', bootstrapBrokers: [process.argv[2]] }

async function transaction(producer, topic, values, end) {
  const current = await producer.beginTransaction()
  for (const value of values) await current.send({ messages: [{ topic, partition: 0, value: Buffer.from(value) }] })
  await current[end]()
}

/** The first words of the records that a read_committed consumer delivers, up to `committed`. */
async function read(topic, options) {
  const consumer = new Consumer({ ...connection, groupId: `${topic}-reader`, maxWaitTime: 100 })
  const isolationLevel = FetchIsolationLevels.READ_COMMITTED
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', isolationLevel, ...options })
  const values = []
  for await (const message of stream) {
    values.push(message.value.toString().split(' ')[0])
    if (values.at(-1) === 'committed') break
  }
  await consumer.close(true)
  return values
}

async function main() {
  setTimeout(() => { throw new Error('not read in 40 s') }, 40000).unref()
  const admin = new Admin(connection)
  const large = `aborted-1 ${'x'.repeat(3000)}`
  let wrong = false
  for (const [name, aborted, options] of [
    ['two aborted transactions of one producer in one Fetch response', [['aborted-1'], ['aborted-2']], {}],
    ['an aborted transaction that is larger than a Fetch response', [Array(10).fill(large)], { maxBytes: 10000 }],
  ]) {
    const topic = `platformatic-aborted-records-${Date.now()}`
    await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })
    const producer = new Producer({ ...connection, idempotent: true, transactionalId: topic })
    for (const values of aborted) await transaction(producer, topic, values, 'abort')
    await transaction(producer, topic, ['committed'], 'commit')
    await producer.close()
    const found = await read(topic, options)
    console.log(`${name}\n  expected: committed\n  found:    ${found.join(' ')}`)
    wrong ||= found.length > 1
  }
  await admin.close()
  process.exit(wrong ? 0 : 1)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
