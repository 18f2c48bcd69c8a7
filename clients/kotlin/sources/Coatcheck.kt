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

import java.io.IOException
import java.security.SecureRandom
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.RequestBody
import org.json.JSONException
import org.json.JSONObject

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
