import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A broker with a plugin that takes the metrics of clients (KIP-714): for each push it writes a line to the file that the property
 * client.telemetry.file names: client id, client instance id, whether it is the client's last one, and the decompressed metrics in
 * base64, with spaces between.
 */
public class TelemetryBroker {
    public static void main(String[] arguments) {
        Thread.currentThread().setContextClassLoader(TelemetryBroker.class.getClassLoader()); // which has the plugin
        kafka.Kafka.main(arguments);
    }

    /** The plugin: metric.reporters=TelemetryBroker$Receiver. */
    public static class Receiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
        private Path file;

        @Override
        public void configure(Map<String, ?> configs) {
            file = Path.of((String) configs.get("client.telemetry.file"));
        }

        @Override
        public ClientTelemetryReceiver clientReceiver() {
            return this;
        }

        @Override
        public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
            ByteBuffer data = payload.data().duplicate();
            byte[] metrics = new byte[data.remaining()];
            data.get(metrics);
            String line =
                String.join(
                    " ", context.clientId(), payload.clientInstanceId().toString(), Boolean.toString(payload.isTerminating()),
                    Base64.getEncoder().encodeToString(metrics));
            try {
                Files.write(
                    file, (line + "\n").getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void init(List<KafkaMetric> metrics) {}

        @Override
        public void metricChange(KafkaMetric metric) {}

        @Override
        public void metricRemoval(KafkaMetric metric) {}

        @Override
        public void close() {}
    }
}
