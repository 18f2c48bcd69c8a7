package shop

import coatcheck.Coatcheck
import coatcheck.Problem
import coatcheck.Session
import coatcheck.SignIn
import coatcheck.Standing
import coatcheck.suspending
import kotlinx.coroutines.CancellationException
import okhttp3.HttpUrl

/** The state of the app's screen. [message] is a sentence for the user about the last failure. */
data class Screen(val starting: Boolean = false, val user: String? = null, val orders: String = "", val message: String = "")

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
            is Standing.SignedOut -> Screen()
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

    /** Calls the API behind the broker. The broker adds the provider's access token, and keeps it. */
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

    private fun signedIn(session: Session) = Screen(user = session.name ?: session.subject)

    private suspend fun <Value> attempt(work: suspend () -> Value): Value? {
        screen = screen.copy(message = "")
        try {
            return work()
        } catch (gone: CancellationException) {
            throw gone // The view is gone.
        } catch (problem: Problem) {
            screen = if (problem.endsSession) Screen() else screen.copy(message = problem.message ?: problem.code)
        } catch (failed: Exception) {
            // Every other failure leaves the user signed in.
            screen = screen.copy(message = failed.message ?: "$failed")
        }
        return null
    }
}
