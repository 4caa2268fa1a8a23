import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** One line for each error code that the kafka-clients jar on the class path knows: code, name, flags. */
public class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            ApiException exception = error.exception();
            String line = error.code() + " " + error.name();
            if (exception instanceof RetriableException) {
                line += " retriable";
            }
            if (hasAncestor(exception, "InvalidMetadataException") || hasAncestor(exception, "RefreshRetriableException")) {
                line += " refresh";
            }
            System.out.println(line);
        }
    }

    /** By name: RefreshRetriableException is not in every release. */
    private static boolean hasAncestor(Object object, String simpleName) {
        for (Class<?> type = object == null ? null : object.getClass(); type != null; type = type.getSuperclass()) {
            if (type.getSimpleName().equals(simpleName)) {
                return true;
            }
        }
        return false;
    }
}
