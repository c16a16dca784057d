import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application. It passes each record on with its id and with the number of records that its key has had.
 * Arguments: bootstrap group input output state-folder [SETTING=VALUE ...].
 */
public final class RunningCount {
    private static final String STORE = "counts";
    private static final Pattern ID = Pattern.compile("\"id\": (\\d+)");

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        for (String setting : List.of(arguments).subList(5, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(List.of(arguments[2].split(","))).process(new Counting()).to(arguments[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setStateListener((state, before) -> {
            System.out.println("state: " + state);
            if (state == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1); // whoever runs it starts it again
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(8))));
        streams.start();
    }

    private static final class Counting implements ProcessorSupplier<String, String, String, String> {
        @Override
        public Processor<String, String, String, String> get() {
            return new Processor<>() {
                private ProcessorContext<String, String> context;
                private KeyValueStore<String, Long> counts;

                @Override
                public void init(ProcessorContext<String, String> context) {
                    this.context = context;
                    counts = context.getStateStore(STORE);
                }

                @Override
                public void process(Record<String, String> record) {
                    Matcher id = ID.matcher(record.value());
                    if (!id.find()) {
                        throw new IllegalArgumentException("no id in " + record.value());
                    }
                    Long before = counts.get(record.key());
                    long count = before == null ? 1 : before + 1;
                    counts.put(record.key(), count);
                    context.forward(record.withValue("{\"id\": " + id.group(1) + ", \"count\": " + count + "}"));
                }
            };
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()));
        }
    }
}
