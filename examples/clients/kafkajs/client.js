// KafkaJS as a client program: see docs/use/your-own-client.md.
//
// KafkaJS pushes records and has no manual assignment. eachBatch therefore keeps its batch until polls have taken all
// its records, and `assign` is a group with this process as its only member, in which other partitions are paused.

const fs = require('node:fs')
const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')

const CAPABILITIES = ['produce', 'consume', 'idempotence', 'transactions', 'groups', 'send-offsets']
const SETTINGS = {
  producer: ['allowAutoTopicCreation', 'maxInFlightRequests', 'metadataMaxAge', 'retry'],
  consumer: ['heartbeatInterval', 'maxBytes', 'maxBytesPerPartition', 'maxInFlightRequests', 'maxWaitTimeInMs',
    'metadataMaxAge', 'minBytes', 'rackId', 'rebalanceTimeout', 'retry'],
}

let producer = null
let transaction = null // the current one, or the one that init_transactions has prepared
let consumer = null
let continued = null // resolves when the harness has sent "continue"
const sends = new Set()

const write = message => process.stdout.write(JSON.stringify(message) + '\n')
const encoded = data => (data == null ? null : data.toString('base64'))
const decoded = text => (text == null ? null : Buffer.from(text, 'base64'))
const nameOf = ({ topic, partition }) => `${topic}:${partition}`

function errorOf(error) {
  let cause = error
  while (cause.cause && !cause.type) cause = cause.cause // what is behind KafkaJSNumberOfRetriesExceeded
  // KafkaJS does not know PRODUCER_FENCED, which brokers report since 2.7.
  const fenced = cause.message === 'Unknown error code 90'
  const answer = { code: fenced ? 'PRODUCER_FENCED' : cause.type || error.name, text: error.message }
  if (['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'].includes(answer.code)) answer.kind = 'fatal'
  else if (error.retriable) answer.kind = 'retriable'
  return answer
}

/** KafkaJS has no time limit for a call as a whole, only for single requests and for the number of retries. */
function within(milliseconds, promise) {
  let timer
  const late = new Promise((_, reject) => {
    const error = Object.assign(new Error('no result from KafkaJS in time'), { name: 'Timeout' })
    timer = setTimeout(() => reject(error), milliseconds)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

function configured(request) {
  const known = ['security.protocol', 'sasl.mechanism', 'sasl.username', 'sasl.password', 'ssl.ca.location']
  const unknown = Object.keys(request.security).filter(name => !known.includes(name))
    .concat(Object.keys(request.properties).filter(name => !SETTINGS[request.role].includes(name)))
  if (unknown.length) throw new Error(`KafkaJS has no setting ${unknown.join(', ')}`)
  const { 'security.protocol': protocol = 'PLAINTEXT', 'ssl.ca.location': ca, ...login } = request.security
  return new Kafka({
    brokers: request.bootstrap.split(','),
    clientId: request.client_id,
    requestTimeout: request.request_timeout_ms,
    connectionTimeout: Math.min(request.request_timeout_ms, 1000),
    ssl: protocol.endsWith('SSL') ? { ca: ca && fs.readFileSync(ca) } : false,
    sasl: protocol.startsWith('SASL') ? {
      mechanism: login['sasl.mechanism'].toLowerCase(),
      username: login['sasl.username'],
      password: login['sasl.password'],
    } : undefined,
    logLevel: logLevel.WARN,
    logCreator: () => ({ label, namespace, log }) => console.error(label, namespace, log.timestamp, log.message, log.error || ''),
  })
}

/** The consumer of the process, with the records and rebalances that no poll has taken yet. */
class Consumer {
  constructor(request) {
    if (request.group_protocol !== 'classic') throw new Error('KafkaJS has the classic group protocol only')
    if (request.assignor && request.assignor !== 'roundrobin') throw new Error(`KafkaJS has no assignor ${request.assignor}`)
    if (request.auto_offset_reset === 'none') throw new Error('KafkaJS always resets an offset that does not exist')
    this.request = request
    this.kafka = configured(request)
    this.reset()
  }

  reset() {
    this.library = null
    this.topics = []
    this.batches = [] // what eachBatch waits for
    this.events = []
    this.assigned = [] // as a group member
    this.manual = null // the offsets to read next of manually assigned partitions, by name
    this.owned = [] // all partitions of the private group
    this.positions = new Map()
    this.crash = null
    this.wake = () => {}
  }

  async start(group, topics, manual) {
    await this.close()
    const { request } = this
    this.topics = topics
    this.manual = manual
    const library = this.library = this.kafka.consumer({
      groupId: group,
      sessionTimeout: request.session_timeout_ms,
      heartbeatInterval: Math.floor(request.session_timeout_ms / 6),
      readUncommitted: request.isolation_level === 'read_uncommitted',
      maxWaitTimeInMs: 100,
      ...request.properties,
    })
    library.on(library.events.REBALANCING, () => this.rebalanced('revoked', []))
    library.on(library.events.GROUP_JOIN, ({ payload }) => {
      const partitions = Object.entries(payload.memberAssignment)
        .flatMap(([topic, numbers]) => numbers.map(partition => ({ topic, partition })))
      this.rebalanced('lost', partitions) // KafkaJS also joins again without REBALANCING, for instance after a new leader
    })
    library.on(library.events.END_BATCH_PROCESS, ({ payload }) => {
      // a batch of nothing but transaction markers and aborted records, which eachBatch does not get
      const place = (this.manual || this.positions).get(nameOf(payload))
      if (payload.batchSize === 0 && place?.offset === Number(payload.firstOffset)) this.moved(payload, Number(payload.lastOffset) + 1)
    })
    library.on(library.events.CRASH, ({ payload }) => {
      if (!payload.restart) this.crash = payload.error
      this.wake()
    })
    await library.connect()
    await library.subscribe({ topics, fromBeginning: request.auto_offset_reset === 'earliest' })
    return library.run({
      autoCommit: request.auto_commit,
      eachBatchAutoResolve: false,
      eachBatch: payload => this.offer(payload),
    })
  }

  /** Keep a batch until polls have taken all its records. */
  async offer({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    const { topic, partition, messages } = batch
    const offered = { topic, partition, messages, last: batch.lastOffset(), next: 0, resolveOffset, isStale }
    this.batches.push(offered)
    try {
      while (offered.next < messages.length && isRunning() && !isStale()) {
        this.wake()
        await new Promise(resolve => {
          offered.taken = resolve
          setTimeout(resolve, 100)
        })
        await heartbeat() // raises an error if the group rebalances
      }
    } finally {
      this.batches.splice(this.batches.indexOf(offered), 1)
    }
  }

  /** Listeners of KafkaJS cannot delay a rebalance: it goes on while the event waits for a poll and for "continue". */
  rebalanced(event, partitions) {
    if (this.manual) {
      if (event === 'lost') this.seekManual(partitions)
      return
    }
    if (this.assigned.length) this.events.push({ event, partitions: this.assigned })
    if (partitions.length) this.events.push({ event: 'assigned', partitions })
    this.assigned = partitions
    this.positions.clear()
    this.wake()
  }

  /** Read the wanted partitions of a private group from their offsets, which KafkaJS loses when it joins again. */
  seekManual(partitions) {
    this.owned = partitions
    for (const { topic, partition } of partitions) {
      const wanted = this.manual.get(nameOf({ topic, partition }))
      this.library[wanted ? 'resume' : 'pause']([{ topic, partitions: [partition] }])
      if (wanted && wanted.offset !== null) this.library.seek({ topic, partition, offset: String(wanted.offset) })
    }
  }

  /** KafkaJS cannot seek to "earliest" or "latest" unless it commits automatically. */
  async numbered(partitions) {
    const admin = this.kafka.admin()
    try {
      const found = []
      for (const { topic, partition, offset } of partitions) {
        if (offset === 'earliest' || offset === 'latest') {
          const ends = (await admin.fetchTopicOffsets(topic)).find(each => each.partition === partition)
          found.push({ topic, partition, offset: Number(offset === 'earliest' ? ends.low : ends.high) })
        } else {
          found.push({ topic, partition, offset: offset === 'committed' ? null : offset })
        }
      }
      return found
    } finally {
      admin.disconnect().catch(() => {})
    }
  }

  async assign(partitions) {
    const wanted = new Map((await this.numbered(partitions)).map(each => [nameOf(each), each]))
    const topics = [...new Set(partitions.map(each => each.topic))]
    if (!topics.length) {
      await this.close()
    } else if (this.manual && topics.every(topic => this.topics.includes(topic))) {
      this.manual = wanted
      this.seekManual(this.owned)
    } else {
      await this.start(`${this.request.group}-${this.request.client_id}`, topics, wanted)
    }
  }

  async seek(partitions) {
    for (const each of await this.numbered(partitions)) {
      if (this.manual) this.manual.set(nameOf(each), each)
      this.positions.delete(nameOf(each))
      if (each.offset !== null) this.library.seek({ ...each, offset: String(each.offset) })
    }
  }

  moved({ topic, partition }, offset) {
    const position = { topic, partition, offset }
    if (this.manual) this.manual.set(nameOf(position), position)
    else this.positions.set(nameOf(position), position)
  }

  take(most) {
    const records = []
    for (const batch of this.batches) {
      if (batch.isStale() || (this.manual && !this.manual.has(nameOf(batch)))) continue
      while (batch.next < batch.messages.length && records.length < most) {
        const { offset, timestamp, key, value } = batch.messages[batch.next++]
        records.push({ topic: batch.topic, partition: batch.partition, offset: Number(offset),
          timestamp: Number(timestamp), key: encoded(key), value: encoded(value) })
        batch.resolveOffset(offset)
        this.moved(batch, Number(offset) + 1)
      }
      if (batch.next === batch.messages.length) {
        this.moved(batch, Number(batch.last) + 1)
        batch.taken()
      }
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
      if (records.length) return { records, positions: this.places() }
      if (this.crash) throw this.crash
      const left = deadline - Date.now()
      if (left <= 0) return { records, positions: this.places() }
      await new Promise(resolve => {
        this.wake = resolve
        setTimeout(resolve, left)
      })
    }
  }

  places() {
    return [...(this.manual || this.positions).values()].filter(each => each.offset !== null)
  }

  async commit(offsets) {
    if (!this.library) throw new Error('neither subscribed nor assigned')
    await this.library.commitOffsets(offsets.map(each => ({ ...each, offset: String(each.offset) })))
  }

  /** KafkaJS always leaves the group. */
  async close() {
    const { library } = this
    this.reset()
    if (library) await library.disconnect()
  }
}

const requests = {
  hello: () => ({ protocol: 1, library: 'KafkaJS', version, capabilities: CAPABILITIES }),

  async open(request) {
    if (request.role === 'consumer') {
      consumer = new Consumer(request)
      return {}
    }
    const idempotent = request.idempotence || request.transactional_id !== null
    const opened = configured(request).producer({
      idempotent,
      maxInFlightRequests: idempotent ? 1 : undefined, // as its documentation demands
      transactionalId: request.transactional_id ?? undefined,
      transactionTimeout: request.transaction_timeout_ms,
      retry: request.retries === null ? undefined : { retries: request.retries },
      ...request.properties,
    })
    producer = { ...request, library: opened, acks: request.acks === 'all' ? -1 : Number(request.acks) }
    await opened.connect()
    return {}
  },

  async send(request) {
    const { topic, partition, key, value } = request
    const sent = within(Math.min(producer.delivery_timeout_ms, request.timeout_ms), (transaction || producer.library).send({
      topic,
      acks: producer.acks,
      timeout: producer.request_timeout_ms,
      messages: [{ partition, key: decoded(key), value: decoded(value) }],
    }))
    sends.add(sent)
    try {
      const [result] = await sent
      const offset = Number(result?.baseOffset ?? -1)
      return { offset: offset < 0 ? null : offset }
    } catch (error) {
      throw transaction ? Object.assign(error, { abortable: true }) : error
    } finally {
      sends.delete(sent)
    }
  },

  // KafkaJS fetches its producer id when the first transaction begins.
  async init_transactions() {
    transaction = await producer.library.transaction()
    transaction.unused = true
    return {}
  },

  async begin() {
    if (transaction?.unused) transaction.unused = false
    else transaction = await producer.library.transaction()
    return {}
  },

  async commit() {
    await transaction.commit()
    return {}
  },

  async abort() {
    await transaction.abort()
    return {}
  },

  async send_offsets(request) {
    const topics = [...new Set(request.offsets.map(each => each.topic))].map(topic => ({
      topic,
      partitions: request.offsets.filter(each => each.topic === topic)
        .map(({ partition, offset }) => ({ partition, offset: String(offset) })),
    }))
    await transaction.sendOffsets({ consumerGroupId: consumer.request.group, topics })
    return {}
  },

  async assign(request) {
    await consumer.assign(request.partitions)
    return {}
  },

  async seek(request) {
    await consumer.seek(request.partitions)
    return {}
  },

  async subscribe(request) {
    consumer.start(consumer.request.group, request.topics, null).catch(error => { consumer.crash = error })
    return {}
  },

  poll: request => consumer.poll(request),

  async commit_offsets(request) {
    await consumer.commit(request.offsets)
    return {}
  },

  positions: () => ({ positions: consumer.places() }),

  async flush() {
    await Promise.allSettled(sends)
    return {}
  },

  async close(request) {
    if (request.role === 'producer') {
      const closed = producer
      producer = transaction = null
      await closed?.library.disconnect()
    } else {
      await consumer?.close()
      consumer = null
    }
    return {}
  },
}

async function serve(request) {
  if (request.do === 'continue') return continued()
  try {
    write({ id: request.id, ok: await within(request.timeout_ms, Promise.resolve(requests[request.do](request))) })
  } catch (error) {
    console.error(error)
    const answer = errorOf(error)
    if (error.abortable && answer.kind !== 'fatal') answer.kind = 'abortable'
    // A transaction of KafkaJS whose commit or abort has failed can be neither repeated nor ended.
    if (['begin', 'commit', 'abort'].includes(request.do) && error.name === 'KafkaJSNonRetriableError') answer.kind = 'fatal'
    write({ id: request.id, error: answer })
  }
}

readline.createInterface({ input: process.stdin })
  .on('line', line => serve(JSON.parse(line)))
  .on('close', () => process.exit(0))
