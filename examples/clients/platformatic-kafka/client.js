// @platformatic/kafka as a client program: see docs/use/your-own-client.md.
//
// The library has no manual assignment: `assign` is a group with this process as its only member, read in mode "manual".
// A seek replaces the stream, because a stream cannot be moved.

import { readFileSync } from 'node:fs'
import readline from 'node:readline'
import { Consumer, ListOffsetTimestamps, Producer } from '@platformatic/kafka'

const { version } = JSON.parse(readFileSync(new URL('node_modules/@platformatic/kafka/package.json', import.meta.url)))
const CAPABILITIES = ['produce', 'consume', 'idempotence', 'transactions', 'groups', 'send-offsets']
const COMMON = ['autocreateTopics', 'connectTimeout', 'handleBackPressure', 'maxInflights', 'metadataMaxAge', 'retries',
  'retryDelay', 'timeout']
const SETTINGS = {
  producer: [...COMMON, 'compression', 'repeatOnStaleMetadata'],
  consumer: [...COMMON, 'heartbeatInterval', 'highWaterMark', 'maxBytes', 'maxBytesPerPartition', 'maxWaitTime', 'minBytes',
    'rebalanceTimeout'],
}

let producer = null
let consumer = null
let continued = null // resolves when the harness has sent "continue"
const sends = new Set()

const write = message => process.stdout.write(JSON.stringify(message) + '\n')
const encoded = data => (data == null ? null : data.toString('base64'))
const decoded = text => (text == null ? undefined : Buffer.from(text, 'base64'))
const nameOf = ({ topic, partition }) => `${topic}:${partition}`

function errorOf(error) {
  const protocol = error.findBy?.('code', 'PLT_KFK_PROTOCOL')
  const answer = { code: protocol?.apiId || error.code || error.name, text: protocol?.message || error.message }
  if (['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'].includes(protocol?.apiId)) answer.kind = 'fatal'
  else if (protocol?.canRetry || error.code === 'PLT_KFK_NETWORK') answer.kind = 'retriable'
  return answer
}

/** The library limits the time of single requests and the number of retries, not the time of a call as a whole. */
function within(milliseconds, promise) {
  let timer
  const late = new Promise((_, reject) => {
    const error = Object.assign(new Error('no result from the library in time'), { name: 'Timeout' })
    timer = setTimeout(() => reject(error), milliseconds)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

function configured(request) {
  const known = ['security.protocol', 'sasl.mechanism', 'sasl.username', 'sasl.password', 'ssl.ca.location']
  const unknown = Object.keys(request.security).filter(name => !known.includes(name))
    .concat(Object.keys(request.properties).filter(name => !SETTINGS[request.role].includes(name)))
  if (unknown.length) throw new Error(`@platformatic/kafka has no setting ${unknown.join(', ')}`)
  const { 'security.protocol': protocol = 'PLAINTEXT', 'ssl.ca.location': ca, ...login } = request.security
  return {
    clientId: request.client_id,
    bootstrapBrokers: request.bootstrap.split(','),
    timeout: request.request_timeout_ms,
    connectTimeout: Math.min(request.request_timeout_ms, 1000),
    ...protocol.endsWith('SSL') && { tls: { ca: ca && readFileSync(ca) } },
    ...protocol.startsWith('SASL') && { sasl: {
      mechanism: login['sasl.mechanism'],
      username: login['sasl.username'],
      password: login['sasl.password'],
    } },
    ...request.properties,
  }
}

class ProducerRole {
  constructor(request) {
    this.request = request
    this.transaction = null // the current one, or the one that init_transactions has prepared
    this.library = new Producer({
      ...configured(request),
      acks: request.acks === 'all' ? -1 : Number(request.acks),
      idempotent: request.idempotence || request.transactional_id !== null,
      // -1 asks for a new producer id (KIP-360). With the default, 0, a second producer with the same transactional id is
      // refused, and not the first one fenced.
      ...request.transactional_id !== null && { transactionalId: request.transactional_id, producerId: -1n, producerEpoch: -1 },
      ...request.retries !== null && { retries: request.retries },
    })
    this.library.on('error', console.error)
  }

  async send({ topic, partition, key, value, timeout_ms }) {
    const { acks, delivery_timeout_ms } = this.request
    const sent = within(Math.min(delivery_timeout_ms, timeout_ms), (this.transaction || this.library).send({
      messages: [{ topic, partition, key: decoded(key), value: decoded(value) }],
      acks: acks === 'all' ? -1 : Number(acks),
    }))
    sends.add(sent)
    try {
      const offset = Number((await sent).offsets?.[0]?.offset ?? -1)
      return { offset: offset < 0 ? null : offset }
    } catch (error) {
      throw this.transaction ? Object.assign(error, { abortable: true }) : error
    } finally {
      sends.delete(sent)
    }
  }

  /** The library fetches the producer id when the first transaction begins. */
  async initTransactions() {
    this.prepared = await this.library.beginTransaction()
  }

  async begin() {
    this.transaction = this.prepared || await this.library.beginTransaction()
    this.prepared = null
  }

  async end(how) {
    await this.transaction[how]()
    this.transaction = null
  }

  async sendOffsets(offsets, member) {
    await this.transaction.addConsumer(member)
    const { groupId, memberId, generationId, coordinatorId } = member
    for (const { topic, partition, offset } of offsets) {
      // what addOffset reads of the last message that was processed
      const metadata = { consumer: { groupId, memberId, generationId, coordinatorId } }
      await this.transaction.addOffset({ topic, partition, offset: BigInt(offset) - 1n, metadata })
    }
  }
}

class ConsumerRole {
  constructor(request) {
    if (request.group_protocol !== 'classic') throw new Error('the library reports no rebalances of the consumer protocol')
    if (request.assignor && request.assignor !== 'roundrobin') throw new Error(`the library has no assignor ${request.assignor}`)
    this.request = request
    this.library = null
    this.stream = null
    this.reset()
  }

  reset() {
    this.topics = []
    this.manual = null // the offsets to read next of manually assigned partitions, by name
    this.places = new Map() // behind the last records that polls have taken
    this.events = []
    this.assigned = []
    this.revoked = false
    this.failure = null
    this.opening = null
    this.wake = () => {}
  }

  join(group) {
    const { request } = this
    const library = this.library = new Consumer({
      ...configured(request),
      groupId: group,
      sessionTimeout: request.session_timeout_ms,
      rebalanceTimeout: Math.max(request.session_timeout_ms, 30000),
      heartbeatInterval: Math.floor(request.session_timeout_ms / 6),
      isolationLevel: request.isolation_level === 'read_committed' ? 1 : 0,
      autocommit: request.auto_commit && 1000,
      maxWaitTime: request.properties.maxWaitTime ?? 100,
    })
    library.on('error', console.error)
    library.on('consumer:group:rebalance', () => this.rebalanced('revoked', []))
    library.on('consumer:group:join', ({ assignments }) => this.rebalanced('lost', assignments
      .flatMap(({ topic, partitions }) => partitions.map(partition => ({ topic, partition })))))
  }

  /** Listeners of the library cannot delay a rebalance: it goes on while the event waits for a poll and for "continue". */
  rebalanced(event, partitions) {
    if (this.manual) return
    if (this.assigned.length) this.events.push({ event, partitions: this.assigned })
    if (partitions.length) this.events.push({ event: 'assigned', partitions })
    this.assigned = partitions
    this.places.clear()
    this.wake()
  }

  async open() {
    const { auto_offset_reset: reset } = this.request
    const offsets = this.manual && [...this.manual.values()].map(each => ({ ...each, offset: BigInt(each.offset) }))
    const stream = await this.library.consume({
      topics: this.topics,
      mode: offsets ? 'manual' : 'committed',
      fallbackMode: reset === 'none' ? 'fail' : reset,
      ...offsets && { offsets },
    })
    stream.on('error', error => {
      console.error(error)
      this.failure = error
      this.stream = null // the library has destroyed it
      this.wake()
    })
    stream.on('readable', () => this.wake())
    this.stream = stream
  }

  /** Open the stream if there is none; a poll does not wait for that longer than it may. */
  opened() {
    if (!this.stream && !this.opening && this.topics.length) {
      this.opening = this.open()
        .catch(error => { this.failure = error })
        .finally(() => {
          this.opening = null
          this.wake()
        })
    }
  }

  async closeStream() {
    await this.opening
    const { stream } = this
    this.stream = null
    if (stream) {
      stream.removeAllListeners('readable')
      await stream.close()
    }
  }

  async subscribe(topics) {
    await this.close()
    this.topics = topics
    this.join(this.request.group)
  }

  async numbered(partitions) {
    const found = []
    for (const { topic, partition, offset } of partitions) {
      const asked = { topics: [topic], partitions: { [topic]: [partition] } }
      let place = offset
      if (place === 'committed') {
        place = (await this.library.listCommittedOffsets({ topics: [{ topic, partitions: [partition] }] })).get(topic)[partition]
        if (place === undefined || place < 0n) place = this.request.auto_offset_reset
      }
      if (place === 'earliest' || place === 'latest') {
        const timestamp = place === 'earliest' ? ListOffsetTimestamps.EARLIEST : ListOffsetTimestamps.LATEST
        place = (await this.library.listOffsets({ ...asked, timestamp })).get(topic)[partition]
      }
      found.push({ topic, partition, offset: Number(place) })
    }
    return found
  }

  async assign(partitions) {
    if (this.manual) await this.closeStream()
    else await this.close()
    if (!this.library) this.join(`${this.request.group}-${this.request.client_id}`)
    this.manual = new Map()
    this.topics = []
    for (const each of await this.numbered(partitions)) this.manual.set(nameOf(each), each)
    this.topics = [...new Set(partitions.map(each => each.topic))]
    this.failure = null
    this.opened()
  }

  async seek(partitions) {
    if (!this.manual) throw new Error('a stream in mode "committed" cannot seek')
    await this.closeStream()
    for (const each of await this.numbered(partitions)) this.manual.set(nameOf(each), each)
    this.opened()
  }

  take(most) {
    const records = []
    let message
    while (this.stream && records.length < most && (message = this.stream.read()) !== null) {
      const { topic, partition, offset, timestamp, key, value } = message
      const place = { topic, partition, offset: Number(offset) + 1 }
      if (this.manual && !this.manual.has(nameOf(place))) continue // another partition of the topic
      if (this.manual) this.manual.set(nameOf(place), place)
      this.places.set(nameOf(place), place)
      records.push({ topic, partition, offset: Number(offset), timestamp: Number(timestamp),
        key: encoded(key), value: encoded(value) })
    }
    return records
  }

  async poll(request) {
    const deadline = Date.now() + request.wait_ms
    for (;;) {
      while (this.events.length) {
        write({ id: request.id, ...this.events.shift() })
        await new Promise(resolve => { continued = resolve })
      }
      const records = this.take(request.records_max)
      if (records.length) return { records, positions: this.positions() }
      const { failure } = this
      this.failure = null
      if (failure) throw failure
      this.opened()
      const left = deadline - Date.now()
      if (left <= 0) return { records, positions: this.positions() }
      await new Promise(resolve => {
        this.wake = resolve
        setTimeout(resolve, left)
      })
    }
  }

  /** The stream knows where it fetches next, which is the position of the consumer once all messages are taken. */
  positions() {
    const owned = this.manual ? [...this.manual.values()] : this.assigned
    if (this.stream && this.stream.readableLength === 0) {
      for (const { topic, partition } of owned) {
        const offset = this.stream.offsetsToFetch.get(nameOf({ topic, partition }))
        if (offset !== undefined) this.places.set(nameOf({ topic, partition }), { topic, partition, offset: Number(offset) })
      }
    }
    return owned.map(each => this.places.get(nameOf(each))).filter(Boolean)
  }

  async commit(offsets) {
    await this.library.commit({
      offsets: offsets.map(({ topic, partition, offset }) => ({ topic, partition, offset: BigInt(offset), leaderEpoch: -1 })),
    })
  }

  /** The library always leaves the group. */
  async close() {
    const { library } = this
    await this.closeStream().catch(console.error)
    this.library = null
    this.reset()
    if (library) await library.close(true)
  }
}

const requests = {
  hello: () => ({ protocol: 1, library: '@platformatic/kafka', version, capabilities: CAPABILITIES }),
  open(request) {
    if (request.role === 'producer') producer = new ProducerRole(request)
    else consumer = new ConsumerRole(request)
  },
  send: request => producer.send(request),
  init_transactions: () => producer.initTransactions(),
  begin: () => producer.begin(),
  commit: () => producer.end('commit'),
  abort: () => producer.end('abort'),
  send_offsets: request => producer.sendOffsets(request.offsets, consumer.library),
  assign: request => consumer.assign(request.partitions),
  seek: request => consumer.seek(request.partitions),
  subscribe: request => consumer.subscribe(request.topics),
  poll: request => consumer.poll(request),
  commit_offsets: request => consumer.commit(request.offsets),
  positions: () => ({ positions: consumer.positions() }),
  flush: () => Promise.allSettled(sends).then(() => undefined),
  async close(request) {
    if (request.role === 'producer') {
      const closed = producer
      producer = null
      await closed?.library.close(true)
    } else {
      const closed = consumer
      consumer = null
      await closed?.close()
    }
  },
}

async function serve(request) {
  if (request.do === 'continue') return continued()
  try {
    const answer = await within(request.timeout_ms, Promise.resolve().then(() => requests[request.do](request)))
    write({ id: request.id, ok: answer ?? {} })
  } catch (error) {
    console.error(error)
    const answer = errorOf(error)
    if (error.abortable && answer.kind !== 'fatal') answer.kind = 'abortable'
    write({ id: request.id, error: answer })
  }
}

console.log = console.info = console.debug = console.error // standard output is for answers
readline.createInterface({ input: process.stdin })
  .on('line', line => serve(JSON.parse(line)))
  .on('close', () => process.exit(0))
