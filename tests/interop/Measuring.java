import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers that say how often they have sent. A line of input is a job: bootstrap servers, topic, client id and a count, with
 * spaces between; it is answered, after all records are acknowledged, by the producer's own record-send-total. The producers
 * stay open, and push what they measure, until the input ends.
 */
public class Measuring {
    public static void main(String[] arguments) throws IOException, ExecutionException, InterruptedException {
        List<KafkaProducer<String, String>> open = new ArrayList<>();
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            String[] words = line.split(" ");
            KafkaProducer<String, String> producer =
                new KafkaProducer<>(
                    Map.of("bootstrap.servers", words[0], "client.id", words[2]), new StringSerializer(), new StringSerializer());
            open.add(producer);
            for (int number = 0; number < Integer.parseInt(words[3]); number++) {
                producer.send(new ProducerRecord<>(words[1], Integer.toString(number)));
            }
            producer.flush();
            Object sent =
                producer.metrics().entrySet().stream()
                    .filter(each -> each.getKey().name().equals("record-send-total") && each.getKey().group().equals("producer-metrics"))
                    .findFirst()
                    .orElseThrow()
                    .getValue()
                    .metricValue();
            System.out.println(sent);
        }
        open.forEach(KafkaProducer::close);
    }
}
