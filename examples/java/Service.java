// A service that asks the broker which user a session token belongs to.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.json.JSONException;
import org.json.JSONObject;

public class Service {
    static final HttpClient broker = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();

    static JSONObject whoIs(String token, Map<String, String> evidence) throws IOException, InterruptedException, JSONException {
        evidence.put("token", token);
        var form = evidence.entrySet().stream()
            .map(field -> field.getKey() + "=" + URLEncoder.encode(field.getValue(), StandardCharsets.UTF_8))
            .collect(Collectors.joining("&"));
        var answer = broker.send(
            HttpRequest.newBuilder(URI.create(System.getenv("COATCHECK_URL") + "/v1/introspect")).timeout(Duration.ofSeconds(5))
                .header("Content-Type", "application/x-www-form-urlencoded").header("X-Coatcheck-Backend", System.getenv("CREDENTIAL"))
                .POST(HttpRequest.BodyPublishers.ofString(form)).build(),
            BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IOException("broker: " + answer.statusCode()); // answer 503, not 401
        return new JSONObject(answer.body()).put("nonce", answer.headers().firstValue("DPoP-Nonce").orElse(""));
    }

    // The evidence that the app sent for a bound session: a pass, or a proof with the request's method and URL.
    static Map<String, String> evidence(HttpExchange request) {
        var found = new LinkedHashMap<String, String>();
        var pass = request.getRequestHeaders().getFirst("Coatcheck-Pass");
        if (pass != null) found.put("pass", pass);
        var proof = request.getRequestHeaders().getFirst("DPoP");
        if (proof != null) {
            found.put("dpop", proof);
            found.put("htm", request.getRequestMethod());
            found.put("htu", System.getenv("ORIGIN") + request.getRequestURI());
        }
        return found;
    }

    static int serve(HttpExchange request) {
        var authorization = request.getRequestHeaders().getFirst("Authorization");
        if (authorization == null) return 401;
        JSONObject session;
        try {
            session = whoIs(authorization.replaceFirst("^(Bearer|DPoP) ", ""), evidence(request));
        } catch (IOException | InterruptedException | JSONException fault) {
            request.getResponseHeaders().set("Retry-After", "5");
            return 503;
        }
        var code = session.optString("code");
        if (!code.isEmpty()) { // evidence is missing or refused; the session lives
            var error = code.equals("use_dpop_nonce") ? code : "invalid_dpop_proof";
            request.getResponseHeaders().set("Coatcheck-Code", code);
            request.getResponseHeaders().set("DPoP-Nonce", session.optString("nonce"));
            request.getResponseHeaders().set("WWW-Authenticate", "DPoP error=\"" + error + "\", algs=\"ES256\"");
        }
        request.setAttribute("user", session.optString("sub"));
        return session.optBoolean("active") ? 200 : 401;
    }

    public static void main(String[] arguments) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", request -> {
            var status = serve(request);
            var body = status == 200 ? ((String) request.getAttribute("user")).getBytes(StandardCharsets.UTF_8) : new byte[0];
            request.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            request.getResponseBody().write(body);
            request.close();
        });
        server.start();
    }
}
