// The user's presence through the Kotlin client. A proxy records the requests and disturbs them
// (Tests/scenarios/clients/kotlin-client.sh).
package coatcheck

import java.security.KeyPair
import java.security.Signature
import java.util.Collections
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import org.json.JSONArray
import org.json.JSONObject

/** A key that asks its user before each signature. The user may be slow or refuse. */
private class AskingKey : PlatformProofKey() {
    val inner = SoftwareKey()
    val prompts = AtomicInteger()
    private val now = AtomicInteger()
    val most = AtomicInteger()
    @Volatile var holds = false
    @Volatile var refuses = false

    override fun pair(): KeyPair? = if (inner.lost) null else inner.kept
    override fun make(): ProofPublicKey = inner.make()

    override fun allowed(signature: Signature): Signature {
        prompts.incrementAndGet()
        most.accumulateAndGet(now.incrementAndGet(), Math::max)
        try {
            while (holds) Thread.sleep(10)
            if (refuses) throw Cancelled()
            return signature
        } finally {
            now.decrementAndGet()
        }
    }
}

class Presences(private val network: HttpUrl, private val say: (Boolean, String) -> Unit) {
    private val http = OkHttpClient()
    private val path = "/v1/relay/watched/echo"

    private fun control(method: String, path: String): String =
        http.newCall(Request.Builder().url(network.resolve(path)!!).method(method, if (method == "POST") RequestBody.create(null, "") else null).build())
            .execute().use { it.body!!.string() }

    private fun forget() = control("DELETE", "/_calls")
    private fun meddle(kind: String, times: Int = 1, at: String = path) = control("POST", "/_meddle/$kind/$times$at")
    private fun calls(): List<JSONObject> = JSONArray(control("GET", "/_calls")).let { all -> (0 until all.length()).map { all.getJSONObject(it) } }
    private fun paid() = calls().filter { it.getString("path") == path }
    private fun shown() = paid().map { if (it.isNull("presence")) null else it.getString("presence") }

    /** A device whose key asks its user before each signature. */
    private inner class Device(client: String = "bound", age: Int = 0, registers: Boolean = true, steps: Boolean = false) {
        val asking = AskingKey()
        val browser = StepUpBrowser("pia")
        val storage = MemoryStorage()
        val phone = Coatcheck(
            network, client, storage, key = SoftwareKey(), presenceKey = asking, browser = browser,
            onStepUp = steps.takeIf { it }?.let { yes -> { _: StepUp -> yes } })
        val prompts: Int get() = asking.prompts.get()

        init {
            browser.age = age
            signIn()
            browser.age = 0
            if (registers) phone.registerPresenceKey()
            forget()
        }

        fun signIn() = phone.finish(browser.open(phone.start("oidc")))
        fun pay(presence: Boolean = false) = phone.relay("watched", "echo", "POST", presence = presence).status
        fun reason(presence: Boolean = true) = try { pay(presence); null } catch (problem: Problem) { problem.reason }
    }

    private fun isLost(work: () -> Any?) = try { work(); false } catch (gone: PresenceKeyLost) { true }

    fun walk() {
        for (client in listOf("bound", "bound-bearer")) registration(client)
        joined()
        older()
        once()
        refused()
        ten()
        lost()
    }

    private fun registration(client: String) {
        val keyless = Coatcheck(network, client, MemoryStorage(), key = SoftwareKey())
        keyless.signIn("oidc", "pia")
        fun isMissing(work: () -> Any?) = try { work(); false } catch (none: IllegalStateException) { true }
        say(isMissing { keyless.registerPresenceKey() } && isMissing { keyless.relay("watched", "echo", presence = true) }, "$client: a device without a presence key → registration and presence calls fail")
        say(problem { keyless.relay("watched", "echo") } == "presence_required", "$client: a call that needs presence, without a presence key → presence_required")
        val old = Device(client, 4_000, false)
        val required = try { old.phone.registerPresenceKey(); null } catch (required: StepUpRequired) { required }
        say(required?.stepUp?.maxAge == 600L && problem { old.pay() } == "presence_required" && old.prompts == 0, "$client: a registration long after the sign-in → a step-up is required, and no question to the user")
        old.phone.stepUp(StepUp(maxAge = 600))
        val session = old.phone.registerPresenceKey()
        say(session.presence == old.asking.publicKey()?.thumbprint && old.prompts == 1, "$client: a registration after the step-up → one question")
        say(old.phone.registerPresenceKey().presence == session.presence && old.pay() == 200, "$client: a second registration → the same key, and a payment succeeds")
        val steps = Device(client, 4_000, false, true)
        say(steps.phone.registerPresenceKey().presence != null && steps.prompts == 1 && steps.browser.pages.size == 2, "$client: a registration when the app allows step-ups → one call with step-up and question")
    }

    private fun older() {
        val one = Device()
        val newest = one.phone.session()
        say(newest.version == 2L && newest.presence != null, "a registered presence key → version 2 of the session")
        meddle("older", 2, "/v1/session")
        say(one.phone.session().presence == newest.presence, "a session object of a lower version → ignored")
        say((one.phone.standing() as? Standing.SignedIn)?.session?.presence == newest.presence, "a session object of a lower version at the app's start → ignored")
        meddle("older", 1, "/v1/session/refresh")
        say(one.phone.refresh().let { it.version == 2L && it.presence == newest.presence }, "a session object of a lower version from a refresh → ignored")
        meddle("older", 1, "/v1/session/events")
        val listening = Listening()
        var heard: String? = null
        one.phone.listen(object : SessionListener {
            override fun session(session: Session) { heard = session.presence; listening.stop() }
            override fun tokensRefreshed() {}
            override fun ended(reason: String?) {}
        }, listening)
        say(heard == newest.presence, "a session object of a lower version in an event → ignored")
        meddle("older", 1, "/v1/session/presence-key")
        say(one.phone.registerPresenceKey().presence == newest.presence, "a session object of a lower version from a registration → ignored")
        say(one.storage.read()!!.lastSession!!.getJSONObject("presence").getString("jkt") == newest.presence, "session objects of a lower version → not stored")
        val before = one.prompts
        say(one.pay() == 200 && one.prompts == before + 1, "a payment after session objects of a lower version → one question")
        meddle("unversioned", 1, "/v1/session")
        say(one.phone.session().acr == "older" && one.phone.session().presence == newest.presence, "a session object without a version → used")
    }

    private fun joined() {
        val either = StepUp(listOf("mfa", "phr")).joined(StepUp(listOf("phr")))
        say(either?.acrValues == listOf("phr") && either.maxAge == null, "two demands for an acr, joined → a demand for the acr without an age")
        val ages = listOf(StepUp(maxAge = 300).joined(StepUp(listOf("mfa"))), StepUp(maxAge = 300).joined(StepUp(maxAge = 60)))
        say(ages.map { it?.maxAge } == listOf(300L, 60L) && StepUp(listOf("a")).joined(StepUp(listOf("b"))) == null, "two demands with ages, joined → the shorter age")
    }

    private fun once() {
        val one = Device()
        say(one.pay() == 200 && one.prompts == 2 && shown().map { it != null } == listOf(false, true), "a call that needs presence → one question")
        forget()
        say(one.pay(true) == 200 && one.prompts == 3 && calls().size == 1, "a call that the app marks for presence → one question, and one request")
        forget()
        one.phone.now = { System.currentTimeMillis() + 300_000 }
        say(one.pay(true) == 200 && one.prompts == 4, "a call for presence with an old nonce → one question")
        val seen = calls().map { it.getString("path") }.filter { it != "/v1/session/pass" }
        say(seen == listOf("/v1/session", "/v1/session", path), "a call for presence with an old nonce → the nonce is renewed first, without a question: $seen")
        forget()
        meddle("proof_required")
        say(one.pay(true) == 200 && one.prompts == 5 && shown().size == 2 && shown().toSet().size == 1, "a call whose other evidence is refused → repeated with the same presence proof")
    }

    private fun refused() {
        val one = Device()
        meddle("presence-nonce")
        say(one.pay(true) == 200 && one.prompts == 3, "a presence proof that is refused for its nonce → one more question")
        forget()
        meddle("presence-nonce", 9)
        say(one.reason() == "nonce" && one.prompts == 5 && paid().size == 2, "a presence proof that is refused for its nonce twice → no third question")
        for (reason in listOf("replayed", "signature")) {
            forget()
            meddle("presence-$reason", 9)
            say(one.reason() == reason && paid().size == 1, "a presence proof that is refused as $reason → the call is not repeated")
        }
        forget()
        meddle("presence-key", 9)
        say(isLost { one.pay() }, "the broker reports that the session has another presence key → the device's presence key counts as lost")
        val steps = Device(steps = true)
        meddle("step_up_required")
        say(steps.pay() == 200 && steps.browser.pages.size == 2 && steps.prompts == 2, "a call that needs presence and a fresh sign-in → the sign-in comes first")
    }

    private fun ten() {
        val one = Device()
        val results = Collections.synchronizedList(ArrayList<String>())
        fun begin() = thread { results += try { "${one.pay()}" } catch (no: Exception) { no.javaClass.simpleName } }
        (1..10).map { begin() }.forEach { it.join() }
        say(results == List(10) { "200" } && one.prompts == 11 && one.asking.most.get() == 1, "ten calls at once → ten questions, one after the other: $results ${one.prompts} ${one.asking.most}")
        results.clear()
        one.asking.holds = true
        one.asking.refuses = true
        val all = (1..10).map { begin() }
        until { all.count { it.state == Thread.State.WAITING } == 9 }
        one.asking.holds = false
        all.forEach { it.join() }
        say(results == List(10) { "Cancelled" } && one.prompts == 12, "a no to one of ten questions → all waiting calls are cancelled: $results ${one.prompts}")
        results.clear()
        one.asking.refuses = false
        one.asking.holds = true
        val first = begin()
        until { one.prompts == 13 }
        val second = begin()
        until { second.state == Thread.State.WAITING }
        one.phone.cancel(second)
        second.join()
        one.asking.holds = false
        first.join()
        say(results == listOf("InterruptedIOException", "200") && one.pay() == 200, "a waiting call is cancelled → it ends at once, and the other calls go on: $results")
    }

    private fun lost() {
        val one = Device()
        val first = one.asking.publicKey()?.thumbprint
        one.asking.inner.lost = true
        say(isLost { one.pay() } && isLost { one.phone.registerPresenceKey() } && one.prompts == 1, "a lost presence key → calls and registrations fail until a new sign-in")
        say(one.phone.session().presence == first, "a lost presence key → the session goes on")
        one.signIn()
        say(one.phone.registerPresenceKey().presence != first && one.pay() == 200, "a new sign-in after a lost presence key → another key is registered")
    }
}
