import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and a consumer of any release of kafka-clients: bootstrap servers, topic, client id. It ends well if it read what it wrote. */
public class AnyRelease {
    private static final int COUNT = 5;

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("client.id", words[2]);
        settings.put("max.block.ms", "40000");
        Map<String, Object> reading = new HashMap<>(settings);
        reading.put("group.id", words[2]);
        reading.put("auto.offset.reset", "earliest");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < COUNT; number++) {
                producer.send(new ProducerRecord<>(words[1], Integer.toString(number))).get();
            }
        }
        int seen = 0;
        long end = System.nanoTime() + 60_000_000_000L;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Collections.singletonList(words[1]));
            while (seen < COUNT && System.nanoTime() < end) {
                seen += poll(consumer).count();
            }
        }
        System.out.println(seen);
        System.exit(seen == COUNT ? 0 : 1);
    }

    /** poll(Duration) came with 2.0; poll(long) went with 4.0. */
    private static ConsumerRecords<?, ?> poll(KafkaConsumer<?, ?> consumer) throws Exception {
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (method.getName().equals("poll") && method.getParameterTypes()[0] == Duration.class) {
                return (ConsumerRecords<?, ?>) method.invoke(consumer, Duration.ofMillis(500));
            }
        }
        return (ConsumerRecords<?, ?>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
    }
}
