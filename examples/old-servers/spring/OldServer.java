// An old server: Java, with its sessions in PostgreSQL, in the schema of Spring Session, with attributes as JSON. It signs users
// in at a provider, and keeps their refresh tokens in its session records. The lock of a session is the lock of its row.
// This server has no Spring, because the tests use Debian's packages only. Spring's filter would do the work of `row`, `find`,
// `attribute` and `put`.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.json.JSONException;
import org.json.JSONObject;

public class OldServer {
    static final String ISSUER = System.getenv("ISSUER"), ORIGIN = System.getenv("ORIGIN");
    static final String CLIENT_ID = System.getenv("CLIENT_ID"), CLIENT_SECRET = System.getenv("CLIENT_SECRET");
    static final long IDLE = Long.parseLong(System.getenv("IDLE_SECONDS"));
    static final long LIFETIME = Long.parseLong(System.getenv("LIFETIME_SECONDS"));
    static final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();

    // ---- The session store -----------------------------------------------------------------------------------------------

    record Row(String key, String sessionId, long created) {}

    interface Work<T> { T with(Connection database) throws Exception; }

    static <T> T transaction(Work<T> work) throws Exception {
        try (var database = DriverManager.getConnection(jdbcUrl())) { // a real server has a pool
            database.setAutoCommit(false);
            update(database, "SET LOCAL lock_timeout = '3s'");
            var result = work.with(database);
            database.commit();
            return result;
        }
    }

    static String jdbcUrl() {
        var url = URI.create(System.getenv("DATABASE_URL"));
        var user = url.getUserInfo().split(":");
        var password = user.length > 1 ? "&password=" + user[1] : "";
        return "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath() + "?user=" + user[0] + password;
    }

    static int update(Connection database, String statement, Object... values) throws SQLException {
        try (var prepared = database.prepareStatement(statement)) {
            for (int at = 0; at < values.length; at++) prepared.setObject(at + 1, values[at]);
            return prepared.executeUpdate();
        }
    }

    interface Read<T> { T of(ResultSet row) throws SQLException; }

    /** The first row of an answer, or null. */
    static <T> T first(Connection database, Read<T> read, String query, Object... values) throws SQLException {
        try (var prepared = database.prepareStatement(query)) {
            for (int at = 0; at < values.length; at++) prepared.setObject(at + 1, values[at]);
            var rows = prepared.executeQuery();
            return rows.next() ? read.of(rows) : null;
        }
    }

    static Row row(ResultSet found) throws SQLException {
        return new Row(found.getString(1), found.getString(2), found.getLong(3) / 1000);
    }

    static final String COLUMNS = "SELECT PRIMARY_ID, SESSION_ID, CREATION_TIME FROM SPRING_SESSION ";

    /** The live row of this session, or null. Its request moves the idle end. */
    static Row find(Connection database, String sessionId) throws SQLException {
        var now = System.currentTimeMillis();
        return first(database, OldServer::row, "UPDATE SPRING_SESSION SET LAST_ACCESS_TIME = ?, EXPIRY_TIME = ? "
            + "WHERE SESSION_ID = ? AND EXPIRY_TIME > ? RETURNING PRIMARY_ID, SESSION_ID, CREATION_TIME",
            now, now + IDLE * 1000, sessionId, now);
    }

    /** The live row of this session, locked until the transaction ends, or null. */
    static Row locked(Connection database, String sessionId) throws SQLException {
        return first(database, OldServer::row, COLUMNS + "WHERE SESSION_ID = ? AND EXPIRY_TIME > ? FOR UPDATE",
            sessionId, System.currentTimeMillis());
    }

    static JSONObject attribute(Connection database, Row row, String name) throws SQLException, JSONException {
        var bytes = first(database, found -> found.getBytes(1), "SELECT ATTRIBUTE_BYTES FROM SPRING_SESSION_ATTRIBUTES "
            + "WHERE SESSION_PRIMARY_ID = ? AND ATTRIBUTE_NAME = ?", row.key, name);
        return bytes == null ? null : new JSONObject(new String(bytes, StandardCharsets.UTF_8));
    }

    static void put(Connection database, Row row, String name, JSONObject value) throws SQLException {
        update(database, "INSERT INTO SPRING_SESSION_ATTRIBUTES VALUES (?, ?, ?) ON CONFLICT (SESSION_PRIMARY_ID, ATTRIBUTE_NAME) "
            + "DO UPDATE SET ATTRIBUTE_BYTES = EXCLUDED.ATTRIBUTE_BYTES",
            row.key, name, value.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** The session's name in a cookie, read as Spring Session reads it. */
    static String sessionIdOf(String cookie) {
        try {
            return UUID.fromString(new String(Base64.getDecoder().decode(cookie), StandardCharsets.UTF_8)).toString();
        } catch (IllegalArgumentException notOurs) {
            return "";
        }
    }

    // ---- The provider -----------------------------------------------------------------------------------------------------

    static class Refused extends IOException {
        Refused(String body) { super(body); }
    }

    /** Calls the provider. Throws an IOException if the provider refuses or is away. */
    static JSONObject provider(String path, Map<String, String> form, String token) throws Exception {
        var basic = "Basic " + Base64.getEncoder().encodeToString((CLIENT_ID + ":" + CLIENT_SECRET).getBytes());
        var request = HttpRequest.newBuilder(URI.create(ISSUER + path)).timeout(Duration.ofSeconds(10))
            .header("Authorization", token != null ? "Bearer " + token : basic);
        if (form != null) {
            request.header("Content-Type", "application/x-www-form-urlencoded").POST(BodyPublishers.ofString(encoded(form)));
        }
        var answer = http.send(request.build(), BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new Refused(answer.body());
        return new JSONObject(answer.body().isEmpty() ? "{}" : answer.body());
    }

    static String encoded(Map<String, String> form) {
        return form.entrySet().stream()
            .map(each -> each.getKey() + "=" + URLEncoder.encode(each.getValue(), StandardCharsets.UTF_8))
            .collect(Collectors.joining("&"));
    }

    /** Puts the answer's tokens into the session's attribute. */
    static JSONObject withTokens(JSONObject tokens, JSONObject answer) throws JSONException {
        tokens.put("access_token", answer.getString("access_token")).put("access_ends_at", now() + answer.getLong("expires_in"));
        if (answer.has("refresh_token")) tokens.put("refresh_token", answer.getString("refresh_token"));
        return tokens;
    }

    // ---- The pages --------------------------------------------------------------------------------------------------------

    static void login(HttpExchange request) throws Exception {
        String state = random(), verifier = random();
        var challenge = MessageDigest.getInstance("SHA-256").digest(verifier.getBytes());
        request.getResponseHeaders().add("Set-Cookie",
            "login=" + state + "." + verifier + "; Path=/callback; HttpOnly; SameSite=Lax; Max-Age=600");
        redirect(request, ISSUER + "/authorize?" + encoded(Map.of("client_id", CLIENT_ID,
            "redirect_uri", ORIGIN + "/callback", "response_type", "code",
            "scope", "openid profile offline_access", "state", state, "code_challenge_method", "S256",
            "code_challenge", Base64.getUrlEncoder().withoutPadding().encodeToString(challenge))));
    }

    static void callback(HttpExchange request) throws Exception {
        var query = new LinkedHashMap<String, String>();
        for (var each : (request.getRequestURI().getRawQuery() + "").split("&"))
            query.put(each.split("=")[0], URLDecoder.decode(each.substring(each.indexOf('=') + 1), StandardCharsets.UTF_8));
        var begun = cookie(request, "login").split("\\.");
        if (begun.length != 2 || !begun[0].equals(query.get("state")) || query.get("code") == null) {
            send(request, 400, "this sign-in was not started here");
            return;
        }
        var answer = provider("/token", Map.of("grant_type", "authorization_code", "code", query.get("code"),
            "redirect_uri", ORIGIN + "/callback", "code_verifier", begun[1]), null);
        var subject = provider("/userinfo", null, answer.getString("access_token")).getString("sub");
        var device = (request.getRequestHeaders().getFirst("User-Agent") + "").replaceFirst("(?s)^(.{64}).*", "$1");
        var row = new Row(UUID.randomUUID().toString(), UUID.randomUUID().toString(), now());
        transaction(database -> {
            update(database, "INSERT INTO SPRING_SESSION VALUES (?, ?, ?, ?, ?, ?, ?)", row.key, row.sessionId,
                row.created * 1000, row.created * 1000, (int) IDLE, (row.created + IDLE) * 1000, subject);
            put(database, row, "tokens", withTokens(new JSONObject(), answer));
            put(database, row, "user",
                new JSONObject().put("subject", subject).put("scope", answer.optString("scope")).put("device", device));
            return null;
        });
        var value = Base64.getEncoder().encodeToString(row.sessionId.getBytes());
        request.getResponseHeaders().add("Set-Cookie", "SESSION=" + value + "; Path=/; HttpOnly; SameSite=Lax");
        redirect(request, "/");
    }

    static boolean isDue(JSONObject tokens) throws JSONException {
        return tokens != null && tokens.getLong("access_ends_at") < now() + 60 && tokens.has("refresh_token");
    }

    /** The session's tokens, refreshed if the access token ends within a minute. Null if the session has ended. */
    static JSONObject fresh(String sessionId) throws Exception {
        return transaction(database -> {
            var row = locked(database, sessionId);
            // Again, because another request may have refreshed them.
            var tokens = row == null ? null : attribute(database, row, "tokens");
            if (!isDue(tokens)) return tokens;
            try {
                var form = Map.of("grant_type", "refresh_token", "refresh_token", tokens.getString("refresh_token"));
                withTokens(tokens, provider("/token", form, null));
            } catch (Refused refused) {
                if (!refused.getMessage().contains("invalid_grant")) throw refused;
                update(database, "DELETE FROM SPRING_SESSION WHERE PRIMARY_ID = ?", row.key);
                return null;
            }
            put(database, row, "tokens", tokens);
            return tokens;
        });
    }

    static void page(HttpExchange request) throws Exception {
        var sessionId = sessionIdOf(cookie(request, "SESSION"));
        var row = transaction(database -> find(database, sessionId));
        var tokens = row == null ? null : transaction(database -> attribute(database, row, "tokens"));
        if (isDue(tokens)) tokens = fresh(sessionId);
        // (d) A session that has moved goes on until its access token ends.
        if (tokens == null || tokens.getLong("access_ends_at") <= now() || row.created + LIFETIME < now()) {
            send(request, 401, "sign in at /login");
            return;
        }
        send(request, 200, "Hello, " + provider("/userinfo", null, tokens.getString("access_token")).getString("name"));
    }

    static void logout(HttpExchange request) throws Exception {
        var sessionId = sessionIdOf(cookie(request, "SESSION"));
        var tokens = transaction(database -> {
            var row = locked(database, sessionId);
            var found = row == null ? null : attribute(database, row, "tokens");
            update(database, "DELETE FROM SPRING_SESSION WHERE SESSION_ID = ?", sessionId);
            update(database, "DELETE FROM COATCHECK_CLAIM WHERE SESSION_ID = ?", sessionId); // (e)
            return found;
        });
        revoke(tokens);
        request.getResponseHeaders().add("Set-Cookie", "SESSION=; Path=/; Max-Age=0");
        send(request, 200, "signed out");
    }

    static void revoke(JSONObject tokens) throws Exception {
        if (tokens == null || !tokens.has("refresh_token")) return; // (c) A session that has moved has none.
        provider("/revoke", Map.of("token", tokens.getString("refresh_token")), null);
    }

    /** Revokes the refresh token of a session that has ended, and deletes its row. Spring's own timer only deletes the rows. */
    static boolean sweepOne() throws Exception {
        return transaction(database -> {
            update(database, "DELETE FROM COATCHECK_CLAIM WHERE KEPT_UNTIL < ?", now()); // (a)
            var row = first(database, OldServer::row, COLUMNS + "WHERE EXPIRY_TIME < ? LIMIT 1 FOR UPDATE SKIP LOCKED",
                System.currentTimeMillis());
            var tokens = row == null ? null : attribute(database, row, "tokens");
            revoke(tokens);
            return row != null && update(database, "DELETE FROM SPRING_SESSION WHERE PRIMARY_ID = ?", row.key) > 0;
        });
    }

    // ---- The claim part: copy it from here. -------------------------------------------------------------------------------

    static final byte[] CREDENTIAL = ("Bearer " + System.getenv("CREDENTIAL")).getBytes(StandardCharsets.UTF_8);
    // The end of that day in UTC.
    static final long UNTIL = LocalDate.parse(System.getenv("UNTIL")).plusDays(1).atStartOfDay().toEpochSecond(ZoneOffset.UTC);
    static final Pattern ID = Pattern.compile("[A-Za-z0-9_-]{43}");

    static void claim(HttpExchange request) throws Exception {
        var sent = request.getRequestHeaders().getFirst("Authorization");
        request.getResponseHeaders().set("Content-Type", "application/json");
        if (!MessageDigest.isEqual(CREDENTIAL, (sent + "").getBytes(StandardCharsets.UTF_8))) {
            send(request, 401, "{\"error\":\"the credential is wrong\"}");
            return;
        }
        Object id = null, token = null;
        try {
            var body = new JSONObject(new String(request.getRequestBody().readNBytes(65_536), StandardCharsets.UTF_8));
            id = body.opt("id");
            token = body.opt("token");
        } catch (JSONException refusedBelow) {
        }
        if (!(id instanceof String name) || !ID.matcher(name).matches() || !(token instanceof String value)) {
            send(request, 400, "{\"error\":\"id or token is missing\"}");
            return;
        }
        var answer = answerOf(name, sessionIdOf(value));
        if (answer == null) send(request, 404, "{\"id\":\"" + name + "\"}");
        else send(request, 200, answer);
    }

    /** The one answer about this session. Null if the session is unknown, or has moved with another id. */
    static String answerOf(String id, String sessionId) throws Exception {
        return transaction(database -> { // both writes or none
            var row = locked(database, sessionId); // (b) A refresh in progress ends first.
            var kept = first(database, found -> new String[] {found.getString(1), found.getString(2)},
                "SELECT CLAIM_ID, ANSWER FROM COATCHECK_CLAIM WHERE SESSION_ID = ? AND KEPT_UNTIL > ?", sessionId, now());
            if (kept != null) return kept[0].equals(id) ? kept[1] : null;
            return row == null ? null : move(database, id, row);
        });
    }

    /** Takes the refresh token out of the session's attributes, and keeps it in an answer of its own. */
    static String move(Connection database, String id, Row row) throws Exception {
        var tokens = attribute(database, row, "tokens");
        var ends = row.created + LIFETIME;
        if (tokens == null || !tokens.has("refresh_token") || ends < now()) return null;
        var answer = attribute(database, row, "user") // subject, scope and device
            .put("refresh_token", tokens.remove("refresh_token"))
            .put("created_at", row.created).put("expires_at", ends).toString();
        put(database, row, "tokens", tokens); // (c) Refreshes and revocations see only the rest of the record.
        update(database, "INSERT INTO COATCHECK_CLAIM VALUES (?, ?, ?, ?)",
            row.sessionId, id, answer, Math.max(ends, UNTIL)); // (a)
        return answer;
    }

    // ---- The end of the claim part. ---------------------------------------------------------------------------------------

    static long now() { return System.currentTimeMillis() / 1000; }

    static String random() {
        var bytes = new byte[32];
        new SecureRandom().nextBytes(bytes);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    static String cookie(HttpExchange request, String name) {
        for (var each : (request.getRequestHeaders().getFirst("Cookie") + "").split("; ")) {
            if (each.startsWith(name + "=")) return each.substring(name.length() + 1);
        }
        return "";
    }

    static void send(HttpExchange request, int status, String text) throws IOException {
        var bytes = text.getBytes(StandardCharsets.UTF_8);
        request.sendResponseHeaders(status, bytes.length);
        request.getResponseBody().write(bytes);
    }

    static void redirect(HttpExchange request, String target) throws IOException {
        request.getResponseHeaders().set("Location", target);
        request.sendResponseHeaders(302, -1);
    }

    static void handle(HttpExchange request) throws IOException {
        try {
            switch (request.getRequestMethod() + " " + request.getRequestURI().getPath()) {
                case "GET /" -> page(request);
                case "GET /login" -> login(request);
                case "GET /callback" -> callback(request);
                case "POST /logout" -> logout(request);
                case "POST /coatcheck/claim" -> claim(request);
                default -> send(request, 404, "there is no such page");
            }
        } catch (Exception fault) {
            request.getResponseHeaders().set("Retry-After", "2");
            send(request, 503, "try again");
        } finally {
            request.close();
        }
    }

    public static void main(String[] arguments) throws Exception {
        transaction(database -> update(database, Files.readString(Path.of("schema.sql"))));
        var seconds = Long.parseLong(System.getenv("SWEEP_SECONDS"));
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> {
            try {
                while (sweepOne()) { }
            } catch (Exception later) {
                System.err.println("sweep: " + later.getMessage()); // the next turn tries again
            }
        }, seconds, seconds, TimeUnit.SECONDS);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", OldServer::handle);
        server.start();
    }
}
