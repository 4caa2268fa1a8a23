import java.lang.reflect.Method;
import java.util.TreeSet;

/** Prints the names of the settings that the Kafka in the class path knows: of brokers, topics, groups and client metrics. */
public final class SettingNames {
    private static final String[] CLASSES = {
        "kafka.server.KafkaConfig",
        "kafka.log.LogConfig",
        "org.apache.kafka.storage.internals.log.LogConfig",
        "org.apache.kafka.coordinator.group.GroupConfig",
        "org.apache.kafka.server.metrics.ClientMetricsConfigs",
        "kafka.server.DynamicConfig$Broker$",  // those that are only set while a broker runs (KIP-73)
    };
    private static final String[] METHODS = {"configNames", "names", "configDef"};

    public static void main(String[] arguments) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String name : CLASSES) {
            Class<?> found;
            try {
                found = Class.forName(name);
            } catch (ClassNotFoundException none) {
                continue;  // not of this release
            }
            int before = names.size();
            for (String method : METHODS) {
                try {
                    add(names, found.getMethod(method).invoke(name.endsWith("$") ? found.getField("MODULE$").get(null) : null));
                } catch (NoSuchMethodException none) {
                    // another release's
                }
            }
            System.err.println(name + " " + (names.size() - before));
        }
        names.forEach(System.out::println);
    }

    private static void add(TreeSet<String> names, Object said) throws Exception {
        if (said instanceof org.apache.kafka.common.config.ConfigDef) {
            names.addAll(((org.apache.kafka.common.config.ConfigDef) said).names());
        } else {  // a collection of Java, or one of Scala, both with a name before what they hold: [a, b] and List(a, b)
            String text = said.toString();
            int begin = Math.max(text.indexOf('('), text.indexOf('[')) + 1;
            for (String name : text.substring(begin, text.length() - 1).split(", ")) {
                names.add(name);
            }
        }
    }
}
