import org.apache.kafka.common.protocol.ApiKeys;

/** Prints each API that the Kafka in the class path knows: key, name, whether it is forwarded to the controller, whether brokers' own. */
public final class ApiTable {
    public static void main(String[] arguments) {
        for (ApiKeys api : ApiKeys.values()) {
            System.out.println(api.id + " " + api.name + " " + api.forwardable + " " + api.clusterAction);
        }
    }
}
