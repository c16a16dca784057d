// An abort marker of a transaction without records stops a consumer of @platformatic/kafka: node reproduce.js HOST:PORT
const { createRequire } = require('node:module')
const { Admin, Consumer, FetchIsolationLevels, Producer } = createRequire(`${process.cwd()}/`)('@platformatic/kafka')

const connection = { clientId: 'reproduce', bootstrapBrokers: [process.argv[2]] }

function finish(text, code) {
  console.log(`expected: the consumer delivers the record "committed"\nfound:    ${text}`)
  process.exit(code)
}

process.on('uncaughtException', error => finish(`an exception that no caller can catch: ${error}`, 0))

async function main() {
  const topic = `platformatic-marker-${Date.now()}`
  const admin = new Admin(connection)
  const configs = [{ name: 'max.message.bytes', value: '1000' }]
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1, configs })
  await admin.close()
  const send = (current, value) => current.send({ messages: [{ topic, partition: 0, value: Buffer.from(value) }] })

  // The partition joins the transaction, the broker refuses the only record, and the abort writes a marker.
  const first = new Producer({ ...connection, idempotent: true, transactionalId: `${topic}-1`, retries: 2 })
  const empty = await first.beginTransaction()
  const refused = await send(empty, 'x'.repeat(2000)).then(() => null, error => error)
  if (!refused) throw new Error('the broker accepted a record that is too large')
  await empty.abort()

  // In the same Fetch response, a transaction that the broker lists as aborted.
  const second = new Producer({ ...connection, idempotent: true, transactionalId: `${topic}-2` })
  const aborted = await second.beginTransaction()
  await send(aborted, 'aborted')
  await aborted.abort()
  const last = await second.beginTransaction()
  await send(last, 'committed')
  await last.commit()

  const consumer = new Consumer({ ...connection, groupId: `${topic}-reader`, maxWaitTime: 100 })
  const isolationLevel = FetchIsolationLevels.READ_COMMITTED
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', isolationLevel })
  stream.on('error', error => finish(`the stream fails: ${error.message}`, 0))
  stream.on('data', ({ value }) =>
    finish(`the consumer delivers the record "${value}"`, value.toString() === 'committed' ? 1 : 0))
  setTimeout(finish, 10000, 'the consumer delivers nothing in 10 s', 0)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
