import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients with given settings, all at once. A line of input is one of them, words with spaces between: produce, topic, count, pause in
 * milliseconds after each record; or consume, topic, seconds after the first record; then settings as KEY=VALUE. When all have ended,
 * each has printed a line: its client id and what it has measured itself, NAME=NUMBER.
 */
public class Configured {
    private static final int PATIENCE = 90; // seconds until a consumer has its first record

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            String[] words = line.split(" ");
            boolean produces = words[0].equals("produce");
            Properties settings = new Properties();
            for (int at = produces ? 4 : 3; at < words.length; at++) {
                String[] pair = words[at].split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            Thread thread = new Thread(() -> {
                if (produces) {
                    produce(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), settings);
                } else {
                    consume(words[1], Integer.parseInt(words[2]), settings);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void produce(String topic, int count, int pause, Properties settings) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            boolean transactional = settings.containsKey("transactional.id");
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "record " + number + " of many that are alike, and compress"));
                if (pause > 0) {
                    Thread.sleep(pause);
                }
            }
            producer.flush();
            if (transactional) {
                producer.commitTransaction();
            }
            print(settings, producer.metrics());
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    private static void consume(String topic, int seconds, Properties settings) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + PATIENCE * 1_000_000_000L;
            boolean begun = false;
            while (System.nanoTime() < end) {
                boolean some = !consumer.poll(Duration.ofMillis(100)).isEmpty();
                if (some && !begun) {
                    begun = true;
                    end = System.nanoTime() + seconds * 1_000_000_000L;
                }
            }
            print(settings, consumer.metrics());
        }
    }

    private static void print(Properties settings, Map<MetricName, ? extends Metric> metrics) {
        Map<String, Object> found = new TreeMap<>();
        metrics.forEach((name, metric) -> {
            boolean ofAll = name.group().equals("producer-metrics") || name.group().equals("consumer-fetch-manager-metrics");
            if (ofAll && name.tags().size() == 1 && metric.metricValue() instanceof Double) {
                found.put(name.name(), metric.metricValue());
            }
        });
        StringBuilder line = new StringBuilder(settings.getProperty("client.id"));
        found.forEach((name, value) -> line.append(' ').append(name).append('=').append(value));
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
