//! rskafka as a client program: see docs/use/your-own-client.md.
//!
//! rskafka has clients of single partitions, without groups, transactions or producer ids. It always uses `acks=all`
//! and repeats a request until the deadline of its backoff. Runs need `--no-idempotence`.

use base64::{engine::general_purpose::STANDARD, Engine};
use chrono::Utc;
use rskafka::client::error::{Error as KafkaError, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use rskafka::BackoffConfig;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::timeout;

type Place = (String, i32);

enum Failure {
    Library(KafkaError),
    Late,
    Refused(String),
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Failure::Library(error)
    }
}

impl Failure {
    fn answer(&self) -> Value {
        match self {
            Failure::Library(KafkaError::ServerError { protocol_error, .. }) => {
                json!({"code": upper_snake(&format!("{protocol_error:?}")), "text": protocol_error.to_string()})
            }
            Failure::Library(error) => {
                let name: String = format!("{error:?}").chars().take_while(char::is_ascii_alphabetic).collect();
                json!({"code": name, "text": error.to_string()})
            }
            Failure::Late => json!({"code": "Elapsed", "text": "no result from rskafka in time"}),
            Failure::Refused(text) => json!({"code": "Refused", "text": text, "sent": "no"}),
        }
    }
}

/// NotLeaderOrFollower is NOT_LEADER_OR_FOLLOWER in Kafka's documentation.
fn upper_snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

fn write(message: Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}").and_then(|_| output.flush()).expect("standard output is closed");
}

fn answer(id: &Value, result: Result<Value, Failure>) {
    match result {
        Ok(ok) => write(json!({"id": id, "ok": ok})),
        Err(failure) => write(json!({"id": id, "error": failure.answer()})),
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| STANDARD.decode(text).expect("not base64"))
}

fn place_of(value: &Value) -> Place {
    (value["topic"].as_str().unwrap_or_default().to_string(), value["partition"].as_i64().unwrap_or(0) as i32)
}

/// rskafka waits for a response without a time limit.
async fn within<T>(limit: Duration, result: impl Future<Output = Result<T, KafkaError>>) -> Result<T, Failure> {
    Ok(timeout(limit, result).await.map_err(|_| Failure::Late)??)
}

fn milliseconds(request: &Value, name: &str) -> Duration {
    Duration::from_millis(request[name].as_u64().unwrap_or(10_000))
}

/// The producer or the consumer: a connection to the cluster, and the clients of the partitions in use.
struct Role {
    client: OnceCell<Client>,
    request: Value,
    limit: Duration,
    partitions: std::sync::Mutex<HashMap<Place, Arc<OnceCell<PartitionClient>>>>,
}

impl Role {
    fn open(request: &Value) -> Result<Arc<Self>, Failure> {
        let refuse = |text: &str| Err(Failure::Refused(text.to_string()));
        let security = request["security"].as_object().cloned().unwrap_or_default();
        if security.iter().any(|(name, value)| name != "security.protocol" || value != "PLAINTEXT") {
            return refuse("this program has no security settings");
        }
        if request["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
            return refuse("rskafka has no settings by name");
        }
        let producer = request["role"] == "producer";
        if producer && request["acks"] != "all" {
            return refuse("rskafka has acks=all only");
        }
        if producer && (request["idempotence"] == true || !request["transactional_id"].is_null()) {
            return refuse("rskafka has no producer ids");
        }
        if producer && !request["retries"].is_null() {
            return refuse("rskafka does not limit the number of retries");
        }
        let limit = milliseconds(request, if producer { "delivery_timeout_ms" } else { "request_timeout_ms" });
        let (client, partitions) = Default::default();
        Ok(Arc::new(Role { client, request: request.clone(), limit, partitions }))
    }

    async fn connect(&self) -> Result<Client, KafkaError> {
        let brokers = self.request["bootstrap"].as_str().unwrap_or_default();
        ClientBuilder::new(brokers.split(',').map(str::to_string).collect())
            .client_id(self.request["client_id"].as_str().unwrap_or_default())
            .backoff_config(BackoffConfig {
                max_backoff: Duration::from_secs(1),
                deadline: Some(self.limit),
                ..BackoffConfig::default()
            })
            .build()
            .await
    }

    fn cell(&self, place: &Place) -> Arc<OnceCell<PartitionClient>> {
        self.partitions.lock().unwrap().entry(place.clone()).or_default().clone()
    }

    async fn partition<'a>(
        &self,
        place: &Place,
        cell: &'a OnceCell<PartitionClient>,
    ) -> Result<&'a PartitionClient, KafkaError> {
        cell.get_or_try_init(|| async {
            let client = self.client.get_or_try_init(|| self.connect()).await?;
            client.partition_client(place.0.clone(), place.1, UnknownTopicHandling::Retry).await
        })
        .await
    }

    async fn send(&self, request: &Value) -> Result<Value, Failure> {
        let place = place_of(request);
        let cell = self.cell(&place);
        let record = Record {
            key: decoded(&request["key"]),
            value: decoded(&request["value"]),
            headers: BTreeMap::new(),
            timestamp: Utc::now(),
        };
        let offsets = within(self.limit, async {
            self.partition(&place, &cell).await?.produce(vec![record], Compression::NoCompression).await
        })
        .await?;
        Ok(json!({"offset": offsets.first()}))
    }

    async fn offset(&self, place: &Place, at: &str) -> Result<i64, Failure> {
        let cell = self.cell(place);
        let at = match at {
            "earliest" => OffsetAt::Earliest,
            "latest" => OffsetAt::Latest,
            _ => return Err(Failure::Refused("no offset to read from".to_string())),
        };
        within(self.limit, async { self.partition(place, &cell).await?.get_offset(at).await }).await
    }

    async fn fetch(&self, place: &Place, offset: i64, wait_ms: i32) -> Result<Vec<(i64, Value)>, Failure> {
        let cell = self.cell(place);
        let (records, _) = within(self.limit, async {
            self.partition(place, &cell).await?.fetch_records(offset, 1..1_000_000, wait_ms).await
        })
        .await?;
        let encoded = |data: Option<Vec<u8>>| data.map(|data| STANDARD.encode(data));
        let described = records.into_iter().map(|found| {
            let record = json!({
                "topic": place.0, "partition": place.1, "offset": found.offset,
                "timestamp": found.record.timestamp.timestamp_millis(),
                "key": encoded(found.record.key), "value": encoded(found.record.value),
            });
            (found.offset, record)
        });
        Ok(described.collect())
    }
}

#[derive(Default)]
struct Program {
    producer: Option<Arc<Role>>,
    consumer: Option<Arc<Role>>,
    positions: BTreeMap<Place, i64>,
    sends: JoinSet<()>,
}

impl Program {
    fn consumer(&self) -> Result<Arc<Role>, Failure> {
        self.consumer.clone().ok_or_else(|| Failure::Refused("no consumer is open".to_string()))
    }

    /// Hand a record to the library. The runtime has one thread, which starts tasks in the order of the requests.
    fn send(&mut self, request: Value) {
        let producer = self.producer.clone();
        self.sends.spawn(async move {
            let result = match producer {
                Some(producer) => producer.send(&request).await,
                None => Err(Failure::Refused("no producer is open".to_string())),
            };
            answer(&request["id"], result);
        });
        while self.sends.try_join_next().is_some() {}
    }

    async fn serve(&mut self, request: &Value) -> Result<Value, Failure> {
        match request["do"].as_str().unwrap_or_default() {
            "hello" => Ok(json!({
                "protocol": 1, "library": "rskafka", "version": "0.6.0", "capabilities": ["produce", "consume"],
            })),
            "open" => {
                let role = Role::open(request)?;
                if request["role"] == "producer" {
                    self.producer = Some(role);
                } else {
                    self.positions.clear();
                    self.consumer = Some(role);
                }
                Ok(json!({}))
            }
            "assign" => {
                self.positions.clear();
                self.seek(request).await
            }
            "seek" => self.seek(request).await,
            "poll" => self.poll(request).await,
            "positions" => Ok(json!({"positions": self.described()})),
            "flush" => {
                while self.sends.join_next().await.is_some() {}
                Ok(json!({}))
            }
            "close" => {
                *(if request["role"] == "producer" { &mut self.producer } else { &mut self.consumer }) = None;
                Ok(json!({}))
            }
            other => Err(Failure::Refused(format!("rskafka cannot {other}"))),
        }
    }

    async fn seek(&mut self, request: &Value) -> Result<Value, Failure> {
        let consumer = self.consumer()?;
        for each in request["partitions"].as_array().into_iter().flatten() {
            let place = place_of(each);
            let offset = match each["offset"].as_str() {
                None => each["offset"].as_i64().unwrap_or(0),
                Some("committed") => self.reset(&consumer, &place).await?, // there are no groups
                Some(end) => consumer.offset(&place, end).await?,
            };
            self.positions.insert(place, offset);
        }
        Ok(json!({}))
    }

    async fn reset(&self, consumer: &Role, place: &Place) -> Result<i64, Failure> {
        consumer.offset(place, consumer.request["auto_offset_reset"].as_str().unwrap_or("none")).await
    }

    fn described(&self) -> Vec<Value> {
        let described = |((topic, partition), offset): (&Place, &i64)| json!({"topic": topic, "partition": partition, "offset": offset});
        self.positions.iter().map(described).collect()
    }

    /// Fetch from all assigned partitions at once.
    async fn poll(&mut self, request: &Value) -> Result<Value, Failure> {
        let consumer = self.consumer()?;
        let wait = request["wait_ms"].as_i64().unwrap_or(100) as i32;
        if self.positions.is_empty() {
            tokio::time::sleep(Duration::from_millis(wait as u64)).await;
        }
        let mut fetches = JoinSet::new();
        for (place, offset) in self.positions.clone() {
            let consumer = consumer.clone();
            fetches.spawn(async move {
                let result = consumer.fetch(&place, offset, wait).await;
                (place, result)
            });
        }
        let most = request["records_max"].as_u64().unwrap_or(500) as usize;
        let (mut records, mut errors) = (Vec::new(), Vec::new());
        let mut failure = None;
        while let Some(Ok((place, result))) = fetches.join_next().await {
            match result {
                Ok(fetched) => {
                    for (offset, record) in fetched.into_iter().take(most - records.len()) {
                        records.push(record);
                        self.positions.insert(place.clone(), offset + 1);
                    }
                }
                Err(Failure::Library(KafkaError::ServerError { protocol_error: ProtocolError::OffsetOutOfRange, .. })) => {
                    let offset = self.reset(&consumer, &place).await?;
                    self.positions.insert(place, offset);
                }
                Err(failed) => {
                    errors.push(failed.answer());
                    failure = Some(failed);
                }
            }
        }
        match failure {
            Some(failure) if records.is_empty() => Err(failure),
            _ => Ok(json!({"records": records, "positions": self.described(), "errors": errors})),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut program = Program::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).expect("not JSON");
        if request["do"] == "send" {
            program.send(request);
        } else {
            let result = program.serve(&request).await;
            answer(&request["id"], result);
        }
    }
    std::process::exit(0);
}
