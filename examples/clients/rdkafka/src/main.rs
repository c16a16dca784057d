//! The Rust crate rdkafka (librdkafka) as a client program: see docs/use/your-own-client.md.
//!
//! The main thread serves requests and runs the rebalance callback; delivery reports arrive in the producer's thread.

use base64::{engine::general_purpose::STANDARD, Engine};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type KafkaConsumer = BaseConsumer<Rebalances>;
type KafkaProducer = ThreadedProducer<Deliveries>;
type Answer = Result<Value, Value>;

fn write(message: Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}").and_then(|_| output.flush()).expect("standard output is closed");
}

/// The next request; the process ends with its standard input.
fn next_request() -> Value {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
        unsafe { libc_exit() }
    }
    serde_json::from_str(&line).expect("not JSON")
}

/// `std::process::exit` would run librdkafka's exit handlers while its threads run.
unsafe fn libc_exit() -> ! {
    extern "C" {
        fn _exit(status: i32) -> !;
    }
    _exit(0)
}

/// MessageTimedOut is _MESSAGE_TIMED_OUT if it is librdkafka's own, as in librdkafka's names.
fn name_of(code: RDKafkaErrorCode) -> String {
    if code == RDKafkaErrorCode::NotLeaderForPartition {
        return "NOT_LEADER_OR_FOLLOWER".to_string(); // its newer name
    }
    let mut text = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && (!text.is_empty() || (code as i32) < 0) {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

fn error_of(error: KafkaError) -> Value {
    let code = error.rdkafka_error_code().map_or_else(|| "KafkaError".to_string(), name_of);
    let mut answer = json!({"code": code, "text": error.to_string()});
    match &error {
        KafkaError::Transaction(cause) if cause.is_fatal() => answer["kind"] = json!("fatal"),
        KafkaError::Transaction(cause) if cause.txn_requires_abort() => answer["kind"] = json!("abortable"),
        KafkaError::Transaction(cause) if cause.is_retriable() => answer["kind"] = json!("retriable"),
        _ if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) => answer["kind"] = json!("fatal"),
        _ => {}
    }
    answer
}

fn refused(text: impl Into<String>) -> Value {
    json!({"code": "Refused", "text": text.into(), "sent": "no"})
}

fn done(result: Result<(), KafkaError>) -> Answer {
    result.map(|_| json!({})).map_err(error_of)
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| STANDARD.decode(text).expect("not base64"))
}

fn encoded(data: Option<&[u8]>) -> Option<String> {
    data.map(|data| STANDARD.encode(data))
}

fn limit(request: &Value) -> Duration {
    Duration::from_millis(request["timeout_ms"].as_u64().unwrap_or(10_000))
}

fn listed(positions: &Value) -> Result<TopicPartitionList, Value> {
    let mut list = TopicPartitionList::new();
    for each in positions.as_array().into_iter().flatten() {
        let offset = match each["offset"].as_str() {
            Some("earliest") => Offset::Beginning,
            Some("latest") => Offset::End,
            Some(_) => Offset::Stored, // the committed one
            None => Offset::Offset(each["offset"].as_i64().unwrap_or(0)),
        };
        let (topic, partition) = (each["topic"].as_str().unwrap_or_default(), each["partition"].as_i64().unwrap_or(0));
        list.add_partition_offset(topic, partition as i32, offset).map_err(error_of)?;
    }
    Ok(list)
}

fn described(list: &TopicPartitionList) -> Vec<Value> {
    let elements = list.elements();
    let described = elements.iter().map(|each| json!({"topic": each.topic(), "partition": each.partition()}));
    described.collect()
}

fn positions(consumer: &KafkaConsumer) -> Answer {
    let list = consumer.position().map_err(error_of)?;
    let mut positions = Vec::new();
    for each in list.elements() {
        if let Offset::Offset(offset) = each.offset() {
            positions.push(json!({"topic": each.topic(), "partition": each.partition(), "offset": offset}));
        }
    }
    Ok(json!({"positions": positions}))
}

/// What the rebalance callback shares with the main loop.
#[derive(Default)]
struct Shared {
    polling: Mutex<Value>, // the id of the current poll or close
    producer: Mutex<Option<Arc<KafkaProducer>>>,
}

impl Shared {
    fn producer(&self) -> Result<Arc<KafkaProducer>, Value> {
        self.producer.lock().unwrap().clone().ok_or_else(|| refused("no producer is open"))
    }

    /// The requests that may also come during a rebalance, except for sends.
    fn serve(&self, request: &Value, consumer: Option<&KafkaConsumer>) -> Answer {
        let producer = || self.producer();
        let consumer = consumer.ok_or_else(|| refused("no consumer is open"));
        match request["do"].as_str().unwrap_or_default() {
            "flush" => done(producer()?.flush(limit(request))),
            "begin" => done(producer()?.begin_transaction()),
            "commit" => done(producer()?.commit_transaction(limit(request))),
            "abort" => done(producer()?.abort_transaction(limit(request))),
            "commit_offsets" => done(consumer?.commit(&listed(&request["offsets"])?, CommitMode::Sync)),
            "positions" => positions(consumer?),
            "send_offsets" => {
                let member = consumer?.group_metadata().ok_or_else(|| refused("no member of a group"))?;
                let offsets = listed(&request["offsets"])?;
                done(self.producer()?.send_offsets_to_transaction(&offsets, &member, limit(request)))
            }
            other => Err(refused(format!("unknown request {other}"))),
        }
    }

    /// Sends a record; librdkafka reports its delivery later.
    fn send(&self, request: &Value) {
        if let Err(error) = self.begun(request) {
            answer(&request["id"], Err(error));
        }
    }

    fn begun(&self, request: &Value) -> Result<(), Value> {
        let (key, value) = (decoded(&request["key"]), decoded(&request["value"]));
        let id = request["id"].as_u64().unwrap_or(0) as usize;
        let mut record: BaseRecord<'_, Vec<u8>, Vec<u8>, usize> =
            BaseRecord::with_opaque_to(request["topic"].as_str().unwrap_or_default(), id)
                .partition(request["partition"].as_i64().unwrap_or(0) as i32);
        record.key = key.as_ref();
        record.payload = value.as_ref();
        self.producer()?.send(record).map_err(|(error, _)| {
            let mut answer = error_of(error);
            answer["sent"] = json!("no"); // it did not enter librdkafka's queue
            answer
        })
    }
}

fn answer(id: &Value, answer: Answer) {
    match answer {
        Ok(ok) => write(json!({"id": id, "ok": ok})),
        Err(error) => write(json!({"id": id, "error": error})),
    }
}

struct Deliveries;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize; // the id of the request

    fn delivery(&self, result: &DeliveryResult<'_>, id: usize) {
        match result {
            Ok(message) => {
                let offset = Some(message.offset()).filter(|offset| *offset >= 0);
                write(json!({"id": id, "ok": {"offset": offset}}));
            }
            Err((error, _)) => write(json!({"id": id, "error": error_of(error.clone())})),
        }
    }
}

struct Rebalances(Arc<Shared>);

impl ClientContext for Rebalances {}

impl Rebalances {
    fn report(&self, consumer: &KafkaConsumer, event: &str, list: &TopicPartitionList) {
        let id = self.0.polling.lock().unwrap().clone();
        if id.is_null() || list.count() == 0 {
            return;
        }
        write(json!({"id": id, "event": event, "partitions": described(list)}));
        loop {
            let request = next_request();
            if request["do"] == "continue" {
                return;
            }
            if request["do"] == "send" {
                self.0.send(&request);
            } else {
                answer(&request["id"], self.0.serve(&request, Some(consumer)));
            }
        }
    }
}

impl ConsumerContext for Rebalances {
    fn pre_rebalance(&self, consumer: &KafkaConsumer, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            self.report(consumer, if consumer.assignment_lost() { "lost" } else { "revoked" }, list);
        }
    }

    fn post_rebalance(&self, consumer: &KafkaConsumer, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            self.report(consumer, "assigned", list);
        }
    }
}

fn configured(request: &Value) -> ClientConfig {
    let mut config = ClientConfig::new();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let mut set = |name: &str, value: &Value| {
        if !value.is_null() {
            config.set(name, text(value));
        }
    };
    set("bootstrap.servers", &request["bootstrap"]);
    set("client.id", &request["client_id"]);
    set("socket.timeout.ms", &request["request_timeout_ms"]);
    if request["role"] == "producer" {
        set("acks", &request["acks"]);
        set("enable.idempotence", &request["idempotence"]);
        set("message.send.max.retries", &request["retries"]);
        set("request.timeout.ms", &request["request_timeout_ms"]);
        set("linger.ms", &json!(0));
        let mut delivery = request["delivery_timeout_ms"].as_u64().unwrap_or(10_000);
        if !request["transactional_id"].is_null() {
            set("transactional.id", &request["transactional_id"]);
            set("transaction.timeout.ms", &request["transaction_timeout_ms"]);
            delivery = delivery.min(request["transaction_timeout_ms"].as_u64().unwrap_or(delivery)); // librdkafka demands it
        }
        set("message.timeout.ms", &json!(delivery));
    } else {
        set("group.id", &request["group"]);
        set("group.protocol", &request["group_protocol"]);
        set("isolation.level", &request["isolation_level"]);
        set("enable.auto.commit", &request["auto_commit"]);
        set("fetch.wait.max.ms", &json!(100));
        let reset = &request["auto_offset_reset"];
        set("auto.offset.reset", &if reset == "none" { json!("error") } else { reset.clone() });
        if request["group_protocol"] == "classic" {
            set("partition.assignment.strategy", &request["assignor"]);
            set("session.timeout.ms", &request["session_timeout_ms"]);
            set("heartbeat.interval.ms", &json!(request["session_timeout_ms"].as_u64().unwrap_or(6_000) / 6));
        }
    }
    for group in ["security", "properties"] {
        for (name, value) in request[group].as_object().into_iter().flatten() {
            set(name, value); // librdkafka's names
        }
    }
    config
}

#[derive(Default)]
struct Program {
    shared: Arc<Shared>,
    consumer: Option<KafkaConsumer>,
}

impl Program {
    fn consumer(&self) -> Result<&KafkaConsumer, Value> {
        self.consumer.as_ref().ok_or_else(|| refused("no consumer is open"))
    }

    fn serve(&mut self, request: &Value) -> Answer {
        match request["do"].as_str().unwrap_or_default() {
            "hello" => Ok(json!({
                "protocol": 1, "library": "rdkafka (Rust)", "version": rdkafka::util::get_rdkafka_version().1,
                "capabilities": ["produce", "consume", "idempotence", "transactions", "groups", "groups-consumer", "send-offsets"],
            })),
            "open" if request["role"] == "producer" => {
                let opened = KafkaProducer::from_config_and_context(&configured(request), Deliveries).map_err(error_of)?;
                *self.shared.producer.lock().unwrap() = Some(Arc::new(opened));
                Ok(json!({}))
            }
            "open" => {
                let context = Rebalances(self.shared.clone());
                self.consumer = Some(KafkaConsumer::from_config_and_context(&configured(request), context).map_err(error_of)?);
                Ok(json!({}))
            }
            "init_transactions" => done(self.shared.producer()?.init_transactions(limit(request))),
            "assign" => done(self.consumer()?.assign(&listed(&request["partitions"])?)),
            "seek" => {
                let sought = self.consumer()?.seek_partitions(listed(&request["partitions"])?, limit(request));
                for each in sought.map_err(error_of)?.elements() {
                    each.error().map_err(error_of)?;
                }
                Ok(json!({}))
            }
            "subscribe" => {
                let topics: Vec<&str> = request["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                done(self.consumer()?.subscribe(&topics))
            }
            "poll" => {
                *self.shared.polling.lock().unwrap() = request["id"].clone();
                let polled = self.poll(request);
                *self.shared.polling.lock().unwrap() = Value::Null;
                polled
            }
            "close" if request["role"] == "producer" => {
                *self.shared.producer.lock().unwrap() = None;
                Ok(json!({}))
            }
            "close" => {
                *self.shared.polling.lock().unwrap() = request["id"].clone();
                self.consumer = None; // leaves the group, whatever `leave` is
                *self.shared.polling.lock().unwrap() = Value::Null;
                Ok(json!({}))
            }
            _ => self.shared.serve(request, self.consumer.as_ref()),
        }
    }

    fn poll(&self, request: &Value) -> Answer {
        let consumer = self.consumer()?;
        let deadline = Instant::now() + Duration::from_millis(request["wait_ms"].as_u64().unwrap_or(100));
        let (mut records, mut errors) = (Vec::new(), Vec::new());
        while records.len() < request["records_max"].as_u64().unwrap_or(500) as usize {
            let wait = if records.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match consumer.poll(wait) {
                Some(Ok(message)) => records.push(json!({
                    "topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
                    "timestamp": message.timestamp().to_millis(),
                    "key": encoded(message.key()), "value": encoded(message.payload()),
                })),
                Some(Err(error)) => {
                    errors.push(error_of(error));
                    break;
                }
                None => break,
            }
        }
        if records.is_empty() && !errors.is_empty() {
            return Err(errors.remove(0));
        }
        let positions = positions(consumer)?["positions"].take();
        Ok(json!({"records": records, "positions": positions, "errors": errors}))
    }
}

fn main() {
    let mut program = Program::default();
    loop {
        let request = next_request();
        if request["do"] == "send" {
            program.shared.send(&request);
        } else {
            let result = program.serve(&request);
            answer(&request["id"], result);
        }
    }
}
