/** Reads values that Confluent's serializers framed, with Kafka's consumer and the libraries of Avro and Protobuf: fields of an order. */
import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadingFields {
    /** BOOTSTRAP, COUNT, then a topic and the file of its schema for Avro (.avsc) and for Protobuf (a set of descriptors). */
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[1]);
        for (int at = 2; at < words.length; at += 2) read(words[0], words[at], count, Path.of(words[at + 1]));
    }

    static void read(String bootstrap, String topic, int count, Path schema) throws Exception {
        boolean isAvro = schema.toString().endsWith(".avsc");
        byte[] text = Files.readAllBytes(schema);
        Descriptor order = isAvro ? null
            : FileDescriptor.buildFrom(FileDescriptorSet.parseFrom(text).getFile(0), new FileDescriptor[0]).findMessageTypeByName("Order");
        GenericDatumReader<GenericRecord> reader = isAvro ? new GenericDatumReader<>(new Schema.Parser().parse(new String(text))) : null;
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<byte[], byte[]>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (int left = count, polls = 0; left > 0 && polls < 60; polls++)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    left--;
                    if (record.value() == null) continue;
                    if (isAvro) avro(reader, record.value());
                    else protobuf(order, record.value());
                }
        }
    }

    static void avro(GenericDatumReader<GenericRecord> reader, byte[] value) throws Exception {
        GenericRecord order = reader.read(null, DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null));
        ByteBuffer number = (ByteBuffer) ((GenericRecord) order.get("card")).get("number");
        byte[] bytes = new byte[number.remaining()];
        number.get(bytes);
        print("avro", order.get("total"), order.get("email"), bytes);
    }

    static void protobuf(Descriptor type, byte[] value) throws Exception {
        DynamicMessage order = DynamicMessage.parseFrom(type, ByteString.copyFrom(value, 6, value.length - 6)); // behind message index 0
        Object email = order.hasField(type.findFieldByName("email")) ? order.getField(type.findFieldByName("email")) : null;
        DynamicMessage card = (DynamicMessage) order.getField(type.findFieldByName("card"));
        ByteString number = (ByteString) card.getField(card.getDescriptorForType().findFieldByName("number"));
        print("protobuf", order.getField(type.findFieldByName("total")), email, number.toByteArray());
    }

    static void print(String form, Object total, Object email, byte[] number) {
        System.out.println(String.join("\t", form, total.toString(), email == null ? "" : email.toString(), HexFormat.of().formatHex(number)));
    }
}
