package shop

import coatcheck.Coatcheck
import coatcheck.Listening
import coatcheck.Problem
import coatcheck.Session
import coatcheck.SessionListener
import coatcheck.SignIn
import coatcheck.Standing
import coatcheck.suspending
import kotlinx.coroutines.CancellationException
import okhttp3.HttpUrl

/**
 * The state of the app's screen. [message] is a sentence for the user about the last failure. [ended] is the reason why the
 * session ended, unless the user signed out here. The app chooses its sentence by it (docs/problems.md, `session_ended`).
 */
data class Screen(
    val starting: Boolean = false, val user: String? = null, val orders: String = "", val message: String = "", val ended: String? = null)

/** The model of the app. [show] receives each new state. */
class Shop(private val coatcheck: Coatcheck, private val show: (Screen) -> Unit) {
    private var screen = Screen(starting = true)
        set(value) {
            field = value
            show(value)
        }

    /** Shows the first screen, within two seconds. */
    suspend fun start() {
        val standing = coatcheck.suspending { standing() }
        screen = when (standing) {
            is Standing.SignedIn -> signedIn(standing.session)
            is Standing.SignedOut -> signedOut(standing.reason)
            // The network is missing, and the user stays signed in.
            is Standing.Unknown -> standing.last?.let { signedIn(it) } ?: Screen()
        }
    }

    /** Returns the page to open in the system's browser. Its callback goes to [finish]. Returns null after a failure. */
    suspend fun signIn(): HttpUrl? = attempt { coatcheck.suspending { start("oidc") } }

    /** Finishes the sign-in with the whole URL of the callback, even after a restart of the app. */
    suspend fun finish(callback: String) {
        attempt {
            val signIn = coatcheck.suspending { finish(callback) }
            if (signIn is SignIn.SignedIn) screen = signedIn(signIn.session)
        }
    }

    /**
     * Calls the API behind the broker, which adds the provider's access token. The sandbox's API returns an echo of what the
     * upstream received, so the answer shows this token.
     */
    suspend fun loadOrders() {
        attempt {
            val answer = coatcheck.suspending { relay("api", "private/orders") }
            screen = screen.copy(orders = "${answer.status}: ${String(answer.body)}")
        }
    }

    suspend fun signOut() {
        attempt { coatcheck.suspending { signOut() } }
        screen = Screen()
    }

    /** Follows the session while the app is in the foreground. A sign-out on another device ends it here, too. */
    suspend fun follow() {
        val listening = Listening()
        var end: Screen? = null
        try {
            attempt {
                coatcheck.suspending {
                    // These methods run on the thread of the client.
                    listen(object : SessionListener {
                        override fun session(session: Session) {}
                        override fun tokensRefreshed() {}
                        override fun ended(reason: String?) { end = signedOut(reason) }
                    }, listening)
                }
            }
        } finally {
            listening.stop()
        }
        end?.let { screen = it }
    }

    /** Shows the user's name, which the provider returns for the scope `profile`. */
    private fun signedIn(session: Session) = Screen(user = session.name ?: session.subject)

    private fun signedOut(reason: String?) = Screen(ended = if (reason == "logged_out") null else reason)

    private suspend fun <Value> attempt(work: suspend () -> Value): Value? {
        screen = screen.copy(message = "")
        try {
            return work()
        } catch (gone: CancellationException) {
            throw gone // The view is gone.
        } catch (problem: Problem) {
            screen = if (problem.endsSession) signedOut(problem.reason) else screen.copy(message = problem.message ?: problem.code)
            // The details are for the developer.
            if (!problem.endsSession) System.err.println("${problem.json.optString("detail")} ${problem.json.optJSONArray("errors") ?: ""}")
        } catch (failed: Exception) {
            // Every other failure leaves the user signed in.
            screen = screen.copy(message = failed.message ?: "$failed")
        }
        return null
    }
}
