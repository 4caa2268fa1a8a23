import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.AbstractResponse;

/** The errors that Kafka's own classes, and so its clients, read in responses: for every line "api_key version hex-of-body", "NAME=count ..." */
public class ErrorCounts {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            System.out.println(counts(words));
        }
    }

    static String counts(String[] words) {
        try {
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            ApiKeys api = ApiKeys.forId(Integer.parseInt(words[0]));
            AbstractResponse response = AbstractResponse.parseResponse(api, new ByteBufferAccessor(data), Short.parseShort(words[1]));
            return response.errorCounts().entrySet().stream().map(each -> each.getKey().name() + "=" + each.getValue())
                .sorted().collect(Collectors.joining(" "));
        } catch (Throwable error) {
            return "exception " + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).replace('\n', ' ');
        }
    }
}
