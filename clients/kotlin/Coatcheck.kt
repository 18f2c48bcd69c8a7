// Made by scripts/build-clients from clients/kotlin/sources; not for editing.
//
// A client of Coatcheck for Android, in one file to copy. It needs only OkHttp and org.json, which is part of Android. The
// file uses only features that OkHttp 3, 4 and 5 share. With OkHttp 3, also copy OkHttp3.kt. (The project's tests compile
// it with OkHttp 3 and Kotlin 1.3.)
//
// Every call blocks. Call it from a background thread, or from a coroutine with Coroutines.kt. android/CustomTabSignIn.kt
// opens the sign-in page in a Custom Tab, and android/KeystoreProofKey.kt is a key in the Android Keystore.
//
//     val coatcheck = Coatcheck("https://auth.example.com".toHttpUrl(), "android", KeystoreStorage(context))
//     val page = coatcheck.start("oidc")                        // open it; the browser comes back to the app
//     when (val signIn = coatcheck.finish(callback)) {
//         is SignIn.SignedIn -> show(signIn.session)
//         is SignIn.Register -> form(signIn.registration)       // Zephr
//     }
package coatcheck

import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InterruptedIOException
import java.io.RandomAccessFile
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

// ==== sources/Values.kt =================================================================================================
// The values that an app gives and receives: sessions, outcomes, demands, errors, and listeners.

/** The session of the signed-in user, as the broker reports it, without tokens. [json] has every member. */
class Session(val json: JSONObject) {
    val handle: String = json.getString("handle")
    /**
     * The number of this state, or null from an older broker. The client never replaces a state by one with a lower number.
     */
    val version: Long? = if (json.has("version")) json.getLong("version") else null
    val provider: String = json.getString("provider")
    val client: String = json.getString("client")
    val subject: String = json.getString("subject")
    val identity: JSONObject = json.getJSONObject("identity")
    val expiresAt: String = json.getString("expires_at")
    val name: String? = if (identity.isNull("name")) null else identity.optString("name")
    /** The session's key, or null for an unbound session. */
    val binding: Binding? = json.optJSONObject("binding")?.let { Binding(it.getString("jkt"), it.getString("evidence")) }

    /** The strength (`acr`), the methods (`amr`) and the time of the last sign-in at the provider, if the provider sent them. */
    val acr: String? = json.text("acr")
    val amr: List<String> = json.optJSONArray("amr")?.let { all -> (0 until all.length()).map { all.getString(it) } } ?: emptyList()
    val authenticatedAt: String? = json.text("authenticated_at")
    /** The thumbprint of the key that proves the user's presence, or null before a registration. */
    val presence: String? = json.optJSONObject("presence")?.getString("jkt")

    /** The kind of a child session, as the configuration names it, and the handle of its parent. */
    val kind: String? = if (json.isNull("kind")) null else json.optString("kind")
    val parent: String? = if (json.isNull("parent")) null else json.optString("parent")

    /** A key, as its thumbprint (RFC 7638), and the evidence that requests may send: `pass` (or a proof), or `proof`. */
    class Binding(val jkt: String, val evidence: String)
}

/** A session for another process of the app, with its token, which that process sends as `Authorization: Bearer`. */
class Child(val session: Session, val token: String)

/** The cookie of a hand-over. A web view's store must have it before the web view loads the address. */
class HandOverCookie(val origin: String, val name: String, val value: String) {
    /** The form that `CookieManager.setCookie(origin, field, callback)` accepts. */
    val field: String
        get() = "$name=$value; Path=/; HttpOnly; SameSite=Strict; Max-Age=60" + if (origin.startsWith("https:")) "; Secure" else ""
}

/** A Zephr partial registration. Show a form with its [fields], then call [Coatcheck.register]. */
class Registration(json: JSONObject) {
    class Field(val name: String, val type: String, val required: Boolean)

    val provider: String = json.getString("provider")
    val stateKey: String = json.getString("state_key")
    val identifier: String? = if (json.isNull("identifier")) null else json.getString("identifier")
    val fields: List<Field> = json.getJSONArray("fields").objects().map {
        Field(it.getString("name"), it.getString("type"), it.getBoolean("required"))
    }
}

/** The outcome of a sign-in. */
sealed class SignIn {
    class SignedIn(val session: Session) : SignIn()
    class Register(val registration: Registration) : SignIn()
    /** The user came from the provider's portal. Open this page like the first one. The browser returns at once. */
    class OpenOnceMore(val page: HttpUrl) : SignIn()
}

/** The state of the sign-in at the start of an app. */
sealed class Standing {
    class SignedIn(val session: Session) : Standing()
    /**
     * The user is signed out. If a session has just ended, [reason] is the reason of its end, for example `key_lost` if the
     * device lost the session's key.
     */
    class SignedOut(val reason: String?) : Standing()
    /** The broker is unreachable at the moment, and the user stays signed in. Show the last user. */
    class Unknown(val last: Session?) : Standing()
}

/** A demand on the strength and the age of the sign-in: the allowed values of its `acr`, and the largest age in seconds. */
class StepUp(val acrValues: List<String>? = null, val maxAge: Long? = null) {
    internal constructor(json: JSONObject) : this(
        json.text("acr_values")?.split(" ")?.filter { it != "" }, if (json.isNull("max_age")) null else json.getLong("max_age"))

    internal fun toJson(): JSONObject = JSONObject().put("acr_values", acrValues?.joinToString(" ")).put("max_age", maxAge)

    /** Whether a sign-in that meets this demand also meets the demand [other]. */
    internal fun covers(other: StepUp): Boolean {
        val strong = other.acrValues == null || (acrValues != null && other.acrValues.containsAll(acrValues))
        return strong && (other.maxAge == null || (maxAge != null && maxAge <= other.maxAge))
    }

    /** Returns a demand that combines both demands, or null if no `acr` value meets both. */
    internal fun joined(other: StepUp): StepUp? {
        val classes = if (acrValues != null && other.acrValues != null) acrValues.filter { it in other.acrValues } else acrValues ?: other.acrValues
        return if (classes != null && classes.isEmpty()) null else StepUp(classes, if (maxAge != null && other.maxAge != null) minOf(maxAge, other.maxAge) else maxAge ?: other.maxAge)
    }
}

/** A login that the app or a native SDK started. Keep it until the session exists, even over a restart of the app. */
class AppLogin(
    val provider: String, val client: String, val state: String? = null, val verifier: String? = null,
    /** The nonce that the app made, unhashed. The SDK may have received its [hashedNonce]. */
    val nonce: String? = null,
    /** The secret of this attempt. A repeated request with it gets the same session. */
    val loginToken: String = randomToken(),
    /** The scopes that the app asked for, separated by spaces. Set them if they are fewer than the client may ask for. */
    val scope: String? = null,
    /** The redirect address of the login, for [Coatcheck.forwardCode]. Set it if the client has several. */
    val redirectUri: String? = null
) {
    /** The SHA-256 of the nonce in hexadecimal digits, as the SDKs of Google and Apple expect it. */
    val hashedNonce: String? get() = nonce?.let { text -> sha256(text).joinToString("") { "%02x".format(it) } }

    fun toJson(): String = JSONObject().put("provider", provider).put("client", client).put("state", state)
        .put("verifier", verifier).put("nonce", nonce).put("login_token", loginToken)
        .put("scope", scope).put("redirect_uri", redirectUri).toString()

    companion object {
        fun fromJson(text: String): AppLogin {
            val json = JSONObject(text)
            return AppLogin(
                json.getString("provider"), json.getString("client"), json.text("state"), json.text("verifier"),
                json.text("nonce"), json.getString("login_token"), json.text("scope"), json.text("redirect_uri"))
        }

        private fun randomToken(): String {
            val alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
            val random = SecureRandom()
            return (0 until 43).map { alphabet[random.nextInt(64)] }.joinToString("")
        }
    }
}

/** An upstream's response. This includes its 401, which never ends the session. */
class RelayAnswer(val status: Int, val contentType: String?, val body: ByteArray)

/** A browser that opens the sign-in page of a step-up. On Android, use `CustomTabBrowser`. */
interface SignInBrowser {
    /**
     * Opens a page, waits, and returns the whole URL of the callback. Throws a [Cancelled] if the user closes the page.
     * Closes it if the thread is interrupted.
     */
    fun open(page: HttpUrl): String
}

/** A listener for the events of a session. */
interface SessionListener {
    fun session(session: Session)
    fun tokensRefreshed()
    /** Receives the last event. The credentials are already deleted. The reason comes from the broker, or is `key_lost`. */
    fun ended(reason: String?)
}

/** A running [Coatcheck.listen], which another thread may stop. */
class Listening {
    private val end = CountDownLatch(1)
    private var call: Call? = null

    val stopped: Boolean get() = end.count == 0L

    /** Stops listening at once. */
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

/** A refusal by the broker (RFC 9457). To react, use [code]. Put [requestId] into bug reports. */
open class Problem(val json: JSONObject) : Exception("${json.optString("code")}: ${json.optString("detail")}") {
    val status: Int = json.getInt("status")
    val code: String = json.getString("code")
    val requestId: String = json.getString("request_id")
    /** The reason why a session ended or a proof was refused. */
    val reason: String? = if (json.has("reason")) json.getString("reason") else null
    /** The provider's error code, if a standard defines it. */
    val providerError: String? = if (json.has("provider_error")) json.getString("provider_error") else null
    /** The demand, for `step_up_failed`. */
    val required: StepUp? = json.optJSONObject("required")?.let { StepUp(it) }
    /** The result of the sign-in, for `step_up_failed`: `acr` and `authenticated_at`, or null if it is unknown. */
    val got: JSONObject? = json.optJSONObject("got")
    /**
     * Whether a child session needs its parent. For `step_up_required`, the parent steps up and makes a new child. For
     * `presence_required`, the parent makes the call itself.
     */
    val parent: Boolean = json.optBoolean("parent")
    /** Whether the session has ended. */
    val endsSession: Boolean = status == 401 && (code == "session_ended" || code == "session_required")
    /** Whether the same request may succeed after a pause. */
    val passes: Boolean = (status == 503 && json.optString("retry") != "new_login") || status == 429 || status == 408
}

/**
 * A refusal of a call that needs a stronger or more recent sign-in, if no browser was opened. See [Coatcheck.stepUp]. The
 * session is unchanged.
 */
class StepUpRequired(json: JSONObject) : Problem(json) {
    /** The demand, which a step-up has to meet. */
    val stepUp: StepUp = StepUp(json.optJSONObject("step_up") ?: JSONObject())
}

/** The user closed the sign-in page, or refused to show a face, a finger or the device's code. */
class Cancelled : Exception("the user cancelled it")

/**
 * The session's presence key is gone from this device, for example after a new finger was enrolled. Sign in again, and
 * register another key.
 */
class PresenceKeyLost : Exception("this device has to be signed in again: the key that asks for the user is gone")

/** The broker is unreachable, or the response comes from another server. All data is kept. */
class Unreachable(why: String) : IOException(why)

/** The hosted callback contains an error. */
class LoginFailed(val code: String) : Exception(code)

/** The session's key is gone from this device (a restored backup, a new phone). Sign in again. */
class KeyLost : Exception("this device has to be signed in again: its key is gone")

private fun JSONObject.text(name: String): String? = if (isNull(name)) null else getString(name)

private fun JSONArray.objects(): List<JSONObject> = (0 until length()).map { getJSONObject(it) }

// ==== sources/Storage.kt ================================================================================================
// The data that a device keeps, and its changes.

/**
 * The evidence of a bound session, valid for some minutes. [received] is in milliseconds by the device's clock, [lifetime]
 * in seconds.
 */
class Pass(val value: String, val received: Long, val lifetime: Double) {
    /**
     * Whether the pass needs a renewal. It does in the last minute of its lifetime (or the last quarter, if that is shorter),
     * and after the clock was set back.
     */
    internal fun isDue(now: Long): Boolean {
        val age = (now - received) / 1000.0
        return age < 0 || age > lifetime - minOf(60.0, lifetime / 4)
    }
}

/** A session that was signed out on this device while the broker was unreachable. */
class Ending(val session: String, val bearer: Boolean)

/** The data that a device keeps. The login's secret has to survive a restart of the app until the session exists. */
class Credentials(
    val session: String? = null, val login: String? = null, val loginId: String? = null, val bearer: Boolean = false,
    val lastSession: JSONObject? = null,
    /** The sessions that the broker still has to end, at most the newest eight. */
    val endings: List<Ending> = emptyList(),
    /** A bound session's pass. */
    val pass: Pass? = null
) {
    fun toJson(): String = JSONObject().put("session", session).put("login", login).put("login_id", loginId)
        .put("bearer", bearer).put("last_session", lastSession)
        .put("pass", pass?.let { JSONObject().put("value", it.value).put("received", it.received).put("lifetime", it.lifetime) })
        .put("endings", JSONArray(endings.map { JSONObject().put("session", it.session).put("bearer", it.bearer) })).toString()

    internal val isEmpty: Boolean get() = session == null && login == null && endings.isEmpty()

    internal fun with(lastSession: JSONObject?) = Credentials(session, login, loginId, bearer, lastSession?.let { newest(it) }, endings, pass)
    /**
     * Returns the newer of the stored state and another state of a session. A replica may answer with data that is some seconds
     * old, so a lower version never replaces a higher one. An equal version replaces the stored state, and so does the response
     * of an older broker, which has no version.
     */
    internal fun newest(answer: JSONObject): JSONObject {
        val isOlder = lastSession != null && lastSession.optString("handle") == answer.optString("handle") &&
            answer.optLong("version", Long.MAX_VALUE) < lastSession.optLong("version", 0)
        return if (isOlder) lastSession!! else answer
    }
    internal fun with(endings: List<Ending>) = Credentials(session, login, loginId, bearer, lastSession, endings, pass)
    internal fun with(pass: Pass?) = Credentials(session, login, loginId, bearer, lastSession, endings, pass)
    /** The session's key, or null if the details of the session are unknown. */
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

/**
 * A place on the device for the credentials: a file that is encrypted by a key of the Android Keystore and excluded from
 * backups.
 */
interface CredentialStorage {
    /**
     * Returns the stored credentials, or null after a deletion. Throws if they exist but are temporarily unreadable.
     */
    fun read(): Credentials?
    fun write(credentials: Credentials?)
}

/** A storage in memory, which lasts as long as the process. */
class MemoryStorage : CredentialStorage {
    private var kept: Credentials? = null
    @Synchronized override fun read(): Credentials? = kept
    @Synchronized override fun write(credentials: Credentials?) { kept = credentials }
}

/** The stored credentials. All changes of the credentials go through this class. */
private class Keeping(private val storage: CredentialStorage) {
    /** The shared request for the stored session. Each session has a request of its own. */
    @Volatile var asking = SharedAnswer<Session>()

    fun kept(): Credentials = storage.read() ?: Credentials()

    /** Changes the stored credentials. The lock covers the read before the change, but is never held during a network call. */
    fun change(work: (Credentials) -> Credentials): Credentials = synchronized(this) {
        val before = kept()
        val after = work(before)
        if (after !== before) storage.write(if (after.isEmpty) null else after)
        // From now on, calls share requests only for the new session.
        if (after.session != before.session) asking = SharedAnswer()
        after
    }

    /** Stores a received state of the session, if the same session made the request. Returns the newest known state. */
    fun remember(json: JSONObject, sent: String?): Session =
        Session(change { if (sent != null && it.session == sent) it.with(lastSession = json) else it }.newest(json))

    /** Forgets the session if [isMeant] accepts its secret. */
    fun forget(isMeant: (String) -> Boolean) {
        change {
            if (it.session == null || !isMeant(it.session)) it
            else Credentials(login = it.login, loginId = it.loginId, bearer = it.bearer, endings = it.endings)
        }
    }
}

// ==== sources/Keys.kt ===================================================================================================
// The keys of a device, and the digests that identify them.

/**
 * A P-256 key that owns the sessions of this device (docs/apps/bound-sessions.md). A copied cookie or token is useless
 * without it. On Android, use `KeystoreProofKey`. A key that asks the user before each signature, like
 * `KeystorePresenceKey`, implements the same interface.
 */
interface ProofKey {
    /**
     * Returns the public key, or null if it is lost. Throws if the key exists but is temporarily unavailable.
     */
    fun publicKey(): ProofPublicKey?
    /** Makes a key, which replaces a lost one. Only sign-ins and [Coatcheck.registerPresenceKey] call it. */
    fun make(): ProofPublicKey
    /**
     * Returns the ES256 signature: r and s, 32 bytes each. Throws a [KeyLost] if the key can never sign again, and a
     * [Cancelled] if the user refused.
     */
    fun sign(bytes: ByteArray): ByteArray
}

/** The public half of a [ProofKey], as the coordinates of its point. */
class ProofPublicKey(x: BigInteger, y: BigInteger) {
    constructor(key: ECPublicKey) : this(key.w.affineX, key.w.affineY)

    /** The JSON Web Key with its members sorted by name. RFC 7638 computes the thumbprint from this form. */
    val jwk: String = """{"crv":"P-256","kty":"EC","x":"${base64Url(x.word())}","y":"${base64Url(y.word())}"}"""
    /** The thumbprint, which identifies the key in a session. */
    val thumbprint: String = base64Url(sha256(jwk))
}

/** A [ProofKey] that uses the platform's own cryptography. Subclasses provide the pair of keys. */
abstract class PlatformProofKey : ProofKey {
    /** Returns the pair, or null if it is missing. */
    protected abstract fun pair(): KeyPair?

    override fun publicKey(): ProofPublicKey? = pair()?.let { ProofPublicKey(it.public as ECPublicKey) }

    override fun sign(bytes: ByteArray): ByteArray {
        val signature = Signature.getInstance("SHA256withECDSA")
        signature.initSign((pair() ?: throw KeyLost()).private)
        return raw(allowed(signature).apply { update(bytes) }.sign())
    }

    /** Asks the user to allow the use of the key, if the key requires that. Returns the signature object that may sign now. */
    protected open fun allowed(signature: Signature): Signature = signature

    /** Converts the two numbers of a signature from DER into 32 bytes each. */
    private fun raw(der: ByteArray): ByteArray {
        val first = der[3].toInt()
        val second = der[5 + first].toInt()
        return BigInteger(der.copyOfRange(4, 4 + first)).word() + BigInteger(der.copyOfRange(6 + first, 6 + first + second)).word()
    }
}

private fun base64Url(bytes: ByteArray): String = ByteString.of(*bytes).base64Url().trimEnd('=')

private fun sha256(text: String): ByteArray = MessageDigest.getInstance("SHA-256").digest(text.toByteArray())

/** A number as 32 bytes. */
private fun BigInteger.word(): ByteArray = toByteArray().let { ByteArray(maxOf(0, 32 - it.size)) + it.takeLast(32).toByteArray() }

// ==== sources/Waiting.kt ================================================================================================
// Work that threads wait for: together, or one after the other.

/** One response for all callers that wait at the same time. */
private class SharedAnswer<Value : Any> {
    @Volatile private var answers = 0
    private var last: Value? = null

    fun shared(work: () -> Value): Value {
        val before = answers
        synchronized(this) {
            last?.let { if (answers != before) return it }
            return work().also { last = it; answers += 1 }
        }
    }
}

/** Work that several threads wait for. It is cancelled if all of them stop waiting. */
private class SharedCall<Value>(private val calls: Calls, work: () -> Value) {
    private val end = CountDownLatch(1)
    private var waiting = 0
    private var abandoned = false
    private var result: (() -> Value)? = null
    private val thread = Thread {
        result = try { val value = work(); { value } } catch (failed: Throwable) { { throw failed } }
        end.countDown()
    }.apply { isDaemon = true }

    fun begin() = thread.start()

    /** Whether another caller may still join. */
    val isOpen: Boolean get() = synchronized(this) { !abandoned && end.count > 0 }

    /** Joins the work. Call [value] afterwards. Returns false if the work is over. */
    fun join(): Boolean = synchronized(this) { isOpen.also { if (it) waiting += 1 } }

    fun value(): Value {
        try {
            pausing { end.await() }
        } finally {
            synchronized(this) {
                waiting -= 1
                if (waiting == 0 && end.count > 0) abandoned = true
            }
            if (abandoned) calls.cancel(thread)
        }
        return result!!()
    }
}

/** A queue that does one piece of work at a time, in the order of the requests. */
private class Turn {
    private class One {
        val over = CountDownLatch(1)
        @Volatile var no: Exception? = null
    }

    private val waiting = ArrayList<One>()
    private var isTaken = false

    fun <Value> taken(work: () -> Value): Value {
        val one = One()
        val begins = synchronized(this) { (!isTaken).also { if (it) isTaken = true else waiting += one } }
        if (!begins) {
            try {
                pausing { one.over.await() }
            } catch (cancelled: InterruptedIOException) {
                // The caller may have received its turn in the meantime.
                if (!synchronized(this) { waiting.remove(one) } && one.no == null) pass()
                throw cancelled
            }
            one.no?.let { throw it }
        }
        try { return work() } finally { pass() }
    }

    /** Fails all waiting callers. */
    fun refuse(no: Exception) = synchronized(this) {
        waiting.forEach { it.no = no; it.over.countDown() }
        waiting.clear()
    }

    private fun pass() = synchronized(this) {
        if (waiting.isEmpty()) isTaken = false else waiting.removeAt(0).over.countDown()
    }
}

/** Waits. If the thread is interrupted, throws the same exception as an interrupted call. */
private fun <Value> pausing(work: () -> Value): Value = try {
    work()
} catch (cancelled: InterruptedException) {
    Thread.currentThread().interrupt()
    throw InterruptedIOException("cancelled")
}

// ==== sources/Evidence.kt ===============================================================================================
// The evidence of a bound session: the kind that a call needs, proofs and passes, and new evidence after a refusal.

/**
 * The evidence of a bound session's key that a call sends.
 * - `SIGN_IN`: a proof, which makes the key the owner of the new session.
 * - `SESSION`: a pass, or a proof if the client's sessions need a proof with each request.
 * - `PROOF`: a proof, because the result of the call outlives a pass.
 */
private enum class Evidence { NONE, SIGN_IN, SESSION, PROOF }

/**
 * The evidence that a call lacks, added after the broker's refusal. Each kind is added at most once, so that a call cannot
 * loop.
 */
private class Mending(val asksForNonce: Boolean = false, val registers: Boolean = false) {
    /** Whether the broker reported that this session is bound, regardless of the stored data. */
    var bound = false
    /** Whether the broker gave the call a nonce. */
    var nonce = false
    private var fresh = false
    /** Whether the user has stepped up for the call. */
    var steppedUp = false
    /** The proof of presence, valid until the broker refuses it. */
    var presence: String? = null
    private var prompts = 0

    /** Decides whether the user is asked for a call, for the first time or once more. */
    fun asks(problem: Problem, repeatable: Boolean): Boolean {
        // For a child session, the parent makes the call itself. If the broker refused a proof as `replayed`, the network may
        // have sent the request twice, and the other copy may have been successful.
        val asks = if (presence == null) problem.code == "presence_required" && !problem.parent && prompts == 0
        else problem.code == "presence_invalid" && (problem.reason == "nonce" || (problem.reason == "replayed" && repeatable)) && prompts <= 1
        if (asks) prompts += if (presence == null) 1 else 2
        return asks
    }

    fun mends(problem: Problem, evidence: Evidence, repeatable: Boolean): Boolean {
        val refused = if (problem.code == "proof_invalid") problem.reason else problem.code
        return when {
            refused == "use_dpop_nonce" -> !nonce.also { nonce = true }
            evidence == Evidence.SIGN_IN -> false
            refused == "proof_required" || refused == "pass" -> !bound.also { bound = true }
            // The network may have sent the request twice. The other copy may have been successful.
            refused == "replayed" && repeatable -> !fresh.also { fresh = true }
            else -> false
        }
    }
}

/** The evidence of a request: a pass or a proof, and a proof of the user's presence. */
private class Shown(val pass: String? = null, val proof: String? = null, val presence: String? = null)

/** The evidence that the session's key gives for requests: proofs, and passes, which replace proofs. */
private class Proofs(private val calls: Calls, private val keeping: Keeping, private val key: ProofKey?) {
    /** The time of the device's clock, which may be wrong. */
    var now: () -> Long = { System.currentTimeMillis() }
    private class Nonce(val value: String, val received: Long)
    @Volatile private var nonce: Nonce? = null
    private val making = Any()
    private val renewing = ReentrantLock()
    @Volatile private var renewals = 0
    private var renewal: Pair<String?, () -> String?>? = null
    // Whether the client's sessions need a proof with each request.
    @Volatile private var provesEach = false

    /** Keeps the nonce of a response. */
    fun keepNonce(response: Response) { response.header("DPoP-Nonce")?.let { nonce = Nonce(it, now()) } }

    /** Returns the nonce if it remains valid for at least one minute. Its whole lifetime is five minutes. */
    fun youngNonce(): String? = nonce?.let { if (now() - it.received in 0 until 240_000) it.value else null }

    /** Returns the pass of a bound session, or null if the session needs none. Renews the pass if it is due. */
    fun pass(): String? {
        val kept = keeping.kept()
        if (kept.session == null || (kept.lastSession != null && kept.binding?.evidence != "pass")) return null
        return unlessLost(kept.session) { pass(kept, calls.deadlineMillis) }
    }

    /** Returns the evidence that a request needs, with the proof of the user's presence. */
    fun shown(evidence: Evidence, method: String, path: String, sent: Credentials, mending: Mending, limit: Long): Shown {
        val shown = evidence(evidence, method, path, sent, mending, limit)
        return Shown(shown.pass, shown.proof, mending.presence)
    }

    private fun evidence(evidence: Evidence, method: String, path: String, sent: Credentials, mending: Mending, limit: Long): Shown {
        val address = calls.url(path).toString().substringBefore('?')
        if (evidence == Evidence.SIGN_IN) return Shown(proof = key?.let { signInProof(it, method, address) })
        if (evidence == Evidence.NONE || sent.session == null) return Shown()
        val binding = sent.binding
        if (evidence == Evidence.SESSION) {
            // The session may still be bound, because some storages do not keep its details.
            if (!mending.bound && binding == null) return Shown(sent.pass?.value)
            if (!provesEach && binding?.evidence != "proof") {
                unlessLost(sent.session) { pass(sent, limit) }?.let { return Shown(it) }
            }
        } else if (sent.lastSession != null && binding == null && !mending.bound) {
            return Shown()
        }
        val nonce = if (mending.asksForNonce && !mending.nonce) null else nonce?.value
        return Shown(proof = key?.let { unlessLost(sent.session) { sessionProof(it, nonce, method, address, sent) } })
    }

    /**
     * Runs work, and forgets the session if its key is lost. The broker is not informed, because another device may still have
     * the key and use the session. An example is a phone whose backup was restored here.
     */
    private fun <Value> unlessLost(session: String, work: () -> Value): Value = try {
        work()
    } catch (gone: KeyLost) {
        keeping.forget { it == session }
        throw gone
    }

    /**
     * Decides whether a refused request is sent again at once. Forgets a pass that was refused. Throws if the session belongs
     * to another key than this device's.
     */
    fun mends(
        problem: Problem, evidence: Evidence, repeatable: Boolean, mending: Mending, request: Request, session: String?
    ): Boolean {
        if (problem.status != 401 || key == null) return false
        if (problem.code == "proof_invalid" && problem.reason == "key") {
            keeping.forget { it == session }
            throw KeyLost()
        }
        if (!mending.mends(problem, evidence, repeatable)) return false
        val sent = (request.header("Cookie") ?: "") + (request.header("Coatcheck-Pass") ?: "")
        if (problem.code == "proof_required" || problem.reason == "pass") {
            keeping.change { if (it.pass != null && sent.contains(it.pass.value)) it.with(pass = null) else it }
        }
        return true
    }

    /** Signs a request that starts a login or makes a session. Makes a key if necessary. */
    private fun signInProof(key: ProofKey, method: String, address: String): String {
        val known = key.publicKey() ?: made(key, null)
        return try {
            proof(key, known, nonce?.value, method, address)
        } catch (gone: KeyLost) {
            proof(key, made(key, known), nonce?.value, method, address)
        }
    }

    private fun sessionProof(key: ProofKey, nonce: String?, method: String, address: String, sent: Credentials): String {
        val known = key.publicKey() ?: throw KeyLost()
        val jkt = sent.binding?.jkt
        if (jkt != null && jkt != known.thumbprint) throw KeyLost()
        return proof(key, known, nonce, method, address, sent.session)
    }

    /**
     * Returns a DPoP proof (RFC 9449). Its time comes from the device's clock, which may be wrong, so the broker judges its age
     * by the nonce.
     */
    fun proof(key: ProofKey, known: ProofPublicKey, nonce: String?, method: String, address: String, session: String? = null): String {
        val unlikeOthers = ByteArray(16).also { SecureRandom().nextBytes(it) }
        val claims = JSONObject().put("jti", base64Url(unlikeOthers)).put("htm", method).put("htu", address).put("iat", now() / 1000)
            .put("nonce", nonce).put("ath", session?.let { base64Url(sha256(it)) })
        val header = """{"typ":"dpop+jwt","alg":"ES256","jwk":${known.jwk}}"""
        val text = base64Url(header.toByteArray()) + "." + base64Url(claims.toString().toByteArray())
        return text + "." + base64Url(key.sign(text.toByteArray()))
    }

    /** Makes one key for all waiting sign-ins, unless another sign-in has already replaced the lost key. */
    private fun made(key: ProofKey, lost: ProofPublicKey?): ProofPublicKey = synchronized(making) {
        val known = key.publicKey()
        if (known != null && known.thumbprint != lost?.thumbprint) known else key.make()
    }

    /** Returns the stored pass, or a new one if it is due. Returns null if the client's sessions need proofs. */
    private fun pass(sent: Credentials, limit: Long): String? {
        val pass = passOf(sent)
        if (pass != null && (key == null || !pass.isDue(now()))) return pass.value
        if (key == null) return null
        return try {
            renewed(sent, limit)
        } catch (later: Exception) {
            // If the network is missing or the key is temporarily unavailable, the old pass is used once more.
            val passes = later !is KeyLost && (later !is Problem || later.passes) && !Thread.currentThread().isInterrupted
            if (pass != null && passes) pass.value else throw later
        }
    }

    private fun passOf(sent: Credentials): Pass? = keeping.kept().let { if (it.session == sent.session) it.pass else sent.pass }

    /** Gets a pass by a proof. Calls that arrive during a renewal share its result. */
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
            // Another call may have just renewed the pass.
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
                // If the caller is cancelled, the next caller renews the pass.
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
        val caller = calls.http.newBuilder().callTimeout(limit, TimeUnit.MILLISECONDS).build()
        val mending = Mending()
        while (true) {
            val shown = shown(Evidence.PROOF, "POST", "/v1/session/pass", sent, mending, limit)
            val request = calls.request("POST", "/v1/session/pass", null, sent, shown)
            val answer = calls.send(caller, request)
            if (answer.status == 200) {
                val pass = pass(answer.json(), answer) ?: throw Unreachable("an answer without a pass")
                keeping.change { if (it.session == sent.session) it.with(pass = pass) else it }
                return pass.value
            }
            val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
            if (problem.code == "client_not_allowed") {
                provesEach = true
                return null
            }
            calls.learn(problem, answer, request)
            if (!mends(problem, Evidence.PROOF, true, mending, request, sent.session)) throw problem
        }
    }

    /** Returns the pass that a response contains. */
    fun pass(json: JSONObject?, answer: Answer): Pass? {
        val value = (json ?: return null).text("pass") ?: answer.cookie("${calls.cookieName}-pass") ?: return null
        return Pass(value, now(), json.getDouble("expires_in"))
    }
}

// ==== sources/Calls.kt ==================================================================================================
// The requests to the broker, and the consequences of their answers.

/** The user, whom a refused call may ask for a missing step. */
private interface User {
    /** The number of step-ups so far. */
    val stepUps: Int
    fun asksUser(problem: Problem, method: String, path: String, repeatable: Boolean, sent: Credentials, mending: Mending, stepUps: Int): Boolean
}

/** The requests to the broker. A request is repeated and corrected as long as that can help. */
private class Calls(private val broker: HttpUrl, val deadlineMillis: Long, transport: OkHttpClient, val keeping: Keeping, key: ProofKey?) {
    // There is no cookie jar, because the only cookie is stored with the credentials. Redirects are off, because the app itself
    // decides about an upstream's redirect.
    val http: OkHttpClient = transport.newBuilder().followRedirects(false).followSslRedirects(false)
        .retryOnConnectionFailure(false).readTimeout(40, TimeUnit.SECONDS).build()
    val proofs = Proofs(this, keeping, key)
    /** The user, set once by the constructor of [Coatcheck]. */
    lateinit var user: User
    val random = Random()
    private var ending = false
    val cookieName: String = if (broker.isHttps) "__Host-coatcheck" else "coatcheck"

    fun url(text: String): HttpUrl = broker.resolve(text) ?: throw Unreachable("not a URL of the web")

    fun request(method: String, path: String, body: RequestBody?, kept: Credentials, shown: Shown): Request {
        val url = url(path)
        // OkHttp removes dot segments from a path. Throw if the sent path would differ from the requested path.
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
        if (shown.presence != null) builder.header("Coatcheck-Presence", shown.presence)
        return builder.build()
    }

    /** Calls the broker with the stored credentials, and requires a successful status. */
    fun call(
        method: String, path: String, body: JSONObject? = null, withSession: Boolean = true, evidence: Evidence = Evidence.SESSION
    ): Answer {
        val bytes = body?.let { Bytes(it.toString().toByteArray()) }
        // A login is started without the session, because the two may belong to different users.
        val credentials = if (withSession) null else keeping.kept().let { Credentials(login = it.login, loginId = it.loginId, bearer = it.bearer) }
        val answer = repeat(path, method, bytes, credentials, true, deadlineMillis, evidence) { it.status in 200..299 }
        endSessions()
        return answer
    }

    /**
     * Sends a request, and repeats it as long as that can help and the deadline allows it. docs/apps/native-apps.md has the
     * table.
     */
    fun repeat(
        path: String, method: String, body: RequestBody?, credentials: Credentials?, idempotent: Boolean, deadline: Long,
        evidence: Evidence, mending: Mending = Mending(), good: (Answer) -> Boolean
    ): Answer {
        var begin = System.nanoTime()
        var tries = 0
        while (true) {
            var failure: Exception
            var pause = (200L shl minOf(tries, 6)) + random.nextInt(200)
            // The first attempt gets at least one second, even with a very short deadline. A relayed body may be long, so only
            // silence ends the attempt of a relayed call.
            val first = if (tries == 0) 1_000L else 1L
            val limit = maxOf(first, deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin))
            val caller = if (path.startsWith("/v1/relay/")) http else http.newBuilder().callTimeout(limit, TimeUnit.MILLISECONDS).build()
            val sent = credentials ?: keeping.kept()
            val stepUps = user.stepUps
            var refusal: Problem? = null
            var isSent = false
            try {
                val shown = try {
                    proofs.shown(evidence, method, path, sent, mending, limit)
                } catch (refused: Problem) {
                    if (refused.passes) throw Unreachable("${refused.code}: no pass") else throw refused
                }
                val request = request(method, path, body, sent, shown)
                isSent = true
                val answer = send(caller, request)
                if (good(answer)) return answer
                // If a proxy's page answers, the state of the session is as unknown as after a missing response.
                val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
                learn(problem, answer, request)
                if (proofs.mends(problem, evidence, idempotent, mending, request, sent.session)) continue
                // After a 408, the upstream may have received part of the request. After the broker's 503 or 429, it has
                // received nothing.
                if (!problem.passes || (!idempotent && problem.code == "request_timeout")) refusal = problem
                failure = problem
                answer.retryAfter?.let { pause = it * 1000 + random.nextInt(250) }
            } catch (lost: IOException) {
                if ((isSent && !idempotent) || Thread.currentThread().isInterrupted) throw lost
                failure = lost
            }
            if (refusal != null) {
                if (!user.asksUser(refusal, method, path, idempotent, sent, mending, stepUps)) throw refusal
                // The time that the user needs for the prompt does not count for the deadline.
                begin = System.nanoTime()
                tries = 0
                continue
            }
            val left = deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin)
            if (pause > minOf(left, 30_250)) throw failure
            pausing { Thread.sleep(pause) }
            tries += 1
        }
    }

    fun send(caller: OkHttpClient, request: Request): Answer = running(caller.newCall(request)) { call ->
        call.execute().use {
            proofs.keepNonce(it)
            Answer(it)
        }
    }

    /** The running call of each thread. */
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

    /**
     * Cancels the call of a waiting thread. The call returns at once with an [InterruptedIOException] or another
     * [IOException].
     */
    fun cancel(thread: Thread) {
        thread.interrupt()
        calls[thread]?.cancel()
    }

    /** Applies a refusal: forgets an ended session, and keeps a login that the refusal contains. */
    fun learn(problem: Problem, answer: Answer, request: Request) {
        if (problem.endsSession) forget(request)
        problem.json.optJSONObject("login")?.let { keep(it, answer) }
    }

    /** Keeps a started login, and returns the page to open. */
    fun keep(login: JSONObject, answer: Answer): HttpUrl {
        val token = if (login.has("login_token")) login.getString("login_token") else null
        keeping.change {
            Credentials(
                it.session, token ?: answer.cookie("$cookieName-login") ?: it.login, login.getString("login_id"),
                token != null, it.lastSession, it.endings, it.pass)
        }
        return url(login.getString("authorization_url"))
    }

    /** Forgets the session, unless another session replaced it before the response arrived. */
    fun forget(request: Request) {
        val sent = (request.header("Cookie") ?: "") + (request.header("Authorization") ?: "")
        keeping.forget { sent.contains(it) }
    }

    fun remembered(
        method: String, path: String, deadline: Long = deadlineMillis, evidence: Evidence = Evidence.SESSION, mending: Mending = Mending()
    ): Session {
        val sent = keeping.kept()
        val answer = repeat(path, method, if (method == "POST") Bytes(ByteArray(0)) else null, null, true, deadline, evidence, mending) { it.status in 200..299 }
        endSessions()
        return keeping.remember(answer.json(), sent.session)
    }

    /**
     * Ends a session that was signed out on this device, and forgets its secret. With the credentials from before the
     * sign-out, it also requests the provider's logout page.
     */
    fun end(ending: Ending, before: Credentials? = null): Answer {
        // The broker ends a session without evidence, but returns the logout page only with evidence.
        val answer = repeat(
            "/v1/session" + (if (before == null) "" else "?logout_url=true"), "DELETE", null,
            Credentials(ending.session, bearer = ending.bearer, lastSession = before?.lastSession, pass = before?.pass), true, deadlineMillis,
            if (before == null) Evidence.NONE else Evidence.SESSION
        ) { it.status in 200..299 }
        keeping.change { kept -> kept.with(endings = kept.endings.filter { it.session != ending.session }) }
        return answer
    }

    /** Ends the sessions that were signed out while the broker was unreachable. Uses a thread of its own. */
    fun endSessions() {
        val endings = synchronized(keeping) {
            val endings = try { keeping.kept().endings } catch (locked: Exception) { emptyList<Ending>() }
            if (ending || endings.isEmpty()) return
            ending = true
            endings
        }
        Thread {
            try {
                for (one in endings) end(one)
            } catch (later: Exception) {
                // The next successful call tries again.
            } finally {
                synchronized(keeping) { ending = false }
            }
        }.apply { isDaemon = true }.start()
    }
}

/** A body of JSON, or an empty one. */
private class Bytes(private val bytes: ByteArray) : RequestBody() {
    override fun contentType(): MediaType? = null
    override fun contentLength(): Long = bytes.size.toLong()
    override fun writeTo(sink: BufferedSink) { sink.write(bytes) }
}

/** A response that was read to its end. */
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
        if (contentType?.startsWith("application/problem+json") != true) null
        else json().let { if (it.getInt("status") == 401 && it.getString("code") == "step_up_required") StepUpRequired(it) else Problem(it) }
    } catch (other: JSONException) {
        null
    }

    fun cookie(name: String): String? = cookies.map { it.substringBefore(';').trim() }
        .firstOrNull { it.startsWith("$name=") }?.substringAfter('=')?.ifEmpty { null }
}

// ==== sources/Asking.kt =================================================================================================
// The two ways to ask the user after a refused call: a step-up in the browser, and a prompt of the presence key.

/** The step-ups and the presence proofs. Calls wait while the user answers. */
private class Asking(
    private val calls: Calls, private val keeping: Keeping, private val key: ProofKey?, private val presenceKey: ProofKey?,
    private val onStepUp: ((StepUp) -> Boolean)?,
    /** Opens a step-up's page, and returns the session after the user signed in. */
    private val signInAgain: (HttpUrl) -> Session
) : User {
    private val prompts = Turn()
    private val pages = Turn()
    private val steppingUp = ArrayList<SteppingUp>()
    // The number of step-ups so far, with the demand that the last step-up met.
    @Volatile private var met: Pair<Int, StepUp>? = null
    override val stepUps: Int get() = met?.first ?: 0
    /** How long a step-up waits for further refused calls, to combine their demands. */
    var gatheringMillis = 100L

    // ---- Step-ups ---------------------------------------------------------------------------------------------------

    /**
     * A step-up, and the demands that it has to meet. [wanted] is true if the app itself requested the step-up. Its call
     * returns null if the app declined.
     */
    private class SteppingUp(var demand: StepUp, var wanted: Boolean) {
        /** Whether further demands can still be added. */
        var gathering = true
        lateinit var call: SharedCall<Session?>
    }

    /** Asks the user to sign in again for the app itself. */
    fun stepUp(demand: StepUp): Session {
        while (true) {
            // Null means that the app declined a step-up for refused calls. The app's own request is still open, so it tries
            // again.
            joinStepUp(demand, true)?.let { return it }
        }
    }

    /** Starts a step-up and returns the page to open. */
    fun startStepUp(demand: StepUp): HttpUrl {
        // The proof comes from the session's key, as for its other calls. A new key is never made here.
        val answer = calls.call("POST", "/v1/logins", JSONObject().put("step_up", demand.toJson()), evidence = Evidence.PROOF)
        return calls.keep(answer.json(), answer)
    }

    private fun joinStepUp(demand: StepUp, wanted: Boolean): Session? {
        val call = synchronized(steppingUp) {
            steppingUp.removeAll { !it.call.isOpen }
            steppingUp.firstOrNull { one ->
                val both = if (one.gathering) one.demand.joined(demand) else null
                if ((both == null && !one.demand.covers(demand)) || !one.call.join()) return@firstOrNull false
                if (both != null) { one.demand = both; one.wanted = one.wanted || wanted }
                true
            }?.call ?: SteppingUp(demand, wanted).also { one ->
                one.call = SharedCall(calls) { pages.taken { stepUp(one) } }
                steppingUp += one
                one.call.join()
                one.call.begin()
            }.call
        }
        return call.value()
    }

    private fun stepUp(one: SteppingUp): Session? {
        // Wait, because simultaneous calls receive their refusals one after the other.
        pausing { Thread.sleep(gatheringMillis) }
        val (demand, wanted) = synchronized(steppingUp) { one.gathering = false; Pair(one.demand, one.wanted) }
        if (!wanted && onStepUp?.invoke(demand) != true) return null
        val page = startStepUp(demand)
        val session = signInAgain(page)
        met = Pair((met?.first ?: 0) + 1, demand)
        return session
    }

    /** Runs one step-up for a call that was refused because it needs one. Throws if a step-up is impossible or declined. */
    private fun stepUpFor(refused: StepUpRequired, mending: Mending, sentAfter: Int) {
        if (mending.steppedUp || refused.parent || onStepUp == null) throw refused
        mending.steppedUp = true
        // If another call's step-up ended before the refusal of this call arrived, this call needs none.
        met?.let { if (sentAfter < it.first && it.second.covers(refused.stepUp)) return }
        joinStepUp(refused.stepUp, false) ?: throw refused
    }

    // ---- The user's presence ----------------------------------------------------------------------------------------

    /** Registers the presence key, and returns the state of the session. */
    fun registerPresenceKey(): Session {
        val key = askingKey()
        val known = key.publicKey()
        val registered = keeping.kept().lastSession?.let { Session(it).presence }
        if (registered != null && registered != known?.thumbprint) throw PresenceKeyLost()
        if (known == null) key.make()
        // The first attempt skips the prompt. If the sign-in is too old, the broker refuses before the user is asked.
        return calls.remembered("PUT", "/v1/session/presence-key", evidence = Evidence.PROOF, mending = Mending(registers = true))
    }

    fun askingKey(): ProofKey =
        if (key == null || presenceKey == null) throw IllegalStateException("no key was given that asks for the user, or none beside it") else presenceKey

    /** Whether there is a key that can ask the user. */
    fun canAsk(sent: Credentials, mending: Mending): Boolean {
        if (presenceKey == null || key == null || sent.session == null) return false
        val known = sent.lastSession?.let { Session(it) } ?: return true
        return known.binding != null && (known.presence != null || mending.registers)
    }

    /**
     * Asks the user for the step that the refused call lacks, and returns whether the call is sent again. Throws if the user or
     * the app refuses.
     */
    override fun asksUser(
        problem: Problem, method: String, path: String, repeatable: Boolean, sent: Credentials, mending: Mending, stepUps: Int
    ): Boolean {
        if (problem is StepUpRequired) {
            stepUpFor(problem, mending, stepUps)
            return true
        }
        if (problem.code == "presence_invalid" && problem.reason == "key") throw PresenceKeyLost()
        if (!canAsk(sent, mending) || !mending.asks(problem, repeatable)) return false
        mending.presence = presence(method, path, sent, mending.registers)
        return true
    }

    /** Returns the proof of the user's presence for one request. Only one prompt is open at a time. */
    fun presence(method: String, path: String, sent: Credentials, registers: Boolean): String = prompts.taken {
        val key = askingKey()
        if (calls.proofs.youngNonce() == null) {
            // Fetch a fresh nonce. Otherwise the nonce could expire while the user answers the prompt.
            calls.repeat("/v1/session", "GET", null, null, true, calls.deadlineMillis, Evidence.PROOF, Mending(asksForNonce = true)) { it.status == 200 }
        }
        val nonce = calls.proofs.youngNonce() ?: throw Unreachable("no nonce came")
        val known = key.publicKey() ?: throw PresenceKeyLost()
        val registered = sent.lastSession?.let { Session(it).presence }
        if (registered != null && registered != known.thumbprint) throw PresenceKeyLost()
        val address = calls.url(path).toString().substringBefore('?')
        try {
            calls.proofs.proof(key, known, nonce, method, address, sent.session)
        } catch (gone: KeyLost) {
            // The key is from an earlier session and can no longer sign. Only a registration replaces it by a new key.
            if (registers) calls.proofs.proof(key, key.make(), nonce, method, address, sent.session) else throw PresenceKeyLost()
        } catch (no: Cancelled) {
            // A refusal by the user applies to all waiting calls.
            prompts.refuse(no)
            throw no
        }
    }
}

// ==== sources/Relay.kt ==================================================================================================
// The two answers that the client passes on unchanged: an upstream's response, and the events of a session.

/** Calls an upstream, and returns its response. */
private fun Calls.relayed(
    asking: Asking, upstream: String, path: String, method: String, body: RequestBody?, presence: Boolean, query: String?
): RelayAnswer {
    val idempotent = method in listOf("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
    require(query == null || '?' !in path) { "the path already contains a query" }
    val address = "/v1/relay/$upstream/$path${if (query == null) "" else "?$query"}"
    val mending = Mending()
    if (presence) {
        asking.askingKey()
        val sent = keeping.kept()
        if (asking.canAsk(sent, mending)) mending.presence = asking.presence(method, address, sent, false)
    }
    val answer = repeat(address, method, body, null, idempotent, deadlineMillis, Evidence.SESSION, mending) { it.source == "upstream" }
    return RelayAnswer(answer.status, answer.contentType, answer.body)
}

/** Passes the session's events to the listener until the session ends. Reconnects if the stream breaks. */
private fun Calls.listened(listener: SessionListener, listening: Listening) {
    // The broker sends something at least every 25 seconds, so 60 seconds of silence mean that the connection is dead.
    val patient = http.newBuilder().readTimeout(60, TimeUnit.SECONDS).build()
    var tries = 0
    var mending = Mending()
    while (!listening.stopped) {
        var pause = (500L shl minOf(tries, 5)) + random.nextInt(500)
        try {
            val credentials = keeping.kept()
            val sent = credentials.session
            // A proof opens the stream, because a stream that a pass has opened ends with the pass.
            val shown = proofs.shown(Evidence.PROOF, "GET", "/v1/session/events", credentials, mending, deadlineMillis)
            val request = request("GET", "/v1/session/events", null, credentials, shown)
            var mended = false
            val over = listening.begin(patient.newCall(request)).execute().use { response ->
                if (response.code == 200) {
                    tries = 0
                    mending = Mending()
                    proofs.keepNonce(response)
                    events(response, listener, request, sent)
                } else {
                    proofs.keepNonce(response)
                    val answer = Answer(response)
                    val problem = answer.problem() ?: throw Unreachable("status ${answer.status}")
                    learn(problem, answer, request)
                    mended = proofs.mends(problem, Evidence.PROOF, true, mending, request, sent)
                    if (problem.endsSession) listener.ended(problem.reason) else if (!problem.passes && !mended) throw problem
                    answer.retryAfter?.let { pause = maxOf(pause, it * 1000) }
                    problem.endsSession
                }
            }
            if (over) return
            if (mended) continue
        } catch (lost: IOException) {
            // The next attempt follows after the pause.
        } catch (gone: KeyLost) {
            return listener.ended("key_lost")
        }
        listening.pause(pause)
        tries += 1
    }
}

private fun Calls.events(response: Response, listener: SessionListener, request: Request, sent: String?): Boolean {
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
                    "session" -> listener.session(keeping.remember(JSONObject(data), sent))
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

// ==== sources/Moving.kt =================================================================================================
// The move of a signed-in user from the app's old SDK to the broker. docs/apps/moving-in-app.md has the
// rules.

/** The SDK that signed the user in before this app used the broker. docs/apps/moving-in-app.md has implementations. */
interface OldSdk {
    /**
     * Returns when the last refresh of the old tokens has ended. The mark already exists, so each new refresh waits.
     * The client waits at most 30 seconds, and then interrupts the thread.
     */
    fun awaitRefresh()
    /** Reads the stored tokens, or returns null. A refresh is forbidden here. */
    fun tokens(): OldTokens?
    /**
     * Deletes the SDK's record from the device, even if it is already deleted. The SDK's revocation and its
     * log-out are forbidden here. Either one ends the grant at the provider, and the new session ends with it.
     */
    fun erase()
}

/** The tokens of the old SDK. The broker compares [idToken] with the provider's answer. */
class OldTokens(val refreshToken: String, val idToken: String? = null)

/** The outcome of [Coatcheck.moveIn]. */
sealed class MovedIn {
    /** The user is signed in at the broker, and the old tokens are erased. */
    class Moved(val session: Session?) : MovedIn()
    /** The user has to sign in. [problem] has the reason. It is null if an earlier run of the app received it. */
    class SignIn(val problem: Problem?) : MovedIn()
    /**
     * The move waits, for example for the network. The old tokens and the mark stay. Call [Coatcheck.resumeMoveIn] at the next
     * start of the app, or sooner. [problem] is null after a missing answer.
     */
    class Later(val problem: Problem?) : MovedIn()
    /**
     * The app goes on with its old SDK, or with the session that it already has. The mark is gone. Try again at the next start
     * of the app.
     */
    class NotNow(val reason: Reason, val problem: Problem? = null) : MovedIn()

    /** The reason why the app puts the move off. */
    enum class Reason {
        /** The user is already signed in at the broker. */
        SIGNED_IN,
        /** The old SDK lacks tokens. */
        NO_TOKENS,
        /** A refresh of the old SDK was still in progress after 30 seconds. */
        REFRESH_IN_PROGRESS,
        /** Another part of the app took the mark away. */
        MARK_TAKEN,
        /** The broker refused the request, for example because the move is closed (403). */
        REFUSED
    }
}

/**
 * The mark of a move, which exists from before the first request until the old tokens are erased. While it exists, all
 * processes of the app leave the old tokens alone. Each repeated request contains the same [loginToken], so that the broker returns the
 * same session. If [posts] is true, the last refresh has ended, and requests may have been sent.
 */
class MoveInMark(val loginToken: String, val posts: Boolean) {
    fun toJson(): String = JSONObject().put("login_token", loginToken).put("posts", posts).toString()

    companion object {
        /** Creates the mark of a new move. Its login token has 32 random bytes. */
        fun random() = MoveInMark(base64Url(ByteArray(32).also { SecureRandom().nextBytes(it) }), false)

        fun fromJson(text: String): MoveInMark? = try {
            JSONObject(text).let { MoveInMark(it.getString("login_token"), it.getBoolean("posts")) }
        } catch (other: JSONException) {
            null
        }
    }
}

/** A place on the device for the mark that all processes of the app can read. */
interface MarkStorage {
    /** Returns the mark of the move in progress, or null. */
    fun read(): MoveInMark?
    /**
     * Replaces the mark by the result of [work], and returns that result once it is durable. Null deletes the mark. Other
     * processes have to wait from the read until the write.
     */
    fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark?
    /**
     * Whether a move is in progress, which forbids a refresh of the old tokens. Also true if the mark is unreadable at the
     * moment.
     */
    val isMoving: Boolean get() = try { read() != null } catch (locked: Exception) { true }
    /** Deletes the mark, for a user who signs out during the move. Before, cancel the move and erase the old tokens. */
    fun remove() { change { null } }
}

/** A storage for the mark in a file. Use a file in `Context.getNoBackupFilesDir()`, because the mark belongs to the device. */
class FileMarkStorage(private val file: File) : MarkStorage {
    override fun read(): MoveInMark? = if (file.exists()) MoveInMark.fromJson(file.readText()) else null

    /** Changes the mark under a lock of the system, which the end of a process releases. */
    override fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark? = synchronized(lock) {
        // The system's lock excludes only other processes.
        RandomAccessFile(File(file.path + ".lock"), "rw").use { locked ->
            // The lock ends with its file.
            locked.channel.lock()
            val before = read()
            val after = work(before)
            if (after !== before) write(after)
            after
        }
    }

    private fun write(mark: MoveInMark?) {
        if (mark == null) {
            if (!file.delete() && file.exists()) throw IOException("the mark cannot be deleted")
            return
        }
        val next = File(file.path + ".next")
        FileOutputStream(next).use { it.write(mark.toJson().toByteArray()); it.fd.sync() }
        if (!next.renameTo(file)) throw IOException("the mark cannot be stored")
        // Once more, so that the new name is on the disk, too.
        RandomAccessFile(file, "rw").use { it.fd.sync() }
    }

    private companion object { val lock = Any() }
}

/** The moves of one [Coatcheck]. [made] stores the session of a 201 response. */
private class Moving(private val calls: Calls, private val keeping: Keeping, private val client: String?, private val made: (Answer) -> Session) {
    /** The longest wait for a refresh of the old SDK. */
    var refreshMillis = 30_000L
    /** The longest wait for an answer of the broker, which may need 20 seconds. */
    var answerMillis = 30_000L
    /** The time for all pauses together. */
    private val pausesMillis = 600_000L
    var pause: (Long) -> Unit = { millis -> pausing { Thread.sleep(millis) } }
    private var moving: SharedCall<MovedIn>? = null

    /** Moves the user. Simultaneous calls share one move. */
    fun moveIn(old: OldSdk, provider: String, marks: MarkStorage, device: String?): MovedIn {
        val call = synchronized(this) {
            moving?.let { if (it.join()) it else null } ?: SharedCall(calls) { moved(old, provider, marks, device) }.also {
                moving = it
                it.join()
                it.begin()
            }
        }
        return call.value()
    }

    private fun moved(old: OldSdk, provider: String, marks: MarkStorage, device: String?): MovedIn {
        if (keeping.kept().session != null) {
            // If the mark exists, the session came after it: from the move itself, or from a sign-in after it.
            return if (marks.read() == null) MovedIn.NotNow(MovedIn.Reason.SIGNED_IN) else settled(old, marks)
        }
        var mark = marks.change { it ?: MoveInMark.random() } ?: return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
        if (!mark.posts && !hasEnded(old)) {
            // Another process of the app may have waited longer. After its first request, the mark must stay.
            mark = marks.change { if (it != null && it.posts) it else null } ?: return MovedIn.NotNow(MovedIn.Reason.REFRESH_IN_PROGRESS)
        }
        // Read the tokens only now, because the refresh replaced them.
        val tokens = old.tokens()
        if (tokens == null) {
            marks.remove()
            return if (mark.posts) MovedIn.SignIn(null) else MovedIn.NotNow(MovedIn.Reason.NO_TOKENS)
        }
        val posting = marks.change { if (it == null || it.posts) it else MoveInMark(it.loginToken, true) }
            ?: return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
        val body = JSONObject().put("provider", provider).put("client", client).put("login_token", posting.loginToken).put("device", device)
            .put("tokens", JSONObject().put("refresh_token", tokens.refreshToken).put("id_token", tokens.idToken))
        return posted(Bytes(body.toString().toByteArray()), old, marks)
    }

    /** Waits for the old SDK's refresh, and returns whether it has ended in time. */
    private fun hasEnded(old: OldSdk): Boolean {
        var failed: Throwable? = null
        val waiting = Thread { try { old.awaitRefresh() } catch (fault: Throwable) { failed = fault } }.apply { isDaemon = true; start() }
        try {
            pausing { waiting.join(refreshMillis) }
        } finally {
            if (waiting.isAlive) waiting.interrupt()
        }
        if (waiting.isAlive) return false
        failed?.let { if (it is InterruptedException) return false else throw it }
        return true
    }

    /** Sends the same request until the broker has decided. */
    private fun posted(body: Bytes, old: OldSdk, marks: MarkStorage): MovedIn {
        var paused = 0L
        while (true) {
            if (keeping.kept().session != null) return settled(old, marks)
            if (marks.read() == null) return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
            val answer = once(body)
            if (answer != null && answer.status == 201 && keeps(answer)) {
                calls.endSessions()
                return settled(old, marks)
            }
            val problem = answer?.problem()
            if (problem != null) decided(problem, old, marks)?.let { return it }
            val millis = (answer?.retryAfter ?: 0) * 1000 + calls.random.nextInt(60_001)
            if (paused + millis > pausesMillis) return MovedIn.Later(problem)
            pause(millis)
            paused += millis
        }
    }

    /** Sends the request, with the nonce that the broker asks for. Returns null after a missing answer. */
    private fun once(body: Bytes): Answer? {
        val caller = calls.http.newBuilder().callTimeout(answerMillis, TimeUnit.MILLISECONDS).build()
        val mending = Mending()
        while (true) {
            try {
                val sent = keeping.kept()
                val shown = calls.proofs.shown(Evidence.SIGN_IN, "POST", "/v1/sessions", sent, mending, answerMillis)
                val request = calls.request("POST", "/v1/sessions", body, sent, shown)
                val answer = calls.send(caller, request)
                val problem = answer.problem() ?: return answer
                if (!calls.proofs.mends(problem, Evidence.SIGN_IN, true, mending, request, sent.session)) return answer
            } catch (lost: IOException) {
                if (Thread.currentThread().isInterrupted) throw lost
                return null
            }
        }
    }

    /**
     * Stores the session of a 201 response. Returns false for a response of another server. If the user has signed in
     * meanwhile, the session of the sign-in stays, and the broker ends the moved session.
     */
    private fun keeps(answer: Answer): Boolean = try {
        if (keeping.kept().session == null) {
            made(answer)
        } else {
            val token = answer.json().optString("session_token").ifEmpty { null }
            val secret = token ?: answer.cookie(calls.cookieName) ?: throw Unreachable("a session without its secret")
            keeping.change { it.with(endings = (it.endings + Ending(secret, token != null)).takeLast(8)) }
        }
        true
    } catch (other: Unreachable) {
        false
    } catch (other: JSONException) {
        false
    }

    /** Returns the outcome after a refusal, or null if the same request may succeed after a pause. */
    private fun decided(problem: Problem, old: OldSdk, marks: MarkStorage): MovedIn? = when {
        problem.code == "login_required" && problem.status == 409 -> {
            old.erase()
            marks.remove()
            MovedIn.SignIn(problem)
        }
        // The tokens became a session, perhaps on another device. A refresh would end that session, so the mark stays until the
        // user has signed in.
        problem.code == "code_already_used" && problem.status == 409 -> if (keeping.kept().session == null) MovedIn.SignIn(problem) else used(problem, old, marks)
        // The broker keeps the tokens, for example until the user has ended another session.
        problem.status == 409 -> MovedIn.Later(problem)
        problem.code == "use_dpop_nonce" || problem.status == 408 || problem.status == 429 || problem.status >= 500 -> null
        else -> {
            marks.remove()
            MovedIn.NotNow(MovedIn.Reason.REFUSED, problem)
        }
    }

    private fun used(problem: Problem, old: OldSdk, marks: MarkStorage): MovedIn = try {
        calls.remembered("GET", "/v1/session")
        settled(old, marks)
    } catch (ended: Problem) {
        if (ended.endsSession) MovedIn.SignIn(problem) else if (ended.passes) MovedIn.Later(ended) else throw ended
    } catch (lost: IOException) {
        if (Thread.currentThread().isInterrupted) throw lost
        MovedIn.Later(null)
    }

    /** Erases the old tokens, and then the mark, because the session is stored. */
    private fun settled(old: OldSdk, marks: MarkStorage): MovedIn {
        old.erase()
        marks.remove()
        return MovedIn.Moved(keeping.kept().lastSession?.let { Session(it) })
    }
}

// ==== sources/Coatcheck.kt ==============================================================================================

/**
 * The broker for one app on one device. Make one object and share it. For two accounts on one device, create two objects
 * with different storages. [transport] is for a proxy or pinned certificates.
 *
 * With a [key], sessions belong to the key if the broker binds this client's sessions. A [presenceKey] asks the user before
 * each signature ([registerPresenceKey]). [onStepUp] decides whether a call that needs a stronger or more recent sign-in may
 * open the [browser]. Without [onStepUp], such a call throws a [StepUpRequired].
 */
class Coatcheck(
    private val broker: HttpUrl, private val client: String?, storage: CredentialStorage, deadlineMillis: Long = 60_000,
    transport: OkHttpClient = OkHttpClient(), key: ProofKey? = null, presenceKey: ProofKey? = null,
    private val browser: SignInBrowser? = null, onStepUp: ((StepUp) -> Boolean)? = null
) {
    private val keeping = Keeping(storage)
    private val calls = Calls(broker, deadlineMillis, transport, keeping, key)
    private val user = Asking(calls, keeping, key, presenceKey, onStepUp) { signInAgain(it) }

    private val moving = Moving(calls, keeping, client) { made(it) }

    init { calls.user = user }

    // Only tests set these members.
    internal var now: () -> Long
        get() = calls.proofs.now
        set(value) { calls.proofs.now = value }
    internal var gatheringMillis: Long
        get() = user.gatheringMillis
        set(value) { user.gatheringMillis = value }

    internal var moveInPause: (Long) -> Unit
        get() = moving.pause
        set(value) { moving.pause = value }
    internal var moveInMillis: Pair<Long, Long>
        get() = Pair(moving.refreshMillis, moving.answerMillis)
        set(value) { moving.refreshMillis = value.first; moving.answerMillis = value.second }

    // ---- Signing in -------------------------------------------------------------------------------------------------

    /**
     * Starts a login and returns the page to open in the system's browser, never in a web view. [stepUp] is a demand on the
     * sign-in. With its `maxAge`, even a user with a session at the provider has to sign in again.
     */
    fun start(provider: String, socialProvider: String? = null, parameters: Map<String, String>? = null, stepUp: StepUp? = null): HttpUrl {
        val body = JSONObject().put("provider", provider).put("client", client).put("social_provider", socialProvider)
            .put("parameters", parameters?.let { JSONObject(it) }).put("step_up", stepUp?.toJson())
        val answer = calls.call("POST", "/v1/logins", body, withSession = false, evidence = Evidence.SIGN_IN)
        return calls.keep(answer.json(), answer)
    }

    /** Finishes a sign-in with the whole, unchanged URL that the browser returned. */
    fun finish(callback: String, device: String? = null): SignIn = finish(callback, device, Evidence.SIGN_IN)

    private fun finish(callback: String, device: String?, evidence: Evidence): SignIn {
        val kept = keeping.kept()
        var body = JSONObject().put("callback_url", callback).put("device", device)
        // Only a hosted callback contains the ID of the login.
        if (kept.loginId != null && value(callback, "login_id") == kept.loginId) {
            value(callback, "error")?.let { throw LoginFailed(it) }
            value(callback, "handoff")?.let { body = JSONObject().put("handoff", it).put("device", device) }
        }
        if (kept.bearer) body.put("login_token", kept.login)
        try {
            return forwarded(body, evidence)
        } catch (problem: Problem) {
            val login = problem.json.optJSONObject("login")
            if (problem.code != "login_required" || login == null) throw problem
            return SignIn.OpenOnceMore(calls.url(login.getString("authorization_url")))
        }
    }

    private fun signInAgain(page: HttpUrl): Session {
        val callback = (browser ?: throw IllegalStateException("no browser was given")).open(page)
        return (finish(callback, null, Evidence.PROOF) as? SignIn.SignedIn)?.session ?: throw Unreachable("not the answer to a step-up")
    }

    /**
     * Forwards the whole, unchanged callback URL of a login that the app started with its own library (flow B). If the
     * library does not reveal the URL, use [forwardCode].
     */
    fun forward(callback: String, login: AppLogin, device: String? = null): SignIn =
        forwarded(
            forward(login, device).put("callback_url", callback).put("state", login.state).put("code_verifier", login.verifier)
                .put("scope", login.scope))

    /**
     * Forwards a code without its callback. Some libraries check the callback themselves and give the app only the code, for
     * example AppAuth; such a code needs the login's verifier. A provider's native SDK also gives a code (clients with
     * `native_code`), without a verifier.
     */
    fun forwardCode(code: String, login: AppLogin, device: String? = null): SignIn =
        forwarded(
            forward(login, device).put("code", code).put("code_verifier", login.verifier).put("redirect_uri", login.redirectUri)
                .put("scope", login.scope))

    /**
     * Forwards the ID token that a provider's native SDK gave the app (clients with `native_code`), with the login's nonce.
     */
    fun forwardIdToken(idToken: String, login: AppLogin, device: String? = null): SignIn =
        forwarded(forward(login, device).put("id_token", idToken))

    private fun forward(login: AppLogin, device: String?): JSONObject =
        JSONObject().put("provider", login.provider).put("client", login.client).put("nonce", login.nonce)
            .put("login_token", login.loginToken).put("device", device)

    /** Returns the providers that the broker offers, with `name`, `kind`, `display_name` and `clients`. */
    fun providers(): List<JSONObject> = calls.call("GET", "/v1/providers", withSession = false, evidence = Evidence.NONE).json().getJSONArray("items").objects()

    /** Finishes a Zephr registration. After `registration_rejected`, the attributes can be corrected once. */
    fun register(registration: Registration, attributes: Map<String, Any>): Session {
        val body = JSONObject().put("provider", registration.provider).put("client", client)
            .put("state_key", registration.stateKey).put("attributes", JSONObject(attributes))
        val kept = keeping.kept()
        if (kept.bearer) body.put("login_token", kept.login)
        return made(calls.call("POST", "/v1/registrations", body, evidence = Evidence.SIGN_IN))
    }

    private fun forwarded(body: JSONObject, evidence: Evidence = Evidence.SIGN_IN): SignIn {
        val answer = calls.call("POST", "/v1/sessions", body, evidence = evidence)
        if (answer.status == 200) return SignIn.SignedIn(keepSteppedUp(answer))
        return if (answer.status == 202) SignIn.Register(Registration(answer.json())) else SignIn.SignedIn(made(answer))
    }

    private fun made(answer: Answer): Session {
        val json = answer.json()
        val token = if (json.has("session_token")) json.getString("session_token") else null
        val secret = token ?: answer.cookie(calls.cookieName) ?: throw Unreachable("a session without its secret")
        json.remove("session_token")
        val pass = calls.proofs.pass(json.remove("pass") as? JSONObject, answer)
        val kept = keeping.change { Credentials(session = secret, bearer = token != null, lastSession = it.newest(json), endings = it.endings, pass = pass) }
        return Session(kept.newest(json))
    }

    /** Keeps the session from a step-up's 200 response, and forgets the login. The session's secret is unchanged. */
    private fun keepSteppedUp(answer: Answer): Session {
        val json = answer.json()
        val pass = calls.proofs.pass(json.remove("pass") as? JSONObject, answer)
        val kept = keeping.change {
            Credentials(
                it.session, bearer = it.bearer, lastSession = if (it.session == null) null else it.newest(json), endings = it.endings,
                pass = pass ?: it.pass)
        }
        return Session(kept.newest(json))
    }

    private fun value(url: String, name: String): String? =
        // The scheme is the app's own, so only the query is parsed, as part of the broker's address.
        broker.resolve("/?" + url.substringBefore('#').substringAfter('?', ""))?.queryParameter(name)

    /**
     * Moves the signed-in user of the app's old SDK to the broker, or continues a move that was interrupted. Call it at the start
     * of the app, before the old SDK is used, and only in the app itself. Widgets wait for it. The call returns after the move,
     * or after about ten minutes of failures that pass with time. Meanwhile, use the old access token until it ends.
     *
     * Throws the exceptions of the storages, of the key and of [old]. The mark stays, so the next call continues.
     */
    fun moveIn(old: OldSdk, provider: String, marks: MarkStorage, device: String? = null): MovedIn = moving.moveIn(old, provider, marks, device)

    /**
     * Continues a move that was interrupted. Returns null if the mark is missing. Call it at each start of the app, even
     * after the app has stopped to begin moves.
     */
    fun resumeMoveIn(old: OldSdk, provider: String, marks: MarkStorage, device: String? = null): MovedIn? =
        if (marks.read() == null) null else moving.moveIn(old, provider, marks, device)

    // ---- The session ------------------------------------------------------------------------------------------------

    /**
     * Returns the state of the sign-in within two seconds, for the start of the app. A missing network leaves users signed
     * in.
     */
    fun standing(): Standing {
        val kept = try { keeping.kept() } catch (locked: Exception) { return Standing.Unknown(null) }
        val last = try { kept.lastSession?.let { Session(it) } } catch (other: JSONException) { null }
        if (kept.session == null) {
            calls.endSessions()
            return Standing.SignedOut(null)
        }
        return try {
            Standing.SignedIn(calls.remembered("GET", "/v1/session", 2_000))
        } catch (problem: Problem) {
            if (problem.endsSession) Standing.SignedOut(problem.reason) else Standing.Unknown(last)
        } catch (gone: KeyLost) {
            Standing.SignedOut("key_lost")
        } catch (later: Exception) {
            // The network is missing or the Keystore is busy.
            Standing.Unknown(last)
        }
    }

    /** Returns the session of the signed-in user. Simultaneous calls for the same session share one request. */
    fun session(): Session = keeping.asking.shared { calls.remembered("GET", "/v1/session") }

    /** Returns the provider's access token, for an SDK on the device (clients with `hand_out_access_token`). */
    fun accessToken(): JSONObject = calls.call("POST", "/v1/session/token", evidence = Evidence.PROOF).json()

    /**
     * Asks the broker to refresh the provider's tokens now. Apps rarely need this, because the broker refreshes them in
     * time.
     */
    fun refresh(): Session = calls.remembered("POST", "/v1/session/refresh")

    /**
     * Signs out on this device, with or without a network. Afterwards, the session's data on the device is useless. If the
     * broker is unreachable, a later call ends the session there, even after a restart of the app.
     *
     * With [atProvider], the result is the provider's logout page to open. The result is null if this page is missing or
     * the broker was unreachable.
     */
    fun signOut(atProvider: Boolean = false): HttpUrl? {
        var before: Credentials? = null
        val ending = keeping.change { before = it; it.signedOut() }.endings.lastOrNull() ?: return null
        val answer = try {
            calls.end(ending, if (atProvider) before else null)
        } catch (problem: Problem) {
            if (problem.passes) return null else throw problem
        } catch (gone: KeyLost) {
            // The broker ends a session without evidence, but returns the logout page only with evidence.
            calls.endSessions()
            return null
        } catch (nobody: IOException) {
            return null
        }
        if (!atProvider) return null
        val json = answer.json()
        return if (json.isNull("logout_url")) null else calls.url(json.getString("logout_url"))
    }

    /**
     * Makes a session for a widget, a watch or an extension behind this session. One refresh serves both sessions, and the
     * new session ends with this one.
     *
     * [kind] is a word from the configuration, and [name] identifies the process. An earlier child with the same kind and
     * name ends. If this session is bound, set [jkt] to the thumbprint of the child's own key.
     */
    fun child(kind: String, name: String, device: String? = null, jkt: String? = null): Child {
        val body = JSONObject().put("kind", kind).put("name", name).put("device", device).put("jkt", jkt)
        val made = calls.call("POST", "/v1/session/children", body, evidence = Evidence.PROOF).json()
        return Child(Session(made), made.getString("session_token"))
    }

    /**
     * Hands the session over to a page in the app's own web view, and returns the address to load. [put] sets the cookie in the
     * web view's store and returns after it is stored. The address is useless without the cookie. If the page shows
     * `verifier_mismatch`, the web view loaded it before it had the cookie: load the address once more.
     */
    fun handOver(origin: String, path: String = "/", put: (HandOverCookie) -> Unit): String {
        val secret = base64Url(ByteArray(32).also { SecureRandom().nextBytes(it) })
        val body = JSONObject().put("origin", origin).put("path", path).put("challenge", base64Url(sha256(secret)))
        val answer = calls.call("POST", "/v1/session/handovers", body, evidence = Evidence.PROOF).json()
        put(HandOverCookie(origin, (if (origin.startsWith("https:")) "__Host-" else "") + "coatcheck-handover", secret))
        return answer.getString("url")
    }

    /** Returns the user's sessions on all devices, newest first. */
    fun sessions(): List<Session> {
        val found = ArrayList<Session>()
        var cursor: String? = null
        do {
            val page = calls.call("GET", "/v1/sessions" + (if (cursor == null) "" else "?cursor=$cursor")).json()
            found += page.getJSONArray("items").objects().map { Session(it) }
            cursor = if (page.isNull("next_cursor")) null else page.getString("next_cursor")
        } while (cursor != null)
        return found
    }

    /** Ends one of the user's sessions. */
    fun end(handle: String) { calls.call("DELETE", "/v1/sessions/$handle") }

    /** Ends the user's sessions on all other devices. */
    fun endOthers() { calls.call("DELETE", "/v1/sessions?except=current") }

    // ---- The user, the relay and the events -------------------------------------------------------------------------

    /**
     * Asks the user to sign in again, and returns the session, which keeps its secret and its key. The demand is one of the
     * `acrValues`, or a sign-in within `maxAge` seconds, or both. Simultaneous requests share one step-up. If a request needs
     * more than the running step-up, it gets the next one.
     *
     * Throws a [Cancelled] if the user closes the page. Throws a [Problem] with `step_up_failed` (`required` and `got`) if
     * the sign-in is insufficient, or with `subject_mismatch` if another user signed in. After these errors, the session is
     * unchanged.
     */
    fun stepUp(demand: StepUp): Session = user.stepUp(demand)

    /** Starts a step-up and returns the page to open, for apps that open it themselves. Continue with [finish]. */
    fun startStepUp(demand: StepUp): HttpUrl = user.startStepUp(demand)

    /**
     * Registers the presence key for the session. Makes a key if necessary, and asks the user once. Call it soon after a
     * sign-in or a [stepUp]. A session accepts one presence key in its life. If the key is lost, a [PresenceKeyLost] is
     * thrown, and the next session can register another.
     */
    fun registerPresenceKey(): Session = user.registerPresenceKey()

    /**
     * Returns a bound session's pass for the app's own requests, which send it as `Coatcheck-Pass`. Renews the pass if it
     * is due. Returns null if the session needs no pass.
     */
    fun pass(): String? = calls.proofs.pass()

    /**
     * Calls an upstream API with the session's access token, which the app never sees. A call that may have reached the
     * upstream is repeated only if its method is idempotent. The [query] is for example `page=2`.
     *
     * If the broker demands the user's presence (`presence_required`), the presence key asks the user, for one call after
     * another. With [presence], it asks before the first request. This saves a request if the demand is certain.
     */
    fun relay(
        upstream: String, path: String, method: String = "GET", body: RequestBody? = null, presence: Boolean = false, query: String? = null
    ): RelayAnswer = calls.relayed(user, upstream, path, method, body, presence, query)

    /**
     * Listens until the session ends or [listening] is stopped. Reconnects by itself. Listen in the foreground only,
     * because the first event after a reconnect contains the current state.
     */
    fun listen(listener: SessionListener, listening: Listening = Listening()) = calls.listened(listener, listening)

    /**
     * Cancels the call of a waiting thread. The call returns at once with an [InterruptedIOException] or another
     * [IOException].
     */
    fun cancel(thread: Thread) = calls.cancel(thread)
}
