import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Kafka's own error responses: for every line "api_key version error_code hex-of-body", the response body in hex, null, or an exception. */
public class ErrorResponses {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            System.out.println(answer(words));
        }
    }

    static String answer(String[] words) {
        try {
            short version = Short.parseShort(words[1]);
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            AbstractRequest request = AbstractRequest.parseRequest(ApiKeys.forId(Integer.parseInt(words[0])), version,
                new ByteBufferAccessor(data)).request;
            Exception error = Errors.forCode(Short.parseShort(words[2])).exception();
            AbstractResponse response = request.getErrorResponse(0, error);
            if (response == null)
                return "null";
            ByteBuffer body = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] bytes = new byte[body.remaining()];
            body.get(bytes);
            return "body " + HexFormat.of().formatHex(bytes);
        } catch (Throwable error) {
            return "exception " + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).replace('\n', ' ');
        }
    }
}
