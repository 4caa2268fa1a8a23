import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Roles that only clients since 4.0 have in this form: share, and transfer. Words are those of Client.java; settings are the consumer's. */
public class Modern {
    private static final Map<String, String> job = new HashMap<>();
    private static final Properties settings = new Properties();
    private static volatile boolean ended;
    private static long count;
    private static long errors;

    public static void main(String[] words) throws Exception {
        for (String word : words) {
            String[] pair = word.split("=", 2);
            if (pair[0].startsWith(".")) {
                settings.put(pair[0].substring(1), pair[1]);
            } else {
                job.put(pair[0], pair[1]);
            }
        }
        settings.put("bootstrap.servers", job.get("bootstrap"));
        settings.put("client.id", job.get("client_id"));
        settings.put("group.id", job.get("group"));
        Thread worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ended = true;
            try {
                worker.join(14_000);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }));
        say("began", "");
        try {
            if (job.get("role").equals("share")) {
                share();
            } else {
                transfer();
            }
        } catch (Exception failure) {
            errors++;
            say("error", ", \"name\": \"" + failure.getClass().getSimpleName() + "\"");
        }
        say("ended", ", \"read\": " + count + ", \"errors seen\": " + errors);
    }

    private static void share() throws InterruptedException {
        long pause = (long) (1000 * Double.parseDouble(job.getOrDefault("pause", "0")));
        StringDeserializer text = new StringDeserializer();
        String answer = job.get("answer");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(Arrays.asList(job.get("topic").split(",")));
            while (!ended) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                count += records.count();
                Thread.sleep(pause * records.count());
                for (ConsumerRecord<String, String> record : records) {
                    if (answer != null) {
                        consumer.acknowledge(record, record.offset() % 10 == 0 ? AcknowledgeType.valueOf(answer) : AcknowledgeType.ACCEPT);
                    }
                }
            }
        }
    }

    private static void transfer() {
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        Properties writes = new Properties();
        writes.put("bootstrap.servers", job.get("bootstrap"));
        writes.put("client.id", job.get("client_id"));
        writes.put("transactional.id", job.get("client_id"));
        StringDeserializer text = new StringDeserializer();
        StringSerializer bytes = new StringSerializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text);
                KafkaProducer<String, String> producer = new KafkaProducer<>(writes, bytes, bytes)) {
            producer.initTransactions();
            consumer.subscribe(Arrays.asList(job.get("topic")));
            while (!ended) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(job.get("to"), record.key(), record.value()));
                    next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    count++;
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
            }
        }
    }

    private static void say(String event, String more) {
        System.out.printf("{\"at\": %d.%03d, \"event\": \"%s\"%s}%n", System.currentTimeMillis() / 1000,
            System.currentTimeMillis() % 1000, event, more);
    }
}
