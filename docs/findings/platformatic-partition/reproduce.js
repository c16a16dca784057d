// A send of @platformatic/kafka to a partition that does not exist: node reproduce.js HOST:PORT
const { createRequire } = require('node:module')
const { Admin, Producer } = createRequire(`${process.cwd()}/`)('@platformatic/kafka')

const connection = { clientId: 'reproduce', bootstrapBrokers: [process.argv[2]] }

async function main() {
  const topic = `platformatic-partition-${Date.now()}`
  const admin = new Admin(connection)
  await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
  await admin.close()
  const producer = new Producer({ ...connection, acks: -1 })
  const message = { topic, partition: 7, value: Buffer.from('x') }
  const result = await producer.send({ messages: [message] }).catch(error => error)
  await producer.close()
  console.log('expected: an error, because the topic has the partitions 0, 1 and 2')
  if (result instanceof Error) {
    console.log(`found:    ${result.message}`)
    process.exit(1)
  }
  const { partition, offset } = result.offsets[0]
  console.log(`found:    the record is acknowledged in partition ${partition} at offset ${offset}`)
  process.exit(0)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
