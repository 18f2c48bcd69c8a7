// The two ways to ask the user after a refused call: a step-up in the browser, and a prompt of the presence key.
package coatcheck

import okhttp3.HttpUrl
import org.json.JSONObject

/** The step-ups and the presence proofs. Calls wait while the user answers. */
internal class Asking(
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
