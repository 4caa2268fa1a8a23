import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A Java client, as client.py is one in Python: words are NAME=VALUE, those of its settings begin with a dot. */
public class Client {
    private static final Map<String, String> job = new HashMap<>();
    private static final Properties settings = new Properties();
    private static final Map<String, Long> seen = new TreeMap<>();
    private static volatile boolean ended;

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
            if (job.get("role").equals("consume")) {
                consume();
            } else {
                produce(job.get("role").equals("transact"));
            }
        } catch (Exception failure) {
            error(failure);
        }
        StringBuilder counts = new StringBuilder();
        seen.forEach((name, count) -> counts.append(", \"").append(name).append("\": ").append(count));
        say("ended", counts.toString());
    }

    private static void produce(boolean transacts) throws InterruptedException {
        int count = number("count", 0);
        int batch = number("batch", 10);
        int keys = number("keys", 0);
        double rate = Double.parseDouble(job.getOrDefault("rate", "5"));
        String value = "INFO request served in 12 ms, status 200, path /orders ".repeat(number("size", 100) / 54 + 1);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (transacts) {
                producer.initTransactions();
            }
            long began = System.nanoTime();
            boolean within = false;
            for (int sent = 0; !ended && (count == 0 || sent < count); sent++) {
                if (transacts && !within) {
                    producer.beginTransaction();
                    within = true;
                }
                String key = keys > 0 ? "key-" + sent % keys : null;
                producer.send(new ProducerRecord<>(job.get("topic"), key, value.substring(0, number("size", 100))), (meta, failure) -> {
                    if (failure == null) {
                        count("acknowledged");
                    } else {
                        error(failure);
                    }
                });
                count("sent");
                if (transacts && (sent + 1) % batch == 0) {
                    Thread.sleep((long) (1000 * Double.parseDouble(job.getOrDefault("hold", "0"))));
                    if (number("abort", 0) > 0 && sent / batch % 2 > 0) {
                        producer.abortTransaction();
                        count("aborted");
                    } else {
                        producer.commitTransaction();
                        count("committed");
                    }
                    within = false;
                }
                while (rate > 0 && !ended && System.nanoTime() < began + (sent + 1) / rate * 1e9) {
                    Thread.sleep(1 + (long) Math.min(100, ((began + (sent + 1) / rate * 1e9) - System.nanoTime()) / 1e6));
                }
            }
            if (within) {
                producer.commitTransaction();
                count("committed");
            }
        }
    }

    private static void consume() throws InterruptedException {
        settings.put("group.id", job.get("group"));
        settings.putIfAbsent("auto.offset.reset", "earliest");
        int commit = number("commit", 0);
        int poison = number("poison", -1);
        if (commit != 0) {
            settings.put("enable.auto.commit", "false");
        }
        if (commit > 0) {
            settings.put("max.poll.records", String.valueOf(commit));
        }
        long pause = (long) (1000 * Double.parseDouble(job.getOrDefault("pause", "0")));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            if (job.containsKey("assign")) {
                consumer.assign(Arrays.stream(job.get("assign").replaceAll("[\\[\\] ]", "").split(","))
                    .map(each -> new TopicPartition(job.get("topic"), Integer.parseInt(each))).toList());
            } else {
                consumer.subscribe(Arrays.asList(job.get("topic").split(",")));
            }
            int uncommitted = 0;
            while (!ended) {
                ConsumerRecords<String, String> records = poll(consumer);
                uncommitted += records.count();
                for (ConsumerRecord<String, String> record : records) {
                    count("read");
                    if (record.offset() == poison) {
                        count("error poison");
                        consumer.seek(new TopicPartition(record.topic(), record.partition()), poison);
                        Thread.sleep(200);
                        break;
                    }
                    for (long end = System.nanoTime() + pause * 1_000_000; !ended && System.nanoTime() < end;) {
                        Thread.sleep(Math.min(50, pause));
                    }
                }
                if (commit > 0 && uncommitted >= commit) {
                    consumer.commitSync();
                    count("commits");
                    uncommitted = 0;
                }
            }
        }
    }

    /** Clients before 2.0 poll for milliseconds, clients since 4.0 for a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        try {
            try {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(200));
            } catch (NoSuchMethodException old) {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 200L);
            }
        } catch (java.lang.reflect.InvocationTargetException failure) {
            throw (RuntimeException) failure.getCause();
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static int number(String name, int otherwise) {
        return Integer.parseInt(job.getOrDefault(name, String.valueOf(otherwise)));
    }

    private static synchronized void count(String name) {
        seen.merge(name, 1L, Long::sum);
    }

    private static synchronized void error(Exception failure) {
        String name = failure.getClass().getSimpleName();
        if (seen.merge("error " + name, 1L, Long::sum) == 1) {
            say("error", ", \"name\": \"" + name + "\"");
        }
    }

    private static void say(String event, String more) {
        System.out.printf("{\"at\": %d.%03d, \"event\": \"%s\"%s}%n", System.currentTimeMillis() / 1000,
            System.currentTimeMillis() % 1000, event, more);
    }
}
