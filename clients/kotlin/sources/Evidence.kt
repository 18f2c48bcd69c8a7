// The evidence of a bound session: the kind that a call needs, proofs and passes, and new evidence after a refusal.
package coatcheck

import java.io.InterruptedIOException
import java.security.SecureRandom
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import okhttp3.Request
import okhttp3.Response
import org.json.JSONObject

/**
 * The evidence of a bound session's key that a call sends.
 * - `SIGN_IN`: a proof, which makes the key the owner of the new session.
 * - `SESSION`: a pass, or a proof if the client's sessions need a proof with each request.
 * - `PROOF`: a proof, because the result of the call outlives a pass.
 */
internal enum class Evidence { NONE, SIGN_IN, SESSION, PROOF }

/**
 * The evidence that a call lacks, added after the broker's refusal. Each kind is added at most once, so that a call cannot
 * loop.
 */
internal class Mending(val asksForNonce: Boolean = false, val registers: Boolean = false) {
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
internal class Shown(val pass: String? = null, val proof: String? = null, val presence: String? = null)

/** The evidence that the session's key gives for requests: proofs, and passes, which replace proofs. */
internal class Proofs(private val calls: Calls, private val keeping: Keeping, private val key: ProofKey?) {
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
