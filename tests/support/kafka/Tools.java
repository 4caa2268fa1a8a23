import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one process, which starts once: a tool alone takes seconds to start.
 *
 * A line of input is a command: the class and its arguments, each a dot and Base64, with spaces between. The line of output that
 * answers it is the exit status and what the tool wrote to its standard output and its standard error, both as a dot and Base64.
 * What a tool wants to be done when its process ends is done when its main method returns.
 */
public class Tools {
    private static final class Ended extends Error {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    private static final List<Runnable> AT_EXIT = new ArrayList<>();
    private static Ended first; // a tool may catch it, as it catches everything, and exit again with another status

    private static void exit(int status) {
        if (first == null) {
            first = new Ended(status);
        }
        throw first;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8)); // for good: Scala keeps the one it sees first
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, runnable) -> AT_EXIT.add(runnable));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        System.setIn(new ByteArrayInputStream(new byte[0]));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(Tools::decode).toArray(String[]::new);
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(status + " " + encode(printed) + " " + encode(complained));
            answers.flush();
            printed.reset();
            complained.reset();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String tool, String[] arguments) {
        int status = 0;
        first = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            status = status(thrown.getCause());
        } catch (ReflectiveOperationException error) {
            status = status(error);
        }
        try {
            for (Runnable each : atExit()) {
                each.run();
            }
        } catch (Throwable thrown) {
            status = status(thrown);
        }
        return status;
    }

    /** Take what is to be done at the end of the process: given to Kafka's Exit, and to the Runtime, which tells nobody. */
    private static List<Runnable> atExit() throws ReflectiveOperationException {
        List<Runnable> taken = new ArrayList<>(AT_EXIT);
        AT_EXIT.clear();
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true); // --add-opens java.base/java.lang=ALL-UNNAMED
        for (Object hook : List.copyOf(((Map<?, ?>) field.get(null)).keySet())) {
            Runtime.getRuntime().removeShutdownHook((Thread) hook);
            taken.add((Thread) hook);
        }
        return taken;
    }

    private static int status(Throwable thrown) {
        if (thrown instanceof Ended ended) {
            return ended.status;
        }
        thrown.printStackTrace();
        return 1;
    }

    private static String decode(String text) {
        return new String(Base64.getDecoder().decode(text.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encode(ByteArrayOutputStream bytes) {
        return "." + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
