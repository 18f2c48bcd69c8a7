// Sessions that belong to a key of the device, tested through the Kotlin client. A proxy records the evidence of each
// request and disturbs the traffic (Tests/scenarios/support/evidence_proxy.py).
package coatcheck

import java.security.KeyPair
import java.security.KeyPairGenerator
import java.security.spec.ECGenParameterSpec
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import kotlin.concurrent.thread
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import org.json.JSONArray
import org.json.JSONObject

/** A key in memory that uses Java's own cryptography. A test can lose and restore it. */
internal class SoftwareKey : PlatformProofKey() {
    var kept: KeyPair? = null
    var lost = false
    var busy = false
    var made = 0

    override fun pair(): KeyPair? = if (busy) throw IllegalStateException("busy") else if (lost) null else kept

    override fun make(): ProofPublicKey {
        val generator = KeyPairGenerator.getInstance("EC")
        generator.initialize(ECGenParameterSpec("secp256r1"))
        kept = generator.generateKeyPair()
        lost = false
        made += 1
        return publicKey() ?: error("no key")
    }
}

class Bound(private val network: HttpUrl, private val say: (Boolean, String) -> Unit) {
    private val http = OkHttpClient()

    private fun control(method: String, path: String): String =
        http.newCall(Request.Builder().url(network.resolve(path)!!).method(method, if (method == "POST") RequestBody.create(null, "") else null).build())
            .execute().use { it.body!!.string() }

    private fun forget() = control("DELETE", "/_calls")
    private fun meddle(kind: String, path: String, times: Int = 1) = control("POST", "/_meddle/$kind/$times$path")

    private fun calls(path: String? = null): List<JSONObject> =
        JSONArray(control("GET", "/_calls")).let { all -> (0 until all.length()).map { all.getJSONObject(it) } }
            .filter { path == null || it.getString("path") == path }

    private fun codes() = calls().map { if (it.isNull("code")) null else it.getString("code") }

    private fun device(
        key: ProofKey?, client: String = "bound", storage: CredentialStorage = MemoryStorage(), ahead: Long = 0
    ) = Coatcheck(network, client, storage, key = key).apply { now = { System.currentTimeMillis() + ahead * 1000 } }

    private fun session(signIn: SignIn) = (signIn as SignIn.SignedIn).session

    private fun isLost(work: () -> Any?): Boolean = try {
        work()
        false
    } catch (gone: KeyLost) {
        true
    }

    fun walk() {
        for (client in listOf("bound", "bound-bearer")) {
            signIn(client)
            copied(client)
        }
        nonces()
        fifty()
        unreachable()
        replayed()
        lost()
        clocks()
        events()
        proofs()
        unbound()
    }

    private fun signIn(client: String) {
        forget()
        val key = SoftwareKey()
        val storage = MemoryStorage()
        val phone = device(key, client, storage)
        val session = session(phone.signIn("oidc", "bea"))
        say(session.binding?.jkt == key.publicKey()?.thumbprint && session.binding?.evidence == "pass" && key.made == 1, "$client: a sign-in with a key → a session that belongs to the key")
        say(codes() == listOf("use_dpop_nonce", null, null) && calls().all { it.getBoolean("proof") }, "$client: a sign-in with a key → each request has a proof, and the first is repeated with a nonce: ${codes()}")
        say(calls().map { it.getString("jti") }.toSet().size == 3, "$client: all proofs of a sign-in → different")
        forget()
        say(phone.standing() is Standing.SignedIn && phone.relay("api", "private/echo").status == 200 && phone.sessions().isNotEmpty(), "$client: calls of a bound session → succeed")
        say(calls().size == 3 && calls().all { it.getBoolean("pass") && !it.getBoolean("proof") }, "$client: calls of a bound session → show the pass of the sign-in")
        say(phone.pass() == storage.read()?.pass?.value, "$client: the app asks for the pass → the stored pass")
        val restarted = MemoryStorage().apply { write(Credentials.fromJson(storage.read()!!.toJson())) }
        say(device(key, client, restarted).session().handle == session.handle && calls("/v1/session/pass").isEmpty(), "$client: a restarted app → its stored pass is good")
        forget()
        phone.accessToken()
        phone.signOut(atProvider = true)
        say(calls().map { it.getBoolean("proof") to it.getBoolean("pass") } == listOf(true to false, false to true), "$client: a request for an access token → a proof; a sign-out → the pass")
        say(storage.read() == null, "$client: a sign-out → the storage is empty")
    }

    private fun copied(client: String) {
        val storage = MemoryStorage()
        val phone = device(SoftwareKey(), client, storage)
        val session = session(phone.signIn("oidc", "cal"))
        val kept = storage.read()!!
        fun thief(key: ProofKey?, knows: Boolean = true) = device(
            key, client, MemoryStorage().apply { write(Credentials(kept.session, bearer = kept.bearer, lastSession = if (knows) kept.lastSession else null)) })
        forget()
        val refused = listOf(
            problem { thief(null).session() }, problem { thief(null).accessToken() }, problem { thief(null).relay("api", "private/echo") })
        say(refused.toSet() == setOf("proof_required") && calls().size == 3, "$client: copied credentials without the key → proof_required: $refused")
        forget()
        val other = SoftwareKey().apply { make() }
        say(isLost { thief(other, false).session() } && codes() == listOf("proof_required", "proof_invalid"), "$client: copied credentials with another key → the key counts as lost: ${codes()}")
        say(isLost { thief(other).session() } && calls().size == 2, "$client: copied credentials name the first key, and the device has another key → the key counts as lost, without a call")
        say(phone.session().handle == session.handle, "$client: copied credentials were used → the owner's session goes on")
    }

    private fun nonces() {
        forget()
        val phone = device(SoftwareKey())
        meddle("use_dpop_nonce", "/v1/logins", 9)
        say(problem { phone.start("oidc") } == "use_dpop_nonce" && calls().size == 2, "a login refused with a nonce twice → one repeat, and the second refusal is thrown")
        forget()
        phone.signIn("oidc", "dan")
        meddle("use_dpop_nonce", "/v1/session/token", 9)
        meddle("proof_required", "/v1/session", 9)
        say(problem { phone.accessToken() } == "use_dpop_nonce" && calls("/v1/session/token").size == 2, "a session's call refused with a nonce twice → one repeat, and the second refusal is thrown")
        say(problem { phone.session() } == "proof_required" && calls("/v1/session").size == 2, "a pass refused twice → one renewal, and the second refusal is thrown")
    }

    private fun fifty() {
        val phone = device(SoftwareKey(), "bound-bearer")
        phone.signIn("oidc", "flo")
        val pool = Executors.newFixedThreadPool(50) { work -> Thread(work).apply { isDaemon = true } }
        fun all() = pool.invokeAll((1..50).map { Callable { phone.relay("api", "echo").status } }).map { it.get() }.toSet()
        forget()
        control("POST", "/_end/${phone.pass()}")
        // Wait for the next second, because a pass made in the same second would be identical.
        Thread.sleep(1_100)
        var statuses = all()
        val refused = codes().count { it == "proof_required" }
        say(statuses == setOf(200) && calls("/v1/session/pass").size == 1 && refused > 0 && calls().size == 51 + refused, "fifty calls at once, $refused of them refused → one request renews the pass")
        forget()
        phone.now = { System.currentTimeMillis() + 50_000 }
        statuses = all()
        say(statuses == setOf(200) && calls("/v1/session/pass").size == 1 && calls().size == 51, "fifty calls at once with a due pass → one request renews it: ${calls().size}")
        pool.shutdown()
    }

    private fun unreachable() {
        val phone = device(SoftwareKey())
        val session = session(phone.signIn("oidc", "gus"))
        forget()
        meddle("cut", "/v1/session/pass")
        phone.now = { System.currentTimeMillis() + 50_000 }
        say(phone.session().handle == session.handle && phone.session().handle == session.handle, "a due pass whose renewal fails → still used")
        say(calls("/v1/session/pass").map { it.optInt("status") } == listOf(0, 200), "a due pass whose renewal failed → renewed by the next call")
        forget()
        phone.now = { System.currentTimeMillis() - 86_400_000 }
        say(phone.session().handle == session.handle && codes() == listOf(null, null), "a device's clock that is set back → a new pass, without a refusal: ${codes()}")
    }

    private fun replayed() {
        val phone = device(SoftwareKey())
        val callback = browser(phone.start("oidc"), "hal")
        forget()
        meddle("twice", "/v1/sessions")
        say(problem { phone.finish(callback) } == "proof_invalid" && calls().size == 1, "a sign-in that the network sent twice → the client does not repeat it")
        val session = session(phone.finish(callback))
        forget()
        meddle("twice", "/v1/session/token")
        phone.accessToken()
        say(calls().map { it.getInt("status") } == listOf(401, 200) && calls().map { it.getString("jti") }.toSet().size == 2, "a repeatable request that the network sent twice → repeated with a new proof")
        meddle("twice", "/v1/session/token", 9)
        say(problem { phone.accessToken() } == "proof_invalid" && calls().size == 4, "a repeatable request that the network keeps sending twice → repeated once")
        say(phone.session().handle == session.handle, "requests that the network sent twice → the session goes on")
    }

    private fun lost() {
        val key = SoftwareKey()
        val storage = MemoryStorage()
        val phone = device(key, "bound-bearer", storage)
        val session = session(phone.signIn("oidc", "ida"))
        val copy = storage.read()!!.with(pass = null)
        val first = key.kept!!
        forget()
        key.busy = true
        phone.now = { System.currentTimeMillis() + 50_000 }
        say((phone.standing() as? Standing.SignedIn)?.session?.handle == session.handle, "a key is busy → it does not count as lost, and the pass is used")
        val busy = try { phone.accessToken(); false } catch (later: IllegalStateException) { true }
        val none = MemoryStorage().apply { write(storage.read()!!.with(pass = null)) }
        val standing = device(key, "bound-bearer", none).standing()
        say(busy && (standing as? Standing.Unknown)?.last?.handle == session.handle && none.read()?.session != null, "a key is busy, and there is no pass → the standing is unknown")
        forget()
        key.busy = false
        key.lost = true
        phone.now = { System.currentTimeMillis() + 50_000 }
        say((phone.standing() as? Standing.SignedOut)?.reason == "key_lost" && storage.read()?.session == null, "a lost key → signed out with the reason key_lost")
        say(phone.standing() is Standing.SignedOut && calls().isEmpty(), "a key is lost → the client notices it without a call")
        val again = session(phone.signIn("oidc", "ida"))
        say(key.made == 2 && again.binding?.jkt != session.binding?.jkt && phone.relay("api", "private/echo").status == 200, "a sign-in after a lost key → a new key")
        forget()
        meddle("key", "/v1/relay/api/echo", 9)
        say(isLost { phone.relay("api", "echo") } && calls().size == 1 && problem { phone.session() } == "session_required", "the broker reports that the session has another key → the device's key counts as lost after one call")
        val old = object : PlatformProofKey() {
            override fun pair() = first
            override fun make() = error("it has one")
        }
        say(device(old, "bound-bearer", MemoryStorage().apply { write(copy) }).session().handle == session.handle, "the device that has the first key → its session goes on")

        val callback = browser(phone.start("oidc"), "ida")
        key.lost = true
        say(problem { phone.finish(callback) } == "login_not_yours" && key.made == 3, "a key that is lost during a sign-in → a new key")
        key.lost = true
        (1..10).map { thread { phone.start("oidc") } }.forEach { it.join() }
        say(key.made == 4, "ten sign-ins at once with a lost key → one new key: ${key.made}")
    }

    private fun clocks() {
        for (ahead in listOf(-86_400L, 86_400L, -86_400L * 365 * 20)) {
            forget()
            val phone = device(SoftwareKey(), ahead = ahead)
            val session = session(phone.signIn("oidc", "kay"))
            val good = phone.relay("api", "private/echo").status == 200 && phone.refresh().handle == session.handle
            phone.accessToken()
            val proofs = calls().filter { it.getBoolean("proof") }.count { Math.abs(it.getLong("iat") - System.currentTimeMillis() / 1000 - ahead) < 60 }
            say(good && proofs == 4 && calls().size == 6 && calls("/v1/session/pass").isEmpty(), "a device's clock that is ${ahead / 3600} hours wrong → sign-in and calls succeed")
        }
    }

    private fun events() {
        val key = SoftwareKey()
        val phone = device(key)
        phone.signIn("oidc", "lea")
        forget()
        val seen = java.util.Collections.synchronizedList(ArrayList<String>())
        val listening = Listening()
        val listener = object : SessionListener {
            override fun session(session: Session) { seen += "session"; phone.refresh() }
            override fun tokensRefreshed() { seen += "refreshed"; listening.stop() }
            override fun ended(reason: String?) { seen += "ended $reason" }
        }
        phone.listen(listener, listening)
        say(seen == listOf("session", "refreshed"), "an event stream of a bound session → session and refresh: $seen")
        say(calls("/v1/session/events").map { it.getBoolean("proof") to it.getBoolean("pass") } == listOf(true to false), "an event stream of a bound session → opened with a proof")
        key.lost = true
        phone.listen(listener)
        say(seen.last() == "ended key_lost", "an event stream after the key is lost → ends with key_lost")
    }

    private fun proofs() {
        forget()
        val storage = MemoryStorage()
        val phone = device(SoftwareKey(), "proving", storage)
        val session = session(phone.signIn("oauth2", "max"))
        say(session.binding?.evidence == "proof" && storage.read()?.pass == null, "a client with evidence by proof → its session has no pass")
        forget()
        say(phone.session().handle == session.handle && phone.refresh().handle == session.handle, "calls of a session without a pass → succeed")
        say(problem { phone.relay("api", "%C3%A9%20%C3%B6/%7Bx%7D") } == "upstream_not_allowed", "a session without a pass calls a path with percent-encoded letters → the proof fits, so only the allow list refuses the call")
        storage.write(storage.read()!!.with(lastSession = null))
        say(phone.session().handle == session.handle && phone.refresh().handle == session.handle, "calls of a session without a pass, whose session object was lost → succeed")
        say(calls().map { it.getInt("status") } == listOf(200, 200, 403, 401, 403, 200, 200), "calls of a session without a pass, whose session object was lost → one request for a pass: ${calls().map { it.getInt("status") }}")
    }

    private fun unbound() {
        for (key in listOf(null, SoftwareKey())) {
            forget()
            val storage = MemoryStorage()
            val phone = device(key, "ios", storage)
            val session = session(phone.signIn("oidc", "ole"))
            say(session.binding == null && storage.read()?.pass == null && phone.pass() == null, "a client without binding → a session without a key and a pass")
            phone.session()
            phone.signOut()
            say(calls().map { it.getBoolean("proof") } == listOf(key != null, key != null, false, false), "a client without binding → proofs at the sign-in only if it has a key")
        }
        forget()
        say(problem { device(null).start("oidc") } == "proof_required" && calls().size == 1, "a bound client without a key → proof_required")
    }
}
