import java.net.CookieManager;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;

/**
 * Java's own clients, as they are without a setting: HttpClient offers HTTP/2 by an Upgrade, and a CookieManager keeps cookies.
 * Each line printed is `NAME STATUS WORDS`.
 *
 *   JavaClient BROKER BEARER SESSION-URL CALLBACK-COMMAND…
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

        // A whole login whose cookies the jar keeps. The user's browser is a client without the jar.
        HttpClient app = HttpClient.newBuilder().cookieHandler(new CookieManager()).build();
        HttpResponse<String> begun = app.send(request("/v1/logins").header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString("{\"provider\":\"oidc\",\"client\":\"ios\"}")).build(), BodyHandlers.ofString());
        print("login", begun);
        String url = begun.body().replaceAll(".*\"authorization_url\":\"([^\"]*)\".*", "$1").replace("\\/", "/");
        HttpResponse<String> browser = client.send(HttpRequest.newBuilder(URI.create(url + "&sandbox_user=ana")).build(), BodyHandlers.ofString());
        String callback = browser.headers().firstValue("Location").orElse("none");
        print("forward", app.send(request("/v1/sessions").header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString("{\"callback_url\":\"" + callback + "\"}")).build(), BodyHandlers.ofString()));
        for (String path : List.of("/v1/session", "/v1/relay/api/echo")) {
            print("jar" + path.replaceAll(".*/", "-"), app.send(request(path).build(), BodyHandlers.ofString()));
        }
        print("log-out", app.send(request("/v1/session").DELETE().build(), BodyHandlers.ofString()));
        print("after", app.send(request("/v1/session").build(), BodyHandlers.ofString()));
    }
}
