// The data that a device keeps, and its changes.
package coatcheck

import org.json.JSONArray
import org.json.JSONObject

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
internal class Keeping(private val storage: CredentialStorage) {
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
