// The values that an app gives and receives: sessions, outcomes, demands, errors, and listeners.
package coatcheck

import java.io.IOException
import java.security.SecureRandom
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import okhttp3.Call
import okhttp3.HttpUrl
import org.json.JSONArray
import org.json.JSONObject

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

internal fun JSONObject.text(name: String): String? = if (isNull(name)) null else getString(name)

internal fun JSONArray.objects(): List<JSONObject> = (0 until length()).map { getJSONObject(it) }
