import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/** Kafka's own reader: for every line "name version hex", the node endpoints it finds, and how many bytes it leaves. */
public class ReadEnds {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            System.out.println(endpoints(words[0], Short.parseShort(words[1]), new ByteBufferAccessor(data)) + " " + data.remaining());
        }
    }

    static Object endpoints(String name, short version, ByteBufferAccessor data) {
        return switch (name) {
            case "ProduceResponse" -> new ProduceResponseData(data, version).nodeEndpoints();
            case "FetchResponse" -> new FetchResponseData(data, version).nodeEndpoints();
            case "FetchSnapshotResponse" -> new FetchSnapshotResponseData(data, version).nodeEndpoints();
            case "ShareFetchResponse" -> new ShareFetchResponseData(data, version).nodeEndpoints();
            case "ShareAcknowledgeResponse" -> new ShareAcknowledgeResponseData(data, version).nodeEndpoints();
            default -> throw new IllegalArgumentException(name);
        };
    }
}
