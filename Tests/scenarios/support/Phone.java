// A phone with Java's own HTTP client and cookie jar: signs in, reads its session and logs out, and prints the results. With
// `login` it only starts a login. With `quoted` its jar writes cookies according to RFC 2965, with quotes and `$Version`.
import java.net.CookieHandler;
import java.net.CookieManager;
import java.net.CookiePolicy;
import java.net.HttpCookie;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

class Phone {
    static final CookieManager jar = new CookieManager(null, CookiePolicy.ACCEPT_ALL);
    static HttpURLConnection last;

    static String send(String method, String url, String body) throws Exception {
        last = (HttpURLConnection) URI.create(url).toURL().openConnection();
        last.setInstanceFollowRedirects(false);
        last.setConnectTimeout(10_000);
        last.setReadTimeout(20_000);
        last.setRequestMethod(method);
        if (body != null) {
            last.setDoOutput(true);
            last.setRequestProperty("Content-Type", "application/json; charset=utf8; q=1;");
            last.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
        }
        int status = last.getResponseCode();
        var stream = status < 400 ? last.getInputStream() : last.getErrorStream();
        String text = stream == null ? "" : new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        System.out.println(method + " " + status);
        return text;
    }

    static String member(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1).replace("\\/", "/") : "";
    }

    static void show() {
        for (HttpCookie cookie : jar.getCookieStore().getCookies())
            if (cookie.getName().startsWith("coatcheck")) System.out.println("jar " + cookie.getName() + " version " + cookie.getVersion() + " age " + (cookie.getMaxAge() > 0));
    }

    /** Makes the cookies of the jar, as the jar does for a field with `Max-Age` but without `Expires`. */
    static void quote(URI broker) {
        for (HttpCookie old : List.copyOf(jar.getCookieStore().getCookies())) {
            HttpCookie cookie = new HttpCookie(old.getName(), old.getValue());
            cookie.setPath("/");
            cookie.setMaxAge(600);
            jar.getCookieStore().remove(broker, old);
            jar.getCookieStore().add(broker, cookie);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[0];
        boolean quoted = arguments.length > 1 && arguments[1].equals("quoted");
        CookieHandler.setDefault(jar);
        String begun = send("POST", broker + "/v1/logins", "{\"provider\":\"oidc\",\"client\":\"ios\"}");
        show();
        if (arguments.length > 1 && arguments[1].equals("login")) return;
        if (quoted) quote(URI.create(broker));
        send("GET", member(begun, "authorization_url") + "&sandbox_user=ana", null);
        String callback = last.getHeaderField("Location");
        send("POST", broker + "/v1/sessions", "{\"callback_url\":\"" + callback + "\"}");
        show();
        if (quoted) quote(URI.create(broker));
        send("GET", broker + "/v1/session", null);
        send("DELETE", broker + "/v1/session", null);
        show();
    }
}
