import java.net.CookieManager;
import java.net.HttpCookie;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;

/**
 * Java's own clients with default settings: HttpClient offers HTTP/2 by an Upgrade, and a CookieManager keeps cookies. Each
 * printed line is `NAME STATUS WORDS`.
 *
 *   JavaClient BROKER BEARER
 */
final class JavaClient {
    private static String broker;

    private static HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(broker + path));
    }

    private static void print(String name, HttpResponse<String> answer) {
        System.out.println(name + " " + answer.statusCode() + " " + answer.version() + " " + answer.body().replaceAll("\\s+", " "));
    }

    public static void main(String[] arguments) throws Exception {
        broker = arguments[0];
        String bearer = "Bearer " + arguments[1];
        HttpClient client = HttpClient.newHttpClient();
        for (int turn = 1; turn <= 3; turn++) {
            print("relay-get-" + turn, client.send(request("/v1/relay/api/echo").header("Authorization", bearer).build(), BodyHandlers.ofString()));
        }
        print("relay-post", client.send(request("/v1/relay/api/echo").header("Authorization", bearer).header("Content-Type", "text/plain")
            .POST(BodyPublishers.ofString("x".repeat(3000))).build(), BodyHandlers.ofString()));
        print("relay-chunked", client.send(request("/v1/relay/api/echo").header("Authorization", bearer).header("Content-Type", "text/plain")
            .PUT(BodyPublishers.fromPublisher(BodyPublishers.ofString("x".repeat(3000)))).build(), BodyHandlers.ofString()));
        print("relay-expect", client.send(request("/v1/relay/api/echo").header("Authorization", bearer).expectContinue(true)
            .POST(BodyPublishers.ofString("x".repeat(3000))).build(), BodyHandlers.ofString()));
        print("session", client.send(request("/v1/session").header("Authorization", bearer).build(), BodyHandlers.ofString()));
        HttpResponse<java.util.stream.Stream<String>> events =
            client.send(request("/v1/relay/api/events/2").header("Authorization", bearer).build(), BodyHandlers.ofLines());
        System.out.println("relay-events " + events.statusCode() + " " + String.join("|", events.body().toList()));

        HttpURLConnection old = (HttpURLConnection) URI.create(broker + "/v1/session").toURL().openConnection();
        old.setRequestProperty("Authorization", bearer);
        System.out.println("url-connection " + old.getResponseCode());

        // Whole logins whose cookies one jar keeps. Another client plays the user's browser.
        CookieManager jar = new CookieManager();
        HttpClient app = HttpClient.newBuilder().cookieHandler(jar).build();
        print("stranger", app.send(request("/v1/session").build(), BodyHandlers.ofString()));
        String stolen = begin("login", app);
        forward("not-yours", client, stolen);
        forward("burned", app, stolen);
        forward("forward", app, begin("login-1", app));
        names("held", jar);
        String first = value(jar);
        print("jar-session", app.send(request("/v1/session").build(), BodyHandlers.ofString()));
        print("jar-echo", app.send(request("/v1/relay/api/echo").build(), BodyHandlers.ofString()));
        for (int turn = 1; turn <= 2; turn++) {
            print("jar-refresh-" + turn, app.send(request("/v1/session/refresh").POST(BodyPublishers.noBody()).build(), BodyHandlers.ofString()));
        }
        // A second sign-in in the same jar replaces the first session.
        forward("forward-2", app, begin("login-2", app));
        print("jar-session-2", app.send(request("/v1/session").build(), BodyHandlers.ofString()));
        System.out.println("renewed " + !value(jar).equals(first));
        print("old", client.send(request("/v1/session").header("Cookie", "coatcheck=" + first).build(), BodyHandlers.ofString()));
        print("log-out", app.send(request("/v1/session").DELETE().build(), BodyHandlers.ofString()));
        names("left", jar);
        print("after", app.send(request("/v1/session").build(), BodyHandlers.ofString()));
    }

    /** A login until its callback. Returns the body of a forward. */
    private static String begin(String name, HttpClient app) throws Exception {
        HttpResponse<String> begun = app.send(request("/v1/logins").header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString("{\"provider\":\"oidc\",\"client\":\"ios\"}")).build(), BodyHandlers.ofString());
        print(name, begun);
        String url = begun.body().replaceAll(".*\"authorization_url\":\"([^\"]*)\".*", "$1").replace("\\/", "/");
        HttpResponse<String> page = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(url + "&sandbox_user=ana")).build(), BodyHandlers.ofString());
        return "{\"callback_url\":\"" + page.headers().firstValue("Location").orElse("none") + "\"}";
    }

    private static void forward(String name, HttpClient app, String callback) throws Exception {
        print(name, app.send(request("/v1/sessions").header("Content-Type", "application/json").POST(BodyPublishers.ofString(callback)).build(),
            BodyHandlers.ofString()));
    }

    private static String value(CookieManager jar) {
        return jar.getCookieStore().getCookies().stream().filter(cookie -> cookie.getName().equals("coatcheck")).map(HttpCookie::getValue).findFirst().orElse("none");
    }

    /** Prints the jar's cookies. A cookie of version 1 would be sent in quotes. */
    private static void names(String name, CookieManager jar) {
        System.out.println(name + " " + String.join(",", jar.getCookieStore().getCookies().stream()
            .map(cookie -> cookie.getName() + "/" + cookie.getVersion() + "/" + (cookie.getMaxAge() > 0)).sorted().toList()));
    }
}
