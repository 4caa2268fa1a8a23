import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Programs with Kafka's own clients, one a line of input: WORK BOOTSTRAP TOPIC CLIENT_ID SECONDS [KEY=VALUE...].
 *
 * For each step of the program it prints "SAID NAME": NONE, or the error of org.apache.kafka.common.protocol.Errors that the
 * client's exception stands for, or its class where it stands for none; after the last one "END". What NetworkClient logs of responses goes to the same output.
 */
public class FaultClient {
    private static final int STEPS = 3;

    interface Step {
        void run() throws Exception;
    }

    private final String bootstrap;
    private final String topic;
    private final String clientId;
    private final long until;
    private final Map<String, Object> settings = new HashMap<>();

    private FaultClient(String[] words) {
        bootstrap = words[1];
        topic = words[2];
        clientId = words[3];
        until = System.currentTimeMillis() + 1_000 * Long.parseLong(words[4]);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "20");
        for (int i = 5; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                new FaultClient(words).work(words[0]);
            } catch (Throwable thrown) {
                said(thrown);
            }
            System.out.println("END");
            System.out.flush();
        }
    }

    private void work(String work) throws Exception {
        switch (work) {
            case "produce" -> produce();
            case "fetch" -> fetch();
            case "metadata" -> metadata();
            case "group" -> group(0);
            case "commit" -> group(STEPS);
            case "transactions" -> transactions();
            default -> throw new IllegalArgumentException(work);
        }
    }

    private void produce() throws Exception {
        settings.putIfAbsent("enable.idempotence", "false");
        settings.putIfAbsent("delivery.timeout.ms", "30000");
        settings.putIfAbsent("request.timeout.ms", "15000");
        settings.putIfAbsent("linger.ms", "0");
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int i = 0; i < STEPS; i++) {
                byte[] value = String.valueOf(i).getBytes();
                step(() -> producer.send(new ProducerRecord<>(topic, 0, null, value)).get());
            }
        }
    }

    private void transactions() throws Exception {
        settings.put("transactional.id", clientId);
        settings.putIfAbsent("max.block.ms", "20000");
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            step(producer::initTransactions);
        }
    }

    private void fetch() {
        settings.put("auto.offset.reset", "none");
        settings.putIfAbsent("max.partition.fetch.bytes", "1");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            read(consumer);
        }
    }

    private void metadata() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (int i = 0; i < STEPS; i++) {
                step(() -> consumer.partitionsFor(topic, Duration.ofSeconds(10)));
            }
        }
    }

    private void group(int commits) throws Exception {
        settings.put("group.id", clientId);
        settings.putIfAbsent("auto.offset.reset", "earliest");
        settings.putIfAbsent("enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.subscribe(List.of(topic));
            read(consumer);
            for (int i = 0; i < commits; i++) {
                OffsetAndMetadata at = new OffsetAndMetadata(i);
                step(() -> consumer.commitSync(Map.of(new TopicPartition(topic, 0), at), Duration.ofSeconds(10)));
            }
        }
    }

    private void read(KafkaConsumer<byte[], byte[]> consumer) {
        int found = 0;
        while (found < STEPS && System.currentTimeMillis() < until) {
            try {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                found += records.count();
            } catch (RuntimeException thrown) {
                said(thrown);
                if (thrown instanceof FencedInstanceIdException) {
                    return;
                }
            }
        }
        System.out.println(found >= STEPS ? "SAID NONE" : "SAID NOTHING");
    }

    private void step(Step step) {
        try {
            step.run();
            System.out.println("SAID NONE");
        } catch (Exception thrown) {
            said(thrown);
        }
    }

    private static void said(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        Errors error = Errors.forException(cause);
        boolean isOne = error != Errors.UNKNOWN_SERVER_ERROR || cause instanceof UnknownServerException;
        System.out.println("SAID " + (isOne ? error : cause.getClass().getSimpleName()) + " " + cause.toString().replace('\n', ' '));
    }

    private KafkaProducer<byte[], byte[]> producer() {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
