import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group (KIP-932), as Member.java of a consumer group; it does not know what it is assigned. */
public class ShareMember {
    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        for (int i = 1; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        AtomicBoolean ends = new AtomicBoolean();
        AtomicLong pause = new AtomicLong();
        Thread poller = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ends.set(true);
            try {
                poller.join(10_000);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread commands = new Thread(() -> {
            try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    pause.set(Long.parseLong(line.split(" ")[1]));
                }
            } catch (Exception ignored) {
                ends.set(true);
            }
        });
        commands.setDaemon(true);
        commands.start();
        consumer.subscribe(List.of(words[0]));
        while (!ends.get()) {
            consumer.poll(Duration.ofMillis(200));
            long rest = pause.getAndSet(0);
            if (rest > 0) {
                Thread.sleep(rest);
            }
        }
        consumer.close(Duration.ofSeconds(5));
    }
}
