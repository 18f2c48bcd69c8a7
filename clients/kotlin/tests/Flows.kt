// The curl suite's flows through the Kotlin client, against a broker and a sandbox (Tests/scenarios/clients/kotlin-client.sh).
package coatcheck

import java.util.concurrent.Callable
import java.util.concurrent.Executors
import kotlin.concurrent.thread
import kotlin.system.exitProcess
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody

private var count = 0
private var failed = 0

internal fun say(good: Boolean, sentence: String) {
    count += 1
    if (!good) failed += 1
    println("${if (good) "ok" else "not ok"} $count - $sentence")
}

/** Signs the user in through the sandbox's shortcut for scripts. The last redirect leads to the app. */
internal fun browser(page: HttpUrl, user: String): String {
    val http = OkHttpClient.Builder().followRedirects(false).build()
    var next = page.newBuilder().addQueryParameter("sandbox_user", user).build()
    while (true) {
        val location = http.newCall(Request.Builder().url(next).build()).execute().use { it.header("Location") }
        next = HttpUrl.parse(location ?: error("no redirect")) ?: return location
    }
}

internal fun problem(work: () -> Any?): String? = try {
    work()
    null
} catch (problem: Problem) {
    problem.code
}

/** Waits until both replicas report that a session has ended. They are asked in turn. Returns the reason. */
internal fun ending(broker: HttpUrl, name: String, value: String): String {
    fun look(): String? = OkHttpClient().newCall(Request.Builder().url(broker.resolve("/v1/session")!!).header(name, value).build())
        .execute().use { if (it.code() == 401) org.json.JSONObject(it.body!!.string()).optString("reason") else null }
    while (true) {
        val (one, other) = Pair(look(), look())
        if (one != null && one == other) return one
    }
}

internal fun Coatcheck.signIn(provider: String, user: String, social: String? = null): SignIn =
    finish(browser(start(provider, social), user), "A phone")

/** Tests child sessions of the app: a widget's, and a web view's. */
private fun children(broker: String, phone: Coatcheck) {
    val session = (phone.signIn("oidc", "kim") as SignIn.SignedIn).session
    say(problem { phone.child("tv", "home") } == "client_not_allowed", "a child of a kind that is not configured → client_not_allowed")
    val widget = phone.child("widget", "home", "home screen")
    say(widget.session.kind == "widget" && widget.session.parent == session.handle, "a widget → a child session of its own")
    fun look(name: String, value: String): Pair<Int, String> = OkHttpClient().newCall(
        Request.Builder().url("$broker/v1/session").header(name, value).build()).execute().use { it.code to it.body!!.string() }
    say(look("Authorization", "Bearer ${widget.token}").first == 200, "a widget's token → its session")
    say(problem { phone.handOver("https://evil.example") {} } == "invalid_request", "a hand-over to an origin that is not listed → invalid_request")
    var cookie: HandOverCookie? = null
    val address = phone.handOver(broker, "/v1/session") { cookie = it }
    fun spend(field: String) = OkHttpClient.Builder().followRedirects(false).build().newCall(
        Request.Builder().url(address).post(RequestBody.create(null, "")).header("Sec-Fetch-Site", "same-origin").header("Cookie", field).build()
    ).execute().use { it.code to it.headers("Set-Cookie").firstOrNull { one -> one.startsWith("coatcheck-web=") }?.substringBefore(";") }
    say(spend("a=b").first == 400, "the address of a hand-over without the cookie → 400")
    val (status, web) = spend("${cookie!!.name}=${cookie!!.value}")
    say(status == 303 && look("Cookie", web!!).second.contains("\"kind\":\"web\""), "the address of a hand-over with the cookie → the web view has a session")
    phone.signOut()
    val endings = listOf("Authorization" to "Bearer ${widget.token}", "Cookie" to web!!).map { ending(HttpUrl.get(broker), it.first, it.second) }
    say(endings == List(2) { "parent_ended" }, "the app's sign-out → the sessions of widget and web view end")
}

/** Calls a control endpoint of the sandbox. */
private fun control(sandbox: HttpUrl, method: String, path: String, body: String): String =
    OkHttpClient().newCall(
        Request.Builder().url(sandbox.resolve("/_sandbox$path")!!).method(method, RequestBody.create(null, body))
            .header("Content-Type", "application/json").build()
    ).execute().use { it.body!!.string() }

/** Tests flow B with a library that does not reveal its callback, such as AppAuth. */
private fun codeAlone(sandbox: HttpUrl, device: () -> Coatcheck) {
    val page = sandbox.resolve(
        "/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid+email&state=kept" +
            "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256")!!
    fun login(verifier: String? = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", redirect: String = "com.example.app:/cb") =
        AppLogin("oidc", "ios", "kept", verifier, scope = "openid email", redirectUri = redirect)
    fun unscoped() = control(sandbox, "PUT", "/faults/oidc", """{"fault":"no-scope","endpoint":"token","times":1}""")
    fun scope(signIn: SignIn) = (signIn as SignIn.SignedIn).session.json.getJSONArray("scope").toString()
    val code = browser(page, "ana").substringAfter("code=").substringBefore("&")
    say(problem { device().forward("com.example.app:/cb?code=$code&state=kept", login()) } == "issuer_mismatch", "flow B: a callback URL that the app built without the issuer → issuer_mismatch")
    say(problem { device().forwardCode(code, login(null)) } == "invalid_request", "flow B: a code without its verifier → invalid_request")
    say(problem { device().forwardCode(code, login(redirect = "com.example:/no")) } == "invalid_callback", "flow B: a code with another redirect URI → invalid_callback")
    unscoped()
    val kept = login()
    val signedIn = device().forwardCode(code, kept) as SignIn.SignedIn
    say(signedIn.session.subject == "user-ana" && scope(signedIn) == """["openid","email"]""", "flow B: a library's code and verifier → a session with the library's scope")
    val again = device().forwardCode(code, AppLogin.fromJson(kept.toJson())) as SignIn.SignedIn
    say(again.session.handle == signedIn.session.handle, "flow B: the same code after a restart → the same session")
    say(problem { device().forwardCode(code, login()) } == "code_already_used", "flow B: the same code from another starter → code_already_used")
    unscoped()
    say(scope(device().forward(browser(page, "ana"), login())) == """["openid","email"]""", "flow B: a whole callback → a session with the library's scope")
}

/** Tests the ID token of a native SDK. */
private fun idToken(sandbox: HttpUrl, device: () -> Coatcheck) {
    val login = AppLogin("google", "web", nonce = "a-nonce-of-this-attempt-" + System.nanoTime())
    val given = control(sandbox, "POST", "/native-id-token/google", """{"client_id":"google-app","user":"ana","nonce":"${login.hashedNonce}"}""")
    val token = org.json.JSONObject(given).getString("id_token")
    say(problem { device().forwardIdToken(token, AppLogin("google", "web", nonce = "another")) } == "code_rejected", "an SDK's ID token with another nonce → code_rejected")
    val session = (device().forwardIdToken(token, login) as SignIn.SignedIn).session
    say(session.subject == "user-ana" && !session.json.getJSONObject("tokens").getBoolean("refreshable"), "an SDK's ID token with its nonce → a session without refresh")
    say((device().forwardIdToken(token, login) as SignIn.SignedIn).session.handle == session.handle, "an SDK's ID token, forwarded again → the same session")
    say(problem { device().forwardIdToken(token, AppLogin("google", "web", nonce = login.nonce)) } == "code_already_used", "an SDK's ID token from another starter → code_already_used")
}

fun main(arguments: Array<String>) {
    val broker = HttpUrl.get(arguments[0])
    fun device(client: String = "ios", storage: CredentialStorage = MemoryStorage()) = Coatcheck(broker, client, storage)

    val phone = device()
    say((phone.standing() as? Standing.SignedOut)?.reason == null, "a new device → signed out")
    val session = (phone.signIn("oidc", "kira") as SignIn.SignedIn).session
    say(session.identity.getString("email") == "kira@example.org", "flow A → a session of the user")
    say((phone.standing() as Standing.SignedIn).session.handle == session.handle, "the standing after flow A → signed in")
    say(phone.relay("api", "private/echo").status == 200, "a relayed call → 200")
    say(String(phone.relay("api", "echo", query = "page=2").body).contains("\"query\":\"page=2\""), "a relayed call with a query → the upstream gets the query")
    say(String(phone.relay("api", "echo?page=2").body).contains("\"query\":\"page=2\""), "a relayed call with a query in its path → the upstream gets the query")
    say(try { phone.relay("api", "echo?page=2", query = "size=9"); false } catch (twice: IllegalArgumentException) { true }, "a relayed call with two queries → refused")
    say(phone.relay("api", "status/401").status == 401 && phone.session().handle == session.handle, "a relayed 401 → the session goes on")
    say(phone.relay("api", "echo", "POST", RequestBody.create(null, "hello")).status == 200, "a relayed POST with a body → 200")
    say(problem { phone.relay("narrow", "echo") } == "upstream_not_allowed", "a relayed call that is not allowed → upstream_not_allowed")
    say(phone.refresh().handle == session.handle, "a refresh → the same session")
    children(arguments[0], device())

    say(problem { device().signIn("oidc", "denied") } == "access_denied", "a user's refusal at the provider → access_denied")
    val callback = browser(phone.start("oidc"), "kira")
    say(problem { device().finish(callback) } == "login_not_yours", "another device's callback → login_not_yours")
    say(problem { device().start("nobody") } == "provider_not_found", "an unknown provider → provider_not_found")

    val kept = MemoryStorage()
    val once = browser(device(storage = kept).start("oidc"), "kira")
    val text = kept.read()!!.toJson()
    val pool = Executors.newFixedThreadPool(10)
    val handles = pool.invokeAll((1..50).map {
        Callable {
            val restarted = MemoryStorage()
            restarted.write(Credentials.fromJson(text))
            (device(storage = restarted).finish(once) as SignIn.SignedIn).session.handle
        }
    }).map { it.get() }.toSet()
    pool.shutdown()
    say(handles.size == 1, "fifty forwards of one code after a restart of the app → one session")

    val bearer = device("android")
    bearer.signIn("oidc", "kira")
    say(bearer.session().client == "android" && bearer.relay("api", "private/echo").status == 200, "a bearer client → session and relayed call succeed")
    bearer.signOut()
    say(problem { bearer.session() } == "session_required", "a bearer client after its sign-out → session_required")

    codeAlone(HttpUrl.get(arguments[1])) { device() }
    idToken(HttpUrl.get(arguments[1])) { device("web") }

    val arriving = device("strict")
    val arrival = arriving.finish("com.example.strict:/cb?code=from-the-portal") as SignIn.OpenOnceMore
    say(arriving.finish(browser(arrival.page, "kira")) is SignIn.SignedIn, "flow D: an arrival from the portal → a session")

    say(device().signIn("zephr", "ana", "google") is SignIn.SignedIn, "Zephr, a known user → a session")
    val newcomer = device()
    val registration = (newcomer.signIn("zephr", "newkira", "google") as SignIn.Register).registration
    say(registration.fields.map { it.name } == listOf("first-name"), "Zephr, a new user → a registration that names the missing attribute")
    say(newcomer.register(registration, mapOf("first-name" to "Kira", "birth-year" to 1990)).provider == "zephr", "Zephr, a registration with its attributes → a session")

    say(device("hosted").signIn("oidc", "kira") is SignIn.SignedIn, "flow C → a session")
    say(try { device("hosted").signIn("oidc", "denied"); false } catch (refused: LoginFailed) { refused.code == "access_denied" }, "flow C, a user's refusal → access_denied")

    val tablet = device()
    tablet.signIn("oidc", "kira")
    val seen = java.util.Collections.synchronizedList(ArrayList<String>())
    val listening = thread {
        phone.listen(object : SessionListener {
            override fun session(session: Session) { seen += "session"; phone.refresh() }
            override fun tokensRefreshed() { seen += "refreshed"; tablet.end(session.handle) }
            override fun ended(reason: String?) { seen += "ended $reason" }
        })
    }
    listening.join(60_000)
    say(seen == listOf("session", "refreshed", "ended logged_out_elsewhere"), "an event stream → session, refresh and end: $seen")
    say((phone.standing() as? Standing.SignedOut) != null, "an event stream that reports the end → the phone is signed out")
    tablet.endOthers()
    say(tablet.sessions().size == 1, "the end of all other sessions → one session is left")
    val nowhere = Coatcheck(HttpUrl.get("http://127.0.0.1:1"), "ios", MemoryStorage().apply { write(Credentials("x", lastSession = session.json)) }, 100)
    say((nowhere.standing() as? Standing.Unknown)?.last?.handle == session.handle, "the standing without a network → unknown, with the last user")
    Bound(HttpUrl.get(arguments[3]), ::say).walk()
    StepUps(broker, HttpUrl.get(arguments[3]), ::say).walk()
    Presences(HttpUrl.get(arguments[3]), ::say).walk()
    MoveIns(::say).walk()
    oldSdks(::say)
    Tunnel(broker, HttpUrl.get(arguments[1]), arguments[2].toInt()).walk(::say)
    exitProcess(if (failed > 0) 1 else 0)
}
