import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/**
 * What Kafka's own classes read in bodies: for every line "MessageName version hex-of-body" a line of JSON, {"json": of its JsonConverter,
 * "rest": bytes that were not read, "same": whether the class writes the same bytes, "batches": [those of each records field, in order]},
 * or {"exception": text}. Before 4.2 the package of batches is org.apache.kafka.common.record. Each batch is checked by its ensureValid, which compares the CRC.
 */
public class EditedBodies {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            ObjectNode found = JSON.createObjectNode();
            try {
                read(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2]), found);
            } catch (Throwable error) {
                Throwable cause = error.getCause() != null ? error.getCause() : error;
                found.put("exception", cause.toString());
            }
            System.out.println(JSON.writeValueAsString(found));
        }
    }

    static void read(String name, short version, byte[] body, ObjectNode found) throws Exception {
        Class<?> data = Class.forName("org.apache.kafka.common.message." + name + "Data");
        ByteBuffer buffer = ByteBuffer.wrap(body);
        Message message = (Message) data.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(buffer), version);
        found.put("rest", buffer.remaining());
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(again), cache, version);
        found.put("same", again.flip().equals(ByteBuffer.wrap(body)));
        Class<?> converter = Class.forName("org.apache.kafka.common.message." + name + "DataJsonConverter");
        found.set("json", (JsonNode) converter.getMethod("write", data, short.class, boolean.class).invoke(null, message, version, false));
        ArrayNode batches = found.putArray("batches");
        batches(message, batches);
    }

    /** Those below a value, in the order of the fields. */
    static void batches(Object value, ArrayNode found) throws Exception {
        if (value instanceof MemoryRecords records) {
            ArrayNode field = found.addArray();
            for (MutableRecordBatch batch : records.batches())
                add(batch, field.addObject());
        } else if (value instanceof Iterable<?> elements) {
            for (Object element : elements)
                batches(element, found);
        } else if (value instanceof Message) {
            for (Field field : value.getClass().getDeclaredFields()) {
                if (java.lang.reflect.Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive())
                    continue;
                field.setAccessible(true);
                batches(field.get(value), found);
            }
        }
    }

    static void add(MutableRecordBatch batch, ObjectNode shown) {
        batch.ensureValid();
        shown.put("magic", batch.magic());
        shown.put("compression", batch.compressionType().name);
        shown.put("baseOffset", batch.baseOffset());
        shown.put("lastOffset", batch.lastOffset());
        shown.put("maxTimestamp", batch.maxTimestamp());
        shown.put("producerId", batch.producerId());
        shown.put("producerEpoch", batch.producerEpoch());
        shown.put("baseSequence", batch.baseSequence());
        shown.put("count", batch.countOrNull());
        ArrayNode records = shown.putArray("records");
        for (Record record : batch) {
            record.ensureValid();
            ObjectNode one = records.addObject();
            one.put("offset", record.offset());
            one.put("timestamp", record.timestamp());
            one.put("key", record.hasKey() ? hex(record.key()) : null);
            one.put("value", record.hasValue() ? hex(record.value()) : null);
            ArrayNode headers = one.putArray("headers");
            for (Header header : record.headers())
                headers.addArray().add(header.key()).add(header.value() == null ? null : HexFormat.of().formatHex(header.value()));
        }
    }

    static String hex(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
