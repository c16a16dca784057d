// A commit of a KafkaJS transaction that is answered with NOT_COORDINATOR: node reproduce.js HOST:PORT
const net = require('node:net')
const { Kafka, logLevel } = require(require.resolve('kafkajs', { paths: [process.cwd()] }))

const END_TXN = 26
const NOT_COORDINATOR = 16
let refusals = 1 // how many EndTxn requests get NOT_COORDINATOR, as when the coordinator has just moved

/** Passes requests on to the broker, except those that are refused. Runs between KafkaJS and the broker. */
function proxy(host, port) {
  return net.createServer(client => {
    const broker = net.connect(port, host)
    let data = Buffer.alloc(0)
    client.on('data', chunk => {
      data = Buffer.concat([data, chunk])
      while (data.length >= 4 && data.length >= 4 + data.readInt32BE(0)) {
        const request = data.subarray(0, 4 + data.readInt32BE(0))
        data = data.subarray(request.length)
        if (request.readInt16BE(4) === END_TXN && refusals-- > 0) {
          const response = Buffer.alloc(14) // length, correlation id, throttle time, error code (versions 0 and 1)
          response.writeInt32BE(10, 0)
          request.copy(response, 4, 8, 12)
          response.writeInt16BE(NOT_COORDINATOR, 12)
          client.write(response)
        } else {
          broker.write(request)
        }
      }
    })
    broker.pipe(client)
    for (const [one, other] of [[client, broker], [broker, client]]) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
    }
  })
}

const attempt = promise => promise.then(() => 'succeeds', error => error.message)

async function main() {
  const [host, port] = process.argv[2].split(':')
  const server = proxy(host, Number(port))
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const kafka = new Kafka({
    brokers: [process.argv[2]],
    logLevel: logLevel.NOTHING,
    socketFactory: ({ onConnect }) => net.connect(server.address().port, '127.0.0.1', onConnect),
  })
  const topic = `kafkajs-commit-${Date.now()}`
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: topic })
  await producer.connect()
  const transaction = await producer.transaction()
  await transaction.send({ topic, messages: [{ partition: 0, value: 'x' }] })
  const committed = await attempt(transaction.commit())
  console.log('expected: commit is sent again after NOT_COORDINATOR and succeeds, or can be called again')
  console.log(`found:    commit: ${committed}`)
  if (committed === 'succeeds') process.exit(1)
  const again = await attempt(transaction.commit())
  console.log(`          commit again: ${again}`)
  console.log(`          abort: ${await attempt(transaction.abort())}`)
  console.log(`          next transaction: ${await attempt(producer.transaction())}`)
  process.exit(again === 'succeeds' ? 1 : 0)
}

main().catch(error => {
  console.error(error)
  process.exit(2)
})
