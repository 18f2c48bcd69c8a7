// Step-ups through the Kotlin client. A proxy records the requests and disturbs them (Tests/scenarios/clients/kotlin-client.sh).
package coatcheck

import java.io.IOException
import java.util.Collections
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import kotlin.concurrent.thread
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import org.json.JSONArray
import org.json.JSONObject

/** A browser that remembers its pages. Its user signed in some time ago, waits, or closes the page. */
internal class StepUpBrowser(@Volatile var user: String) : SignInBrowser {
    val pages: MutableList<String> = Collections.synchronizedList(ArrayList<String>())
    @Volatile var age = 0
    @Volatile var holds = false
    @Volatile var closes = false
    @Volatile var closings = 0

    override fun open(page: HttpUrl): String {
        pages += page.toString()
        if (closes) throw Cancelled()
        while (holds) {
            try {
                Thread.sleep(10)
            } catch (left: InterruptedException) {
                closings += 1
                throw left
            }
        }
        return browser(if (age == 0) page else page.newBuilder().addQueryParameter("sandbox_auth_age", "$age").build(), user)
    }
}

/** Waits for a condition that another thread fulfils. */
internal fun until(done: () -> Boolean) { while (!done()) Thread.sleep(10) }

class StepUps(private val broker: HttpUrl, private val network: HttpUrl, private val say: (Boolean, String) -> Unit) {
    private val http = OkHttpClient()

    private fun control(method: String, path: String): String =
        http.newCall(Request.Builder().url(network.resolve(path)!!).method(method, if (method == "POST") RequestBody.create(null, "") else null).build())
            .execute().use { it.body!!.string() }

    private fun forget() = control("DELETE", "/_calls")
    private fun calls(): List<JSONObject> = JSONArray(control("GET", "/_calls")).let { all -> (0 until all.length()).map { all.getJSONObject(it) } }

    /** A device whose user signed in an hour ago. It counts the questions to its app. */
    private inner class Aged(user: String, says: Boolean?, client: String = "ios", val key: ProofKey? = null) {
        val browser = StepUpBrowser(user)
        val storage = MemoryStorage()
        val asked: MutableList<StepUp> = Collections.synchronizedList(ArrayList<StepUp>())
        val phone = Coatcheck(
            network, client, storage, key = key, browser = browser,
            onStepUp = says?.let { yes -> { demand: StepUp -> asked.add(demand); yes } })
        val session: Session

        init {
            browser.age = 4_000
            session = (phone.finish(browser.open(phone.start("oidc"))) as SignIn.SignedIn).session
            browser.age = 0
            browser.pages.clear()
            forget()
        }

        fun echo(method: String = "GET") = phone.relay("guarded", "private/echo", method).status
        fun required(work: () -> Any?): StepUpRequired? = try { work(); null } catch (required: StepUpRequired) { required }
    }

    private fun <Value> together(works: List<() -> Value>): List<Value> {
        val pool = Executors.newFixedThreadPool(works.size)
        try { return pool.invokeAll(works.map { Callable { it() } }).map { it.get() } } finally { pool.shutdown() }
    }

    fun walk() {
        demands()
        for (says in listOf(null, false)) {
            val one = Aged("stan", says)
            val required = one.required { one.echo() }
            say(required?.stepUp?.maxAge == 300L && required.parent == false && one.browser.pages.isEmpty(), "a call needs a step-up that the app has not allowed → it throws the demand and opens no browser")
            say(one.asked.size == (if (says == null) 0 else 1) && calls().size == 1 && one.phone.session().handle == one.session.handle, "a step-up that the app has not allowed → the session is unchanged")
        }
        for (client in listOf("ios", "bound", "bound-bearer")) ten(client)
        joined()
        again()
        late()
        closed()
        named()
        lost()
        children()
    }

    private fun demands() {
        fun demand(acr: String?, age: Long?) = StepUp(acr?.split(" "), age)
        val covered = listOf(
            Triple(demand("mfa", null), demand("mfa phr", null), true), Triple(demand("mfa phr", null), demand("mfa", null), false),
            Triple(demand(null, 60), demand(null, 300), true), Triple(demand(null, 300), demand(null, 60), false),
            Triple(demand("mfa", 60), demand(null, 300), true), Triple(demand(null, 60), demand("mfa", null), false))
        say(covered.all { (one, other, covers) -> one.covers(other) == covers }, "two demands → the first covers the second if it requires at least as much")
        val both = demand("mfa phr", null).joined(demand("phr hwk", 300))
        say(both?.acrValues == listOf("phr") && both.maxAge == 300L && demand("mfa", null).joined(demand("phr", null)) == null, "two demands, joined → the weakest demand that meets both, or null")
    }

    private fun ten(client: String) {
        val one = Aged("sina", true, client, if (client == "ios") null else SoftwareKey())
        val secret = one.storage.read()!!.session
        val statuses = together((1..10).map { { one.echo() } })
        say(statuses == List(10) { 200 } && one.browser.pages.size == 1 && one.browser.pages[0].contains("max_age=300"), "$client: ten calls at once need a step-up → one page: $statuses, ${one.browser.pages.size}")
        val relayed = calls().filter { it.getString("path").startsWith("/v1/relay") }
        say(one.asked.size == 1 && relayed.count { it.getInt("status") == 401 } == 10 && relayed.count { it.getInt("status") == 200 } == 10, "$client: ten calls at once need a step-up → one question to the app, and each call is repeated once")
        val now = one.phone.session()
        val kept = one.storage.read()!!
        say(now.handle == one.session.handle && now.authenticatedAt!! > one.session.authenticatedAt!! && kept.session == secret && kept.login == null, "$client: a step-up → the same session, with the same token")
    }

    private fun joined() {
        val one = Aged("sofi", true)
        one.phone.gatheringMillis = 2_000
        val statuses = together(listOf("GET", "POST", "PUT").map { method -> { one.echo(method) } })
        say(statuses == listOf(200, 200, 200) && one.browser.pages.size == 1 && one.asked[0].acrValues == listOf("phr") && one.asked[0].maxAge == 300L, "demands at the same time → one step-up with the strictest")
        val other = Aged("sofi", true)
        other.browser.holds = true
        val results = Collections.synchronizedList(ArrayList<Int>())
        fun begin(method: String) = thread { results += other.echo(method) }
        val first = begin("GET")
        until { other.browser.pages.size == 1 }
        // Two calls need more than the open page will give, and one call does not.
        val later = listOf(begin("POST"), begin("POST"), begin("GET"))
        until { calls().count { it.optInt("status") == 401 } == 4 }
        val waits = other.browser.pages.size == 1
        other.browser.holds = false
        (later + first).forEach { it.join() }
        say(waits && results == listOf(200, 200, 200, 200) && other.browser.pages.size == 2 && other.browser.pages[1].contains("acr_values=mfa"), "a stronger demand during a step-up → a second step-up")
    }

    private fun again() {
        val one = Aged("seb", true)
        control("POST", "/_meddle/step_up_required/9/v1/relay/api/echo")
        val required = one.required { one.phone.relay("api", "echo") }
        say(required != null && one.browser.pages.size == 1 && calls().count { it.getString("path") == "/v1/relay/api/echo" } == 2, "a call that is refused again after its step-up → throws, without a second page")
    }

    private fun late() {
        val one = Aged("lou", true)
        control("POST", "/_meddle/held/1/v1/relay/api/echo")
        var status = 0
        val late = thread { status = one.phone.relay("api", "echo").status }
        until { calls().isNotEmpty() }
        one.phone.stepUp(StepUp(maxAge = 60))
        control("POST", "/_release")
        late.join()
        say(status == 200 && one.browser.pages.size == 1, "a refusal from before another call's step-up arrives after it → the call is repeated without a page")
    }

    private fun closed() {
        val one = Aged("sam", true)
        one.browser.closes = true
        fun no(work: () -> Any?) = try { work(); false } catch (no: Cancelled) { true }
        val answers = together((1..5).flatMap { listOf({ no { one.echo() } }, { no { one.phone.stepUp(StepUp(maxAge = 300)) } }) })
        say(answers.all { it } && one.browser.pages.size == 1 && one.phone.session().handle == one.session.handle, "the user closes the page → all waiting calls are cancelled")
        one.browser.closes = false
        one.browser.holds = true
        val left = Collections.synchronizedList(ArrayList<Int>())
        val waiting = (0..1).map { number -> thread { try { one.phone.stepUp(StepUp(listOf("mfa"))) } catch (cancelled: IOException) { left += number } } }
        until { one.browser.pages.size == 2 && waiting.all { it.state == Thread.State.WAITING } }
        one.phone.cancel(waiting[0])
        waiting[0].join()
        val open = one.browser.closings == 0
        one.phone.cancel(waiting[1])
        waiting[1].join()
        until { one.browser.closings == 1 }
        one.browser.holds = false
        say(open && left == listOf(0, 1) && one.phone.stepUp(StepUp(listOf("mfa"))).acr == "mfa", "the last waiting call is cancelled → the page closes, and the next step-up succeeds")
    }

    private fun named() {
        val one = Aged("sue", null)
        fun refusal(demand: StepUp) = try { one.phone.stepUp(demand); null } catch (problem: Problem) { problem }
        one.browser.age = 4_000
        val weak = refusal(StepUp(listOf("mfa"), 300))
        say(weak?.code == "step_up_failed" && weak.required?.maxAge == 300L && weak.required.acrValues == listOf("mfa") && !weak.got!!.isNull("authenticated_at"), "a step-up that is too weak → step_up_failed, with the demand and the sign-in")
        one.browser.age = 0
        one.browser.user = "ben"
        say(refusal(StepUp(maxAge = 300))?.code == "subject_mismatch", "a step-up by another user → subject_mismatch")
        one.browser.user = "denied"
        say(refusal(StepUp(maxAge = 300))?.code == "access_denied", "a step-up that the user refuses at the provider → access_denied")
        say(one.phone.session().authenticatedAt == one.session.authenticatedAt, "three failed step-ups → the session is unchanged")
        val cookie = "coatcheck=${one.storage.read()!!.session}"
        Coatcheck(broker, "ios", MemoryStorage().apply { write(one.storage.read()) }).signOut()
        ending(broker, "Cookie", cookie)
        say(refusal(StepUp(maxAge = 300))?.code == "session_ended", "a step-up of an ended session → session_ended")
    }

    private fun lost() {
        for (client in listOf("ios", "bound")) {
            val one = Aged("sol", null, client, if (client == "ios") null else SoftwareKey())
            control("POST", "/_meddle/lost/1/v1/sessions")
            val risen = one.phone.stepUp(StepUp(listOf("mfa")))
            say(risen.acr == "mfa" && calls().filter { it.getString("path") == "/v1/sessions" }.map { it.optInt("status") } == listOf(0, 200), "$client: a step-up's lost answer → requested again")
            val callback = one.browser.open(one.phone.startStepUp(StepUp(listOf("phr"))))
            val kept = MemoryStorage().apply { write(Credentials.fromJson(one.storage.read()!!.toJson())) }
            val restarted = Coatcheck(broker, client, kept, key = one.key)
            val session = (restarted.finish(callback) as SignIn.SignedIn).session
            say(session.handle == one.session.handle && session.acr == "phr" && restarted.relay("guarded", "private/echo", "PUT").status == 200, "$client: a restart of the app during a step-up → the step-up goes on")
        }
    }

    private fun children() {
        val one = Aged("sid", null)
        val storage = MemoryStorage().apply { write(Credentials(one.phone.child("widget", "home").token, bearer = true)) }
        val widget = Coatcheck(network, "ios", storage, browser = one.browser, onStepUp = { throw IllegalStateException("asked") })
        say(one.required { widget.relay("guarded", "private/echo") }?.parent == true, "a child's call needs a step-up → the parent has to do it")
        val tablet = Coatcheck(network, "ios", MemoryStorage())
        val browser = StepUpBrowser("sid")
        browser.age = 4_000
        say(problem { tablet.finish(browser.open(tablet.start("oidc", stepUp = StepUp(maxAge = 600)))) } == "step_up_failed", "a first sign-in that is older than its demand → step_up_failed")
    }
}
