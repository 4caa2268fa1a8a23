import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients whose starts fail at one API each: arguments are bootstrap servers, a topic that has records, and client ids, such as
 * "request Produce raises", of which the second word is the API. Prints "client id|how it ended": "done", or the causes of the
 * exception, as soon as each ends.
 */
public class Failing {
    static String servers;
    static String topic;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        topic = arguments[1];
        ExecutorService threads = Executors.newFixedThreadPool(8);
        for (String clientId : List.of(arguments).subList(2, arguments.length)) {
            threads.submit(() -> System.out.println(clientId + "|" + ended(clientId)));
        }
        threads.shutdown();
        threads.awaitTermination(10, TimeUnit.MINUTES);
        System.exit(0);
    }

    static String ended(String clientId) {
        String api = clientId.split(" ")[1];
        try {
            switch (api) {
                case "Produce", "ApiVersions", "Metadata" -> produce(clientId, null);
                case "InitProducerId", "EndTxn" -> produce(clientId, "txn-" + clientId.replace(' ', '-'));
                case "CreateTopics", "DescribeCluster", "DescribeConfigs" -> administer(clientId, api);
                case "ConsumerGroupHeartbeat" -> consume(clientId, "consumer");
                default -> consume(clientId, "classic");
            }
            return "done";
        } catch (Throwable problem) {
            StringBuilder causes = new StringBuilder();
            for (Throwable each = problem; each != null; each = each.getCause()) {
                causes.append(each.getClass().getName()).append(": ").append(each.getMessage()).append("; ");
            }
            return causes.toString().replace('\n', ' ');
        }
    }

    static Properties properties(String clientId) {
        Properties found = new Properties();
        found.putAll(Map.of("bootstrap.servers", servers, "client.id", clientId, "enable.metrics.push", "false"));
        found.putAll(Map.of("request.timeout.ms", "8000", "default.api.timeout.ms", "12000", "max.block.ms", "12000"));
        return found;
    }

    static void produce(String clientId, String transactionalId) throws Exception {
        Properties settings = properties(clientId);
        settings.putAll(Map.of("delivery.timeout.ms", "12000", "linger.ms", "0"));
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        var serializer = new ByteArraySerializer();
        var producer = new KafkaProducer<>(settings, serializer, serializer);
        try {
            if (transactionalId != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            producer.send(new ProducerRecord<>(topic, "x".getBytes())).get();
            if (transactionalId != null) {
                producer.commitTransaction();
            }
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    static void consume(String clientId, String protocol) {
        Properties settings = properties(clientId);
        settings.putAll(Map.of("group.id", clientId + protocol, "group.protocol", protocol, "auto.offset.reset", "earliest"));
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, deserializer, deserializer)) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                if (System.nanoTime() > end) {
                    throw new org.apache.kafka.common.errors.TimeoutException("no records");
                }
            }
            consumer.commitSync();
            consumer.unsubscribe();
        }
    }

    static void administer(String clientId, String api) throws Exception {
        try (Admin admin = Admin.create(properties(clientId))) {
            switch (api) {
                case "CreateTopics" -> admin.createTopics(
                    List.of(new org.apache.kafka.clients.admin.NewTopic(topic + "-" + clientId.hashCode(), 1, (short) 1))).all().get();
                case "DescribeCluster" -> admin.describeCluster().nodes().get();
                default -> admin.describeConfigs(
                    List.of(new org.apache.kafka.common.config.ConfigResource(org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic))).all().get();
            }
        }
    }
}
