// Sends that are pending when their KafkaJS transaction is aborted: node reproduce.js HOST:PORT
const { Kafka, logLevel } = require(require.resolve('kafkajs', { paths: [process.cwd()] }))

async function committed(kafka, topic, last) {
  const consumer = kafka.consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 100 }) // read_committed by default
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const values = []
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${last} was not read in 20 s`)), 20000).unref()
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.at(-1) === last) resolve()
      },
    })
  })
  await consumer.disconnect()
  return values
}

async function main() {
  const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
  const topic = `kafkajs-abort-${Date.now()}`
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] })
  await admin.disconnect()
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: topic })
  await producer.connect()

  const aborted = await producer.transaction()
  const sends = Promise.allSettled(['a', 'b', 'c'].map(value =>
    aborted.send({ topic, messages: [{ partition: 0, value: `aborted-${value}` }] })))
  await aborted.abort()

  const next = await producer.transaction()
  await next.send({ topic, messages: [{ partition: 0, value: 'committed' }] })
  const results = await sends
  await next.send({ topic, messages: [{ partition: 0, value: 'last' }] })
  await next.commit()
  await producer.disconnect()

  const found = await committed(kafka, topic, 'last')
  const acknowledged = results.filter(each => each.status === 'fulfilled').length
  console.log('expected: read_committed gives "committed", "last"; no aborted send is acknowledged after the abort')
  const quoted = found.map(value => `"${value}"`).join(', ')
  console.log(`found:    read_committed gives ${quoted}; ${acknowledged} of 3 are acknowledged`)
  process.exit(found.some(value => value.startsWith('aborted')) ? 0 : 1)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
