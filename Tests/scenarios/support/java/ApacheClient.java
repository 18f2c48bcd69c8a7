import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.http.client.config.RequestConfig;
import org.apache.http.client.entity.UrlEncodedFormEntity;
import org.apache.http.client.methods.CloseableHttpResponse;
import org.apache.http.client.methods.HttpGet;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.client.methods.HttpUriRequest;
import org.apache.http.entity.ContentType;
import org.apache.http.entity.StringEntity;
import org.apache.http.impl.client.CloseableHttpClient;
import org.apache.http.impl.client.HttpClients;
import org.apache.http.message.BasicNameValuePair;
import org.apache.http.util.EntityUtils;

/**
 * Debian's Apache HttpClient 4, which adds `charset=ISO-8859-1` to a form without a charset and has its own cookie jar. Each
 * printed line is `NAME STATUS WORDS`.
 *
 *   ApacheClient BROKER BEARER CREDENTIAL
 */
final class ApacheClient {
    private static CloseableHttpClient client;

    private static String send(String name, HttpUriRequest request) throws Exception {
        try (CloseableHttpResponse answer = client.execute(request)) {
            String body = answer.getEntity() == null ? "" : EntityUtils.toString(answer.getEntity());
            System.out.println(name + " " + answer.getStatusLine().getStatusCode() + " " + body.replaceAll("\\s+", " "));
            return body;
        }
    }

    private static HttpPost post(String url, String credential, boolean isUTF8, String token) throws Exception {
        HttpPost post = new HttpPost(url);
        post.setHeader("X-Coatcheck-Backend", credential);
        List<BasicNameValuePair> form = List.of(new BasicNameValuePair("token", token), new BasicNameValuePair("token_type_hint", "access_token"));
        post.setEntity(isUTF8 ? new UrlEncodedFormEntity(form, StandardCharsets.UTF_8) : new UrlEncodedFormEntity(form));
        return post;
    }

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[0];
        String bearer = arguments[1];
        client = HttpClients.createDefault();
        for (int turn = 1; turn <= 2; turn++) {
            HttpGet get = new HttpGet(broker + "/v1/relay/api/echo");
            get.setHeader("Authorization", "Bearer " + bearer);
            send("relay-" + turn, get);
        }
        send("introspect-utf8", post(broker + "/v1/introspect", arguments[2], true, bearer));
        send("introspect", post(broker + "/v1/introspect", arguments[2], false, bearer));
        HttpPost expecting = new HttpPost(broker + "/v1/relay/api/echo");
        expecting.setHeader("Authorization", "Bearer " + bearer);
        expecting.setConfig(RequestConfig.custom().setExpectContinueEnabled(true).build());
        expecting.setEntity(new StringEntity("x".repeat(3000), ContentType.TEXT_PLAIN));
        send("relay-expect", expecting);
        HttpPost login = new HttpPost(broker + "/v1/logins");
        login.setEntity(new StringEntity("{\"provider\":\"oidc\",\"client\":\"ios\"}", ContentType.APPLICATION_JSON));
        String begun = send("login", login);
        String url = begun.replaceAll(".*\"authorization_url\":\"([^\"]*)\".*", "$1").replace("\\/", "/");
        String callback;
        try (CloseableHttpClient browser = HttpClients.custom().disableRedirectHandling().build();
             CloseableHttpResponse answer = browser.execute(new HttpGet(url + "&sandbox_user=ana"))) {
            callback = answer.getFirstHeader("Location").getValue();
        }
        HttpPost forward = new HttpPost(broker + "/v1/sessions");
        forward.setEntity(new StringEntity("{\"callback_url\":\"" + callback + "\"}", ContentType.APPLICATION_JSON));
        send("forward", forward);
        send("jar-session", new HttpGet(broker + "/v1/session"));
    }
}
