import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A job of Kafka Streams that counts words: BOOTSTRAP APPLICATION FROM TO FOLDER [GUARANTEE [SETTING=VALUE...]]. The setting
 * poison: how the lines begin at which it fails; the thread is replaced then.
 */
public class Streams {
    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", words[1]);
        settings.put("state.dir", words[4]);
        settings.put("processing.guarantee", words.length > 5 ? words[5] : "at_least_once");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "2000");
        settings.put("auto.offset.reset", "earliest");
        for (int number = 6; number < words.length; number++) {
            String[] pair = words[number].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        String poison = settings.getProperty("poison");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(words[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> {
                if (poison != null && line.startsWith(poison)) {
                    throw new IllegalStateException(line);
                }
                return Arrays.asList(line.split(" "));
            })
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(String::valueOf)
            .to(words[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        if (poison != null) {
            streams.setUncaughtExceptionHandler(failure -> StreamThreadExceptionResponse.REPLACE_THREAD);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
