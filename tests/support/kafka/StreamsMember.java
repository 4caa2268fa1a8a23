import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/** A member of a streams group (KIP-1071), as Member.java of a consumer group; a pause is one of its only thread. */
public class StreamsMember {
    static final AtomicLong PAUSE = new AtomicLong();

    static class Reader implements Processor<byte[], byte[], Void, Void> {
        @Override
        public void init(ProcessorContext<Void, Void> context) {
            context.schedule(Duration.ofMillis(200), PunctuationType.WALL_CLOCK_TIME, time -> {
                long rest = PAUSE.getAndSet(0);
                if (rest > 0) {
                    try {
                        Thread.sleep(rest);
                    } catch (InterruptedException ignored) {
                        Thread.currentThread().interrupt();
                    }
                }
            });
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
        }
    }

    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        for (int i = 1; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0].equals("group.id") ? "application.id" : pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(words[0], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).process(Reader::new);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        CountDownLatch forever = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(
            CloseOptions.timeout(Duration.ofSeconds(10))
                .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))));
        Thread commands = new Thread(() -> {
            try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    PAUSE.set(Long.parseLong(line.split(" ")[1]));
                }
            } catch (Exception ignored) {
                forever.countDown();
            }
        });
        commands.setDaemon(true);
        commands.start();
        streams.start();
        forever.await();
    }
}
