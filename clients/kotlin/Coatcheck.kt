// A client of Coatcheck for Android, in one file to copy: OkHttp and org.json, which Android has, nothing else. It keeps to what
// OkHttp 3, 4 and 5 have in common; with 3 copy OkHttp3.kt, too. (The project's tests compile it with 3 and Kotlin 1.3.)
// Every call blocks: call it from a background thread, or from a coroutine by withContext(Dispatchers.IO). What opens the
// sign-in page in a Custom Tab is in android/CustomTabSignIn.kt.
//
//     val coatcheck = Coatcheck("https://auth.example.com".toHttpUrl(), "android", KeystoreStorage(context))
//     val page = coatcheck.start("cloudentity")                 // open it; the browser comes back to the app
//     when (val signIn = coatcheck.finish(callback)) {
//         is SignIn.SignedIn -> show(signIn.session)
//         is SignIn.Register -> form(signIn.registration)       // Zephr
//     }
package coatcheck

import java.io.IOException
import java.util.Random
import java.util.concurrent.TimeUnit
import okhttp3.HttpUrl
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import okio.BufferedSink
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** Who is signed in, as the broker tells it; never a token. [json] has every member. */
class Session(val json: JSONObject) {
    val handle: String = json.getString("handle")
    val provider: String = json.getString("provider")
    val client: String = json.getString("client")
    val subject: String = json.getString("subject")
    val identity: JSONObject = json.getJSONObject("identity")
    val expiresAt: String = json.getString("expires_at")
    val name: String? = if (identity.isNull("name")) null else identity.optString("name")
}

/** A Zephr partial registration: show a form made of [fields], then call [Coatcheck.register]. */
class Registration(json: JSONObject) {
    class Field(val name: String, val type: String, val required: Boolean)

    val provider: String = json.getString("provider")
    val stateKey: String = json.getString("state_key")
    val identifier: String? = if (json.isNull("identifier")) null else json.getString("identifier")
    val fields: List<Field> = json.getJSONArray("fields").objects().map {
        Field(it.getString("name"), it.getString("type"), it.getBoolean("required"))
    }
}

/** How a sign-in ended. */
sealed class SignIn {
    class SignedIn(val session: Session) : SignIn()
    class Register(val registration: Registration) : SignIn()
    /** The user came from the provider's portal: open this page as the first one; it returns at once. */
    class OpenOnceMore(val page: HttpUrl) : SignIn()
}

/** What an app knows at its start. */
sealed class Standing {
    class SignedIn(val session: Session) : Standing()
    class SignedOut(val reason: String?) : Standing()
    /** The broker cannot be asked at the moment: nobody is signed out. Show who was there last. */
    class Unknown(val last: Session?) : Standing()
}

/** A refusal of the broker's (RFC 9457). Decide on [code]; put [requestId] into bug reports. */
class Problem(val json: JSONObject) : Exception("${json.optString("code")}: ${json.optString("detail")}") {
    val status: Int = json.getInt("status")
    val code: String = json.getString("code")
    val requestId: String = json.getString("request_id")
    /** Why a session ended. */
    val reason: String? = if (json.has("reason")) json.getString("reason") else null
    /** The provider's own word, where a standard defines it. */
    val providerError: String? = if (json.has("provider_error")) json.getString("provider_error") else null
    /** Whether there is no session any more. */
    val endsSession: Boolean = status == 401 && (code == "session_ended" || code == "session_required")
    /** Whether waiting and sending the same request again is the answer. */
    val passes: Boolean = (status == 503 && json.optString("retry") != "new_login") || status == 429 || status == 408
}

/** There is no network, nobody answers, or the answer is not the broker's. Nothing is lost. */
class Unreachable(why: String) : IOException(why)

/** A hosted callback came back with an error. */
class LoginFailed(val code: String) : Exception(code)

/** What a device keeps. The login's secret has to survive until the session is there, over a restart of the app, too. */
class Credentials(
    val session: String? = null, val login: String? = null, val loginId: String? = null, val bearer: Boolean = false,
    val lastSession: JSONObject? = null
) {
    fun toJson(): String = JSONObject().put("session", session).put("login", login).put("login_id", loginId)
        .put("bearer", bearer).put("last_session", lastSession).toString()

    companion object {
        fun fromJson(text: String): Credentials {
            val json = JSONObject(text)
            fun text(name: String): String? = if (json.isNull(name)) null else json.getString(name)
            return Credentials(
                text("session"), text("login"), text("login_id"), json.optBoolean("bearer"), json.optJSONObject("last_session"))
        }
    }
}

/** Where a device keeps its credentials: a file encrypted by a key of the Android Keystore, left out of backups. */
interface CredentialStorage {
    fun read(): Credentials?
    fun write(credentials: Credentials?)
}

/** Keeps the credentials as long as the process lives. */
class MemoryStorage : CredentialStorage {
    private var kept: Credentials? = null
    @Synchronized override fun read(): Credentials? = kept
    @Synchronized override fun write(credentials: Credentials?) { kept = credentials }
}

/** What an upstream answered, its own 401 too: that one never ends the session. */
class RelayAnswer(val status: Int, val contentType: String?, val body: ByteArray)

/** Listens to what happens to the session. */
interface SessionListener {
    fun session(session: Session)
    fun tokensRefreshed()
    /** The last one; the credentials are forgotten. */
    fun ended(reason: String?)
}

/** A broker, as one app on one device sees it. Make one and share it. */
class Coatcheck(
    private val broker: HttpUrl, private val client: String?, private val storage: CredentialStorage,
    private val deadlineMillis: Long = 60_000
) {
    // No cookie jar: the one cookie is kept with the credentials. No redirects: an upstream's is the app's to judge.
    private val http: OkHttpClient = OkHttpClient.Builder().followRedirects(false).followSslRedirects(false)
        .retryOnConnectionFailure(false).readTimeout(40, TimeUnit.SECONDS).build()
    private val random = Random()
    private val asking = Any()
    private var asked: Session? = null
    private var generation = 0

    // ---- Signing in -------------------------------------------------------------------------------------------------

    /** Starts a login and returns the page to open in the system's browser, never in a web view. */
    fun start(provider: String, socialProvider: String? = null): HttpUrl {
        val body = JSONObject().put("provider", provider).put("client", client).put("social_provider", socialProvider)
        val answer = call("POST", "/v1/logins", body, withSession = false)
        return keep(answer.json(), answer)
    }

    /** Forwards the whole URL that the browser came back with, unchanged. */
    fun finish(callback: String, device: String? = null): SignIn {
        val kept = kept()
        var body = JSONObject().put("callback_url", callback).put("device", device)
        // A hosted callback names our login; no provider does.
        if (kept.loginId != null && value(callback, "login_id") == kept.loginId) {
            value(callback, "error")?.let { throw LoginFailed(it) }
            value(callback, "handoff")?.let { body = JSONObject().put("handoff", it).put("device", device) }
        }
        if (kept.bearer) body.put("login_token", kept.login)
        try {
            return forwarded(body)
        } catch (problem: Problem) {
            val login = problem.json.optJSONObject("login")
            if (problem.code != "login_required" || login == null) throw problem
            return SignIn.OpenOnceMore(url(login.getString("authorization_url")))
        }
    }

    /**
     * Forwards the callback of a login that the app started with a library of its own (flow B). [loginToken] is 32 random
     * bytes as base64url, made for this attempt: who brings it again gets the same session.
     */
    fun forward(callback: String, provider: String, state: String, verifier: String?, nonce: String?, loginToken: String): SignIn =
        forwarded(JSONObject().put("provider", provider).put("client", client).put("callback_url", callback)
            .put("state", state).put("code_verifier", verifier).put("nonce", nonce).put("login_token", loginToken))

    /** Finishes a Zephr registration; `registration_rejected` can be corrected once. */
    fun register(registration: Registration, attributes: Map<String, Any>): Session {
        val body = JSONObject().put("provider", registration.provider).put("client", client)
            .put("state_key", registration.stateKey).put("attributes", JSONObject(attributes))
        val kept = kept()
        if (kept.bearer) body.put("login_token", kept.login)
        return made(call("POST", "/v1/registrations", body))
    }

    private fun forwarded(body: JSONObject): SignIn {
        val answer = call("POST", "/v1/sessions", body)
        return if (answer.status == 202) SignIn.Register(Registration(answer.json())) else SignIn.SignedIn(made(answer))
    }

    private fun made(answer: Answer): Session {
        val json = answer.json()
        val token = if (json.has("session_token")) json.getString("session_token") else null
        val secret = token ?: answer.cookie(cookieName) ?: throw Unreachable("a session without its secret")
        json.remove("session_token")
        storage.write(Credentials(session = secret, bearer = token != null, lastSession = json))
        return Session(json)
    }

    private fun keep(login: JSONObject, answer: Answer): HttpUrl {
        val kept = kept()
        val token = if (login.has("login_token")) login.getString("login_token") else null
        storage.write(Credentials(
            kept.session, token ?: answer.cookie("$cookieName-login") ?: kept.login, login.getString("login_id"),
            token != null, kept.lastSession))
        return url(login.getString("authorization_url"))
    }

    // ---- The session ------------------------------------------------------------------------------------------------

    /** How things stand, for the start of the app: signs nobody out for want of a network. */
    fun standing(): Standing {
        val kept = kept()
        if (kept.session == null) return Standing.SignedOut(null)
        return try {
            Standing.SignedIn(session())
        } catch (problem: Problem) {
            if (problem.endsSession) Standing.SignedOut(problem.reason) else Standing.Unknown(kept.lastSession?.let { Session(it) })
        } catch (nobody: IOException) {
            Standing.Unknown(kept.lastSession?.let { Session(it) })
        }
    }

    /** Who is signed in; calls that come while one is under way share its answer. */
    fun session(): Session {
        val before = synchronized(this) { generation }
        synchronized(asking) {
            val shared = synchronized(this) { if (generation != before) asked else null }
            if (shared != null) return shared
            val session = remember(call("GET", "/v1/session").json())
            synchronized(this) { asked = session; generation += 1 }
            return session
        }
    }

    /** Has the broker refresh the provider's tokens now. An app need not: the broker does it when it has to. */
    fun refresh(): Session = remember(call("POST", "/v1/session/refresh").json())

    /** Signs out here; with [atProvider] returns the provider's log-out page to open, where it has one. */
    fun signOut(atProvider: Boolean = false): HttpUrl? {
        val answer = call("DELETE", if (atProvider) "/v1/session?logout_url=true" else "/v1/session")
        storage.write(null)
        if (!atProvider) return null
        val json = answer.json()
        return if (json.isNull("logout_url")) null else url(json.getString("logout_url"))
    }

    /** The user's sessions on all devices, newest first. */
    fun sessions(): List<Session> {
        val found = ArrayList<Session>()
        var cursor: String? = null
        do {
            val page = call("GET", "/v1/sessions" + (if (cursor == null) "" else "?cursor=$cursor")).json()
            found += page.getJSONArray("items").objects().map { Session(it) }
            cursor = if (page.isNull("next_cursor")) null else page.getString("next_cursor")
        } while (cursor != null)
        return found
    }

    /** Ends one of the user's sessions. */
    fun end(handle: String) { call("DELETE", "/v1/sessions/$handle") }

    /** Ends the user's sessions on all other devices. */
    fun endOthers() { call("DELETE", "/v1/sessions?except=current") }

    private fun remember(json: JSONObject): Session {
        val kept = kept()
        if (kept.session != null) storage.write(Credentials(kept.session, kept.login, kept.loginId, kept.bearer, json))
        return Session(json)
    }

    // ---- Relay and events -------------------------------------------------------------------------------------------

    /**
     * Calls an upstream API with the session's access token, which the app never sees. A call that may have reached the
     * upstream is sent again only where its method is idempotent.
     */
    fun relay(upstream: String, path: String, method: String = "GET", body: RequestBody? = null): RelayAnswer {
        val idempotent = method in listOf("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
        val answer = repeat("/v1/relay/$upstream/$path", method, body, true, idempotent) { it.source == "upstream" }
        return RelayAnswer(answer.status, answer.contentType, answer.body)
    }

    /**
     * Listens until the session ends or [stop] says true; reconnects by itself. Listen in the foreground only: the first
     * event after a reconnect tells how things stand.
     */
    fun listen(listener: SessionListener, stop: () -> Boolean) {
        // The broker says something every 25 seconds.
        val patient = http.newBuilder().readTimeout(60, TimeUnit.SECONDS).build()
        var tries = 0
        while (!stop()) {
            var pause = (500L shl minOf(tries, 5)) + random.nextInt(500)
            try {
                val request = request("GET", "/v1/session/events", null, true)
                val over = patient.newCall(request).execute().use { response ->
                    if (response.code == 200) {
                        tries = 0
                        events(response, listener, request, stop)
                    } else {
                        val answer = Answer(response)
                        val problem = answer.problem() ?: throw Unreachable("status ${answer.status}")
                        learn(problem, answer, request)
                        if (problem.endsSession) listener.ended(problem.reason) else if (!problem.passes) throw problem
                        answer.retryAfter?.let { pause = maxOf(pause, it * 1000) }
                        problem.endsSession
                    }
                }
                if (over) return
            } catch (lost: IOException) {
                // Again, after the pause.
            }
            if (!stop()) Thread.sleep(pause)
            tries += 1
        }
    }

    private fun events(response: Response, listener: SessionListener, request: Request, stop: () -> Boolean): Boolean {
        val source = response.body!!.source()
        var name = ""
        var data = ""
        while (!stop()) {
            val line = source.readUtf8Line() ?: return false
            when {
                line.startsWith("event: ") -> name = line.substring(7)
                line.startsWith("data: ") -> data += line.substring(6)
                line == "" -> {
                    when (name) {
                        "session" -> listener.session(remember(JSONObject(data)))
                        "tokens_refreshed" -> listener.tokensRefreshed()
                        "session_ended" -> {
                            forget(request)
                            listener.ended(JSONObject(data).optString("reason"))
                            return true
                        }
                    }
                    name = ""
                    data = ""
                }
            }
        }
        return true
    }

    // ---- Calls ------------------------------------------------------------------------------------------------------

    private val cookieName: String = if (broker.isHttps) "__Host-coatcheck" else "coatcheck"

    private fun kept(): Credentials = storage.read() ?: Credentials()

    private fun request(method: String, path: String, body: RequestBody?, withSession: Boolean): Request {
        val kept = kept()
        val url = url(path)
        // OkHttp takes dot segments out of a path: what it would send has to be what was asked for.
        val sent = "/" + url.toString().substringAfter("://").substringAfter('/')
        require(sent.substringBefore('?') == path.substringBefore('?')) { "a path that could be read in more than one way" }
        val builder = Request.Builder().url(url)
        builder.method(method, body ?: if (method in listOf("POST", "PUT", "PATCH")) Bytes(ByteArray(0)) else null)
        if (body is Bytes) builder.header("Content-Type", "application/json")
        if (kept.bearer) {
            if (kept.session != null && withSession) builder.header("Authorization", "Bearer ${kept.session}")
        } else {
            val cookies = ArrayList<String>()
            if (kept.session != null && withSession) cookies += "$cookieName=${kept.session}"
            if (kept.login != null) cookies += "$cookieName-login=${kept.login}"
            if (cookies.isNotEmpty()) builder.header("Cookie", cookies.joinToString("; "))
        }
        return builder.build()
    }

    private fun call(method: String, path: String, body: JSONObject? = null, withSession: Boolean = true): Answer {
        val bytes = body?.let { Bytes(it.toString().toByteArray()) }
        return repeat(path, method, bytes, withSession, true) { it.status in 200..299 }
    }

    /** Sends a request, again as long as that helps: docs/native-apps.md has the table. */
    private fun repeat(
        path: String, method: String, body: RequestBody?, withSession: Boolean, idempotent: Boolean, good: (Answer) -> Boolean
    ): Answer {
        val begin = System.nanoTime()
        var tries = 0
        while (true) {
            var failure: Exception
            var pause = (200L shl minOf(tries, 6)) + random.nextInt(200)
            try {
                val request = request(method, path, body, withSession)
                val answer = http.newCall(request).execute().use { Answer(it) }
                if (good(answer)) return answer
                // A proxy's page says as little about the session as no answer at all.
                val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
                learn(problem, answer, request)
                // A 408 may have reached an upstream in part; a 503 and a 429 of the broker's have not reached it.
                if (!problem.passes || (!idempotent && problem.code == "request_timeout")) throw problem
                failure = problem
                answer.retryAfter?.let { pause = it * 1000 + random.nextInt(250) }
            } catch (lost: IOException) {
                if (!idempotent) throw lost
                failure = lost
            }
            val left = deadlineMillis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin)
            if (pause > minOf(left, 30_250)) throw failure
            Thread.sleep(pause)
            tries += 1
        }
    }

    private fun learn(problem: Problem, answer: Answer, request: Request) {
        if (problem.endsSession) forget(request)
        problem.json.optJSONObject("login")?.let { keep(it, answer) }
    }

    /** Forgets the session, unless another took its place while the answer was under way. */
    private fun forget(request: Request) {
        val kept = kept()
        val sent = (request.header("Cookie") ?: "") + (request.header("Authorization") ?: "")
        if (kept.session != null && sent.contains(kept.session)) {
            storage.write(Credentials(login = kept.login, loginId = kept.loginId, bearer = kept.bearer))
        }
    }

    private fun value(url: String, name: String): String? =
        // The scheme is the app's own: only the query is of interest.
        broker.resolve("/?" + url.substringBefore('#').substringAfter('?', ""))?.queryParameter(name)

    private fun url(text: String): HttpUrl = broker.resolve(text) ?: throw Unreachable("not a URL of the web")

    private class Bytes(private val bytes: ByteArray) : RequestBody() {
        override fun contentType(): MediaType? = null
        override fun contentLength(): Long = bytes.size.toLong()
        override fun writeTo(sink: BufferedSink) { sink.write(bytes) }
    }

    private class Answer(response: Response) {
        val status: Int = response.code
        val source: String? = response.header("Coatcheck-Source")
        val contentType: String? = response.header("Content-Type")
        val retryAfter: Long? = response.header("Retry-After")?.toLongOrNull()
        val body: ByteArray = response.body?.bytes() ?: ByteArray(0)
        private val cookies: List<String> = response.headers("Set-Cookie")

        fun json(): JSONObject = try {
            JSONObject(String(body, Charsets.UTF_8))
        } catch (other: JSONException) {
            throw Unreachable("not the broker's answer")
        }

        fun problem(): Problem? = try {
            if (contentType?.startsWith("application/problem+json") == true) Problem(json()) else null
        } catch (other: JSONException) {
            null
        }

        fun cookie(name: String): String? = cookies.map { it.substringBefore(';').trim() }
            .firstOrNull { it.startsWith("$name=") }?.substringAfter('=')?.ifEmpty { null }
    }
}

private fun JSONArray.objects(): List<JSONObject> = (0 until length()).map { getJSONObject(it) }
