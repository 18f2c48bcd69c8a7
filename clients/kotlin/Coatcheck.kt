// A client of Coatcheck for Android, in one file to copy: OkHttp and org.json, which Android has, nothing else. It keeps to what
// OkHttp 3, 4 and 5 have in common; with 3 copy OkHttp3.kt, too. (The project's tests compile it with 3 and Kotlin 1.3.)
// Every call blocks: call it from a background thread, or from a coroutine by what is in Coroutines.kt. What opens the sign-in
// page in a Custom Tab is in android/CustomTabSignIn.kt, and a key of the Android Keystore in android/KeystoreProofKey.kt.
//
//     val coatcheck = Coatcheck("https://auth.example.com".toHttpUrl(), "android", KeystoreStorage(context))
//     val page = coatcheck.start("cloudentity")                 // open it; the browser comes back to the app
//     when (val signIn = coatcheck.finish(callback)) {
//         is SignIn.SignedIn -> show(signIn.session)
//         is SignIn.Register -> form(signIn.registration)       // Zephr
//     }
package coatcheck

import java.io.IOException
import java.io.InterruptedIOException
import java.math.BigInteger
import java.security.KeyPair
import java.security.MessageDigest
import java.security.SecureRandom
import java.security.Signature
import java.security.interfaces.ECPublicKey
import java.util.Random
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import okhttp3.Call
import okhttp3.HttpUrl
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import okio.BufferedSink
import okio.ByteString
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
    /** The key that it belongs to; null for a session that whoever has its secret may use. */
    val binding: Binding? = json.optJSONObject("binding")?.let { Binding(it.getString("jkt"), it.getString("evidence")) }

    /** Of a child session its kind, the configuration's word, and the handle of its parent. */
    val kind: String? = if (json.isNull("kind")) null else json.optString("kind")
    val parent: String? = if (json.isNull("parent")) null else json.optString("parent")

    /** A key, by its thumbprint (RFC 7638), and the evidence that requests may show: `pass` (or a proof), or `proof`. */
    class Binding(val jkt: String, val evidence: String)
}

/** A session for another process of the app, with its token, which that process sends as `Authorization: Bearer`. */
class Child(val session: Session, val token: String)

/** The cookie that a web view's store has to have before it loads the address of a hand-over. */
class HandOverCookie(val origin: String, val name: String, val value: String) {
    /** As `CookieManager.setCookie(origin, field, callback)` takes it. */
    val field: String
        get() = "$name=$value; Path=/; HttpOnly; SameSite=Strict; Max-Age=60" + if (origin.startsWith("https:")) "; Secure" else ""
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
    /** [reason]: why the last session ended, if one did just now; `key_lost`: the device lost the session's key. */
    class SignedOut(val reason: String?) : Standing()
    /** The broker cannot be asked at the moment: nobody is signed out. Show who was there last. */
    class Unknown(val last: Session?) : Standing()
}

/** A refusal of the broker's (RFC 9457). Decide on [code]; put [requestId] into bug reports. */
class Problem(val json: JSONObject) : Exception("${json.optString("code")}: ${json.optString("detail")}") {
    val status: Int = json.getInt("status")
    val code: String = json.getString("code")
    val requestId: String = json.getString("request_id")
    /** Why a session ended, or a proof is not accepted. */
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

/** The key that the session belongs to is not on this device any more (a restored back-up, a new phone): sign in again. */
class KeyLost : Exception("this device has to be signed in again: its key is gone")

/**
 * A P-256 key of this device, to which its sessions belong (docs/bound-sessions.md): who copies the cookie or the token opens
 * nothing without it. On Android it is a `KeystoreProofKey`.
 */
interface ProofKey {
    /** The public key; null where there is none, yet or any more. Throws where the device cannot say so now: that is not a lost key. */
    fun publicKey(): ProofPublicKey?
    /** Makes a key, in place of one that no longer signs; called by sign-ins alone. */
    fun make(): ProofPublicKey
    /** The ES256 signature: r and s, 32 bytes each. Throws a [KeyLost] where the key will never sign again. */
    fun sign(bytes: ByteArray): ByteArray
}

/** The public half of a [ProofKey]: the coordinates of its point. */
class ProofPublicKey(x: BigInteger, y: BigInteger) {
    constructor(key: ECPublicKey) : this(key.w.affineX, key.w.affineY)

    /** The JSON Web Key, its members in the order of their names: the form of which RFC 7638 takes the thumbprint. */
    val jwk: String = """{"crv":"P-256","kty":"EC","x":"${base64Url(x.word())}","y":"${base64Url(y.word())}"}"""
    /** The thumbprint, by which a session names its key. */
    val thumbprint: String = base64Url(sha256(jwk))
}

/** A [ProofKey] by the platform's own cryptography: what is left to say is where the pair of keys is. */
abstract class PlatformProofKey : ProofKey {
    /** The pair; null where there is none. */
    protected abstract fun pair(): KeyPair?

    override fun publicKey(): ProofPublicKey? = pair()?.let { ProofPublicKey(it.public as ECPublicKey) }

    override fun sign(bytes: ByteArray): ByteArray {
        val signature = Signature.getInstance("SHA256withECDSA")
        signature.initSign((pair() ?: throw KeyLost()).private)
        signature.update(bytes)
        return raw(signature.sign())
    }

    /** Turns a signature's two numbers from DER into 32 bytes each. */
    private fun raw(der: ByteArray): ByteArray {
        val first = der[3].toInt()
        val second = der[5 + first].toInt()
        return BigInteger(der.copyOfRange(4, 4 + first)).word() + BigInteger(der.copyOfRange(6 + first, 6 + first + second)).word()
    }
}

/** A bound session's evidence for some minutes: when it came by the device's clock, in milliseconds, and its life in seconds. */
class Pass(val value: String, val received: Long, val lifetime: Double) {
    /** Whether it is time for another: in the last minute or quarter of its life, and after a clock was set back. */
    internal fun isDue(now: Long): Boolean {
        val age = (now - received) / 1000.0
        return age < 0 || age > lifetime - minOf(60.0, lifetime / 4)
    }
}

/** A login that the app started itself, or a native SDK's code: keep it until the session is there, over a restart of the app, too. */
class AppLogin(
    val provider: String, val client: String, val state: String? = null, val verifier: String? = null, val nonce: String? = null,
    /** The secret of this attempt: who brings it again gets the same session. */
    val loginToken: String = randomToken()
) {
    fun toJson(): String = JSONObject().put("provider", provider).put("client", client).put("state", state)
        .put("verifier", verifier).put("nonce", nonce).put("login_token", loginToken).toString()

    companion object {
        fun fromJson(text: String): AppLogin {
            val json = JSONObject(text)
            return AppLogin(
                json.getString("provider"), json.getString("client"), json.text("state"), json.text("verifier"),
                json.text("nonce"), json.getString("login_token"))
        }

        private fun randomToken(): String {
            val alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
            val random = SecureRandom()
            return (0 until 43).map { alphabet[random.nextInt(64)] }.joinToString("")
        }
    }
}

/** A session that was signed out here while the broker could not be told. */
class Ending(val session: String, val bearer: Boolean)

/** What a device keeps. The login's secret has to survive until the session is there, over a restart of the app, too. */
class Credentials(
    val session: String? = null, val login: String? = null, val loginId: String? = null, val bearer: Boolean = false,
    val lastSession: JSONObject? = null,
    /** The sessions that the broker has still to be told to end, the newest eight. */
    val endings: List<Ending> = emptyList(),
    /** A bound session's pass. */
    val pass: Pass? = null
) {
    fun toJson(): String = JSONObject().put("session", session).put("login", login).put("login_id", loginId)
        .put("bearer", bearer).put("last_session", lastSession)
        .put("pass", pass?.let { JSONObject().put("value", it.value).put("received", it.received).put("lifetime", it.lifetime) })
        .put("endings", JSONArray(endings.map { JSONObject().put("session", it.session).put("bearer", it.bearer) })).toString()

    internal val isEmpty: Boolean get() = session == null && login == null && endings.isEmpty()

    internal fun with(lastSession: JSONObject?) = Credentials(session, login, loginId, bearer, lastSession, endings, pass)
    internal fun with(endings: List<Ending>) = Credentials(session, login, loginId, bearer, lastSession, endings, pass)
    internal fun with(pass: Pass?) = Credentials(session, login, loginId, bearer, lastSession, endings, pass)
    /** The key that the session belongs to; unknown where it is not known whose session it is. */
    internal val binding: Session.Binding? get() = lastSession?.let { Session(it).binding }
    internal fun signedOut() = Credentials(
        bearer = bearer, endings = (if (session == null) endings else endings + Ending(session, bearer)).takeLast(8))

    companion object {
        fun fromJson(text: String): Credentials {
            val json = JSONObject(text)
            val endings = json.optJSONArray("endings")?.objects() ?: emptyList()
            return Credentials(
                json.text("session"), json.text("login"), json.text("login_id"), json.optBoolean("bearer"),
                json.optJSONObject("last_session"), endings.map { Ending(it.getString("session"), it.optBoolean("bearer")) },
                json.optJSONObject("pass")?.let { Pass(it.getString("value"), it.getLong("received"), it.getDouble("lifetime")) })
        }
    }
}

/** Where a device keeps its credentials: a file encrypted by a key of the Android Keystore, left out of backups. */
interface CredentialStorage {
    /** Returns what is kept; null where nothing is. Throws where it cannot be read now: that is not a user who signed out. */
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
    /** The last one; the credentials are forgotten. The reason is the broker's, or `key_lost`. */
    fun ended(reason: String?)
}

/** One use of [Coatcheck.listen], which another thread may stop. */
class Listening {
    private val end = CountDownLatch(1)
    private var call: Call? = null

    val stopped: Boolean get() = end.count == 0L

    /** Ends it at once. */
    fun stop() {
        end.countDown()
        synchronized(this) { call }?.cancel()
    }

    internal fun begin(next: Call): Call {
        synchronized(this) { call = next }
        if (stopped) next.cancel()
        return next
    }

    internal fun pause(millis: Long) { end.await(millis, TimeUnit.MILLISECONDS) }
}

/**
 * The evidence that a call shows of a bound session's key: a proof that makes the new session belong to it; a pass, or a proof
 * where the client's sessions want one each; a proof, where the call gives what outlives a pass.
 */
private enum class Evidence { NONE, SIGN_IN, SESSION, PROOF }

/** A call's evidence, put right where the broker refuses it: in each way once, so that no refusal makes a loop. */
private class Mending {
    /** Whether the broker said that this session is a bound one, whatever is known of it here. */
    var bound = false
    private var nonce = false
    private var fresh = false

    fun mends(problem: Problem, evidence: Evidence, repeatable: Boolean): Boolean {
        val refused = if (problem.code == "proof_invalid") problem.reason else problem.code
        return when {
            refused == "use_dpop_nonce" -> !nonce.also { nonce = true }
            evidence == Evidence.SIGN_IN -> false
            refused == "proof_required" || refused == "pass" -> !bound.also { bound = true }
            // The network sent it twice: the other one may have done what it asks for.
            refused == "replayed" && repeatable -> !fresh.also { fresh = true }
            else -> false
        }
    }
}

/**
 * A broker, as one app on one device sees it. Make one and share it; two accounts on one device are two, each with a storage of
 * its own. [transport] is for a proxy or pinned certificates. With a [key] sessions belong to it, where the broker binds this
 * client's.
 */
class Coatcheck(
    private val broker: HttpUrl, private val client: String?, private val storage: CredentialStorage,
    private val deadlineMillis: Long = 60_000, transport: OkHttpClient = OkHttpClient(), private val key: ProofKey? = null
) {
    // No cookie jar: the one cookie is kept with the credentials. No redirects: an upstream's is the app's to judge.
    private val http: OkHttpClient = transport.newBuilder().followRedirects(false).followSslRedirects(false)
        .retryOnConnectionFailure(false).readTimeout(40, TimeUnit.SECONDS).build()
    private val random = Random()
    // Held round each change of what is kept, reading and writing, and never while the network is waited for.
    private val keeping = Any()
    private var ending = false
    private val asking = Any()
    private var asked: Session? = null
    private var generation = 0
    /** The device's clock, which may be wrong. */
    internal var now: () -> Long = { System.currentTimeMillis() }
    @Volatile private var nonce: String? = null
    private val making = Any()
    private val renewing = ReentrantLock()
    @Volatile private var renewals = 0
    private var renewal: Pair<String?, () -> String?>? = null
    // Whether the client's sessions want a proof with each request.
    @Volatile private var provesEach = false

    // ---- Signing in -------------------------------------------------------------------------------------------------

    /** Starts a login and returns the page to open in the system's browser, never in a web view. */
    fun start(provider: String, socialProvider: String? = null, parameters: Map<String, String>? = null): HttpUrl {
        val body = JSONObject().put("provider", provider).put("client", client).put("social_provider", socialProvider)
            .put("parameters", parameters?.let { JSONObject(it) })
        val answer = call("POST", "/v1/logins", body, withSession = false, evidence = Evidence.SIGN_IN)
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

    /** Forwards the callback of a login that the app started with a library of its own (flow B). */
    fun forward(callback: String, login: AppLogin, device: String? = null): SignIn =
        forwarded(forward(login, device).put("callback_url", callback).put("state", login.state).put("code_verifier", login.verifier))

    /** Forwards the code that a provider's own SDK gave the app (clients with `native_code`). */
    fun forwardCode(code: String, login: AppLogin, device: String? = null): SignIn = forwarded(forward(login, device).put("code", code))

    private fun forward(login: AppLogin, device: String?): JSONObject =
        JSONObject().put("provider", login.provider).put("client", login.client).put("nonce", login.nonce)
            .put("login_token", login.loginToken).put("device", device)

    /** The providers that the broker offers, as it tells them: `name`, `kind`, `display_name`, `clients`. */
    fun providers(): List<JSONObject> = call("GET", "/v1/providers", withSession = false, evidence = Evidence.NONE).json().getJSONArray("items").objects()

    /** Finishes a Zephr registration; `registration_rejected` can be corrected once. */
    fun register(registration: Registration, attributes: Map<String, Any>): Session {
        val body = JSONObject().put("provider", registration.provider).put("client", client)
            .put("state_key", registration.stateKey).put("attributes", JSONObject(attributes))
        val kept = kept()
        if (kept.bearer) body.put("login_token", kept.login)
        return made(call("POST", "/v1/registrations", body, evidence = Evidence.SIGN_IN))
    }

    private fun forwarded(body: JSONObject): SignIn {
        val answer = call("POST", "/v1/sessions", body, evidence = Evidence.SIGN_IN)
        return if (answer.status == 202) SignIn.Register(Registration(answer.json())) else SignIn.SignedIn(made(answer))
    }

    private fun made(answer: Answer): Session {
        val json = answer.json()
        val token = if (json.has("session_token")) json.getString("session_token") else null
        val secret = token ?: answer.cookie(cookieName) ?: throw Unreachable("a session without its secret")
        json.remove("session_token")
        val pass = pass(json.remove("pass") as? JSONObject, answer)
        change { Credentials(session = secret, bearer = token != null, lastSession = json, endings = it.endings, pass = pass) }
        return Session(json)
    }

    private fun keep(login: JSONObject, answer: Answer): HttpUrl {
        val token = if (login.has("login_token")) login.getString("login_token") else null
        change {
            Credentials(
                it.session, token ?: answer.cookie("$cookieName-login") ?: it.login, login.getString("login_id"),
                token != null, it.lastSession, it.endings, it.pass)
        }
        return url(login.getString("authorization_url"))
    }

    // ---- The session ------------------------------------------------------------------------------------------------

    /** How things stand, for the start of the app, within two seconds: signs nobody out for want of a network. */
    fun standing(): Standing {
        val kept = try { kept() } catch (locked: Exception) { return Standing.Unknown(null) }
        val last = try { kept.lastSession?.let { Session(it) } } catch (other: JSONException) { null }
        if (kept.session == null) {
            endSessions()
            return Standing.SignedOut(null)
        }
        return try {
            Standing.SignedIn(remembered("GET", "/v1/session", 2_000))
        } catch (problem: Problem) {
            if (problem.endsSession) Standing.SignedOut(problem.reason) else Standing.Unknown(last)
        } catch (gone: KeyLost) {
            Standing.SignedOut("key_lost")
        } catch (later: Exception) {
            // Without a network, or with a Keystore that is busy.
            Standing.Unknown(last)
        }
    }

    /** Who is signed in; calls that come while one is under way share its answer. */
    fun session(): Session {
        val before = synchronized(this) { generation }
        synchronized(asking) {
            val shared = synchronized(this) { if (generation != before) asked else null }
            if (shared != null) return shared
            val session = remembered("GET", "/v1/session")
            synchronized(this) { asked = session; generation += 1 }
            return session
        }
    }

    /** The provider's access token, for an SDK on the device (clients with `hand_out_access_token`). */
    fun accessToken(): JSONObject = call("POST", "/v1/session/token", evidence = Evidence.PROOF).json()

    /** Has the broker refresh the provider's tokens now. An app need not: the broker does it when it has to. */
    fun refresh(): Session = remembered("POST", "/v1/session/refresh")

    /**
     * Signs out here, with or without a network: nothing of the session stays usable on the device. Where the broker cannot be
     * told now, it is told with the next call that goes through, after a restart of the app, too. With [atProvider] returns
     * the provider's log-out page to open, where it has one and the broker was reached.
     */
    fun signOut(atProvider: Boolean = false): HttpUrl? {
        var before: Credentials? = null
        val ending = change { before = it; it.signedOut() }.endings.lastOrNull() ?: return null
        val answer = try {
            end(ending, if (atProvider) before else null)
        } catch (problem: Problem) {
            if (problem.passes) return null else throw problem
        } catch (gone: KeyLost) {
            // An ending needs no key; the page is told to none without one.
            endSessions()
            return null
        } catch (nobody: IOException) {
            return null
        }
        if (!atProvider) return null
        val json = answer.json()
        return if (json.isNull("logout_url")) null else url(json.getString("logout_url"))
    }

    /** Ends a session that was signed out here, and forgets its secret; with what was kept before it asks for the provider's page. */
    private fun end(ending: Ending, before: Credentials? = null): Answer {
        // An ending needs no evidence; with it the broker tells the page, too.
        val answer = repeat(
            "/v1/session" + (if (before == null) "" else "?logout_url=true"), "DELETE", null,
            Credentials(ending.session, bearer = ending.bearer, lastSession = before?.lastSession, pass = before?.pass), true, deadlineMillis,
            if (before == null) Evidence.NONE else Evidence.SESSION
        ) { it.status in 200..299 }
        change { kept -> kept.with(endings = kept.endings.filter { it.session != ending.session }) }
        return answer
    }

    /** Tells the broker, on a thread of its own, of the sessions that were signed out while it could not be told. */
    private fun endSessions() {
        val endings = synchronized(keeping) {
            val endings = try { kept().endings } catch (locked: Exception) { emptyList<Ending>() }
            if (ending || endings.isEmpty()) return
            ending = true
            endings
        }
        Thread {
            try {
                for (one in endings) end(one)
            } catch (later: Exception) {
                // With the next call that goes through.
            } finally {
                synchronized(keeping) { ending = false }
            }
        }.apply { isDaemon = true }.start()
    }

    /**
     * Makes a session for a widget, a watch or an extension behind this one: one refresh serves both, and it ends with this one.
     * [kind] is the configuration's word, [name] says which; the one that had this place before has ended. Of a bound session
     * [jkt], the thumbprint of the child's own key, is needed.
     */
    fun child(kind: String, name: String, device: String? = null, jkt: String? = null): Child {
        val body = JSONObject().put("kind", kind).put("name", name).put("device", device).put("jkt", jkt)
        val made = call("POST", "/v1/session/children", body, evidence = Evidence.PROOF).json()
        return Child(Session(made), made.getString("session_token"))
    }

    /**
     * Hands the session over to a page in a web view of the app's own, and returns the address to load there. [put] sets the
     * cookie in the web view's store and returns when it is in: the address is worth nothing without it. A page that shows
     * `verifier_mismatch` was loaded before that: load the address once more.
     */
    fun handOver(origin: String, path: String = "/", put: (HandOverCookie) -> Unit): String {
        val secret = base64Url(ByteArray(32).also { SecureRandom().nextBytes(it) })
        val body = JSONObject().put("origin", origin).put("path", path).put("challenge", base64Url(sha256(secret)))
        val answer = call("POST", "/v1/session/handovers", body, evidence = Evidence.PROOF).json()
        put(HandOverCookie(origin, (if (origin.startsWith("https:")) "__Host-" else "") + "coatcheck-handover", secret))
        return answer.getString("url")
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

    private fun remembered(method: String, path: String, deadline: Long = deadlineMillis): Session {
        val sent = kept()
        val answer = repeat(path, method, if (method == "POST") Bytes(ByteArray(0)) else null, null, true, deadline, Evidence.SESSION) { it.status in 200..299 }
        endSessions()
        return remember(answer.json(), sent.session)
    }

    /** Keeps who is signed in, where the session is still the one that was asked about. */
    private fun remember(json: JSONObject, sent: String?): Session {
        change { if (sent != null && it.session == sent) it.with(lastSession = json) else it }
        return Session(json)
    }

    // ---- Relay and events -------------------------------------------------------------------------------------------

    /**
     * Calls an upstream API with the session's access token, which the app never sees. A call that may have reached the
     * upstream is sent again only where its method is idempotent.
     */
    fun relay(upstream: String, path: String, method: String = "GET", body: RequestBody? = null): RelayAnswer {
        val idempotent = method in listOf("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
        val answer = repeat("/v1/relay/$upstream/$path", method, body, null, idempotent, deadlineMillis, Evidence.SESSION) { it.source == "upstream" }
        return RelayAnswer(answer.status, answer.contentType, answer.body)
    }

    /**
     * Listens until the session ends or [listening] is stopped; reconnects by itself. Listen in the foreground only: the first
     * event after a reconnect tells how things stand.
     */
    fun listen(listener: SessionListener, listening: Listening = Listening()) {
        // The broker says something every 25 seconds.
        val patient = http.newBuilder().readTimeout(60, TimeUnit.SECONDS).build()
        var tries = 0
        var mending = Mending()
        while (!listening.stopped) {
            var pause = (500L shl minOf(tries, 5)) + random.nextInt(500)
            try {
                val credentials = kept()
                val sent = credentials.session
                // By a proof: opened by a pass it would end with that.
                val shown = shown(Evidence.PROOF, "GET", "/v1/session/events", credentials, mending, deadlineMillis)
                val request = request("GET", "/v1/session/events", null, credentials, shown)
                var mended = false
                val over = listening.begin(patient.newCall(request)).execute().use { response ->
                    if (response.code == 200) {
                        tries = 0
                        mending = Mending()
                        keepNonce(response)
                        events(response, listener, request, sent)
                    } else {
                        keepNonce(response)
                        val answer = Answer(response)
                        val problem = answer.problem() ?: throw Unreachable("status ${answer.status}")
                        learn(problem, answer, request)
                        mended = mends(problem, Evidence.PROOF, true, mending, request, sent)
                        if (problem.endsSession) listener.ended(problem.reason) else if (!problem.passes && !mended) throw problem
                        answer.retryAfter?.let { pause = maxOf(pause, it * 1000) }
                        problem.endsSession
                    }
                }
                if (over) return
                if (mended) continue
            } catch (lost: IOException) {
                // Again, after the pause.
            } catch (gone: KeyLost) {
                return listener.ended("key_lost")
            }
            listening.pause(pause)
            tries += 1
        }
    }

    private fun events(response: Response, listener: SessionListener, request: Request, sent: String?): Boolean {
        val source = response.body!!.source()
        var name = ""
        var data = ""
        while (true) {
            val line = source.readUtf8Line() ?: return false
            when {
                line.startsWith("event: ") -> name = line.substring(7)
                line.startsWith("data: ") -> data += line.substring(6)
                line == "" -> {
                    when (name) {
                        "session" -> listener.session(remember(JSONObject(data), sent))
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
    }

    // ---- Calls ------------------------------------------------------------------------------------------------------

    private val cookieName: String = if (broker.isHttps) "__Host-coatcheck" else "coatcheck"

    private fun kept(): Credentials = storage.read() ?: Credentials()

    /** Changes what is kept: the only place that writes it. */
    private fun change(work: (Credentials) -> Credentials): Credentials = synchronized(keeping) {
        val before = kept()
        val after = work(before)
        if (after !== before) storage.write(if (after.isEmpty) null else after)
        after
    }

    private fun request(method: String, path: String, body: RequestBody?, kept: Credentials, shown: Shown): Request {
        val url = url(path)
        // OkHttp takes dot segments out of a path: what it would send has to be what was asked for.
        val sent = "/" + url.toString().substringAfter("://").substringAfter('/')
        require(sent.substringBefore('?') == path.substringBefore('?')) { "a path that could be read in more than one way" }
        val builder = Request.Builder().url(url)
        builder.method(method, body ?: if (method in listOf("POST", "PUT", "PATCH")) Bytes(ByteArray(0)) else null)
        if (body is Bytes) builder.header("Content-Type", "application/json")
        if (kept.bearer) {
            if (kept.session != null) builder.header("Authorization", "Bearer ${kept.session}")
            if (shown.pass != null) builder.header("Coatcheck-Pass", shown.pass)
        } else {
            val cookies = ArrayList<String>()
            if (kept.session != null) cookies += "$cookieName=${kept.session}"
            if (kept.login != null) cookies += "$cookieName-login=${kept.login}"
            if (shown.pass != null) cookies += "$cookieName-pass=${shown.pass}"
            if (cookies.isNotEmpty()) builder.header("Cookie", cookies.joinToString("; "))
        }
        if (shown.proof != null) builder.header("DPoP", shown.proof)
        return builder.build()
    }

    private fun call(
        method: String, path: String, body: JSONObject? = null, withSession: Boolean = true, evidence: Evidence = Evidence.SESSION
    ): Answer {
        val bytes = body?.let { Bytes(it.toString().toByteArray()) }
        // A login is started without the session, which need not be this login's user's.
        val credentials = if (withSession) null else kept().let { Credentials(login = it.login, loginId = it.loginId, bearer = it.bearer) }
        val answer = repeat(path, method, bytes, credentials, true, deadlineMillis, evidence) { it.status in 200..299 }
        endSessions()
        return answer
    }

    /** Sends a request, again as long as that helps and the deadline lasts: docs/native-apps.md has the table. */
    private fun repeat(
        path: String, method: String, body: RequestBody?, credentials: Credentials?, idempotent: Boolean, deadline: Long,
        evidence: Evidence, good: (Answer) -> Boolean
    ): Answer {
        val begin = System.nanoTime()
        val mending = Mending()
        var tries = 0
        while (true) {
            var failure: Exception
            var pause = (200L shl minOf(tries, 6)) + random.nextInt(200)
            // However short the deadline is, the first try has its second. A relayed body may be long: only silence ends it.
            val first = if (tries == 0) 1_000L else 1L
            val limit = maxOf(first, deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin))
            val caller = if (path.startsWith("/v1/relay/")) http else http.newBuilder().callTimeout(limit, TimeUnit.MILLISECONDS).build()
            val sent = credentials ?: kept()
            var isSent = false
            try {
                val shown = try {
                    shown(evidence, method, path, sent, mending, limit)
                } catch (refused: Problem) {
                    if (refused.passes) throw Unreachable("${refused.code}: no pass") else throw refused
                }
                val request = request(method, path, body, sent, shown)
                isSent = true
                val answer = send(caller, request)
                if (good(answer)) return answer
                // A proxy's page says as little about the session as no answer at all.
                val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
                learn(problem, answer, request)
                if (mends(problem, evidence, idempotent, mending, request, sent.session)) continue
                // A 408 may have reached an upstream in part; a 503 and a 429 of the broker's have not reached it.
                if (!problem.passes || (!idempotent && problem.code == "request_timeout")) throw problem
                failure = problem
                answer.retryAfter?.let { pause = it * 1000 + random.nextInt(250) }
            } catch (lost: IOException) {
                if ((isSent && !idempotent) || Thread.currentThread().isInterrupted) throw lost
                failure = lost
            }
            val left = deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin)
            if (pause > minOf(left, 30_250)) throw failure
            try {
                Thread.sleep(pause)
            } catch (cancelled: InterruptedException) {
                Thread.currentThread().interrupt()
                throw InterruptedIOException("cancelled")
            }
            tries += 1
        }
    }

    private fun send(caller: OkHttpClient, request: Request): Answer = running(caller.newCall(request)) { call ->
        call.execute().use {
            keepNonce(it)
            Answer(it)
        }
    }

    private val calls = ConcurrentHashMap<Thread, Call>()

    private fun <Value> running(call: Call, work: (Call) -> Value): Value {
        calls[Thread.currentThread()] = call
        try {
            if (Thread.currentThread().isInterrupted) throw InterruptedIOException("cancelled")
            return work(call)
        } finally {
            calls.remove(Thread.currentThread())
        }
    }

    /** Has the call that a thread waits in come back at once, with an [InterruptedIOException] or another [IOException]. */
    fun cancel(thread: Thread) {
        thread.interrupt()
        calls[thread]?.cancel()
    }

    private fun learn(problem: Problem, answer: Answer, request: Request) {
        if (problem.endsSession) forget(request)
        problem.json.optJSONObject("login")?.let { keep(it, answer) }
    }

    /** Forgets the session, unless another took its place while the answer was under way. */
    private fun forget(request: Request) {
        val sent = (request.header("Cookie") ?: "") + (request.header("Authorization") ?: "")
        forget { sent.contains(it) }
    }

    private fun forget(isMeant: (String) -> Boolean) {
        change {
            if (it.session == null || !isMeant(it.session)) it
            else Credentials(login = it.login, loginId = it.loginId, bearer = it.bearer, endings = it.endings)
        }
    }

    // ---- Evidence of a bound session --------------------------------------------------------------------------------

    private class Shown(val pass: String? = null, val proof: String? = null)

    /**
     * A bound session's pass for requests of the app's own, sent as `Coatcheck-Pass`; renewed where it is due, null where the
     * session needs none.
     */
    fun pass(): String? {
        val kept = kept()
        if (kept.session == null || (kept.lastSession != null && kept.binding?.evidence != "pass")) return null
        return keeping(kept.session) { pass(kept, deadlineMillis) }
    }

    /** The evidence that a request needs. */
    private fun shown(evidence: Evidence, method: String, path: String, sent: Credentials, mending: Mending, limit: Long): Shown {
        val address = url(path).toString().substringBefore('?')
        if (evidence == Evidence.SIGN_IN) return Shown(proof = key?.let { signInProof(it, method, address) })
        if (evidence == Evidence.NONE || sent.session == null) return Shown()
        val binding = sent.binding
        if (evidence == Evidence.SESSION) {
            // It may be bound all the same, where a storage forgot whose it is.
            if (!mending.bound && binding == null) return Shown(sent.pass?.value)
            if (!provesEach && binding?.evidence != "proof") {
                keeping(sent.session) { pass(sent, limit) }?.let { return Shown(it) }
            }
        } else if (sent.lastSession != null && binding == null && !mending.bound) {
            return Shown()
        }
        return Shown(proof = key?.let { keeping(sent.session) { sessionProof(it, method, address, sent) } })
    }

    /** Forgets the session whose key is lost. The broker is not told: it may go on where the key is, as on a back-up's phone. */
    private fun <Value> keeping(session: String, work: () -> Value): Value = try {
        work()
    } catch (gone: KeyLost) {
        forget { it == session }
        throw gone
    }

    /** Whether a refused request is sent again at once; forgets a pass that was refused. Throws where the key is not this device's. */
    private fun mends(
        problem: Problem, evidence: Evidence, repeatable: Boolean, mending: Mending, request: Request, session: String?
    ): Boolean {
        if (problem.status != 401 || key == null) return false
        if (problem.code == "proof_invalid" && problem.reason == "key") {
            forget { it == session }
            throw KeyLost()
        }
        if (!mending.mends(problem, evidence, repeatable)) return false
        val sent = (request.header("Cookie") ?: "") + (request.header("Coatcheck-Pass") ?: "")
        if (problem.code == "proof_required" || problem.reason == "pass") {
            change { if (it.pass != null && sent.contains(it.pass.value)) it.with(pass = null) else it }
        }
        return true
    }

    private fun keepNonce(response: Response) { response.header("DPoP-Nonce")?.let { nonce = it } }

    /** Signs a request that makes a login or a session: a device without a key makes one. */
    private fun signInProof(key: ProofKey, method: String, address: String): String {
        val known = key.publicKey() ?: made(key, null)
        return try {
            proof(key, known, method, address)
        } catch (gone: KeyLost) {
            proof(key, made(key, known), method, address)
        }
    }

    private fun sessionProof(key: ProofKey, method: String, address: String, sent: Credentials): String {
        val known = key.publicKey() ?: throw KeyLost()
        val jkt = sent.binding?.jkt
        if (jkt != null && jkt != known.thumbprint) throw KeyLost()
        return proof(key, known, method, address, sent.session)
    }

    /** A DPoP proof (RFC 9449); its time is that of the device's clock, which may be wrong: the nonce decides. */
    private fun proof(key: ProofKey, known: ProofPublicKey, method: String, address: String, session: String? = null): String {
        val unlikeOthers = ByteArray(16).also { SecureRandom().nextBytes(it) }
        val claims = JSONObject().put("jti", base64Url(unlikeOthers)).put("htm", method).put("htu", address).put("iat", now() / 1000)
            .put("nonce", nonce).put("ath", session?.let { base64Url(sha256(it)) })
        val header = """{"typ":"dpop+jwt","alg":"ES256","jwk":${known.jwk}}"""
        val text = base64Url(header.toByteArray()) + "." + base64Url(claims.toString().toByteArray())
        return text + "." + base64Url(key.sign(text.toByteArray()))
    }

    /** Makes a key, one for all sign-ins that want one, unless there is another than the one that was lost by now. */
    private fun made(key: ProofKey, lost: ProofPublicKey?): ProofPublicKey = synchronized(making) {
        val known = key.publicKey()
        if (known != null && known.thumbprint != lost?.thumbprint) known else key.make()
    }

    /** The kept pass, or a new one where that is due; null where the client's sessions want proofs. */
    private fun pass(sent: Credentials, limit: Long): String? {
        val pass = passOf(sent)
        if (pass != null && (key == null || !pass.isDue(now()))) return pass.value
        if (key == null) return null
        return try {
            renewed(sent, limit)
        } catch (later: Exception) {
            // Without a network, or with a key that cannot be asked now, it is shown once more.
            val passes = later !is KeyLost && (later !is Problem || later.passes) && !Thread.currentThread().isInterrupted
            if (pass != null && passes) pass.value else throw later
        }
    }

    private fun passOf(sent: Credentials): Pass? = kept().let { if (it.session == sent.session) it.pass else sent.pass }

    /** Gets a pass by a proof; calls that come while one is under way share what comes of it. */
    private fun renewed(sent: Credentials, limit: Long): String? {
        val before = renewals
        try {
            if (!renewing.tryLock(limit, TimeUnit.MILLISECONDS)) throw Unreachable("the pass is still being renewed")
        } catch (cancelled: InterruptedException) {
            Thread.currentThread().interrupt()
            throw InterruptedIOException("cancelled")
        }
        try {
            val shared = renewal
            if (renewals != before && shared != null && shared.first == sent.session) return shared.second()
            // Another call may have renewed it just before.
            passOf(sent)?.let { if (!it.isDue(now())) return it.value }
            var result: () -> String? = { null }
            try {
                val value = renew(sent, limit)
                result = { value }
                return value
            } catch (failed: Exception) {
                result = { throw failed }
                throw failed
            } finally {
                // Who was cancelled leaves it to the next.
                if (!Thread.currentThread().isInterrupted) {
                    renewal = Pair(sent.session, result)
                    renewals += 1
                }
            }
        } finally {
            renewing.unlock()
        }
    }

    private fun renew(sent: Credentials, limit: Long): String? {
        val caller = http.newBuilder().callTimeout(limit, TimeUnit.MILLISECONDS).build()
        val mending = Mending()
        while (true) {
            val shown = shown(Evidence.PROOF, "POST", "/v1/session/pass", sent, mending, limit)
            val request = request("POST", "/v1/session/pass", null, sent, shown)
            val answer = send(caller, request)
            if (answer.status == 200) {
                val pass = pass(answer.json(), answer) ?: throw Unreachable("an answer without a pass")
                change { if (it.session == sent.session) it.with(pass = pass) else it }
                return pass.value
            }
            val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
            if (problem.code == "client_not_allowed") {
                provesEach = true
                return null
            }
            learn(problem, answer, request)
            if (!mends(problem, Evidence.PROOF, true, mending, request, sent.session)) throw problem
        }
    }

    /** The pass that an answer brings. */
    private fun pass(json: JSONObject?, answer: Answer): Pass? {
        val value = (json ?: return null).text("pass") ?: answer.cookie("$cookieName-pass") ?: return null
        return Pass(value, now(), json.getDouble("expires_in"))
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

private fun base64Url(bytes: ByteArray): String = ByteString.of(*bytes).base64Url().trimEnd('=')

private fun sha256(text: String): ByteArray = MessageDigest.getInstance("SHA-256").digest(text.toByteArray())

/** A number as 32 bytes. */
private fun BigInteger.word(): ByteArray = toByteArray().let { ByteArray(maxOf(0, 32 - it.size)) + it.takeLast(32).toByteArray() }

private fun JSONObject.text(name: String): String? = if (isNull(name)) null else getString(name)

private fun JSONArray.objects(): List<JSONObject> = (0 until length()).map { getJSONObject(it) }
