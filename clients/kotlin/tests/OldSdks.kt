// The code of docs/apps/moving-in-app.md, with stubs of the members of AppAuth and of Auth0's SDK that it calls. The
// tests compile it, and run it against the stubs.
package coatcheck

import java.io.File
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicInteger
import okhttp3.HttpUrl

// AppAuth-Android 0.11: AuthState, and the AuthStateManager of its demo.
private class AuthState(val refreshToken: String? = null, val accessToken: String? = null, val idToken: String? = null) {
    fun performActionWithFreshTokens(service: AuthorizationService, action: (String?, String?, Exception?) -> Unit) = action(service.refreshed, idToken, null)
}
private class AuthorizationService(val refreshed: String?)
private class AuthStateManager(var current: AuthState) {
    fun replace(state: AuthState): AuthState { current = state; return state }
}

// Auth0.Android 3: SecureCredentialsManager, its callback, its clock, and Android's preferences.
private class CredentialsManagerException : Exception()
private interface Callback<Value, Failure : Exception> {
    fun onSuccess(result: Value)
    fun onFailure(error: Failure)
}
private interface Clock { fun getCurrentTimeMillis(): Long }
private class Auth0Credentials(val refreshToken: String?, val idToken: String, val expiresAt: Long)
private class SecureCredentialsManager(private val store: Auth0Store) {
    private var clock: Clock = object : Clock { override fun getCurrentTimeMillis() = System.currentTimeMillis() }
    fun setClock(clock: Clock) { this.clock = clock }
    fun hasValidCredentials() = store.kept != null
    fun clearCredentials() { store.kept = null }
    fun getCredentials(callback: Callback<Auth0Credentials, CredentialsManagerException>) {
        val kept = store.kept ?: return callback.onFailure(CredentialsManagerException())
        if (kept.expiresAt <= clock.getCurrentTimeMillis()) store.renewals += 1
        callback.onSuccess(kept)
    }
}
private class Auth0Store(var kept: Auth0Credentials?, var renewals: Int = 0)
private class SharedPreferences(var commits: Int = 0) {
    fun edit() = this
    @Suppress("UNUSED_PARAMETER") fun putBoolean(name: String, value: Boolean) = this
    fun commit(): Boolean { commits += 1; return true }
}

/** The old SDK is AppAuth, with the `AuthStateManager` of AppAuth's demo. */
private class AppAuthMove(
    private val manager: AuthStateManager, private val service: AuthorizationService, private val marks: MarkStorage
) : OldSdk {
    private val running = AtomicInteger()

    /** The only function of the app that may refresh. */
    fun withAccessToken(use: (String?) -> Unit) {
        running.incrementAndGet()            // first announce the refresh, then look for the mark
        if (marks.isMoving) {
            running.decrementAndGet()
            return use(manager.current.accessToken)
        }
        val state = manager.current
        state.performActionWithFreshTokens(service) { token, _, _ ->
            manager.replace(state)           // stores the new refresh token
            running.decrementAndGet()
            use(token)
        }
    }

    override fun awaitRefresh() { while (running.get() > 0) Thread.sleep(50) }

    override fun tokens(): OldTokens? = manager.current.refreshToken?.let { OldTokens(it, manager.current.idToken) }

    override fun erase() { manager.replace(AuthState()) }    // writes with commit(), and forgets the tokens in memory
}

/** The old SDK is Auth0's, with its `SecureCredentialsManager` in the preferences `com.auth0.authentication.storage`. */
private class Auth0Move(
    private val manager: SecureCredentialsManager, private val reader: SecureCredentialsManager,
    private val preferences: SharedPreferences, private val marks: MarkStorage
) : OldSdk {
    private val running = AtomicInteger()

    /** The only function of the app that may refresh. */
    fun credentials(callback: Callback<Auth0Credentials, CredentialsManagerException>) {
        running.incrementAndGet()            // first announce the refresh, then look for the mark
        if (marks.isMoving) {
            running.decrementAndGet()
            return reader.getCredentials(callback)
        }
        manager.getCredentials(object : Callback<Auth0Credentials, CredentialsManagerException> {
            override fun onSuccess(result: Auth0Credentials) { running.decrementAndGet(); callback.onSuccess(result) }
            override fun onFailure(error: CredentialsManagerException) { running.decrementAndGet(); callback.onFailure(error) }
        })
    }

    // A second manager on the same storage. With this clock each token is fresh, so it only reads.
    init { reader.setClock(object : Clock { override fun getCurrentTimeMillis() = 0L }) }

    override fun awaitRefresh() { while (running.get() > 0) Thread.sleep(50) }

    override fun tokens(): OldTokens? {
        if (!reader.hasValidCredentials()) return null
        val kept = CompletableFuture<Auth0Credentials>()
        reader.getCredentials(object : Callback<Auth0Credentials, CredentialsManagerException> {
            override fun onSuccess(result: Auth0Credentials) { kept.complete(result) }
            override fun onFailure(error: CredentialsManagerException) { kept.completeExceptionally(error) }
        })
        return kept.get().refreshToken?.let { OldTokens(it, kept.get().idToken) }
    }

    override fun erase() {
        manager.clearCredentials()
        // The SDK deletes with apply(), which returns before the disk is written. This commit() writes the whole file.
        preferences.edit().putBoolean("moved", true).commit()
    }
}

/** The start of the app. */
private class Start(private val noBackupFilesDir: File, private val show: (Any?) -> Unit, private val signIn: () -> Unit) {
    fun begin(broker: HttpUrl, storage: CredentialStorage, old: OldSdk, isMoveOn: Boolean) {
        val marks = FileMarkStorage(File(noBackupFilesDir, "coatcheck-move-in"))
        val coatcheck = Coatcheck(broker, "android", storage)
        val outcome = coatcheck.resumeMoveIn(old, "oidc", marks)
            ?: if (isMoveOn) coatcheck.moveIn(old, "oidc", marks) else return
        when (outcome) {
            is MovedIn.Moved -> show(outcome.session)    // from now on, call the broker
            is MovedIn.SignIn -> signIn()                // start a login at the broker
            is MovedIn.Later -> {}                       // use the old access token; resume at the next start
            is MovedIn.NotNow -> {}                      // go on as before; try again at the next start
        }
    }

    fun signOut(old: OldSdk, marks: MarkStorage) {
        old.erase()
        marks.remove()
    }
}

/** Runs the code of the page against the stubs. */
internal fun oldSdks(say: (Boolean, String) -> Unit) {
    val marks = object : MarkStorage {
        var mark: MoveInMark? = null
        override fun read() = mark
        override fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark? = work(mark).also { mark = it }
    }
    val manager = AuthStateManager(AuthState("refresh", "old", "id"))
    val appAuth = AppAuthMove(manager, AuthorizationService("fresh"), marks)
    var used: String? = null
    appAuth.withAccessToken { used = it }
    say(used == "fresh", "the page's code for AppAuth without a mark → refreshes")
    marks.change { MoveInMark.random() }
    appAuth.withAccessToken { used = it }
    say(used == "old" && appAuth.tokens()?.refreshToken == "refresh", "the page's code for AppAuth with a mark → the old access token")
    appAuth.awaitRefresh()
    appAuth.erase()
    say(appAuth.tokens() == null, "the page's code for AppAuth erases → no tokens are left")

    val store = Auth0Store(Auth0Credentials("refresh", "id", 1))
    val preferences = SharedPreferences()
    val auth0 = Auth0Move(SecureCredentialsManager(store), SecureCredentialsManager(store), preferences, marks)
    val nothing = object : Callback<Auth0Credentials, CredentialsManagerException> {
        override fun onSuccess(result: Auth0Credentials) { used = result.refreshToken }
        override fun onFailure(error: CredentialsManagerException) { used = null }
    }
    auth0.credentials(nothing)
    say(auth0.tokens()?.refreshToken == "refresh" && store.renewals == 0, "the page's code for Auth0 with a mark and an expired access token → never renews")
    marks.remove()
    auth0.credentials(nothing)
    say(store.renewals == 1, "the page's code for Auth0 without a mark → renews")
    auth0.awaitRefresh()
    auth0.erase()
    say(auth0.tokens() == null && preferences.commits == 1, "the page's code for Auth0 erases → no tokens are left, and the disk is written")

    val folder = File.createTempFile("files", "").apply { delete(); mkdirs() }
    val shown = ArrayList<Any?>()
    Start(folder, { shown += it }, { shown += "sign in" }).run {
        begin(HttpUrl.get("http://broker.test"), MemoryStorage(), appAuth, false)
        signOut(appAuth, marks)
    }
    say(shown.isEmpty() && marks.mark == null, "the page's start without a mark and without the switch → no move")
    folder.deleteRecursively()
}
