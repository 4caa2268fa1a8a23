import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** One line for each error code that the kafka-clients jar on the class path knows: code, name, flags. */
public class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            String line = error.code() + " " + error.name();
            if (error.exception() instanceof RetriableException) {
                line += " retriable";
            }
            System.out.println(line);
        }
    }
}
