import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink job in a mini cluster. It copies the values of records from Kafka to Kafka, exactly once.
 * A new process continues from the last checkpoint or savepoint in the state folder.
 * Arguments: bootstrap group input output state-folder.
 */
public final class Copy {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], group = arguments[1], output = arguments[3];
        Path state = Path.of(arguments[4]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "1 s");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", state.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "none"); // after a failure the process ends; the next one continues
        Optional<Path> last = last(state);
        last.ifPresent(path -> settings.setString("execution.state-recovery.path", path.toUri().toString()));
        System.out.println("starting from " + last.map(Path::toString).orElse("the beginning"));

        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(bootstrap)
            .setGroupId(group) // it commits its positions after each checkpoint
            .setTopics(List.of(arguments[2].split(",")))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(output)
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(group)
            .setProperty("transaction.timeout.ms", "120000") // longer than any outage, shorter than the brokers' maximum
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "input").uid("input").sinkTo(sink).uid("output");
        JobClient job = environment.executeAsync("copy");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(job, state)));
        while (job.getJobStatus().get() != JobStatus.RUNNING) {
            Thread.sleep(100);
        }
        System.out.println("running");
        try {
            job.getJobExecutionResult().get();
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Returns the folder of the last complete checkpoint or savepoint. */
    private static Optional<Path> last(Path state) throws IOException {
        try (Stream<Path> paths = Files.walk(state)) {
            return paths.filter(path -> path.endsWith("_metadata"))
                .max(Comparator.comparing((Path path) -> path.toFile().lastModified()))
                .map(Path::getParent);
        }
    }

    /** Ends the job after a savepoint, so that the transactions of its last records are committed. */
    private static void stop(JobClient job, Path state) {
        try {
            String savepoints = state.resolve("savepoints").toUri().toString();
            job.stopWithSavepoint(false, savepoints, SavepointFormatType.CANONICAL).get(20, TimeUnit.SECONDS);
        } catch (Exception error) {
            System.out.println("no savepoint: " + error);
        }
    }
}
