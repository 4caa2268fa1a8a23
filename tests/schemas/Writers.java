/** Writes random records with serializers of Java: a line for each, with form, topic, bytes, headers, and what the deserializer reads. */
import com.amazonaws.services.schemaregistry.common.configs.GlueSchemaRegistryConfiguration;
import com.amazonaws.services.schemaregistry.deserializers.GlueSchemaRegistryDeserializerDataParser;
import com.amazonaws.services.schemaregistry.serializers.SerializationDataEncoder;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.UUID;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

public class Writers {
    static final Random CHANCE = new Random(7);

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[1]);
        Schema schema = new Schema.Parser().parse(words[2]);
        for (String form : new String[] {"globalId", "contentId", "headers", "confluent"})
            for (String topic : new String[] {"orders", "returns"}) apicurio(words[0], form, topic, schema, count);
        for (String compression : new String[] {"NONE", "ZLIB"}) glue(compression, count);
    }

    static void apicurio(String url, String form, String topic, Schema schema, int count) {
        Map<String, Object> config = new HashMap<>();
        config.put("apicurio.registry.url", url);
        config.put("apicurio.registry.auto-register", true);
        config.put("apicurio.registry.headers.enabled", form.equals("headers"));
        if (form.equals("contentId") || form.equals("confluent")) config.put("apicurio.registry.use-id", "contentId");
        if (form.equals("confluent")) config.put("apicurio.registry.id-handler", "io.apicurio.registry.serde.Legacy4ByteIdHandler");
        AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>();
        serializer.configure(config, false);
        AvroKafkaDeserializer<GenericRecord> deserializer = new AvroKafkaDeserializer<>();
        deserializer.configure(config, false);
        for (int number = 0; number < count; number++) {
            GenericRecord record = new GenericData.Record(schema);
            record.put("id", CHANCE.nextLong());
            record.put("country", CHANCE.nextBoolean() ? "Ελλάδα" : null);
            record.put("total", CHANCE.nextDouble());
            Headers headers = new RecordHeaders();
            byte[] data = serializer.serialize(topic, headers, record);
            StringJoiner named = new StringJoiner(";");
            for (Header one : headers) named.add(one.key() + "=" + hex(one.value()));
            print(form, topic, hex(data), named.toString(), deserializer.deserialize(topic, headers, data).toString());
        }
    }

    static void glue(String compression, int count) {
        Map<String, Object> config = Map.of("region", "eu-west-1", "endpoint", "http://localhost", "compression", compression);
        SerializationDataEncoder encoder = new SerializationDataEncoder(new GlueSchemaRegistryConfiguration(config));
        GlueSchemaRegistryDeserializerDataParser parser = GlueSchemaRegistryDeserializerDataParser.getInstance();
        for (int number = 0; number < count; number++) {
            byte[] payload = new byte[CHANCE.nextInt(200)];
            CHANCE.nextBytes(payload);
            byte[] data = encoder.write(payload, new UUID(CHANCE.nextLong(), CHANCE.nextLong()));
            String id = parser.getSchemaVersionId(ByteBuffer.wrap(data)).toString();
            print("glue", compression, hex(data), id, hex(parser.getPlainData(ByteBuffer.wrap(data))));
        }
    }

    static String hex(byte[] data) {
        return HexFormat.of().formatHex(data);
    }

    static void print(String... columns) {
        System.out.println(String.join("\t", columns));
    }
}
