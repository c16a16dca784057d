import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Kafka's own Java clients as a client program: see docs/use/your-own-client.md.
 * The main thread serves requests and runs the rebalance listener; acknowledgements arrive in the producer's thread.
 */
public final class Client implements ConsumerRebalanceListener {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private static final String[] CAPABILITIES = {
        "produce", "consume", "idempotence", "transactions", "groups", "groups-consumer", "send-offsets"
    };
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream output = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> consumer;
    private JsonElement polling; // the id of the current poll or close
    // What polls may not return yet: KafkaConsumer has a limit for all polls, max.poll.records, not for a single one.
    private final Deque<ConsumerRecord<byte[], byte[]>> kept = new ArrayDeque<>();

    public static void main(String[] arguments) throws IOException {
        System.setOut(System.err); // standard output is for answers
        new Client().serve();
        Runtime.getRuntime().halt(0);
    }

    /** Serves requests up to the end of the input, or up to "continue" within a rebalance. */
    private void serve() throws IOException {
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            if (request.get("do").getAsString().equals("continue")) {
                return;
            }
            try {
                Map<String, ?> answer = answer(request);
                if (answer != null) {
                    ok(request.get("id"), answer);
                }
            } catch (Exception error) {
                failed(request.get("id"), error, false);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private synchronized void write(Map<String, ?> message) {
        output.print(GSON.toJson(message) + "\n");
        output.flush();
    }

    private void ok(JsonElement id, Map<String, ?> answer) {
        write(Map.of("id", id, "ok", answer));
    }

    private void failed(JsonElement id, Exception error, boolean unsent) {
        Throwable cause = error;
        while (cause.getCause() != null && Errors.forException(cause) == Errors.UNKNOWN_SERVER_ERROR) {
            cause = cause.getCause();
        }
        Errors known = Errors.forException(cause);
        boolean protocol = known != Errors.UNKNOWN_SERVER_ERROR && !(error instanceof org.apache.kafka.common.errors.TimeoutException);
        Map<String, Object> answer = new HashMap<>();
        answer.put("code", protocol ? known.name() : error.getClass().getSimpleName());
        answer.put("text", String.valueOf(error.getMessage()));
        if (unsent) {
            answer.put("sent", "no");
        }
        if (error instanceof RetriableException) {
            answer.put("kind", "retriable");
        } else if (error instanceof org.apache.kafka.common.errors.ProducerFencedException
            || error instanceof org.apache.kafka.common.errors.InvalidProducerEpochException
            || error instanceof org.apache.kafka.common.errors.OutOfOrderSequenceException
            || error instanceof org.apache.kafka.common.errors.AuthorizationException) {
            answer.put("kind", "fatal"); // as the documentation of KafkaProducer says
        } else if (error instanceof ApiException || error.getClass() == org.apache.kafka.common.KafkaException.class) {
            answer.put("kind", "abortable");
        }
        write(Map.of("id", id, "error", answer));
    }

    /** Returns the answer, or null if it comes later. */
    private Map<String, ?> answer(JsonObject request) {
        switch (request.get("do").getAsString()) {
            case "hello":
                return Map.of("protocol", 1, "library", "kafka-clients", "version", AppInfoParser.getVersion(),
                    "capabilities", CAPABILITIES);
            case "open":
                open(request);
                break;
            case "send":
                send(request);
                return null;
            case "flush":
                producer.flush();
                break;
            case "init_transactions":
                producer.initTransactions();
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "send_offsets":
                producer.sendOffsetsToTransaction(offsets(request.getAsJsonArray("offsets")), consumer.groupMetadata());
                break;
            case "assign":
                kept.clear();
                consumer.assign(positions(request.getAsJsonArray("partitions")).keySet());
                seek(request);
                break;
            case "seek":
                seek(request);
                break;
            case "subscribe":
                List<String> topics = new ArrayList<>();
                request.getAsJsonArray("topics").forEach(topic -> topics.add(topic.getAsString()));
                consumer.subscribe(topics, this);
                break;
            case "poll":
                return poll(request);
            case "positions":
                return Map.of("positions", positions());
            case "commit_offsets":
                consumer.commitSync(offsets(request.getAsJsonArray("offsets")), timeout(request));
                break;
            case "close":
                close(request);
                break;
            default:
                throw new IllegalArgumentException("unknown request " + request.get("do"));
        }
        return Map.of();
    }

    private void open(JsonObject request) {
        Properties config = new Properties();
        int requestTimeout = request.get("request_timeout_ms").getAsInt();
        config.put("bootstrap.servers", request.get("bootstrap").getAsString());
        config.put("client.id", request.get("client_id").getAsString());
        config.put("request.timeout.ms", requestTimeout);
        config.put("default.api.timeout.ms", Math.max(requestTimeout, 10_000));
        Set<String> known;
        if (request.get("role").getAsString().equals("producer")) {
            known = ProducerConfig.configNames();
            config.remove("default.api.timeout.ms");
            config.put("acks", request.get("acks").getAsString());
            config.put("enable.idempotence", request.get("idempotence").getAsBoolean());
            config.put("linger.ms", 0);
            config.put("delivery.timeout.ms", Math.max(request.get("delivery_timeout_ms").getAsInt(), requestTimeout));
            boolean transactional = !request.get("transactional_id").isJsonNull();
            config.put("max.block.ms", transactional ? requestTimeout : request.get("delivery_timeout_ms").getAsInt());
            if (!request.get("retries").isJsonNull()) {
                config.put("retries", request.get("retries").getAsInt());
            }
            if (transactional) {
                config.put("transactional.id", request.get("transactional_id").getAsString());
                config.put("transaction.timeout.ms", request.get("transaction_timeout_ms").getAsInt());
            }
        } else {
            known = ConsumerConfig.configNames();
            config.put("group.id", request.get("group").getAsString());
            config.put("group.protocol", request.get("group_protocol").getAsString());
            config.put("isolation.level", request.get("isolation_level").getAsString());
            config.put("auto.offset.reset", request.get("auto_offset_reset").getAsString());
            config.put("enable.auto.commit", request.get("auto_commit").getAsBoolean());
            config.put("fetch.max.wait.ms", 100);
            if (request.get("group_protocol").getAsString().equals("classic")) {
                config.put("session.timeout.ms", request.get("session_timeout_ms").getAsInt());
                config.put("heartbeat.interval.ms", request.get("session_timeout_ms").getAsInt() / 6);
                if (!request.get("assignor").isJsonNull()) {
                    config.put("partition.assignment.strategy", ASSIGNORS.get(request.get("assignor").getAsString()));
                }
            }
        }
        request.getAsJsonObject("security").asMap().forEach((name, value) -> secure(config, name, value.getAsString()));
        request.getAsJsonObject("properties").asMap().forEach((name, value) -> {
            if (!known.contains(name)) {
                throw new IllegalArgumentException("there is no setting " + name);
            }
            config.put(name, value.getAsString());
        });
        if (request.get("role").getAsString().equals("producer")) {
            producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        } else {
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }
    }

    private static void secure(Properties config, String name, String value) {
        switch (name) {
            case "security.protocol", "sasl.mechanism" -> config.put(name, value);
            case "ssl.ca.location" -> {
                config.put("ssl.truststore.type", "PEM");
                config.put("ssl.truststore.location", value);
            }
            case "sasl.username", "sasl.password" -> {
                String module = String.valueOf(config.get("sasl.mechanism")).startsWith("SCRAM") ? "scram.Scram" : "plain.Plain";
                String login = (String) config.getOrDefault("sasl.jaas.config",
                    "org.apache.kafka.common.security." + module + "LoginModule required;");
                config.put("sasl.jaas.config",
                    login.replace(";", " " + name.substring(5) + "=\"" + value.replace("\"", "\\\"") + "\";"));
            }
            default -> throw new IllegalArgumentException("there is no setting " + name);
        }
    }

    private void send(JsonObject request) {
        JsonElement id = request.get("id");
        Thread main = Thread.currentThread(); // it runs the callback if the record did not enter the producer's buffer
        producer.send(
            new ProducerRecord<>(request.get("topic").getAsString(), request.get("partition").getAsInt(),
                decoded(request.get("key")), decoded(request.get("value"))),
            (metadata, error) -> {
                if (error != null) {
                    failed(id, error, Thread.currentThread() == main);
                } else {
                    Map<String, Object> answer = new HashMap<>();
                    answer.put("offset", metadata.hasOffset() ? metadata.offset() : null);
                    ok(id, answer);
                }
            });
    }

    private void seek(JsonObject request) {
        positions(request.getAsJsonArray("partitions")).forEach((partition, offset) -> {
            forget(List.of(partition));
            switch (offset) {
                case "earliest" -> consumer.seekToBeginning(List.of(partition));
                case "latest" -> consumer.seekToEnd(List.of(partition));
                case "committed" -> { }
                default -> consumer.seek(partition, Long.parseLong(offset));
            }
        });
    }

    private Map<String, ?> poll(JsonObject request) {
        polling = request.get("id");
        List<Object> records = new ArrayList<>();
        try {
            if (kept.isEmpty()) {
                consumer.poll(Duration.ofMillis(request.get("wait_ms").getAsLong())).forEach(kept::add);
            }
            while (!kept.isEmpty() && records.size() < request.get("records_max").getAsInt()) {
                ConsumerRecord<byte[], byte[]> record = kept.remove();
                Map<String, Object> described = new HashMap<>(described(new TopicPartition(record.topic(), record.partition())));
                described.put("offset", record.offset());
                described.put("timestamp", record.timestamp());
                described.put("key", encoded(record.key()));
                described.put("value", encoded(record.value()));
                record.leaderEpoch().ifPresent(epoch -> described.put("leader_epoch", epoch));
                records.add(described);
            }
        } finally {
            polling = null;
        }
        return Map.of("records", records, "positions", positions());
    }

    private List<Object> positions() {
        Map<TopicPartition, Long> next = new HashMap<>();
        kept.forEach(record -> next.putIfAbsent(new TopicPartition(record.topic(), record.partition()), record.offset()));
        List<Object> positions = new ArrayList<>();
        for (TopicPartition partition : consumer.assignment()) {
            try {
                Map<String, Object> described = new HashMap<>(described(partition));
                Long offset = next.get(partition);
                described.put("offset", offset != null ? offset : consumer.position(partition, Duration.ZERO));
                positions.add(described);
            } catch (org.apache.kafka.common.errors.TimeoutException unknown) {
                continue; // not known without asking the brokers
            }
        }
        return positions;
    }

    private void close(JsonObject request) {
        if (request.get("role").getAsString().equals("producer")) {
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
            producer = null;
        } else if (consumer != null) {
            boolean leave = request.get("leave").getAsBoolean();
            polling = request.get("id");
            try {
                consumer.close(CloseOptions.timeout(timeout(request)).withGroupMembershipOperation(
                    leave ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP
                        : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
            } finally {
                polling = null;
                consumer = null;
                kept.clear();
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        rebalanced("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        rebalanced("lost", partitions);
    }

    private void rebalanced(String event, Collection<TopicPartition> partitions) {
        forget(partitions);
        if (partitions.isEmpty() || polling == null) {
            return;
        }
        write(Map.of("id", polling, "event", event, "partitions", partitions.stream().map(Client::described).toList()));
        try {
            serve();
        } catch (IOException broken) {
            Runtime.getRuntime().halt(1);
        }
    }

    private void forget(Collection<TopicPartition> partitions) {
        kept.removeIf(record -> partitions.contains(new TopicPartition(record.topic(), record.partition())));
    }

    private static Map<String, Object> described(TopicPartition partition) {
        return Map.of("topic", partition.topic(), "partition", partition.partition());
    }

    private static Map<TopicPartition, String> positions(JsonArray partitions) {
        Map<TopicPartition, String> found = new HashMap<>();
        for (JsonElement each : partitions) {
            JsonObject place = each.getAsJsonObject();
            found.put(new TopicPartition(place.get("topic").getAsString(), place.get("partition").getAsInt()),
                place.get("offset").getAsString());
        }
        return found;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonArray partitions) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        positions(partitions).forEach((partition, offset) -> found.put(partition, new OffsetAndMetadata(Long.parseLong(offset))));
        return found;
    }

    private static Duration timeout(JsonObject request) {
        return Duration.ofMillis(request.get("timeout_ms").getAsLong());
    }

    private static String encoded(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    private static byte[] decoded(JsonElement text) {
        return text == null || text instanceof JsonNull ? null : Base64.getDecoder().decode(text.getAsString());
    }
}
