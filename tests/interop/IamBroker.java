import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * A broker that takes tokens of Amazon MSK: a presigned request (AWS Signature Version 4) for the action kafka-cluster:Connect.
 *
 * Amazon's broker asks AWS; here the signature is computed anew, by https://docs.aws.amazon.com/IAM/latest/UserGuide/
 * create-signed-request.html, with the secret key of the one user that there is. Properties: iam.user, iam.secret, iam.region.
 */
public class IamBroker {
    public static void main(String[] arguments) {
        Thread.currentThread().setContextClassLoader(IamBroker.class.getClassLoader()); // which has the handler
        kafka.Kafka.main(arguments);
    }

    /** The handler: sasl.server.callback.handler.class=IamBroker$Verifier. */
    public static class Verifier implements AuthenticateCallbackHandler {
        private String user;
        private String secret;
        private String region;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            user = (String) configs.get("iam.user");
            secret = (String) configs.get("iam.secret");
            region = (String) configs.get("iam.region");
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback each : callbacks) {
                if (!(each instanceof OAuthBearerValidatorCallback asked)) { // extensions: there are none
                    continue;
                }
                try {
                    asked.token(verify(asked.tokenValue()));
                } catch (GeneralSecurityException | RuntimeException error) {
                    System.err.println("refused: " + error);
                    asked.error("invalid_token", null, null);
                }
            }
        }

        private OAuthBearerToken verify(String token) throws GeneralSecurityException {
            URI url = URI.create(new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8));
            TreeMap<String, String> query = new TreeMap<>(); // as encoded
            for (String pair : url.getRawQuery().split("&")) {
                String[] parts = pair.split("=", 2);
                query.put(parts[0], parts[1]);
            }
            String signature = query.remove("X-Amz-Signature");
            query.remove("User-Agent"); // added after signing
            String time = query.get("X-Amz-Date");
            String day = time.substring(0, 8);
            String host = "kafka." + region + ".amazonaws.com";
            String scope = day + "/" + region + "/kafka-cluster/aws4_request";
            check(url.getScheme().equals("https") && url.getHost().equals(host), "host");
            check(query.get("Action").equals("kafka-cluster%3AConnect"), "action");
            check(query.get("X-Amz-Algorithm").equals("AWS4-HMAC-SHA256"), "algorithm");
            check(query.get("X-Amz-SignedHeaders").equals("host"), "headers");
            check(query.get("X-Amz-Credential").equals((user + "/" + scope).replace("/", "%2F")), "credential");
            DateTimeFormatter format = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'");
            Instant began = LocalDateTime.parse(time, format).toInstant(ZoneOffset.UTC);
            Instant ends = began.plus(Duration.ofSeconds(Long.parseLong(query.get("X-Amz-Expires"))));
            check(Instant.now().isBefore(ends) && Instant.now().isAfter(began.minusSeconds(300)), "time");
            String asked = query.entrySet().stream().map(Object::toString).collect(Collectors.joining("&"));
            String canonical = String.join("\n", "GET", "/", asked, "host:" + host, "", "host", hash(""));
            String text = String.join("\n", "AWS4-HMAC-SHA256", time, scope, hash(canonical));
            byte[] key = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
            for (String part : scope.split("/")) {
                key = mac(key, part);
            }
            check(HexFormat.of().formatHex(mac(key, text)).equals(signature), "signature");
            return new Verified(token, user, began.toEpochMilli(), ends.toEpochMilli());
        }

        private static void check(boolean holds, String what) {
            if (!holds) {
                throw new IllegalArgumentException(what);
            }
        }

        private static String hash(String text) throws GeneralSecurityException {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest);
        }

        private static byte[] mac(byte[] key, String text) throws GeneralSecurityException {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public void close() {}
    }

    private record Verified(String value, String principalName, Long startTimeMs, long lifetimeMs)
        implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }
    }
}
