// The Kotlin client without a network, over a bad network, and with callers that stop waiting
// (Tests/scenarios/clients/kotlin-client.sh).
package coatcheck

import java.io.IOException
import java.net.ServerSocket
import java.util.concurrent.Callable
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong
import kotlin.concurrent.thread
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.async
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import okhttp3.HttpUrl
import okhttp3.OkHttpClient

class Tunnel(private val broker: HttpUrl, private val sandbox: HttpUrl, private val unsteady: Int) {
    // A server that accepts connections but never sends anything, like a network in a tunnel.
    private val silence = ServerSocket(0, 64)
    private val dark = HttpUrl.get("http://127.0.0.1:${silence.localPort}")

    private fun seconds(work: () -> Unit): Double {
        val begin = System.nanoTime()
        work()
        return (System.nanoTime() - begin) / 1e9
    }

    /** A storage that is as slow as a Keystore. */
    private class SlowStorage : CredentialStorage {
        private val kept = MemoryStorage()
        override fun read(): Credentials? { Thread.sleep(8); return kept.read() }
        override fun write(credentials: Credentials?) { Thread.sleep(8); kept.write(credentials) }
    }

    private fun signedIn() = MemoryStorage().apply { write(Credentials("A".repeat(43))) }

    fun walk(say: (Boolean, String) -> Unit) {
        for (nowhere in listOf(dark, HttpUrl.get("http://127.0.0.1:1"))) {
            var standing: Standing? = null
            val took = seconds { standing = Coatcheck(nowhere, "ios", signedIn()).standing() }
            say(standing is Standing.Unknown && took < 6, "an app that starts without a network → the standing is unknown after two seconds: $took")
        }
        var failure: Exception? = null
        val patient = seconds { failure = try { Coatcheck(dark, "ios", signedIn(), 1_000).session(); null } catch (lost: IOException) { lost } }
        say(failure != null && patient < 6, "a call to a silent server → fails at its deadline: $patient")

        val storage = signedIn()
        val out = seconds { Coatcheck(dark, "ios", storage, 1_000).signOut() }
        say(storage.read()?.session == null && storage.read()?.endings?.size == 1 && out < 6, "a sign-out without a network → the session is deleted, and its ending is kept")
        val locked = object : CredentialStorage {
            override fun read(): Credentials? = throw IllegalStateException("busy")
            override fun write(credentials: Credentials?) = throw IllegalStateException("busy")
        }
        say(Coatcheck(broker, "ios", locked).standing() is Standing.Unknown, "a storage that cannot be read → the standing is unknown, not signed out")

        val otto = MemoryStorage()
        Coatcheck(broker, "ios", otto).signIn("oidc", "otto")
        val token = otto.read()!!.session
        Coatcheck(dark, "ios", otto, 500).signOut()
        val witness = Coatcheck(broker, "ios", MemoryStorage().apply { write(Credentials(token)) })
        say(witness.session().subject == "user-otto", "a sign-out without a network → the broker does not know of it yet")
        val restarted = MemoryStorage().apply { write(Credentials.fromJson(otto.read()!!.toJson())) }
        val again = Coatcheck(broker, "ios", restarted)
        say(again.standing() is Standing.SignedOut, "a restart of the app after a sign-out without a network → signed out")
        while (restarted.read() != null) Thread.sleep(20)
        ending(broker, "Cookie", "coatcheck=$token")
        say((witness.standing() as? Standing.SignedOut)?.reason == "logged_out", "a call after a sign-out without a network → the broker ends the session")

        val waiting = thread(start = false) { try { Coatcheck(dark, "ios", signedIn()).also { caller = it }.session() } catch (left: IOException) { ended = true } }
        waiting.start()
        while (waiting.state == Thread.State.NEW || caller == null) Thread.sleep(10)
        Thread.sleep(300)
        val cancelled = seconds { caller!!.cancel(waiting); waiting.join(30_000) }
        say(ended && cancelled < 6, "a cancelled call → returns at once: $cancelled")
        var job = 0.0
        runBlocking {
            val phone = Coatcheck(dark, "ios", signedIn())
            val working = GlobalScope.launch { phone.suspending { session() } }
            delay(300)
            val begin = System.nanoTime()
            working.cancelAndJoin()
            job = (System.nanoTime() - begin) / 1e9
            say(GlobalScope.async { Coatcheck(broker, "ios", MemoryStorage()).suspending { signIn("oidc", "cora") } }.await() is SignIn.SignedIn, "a sign-in in a coroutine → a session")
        }
        say(job < 6, "a cancelled coroutine → returns at once: $job")

        val listener = object : SessionListener {
            override fun session(session: Session) { heard.set(true) }
            override fun tokensRefreshed() {}
            override fun ended(reason: String?) {}
        }
        val phone = Coatcheck(broker, "ios", MemoryStorage())
        phone.signIn("oidc", "lena")
        val listening = Listening()
        val ear = thread { phone.listen(listener, listening) }
        while (!heard.get()) Thread.sleep(10)
        val stop = seconds { listening.stop(); ear.join(60_000) }
        say(stop < 6, "an event listener that is stopped → ends at once: $stop")

        val slow = Coatcheck(broker, "ios", SlowStorage())
        slow.signIn("oidc", "mara")
        val going = AtomicBoolean(true)
        val beside = thread { while (going.get()) try { slow.session() } catch (out: Exception) { } }
        val lost = ArrayList<String>()
        for (number in 0 until 30) {
            try {
                val made = (slow.signIn("oidc", "mara") as SignIn.SignedIn).session.handle
                if (slow.session().handle != made) lost += "$number: another session"
            } catch (failed: Exception) {
                lost += "$number: $failed"
            }
        }
        going.set(false)
        beside.join()
        say(lost.isEmpty(), "30 sign-ins during another thread's calls, with a slow storage → all are kept: $lost")
        afterSignIn(say)

        val login = AppLogin("oidc", "ios", state = "my-own-state", verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        val page = HttpUrl.get("$sandbox").newBuilder().encodedPath("/oidc/authorize").encodedQuery(
            "response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&state=my-own-state"
                + "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256").build()
        val callback = browser(page, "ana")
        val first = (Coatcheck(broker, "ios", MemoryStorage()).forward(callback, login) as SignIn.SignedIn).session.handle
        val second = Coatcheck(broker, "ios", MemoryStorage()).forward(callback, AppLogin.fromJson(login.toJson())) as SignIn.SignedIn
        say(first == second.session.handle, "flow B: a callback forwarded after a restart → the same session")
        say(phone.providers().any { it.getString("name") == "oidc" }, "the list of providers → has oidc")
        thousand(say)
    }

    /** Tests a response that arrives late, after the user signed in meanwhile. */
    private fun afterSignIn(say: (Boolean, String) -> Unit) {
        val holds = AtomicBoolean()
        val answered = CountDownLatch(1)
        val until = CountDownLatch(1)
        val transport = OkHttpClient.Builder().addInterceptor { chain ->
            val answer = chain.proceed(chain.request())
            if (chain.request().url().encodedPath() == "/v1/session" && holds.getAndSet(false)) {
                answered.countDown()
                until.await(30, TimeUnit.SECONDS)
            }
            answer
        }.build()
        val storage = MemoryStorage()
        val phone = Coatcheck(broker, "ios", storage, transport = transport)
        phone.signIn("oidc", "nora")
        holds.set(true)
        val early = thread { try { phone.session() } catch (ended: Exception) { } }
        answered.await()
        val made = (phone.signIn("oidc", "nils") as SignIn.SignedIn).session
        val asked = seconds { say(phone.session().handle == made.handle, "a call after a new sign-in, during an earlier call → gets the new session") }
        say(asked < 15, "a call after a new sign-in → returns before the earlier call: $asked")
        until.countDown()
        early.join()
        say(Session(storage.read()!!.lastSession!!).subject == "user-nils", "an earlier call's late answer → the storage keeps the new session")
    }

    private var caller: Coatcheck? = null
    @Volatile private var ended = false
    private val heard = AtomicBoolean()

    /** Sends a thousand calls from twenty devices over a network that is cut, slow or silent, and then recovers. */
    private fun thousand(say: (Boolean, String) -> Unit) {
        val network = HttpUrl.get("http://127.0.0.1:$unsteady")
        val calls = AtomicInteger()
        val answered = AtomicInteger()
        val lost = AtomicInteger()
        val longest = AtomicLong()
        val unexpected = java.util.Collections.synchronizedSet(HashSet<String>())
        val pool = Executors.newFixedThreadPool(20)
        pool.invokeAll((0 until 20).map { number ->
            Callable {
                val storage = MemoryStorage()
                val device = Coatcheck(network, "ios", storage, 10_000)
                var mine = 0
                fun <Value> measured(work: () -> Value): Value? {
                    val begin = System.nanoTime()
                    mine += 1
                    try {
                        return work().also { answered.incrementAndGet() }
                    } catch (nobody: IOException) {
                    } catch (problem: Problem) {
                        if (!problem.passes) unexpected += problem.code
                    } catch (other: Exception) {
                        unexpected += other.toString()
                    } finally {
                        longest.accumulateAndGet((System.nanoTime() - begin) / 1_000_000, Math::max)
                    }
                    return null
                }
                var page: HttpUrl? = null
                while (page == null && mine < 50) page = measured { device.start("oidc") }
                val callback = page?.let { browser(it, "uma$number") }
                var session: SignIn? = null
                while (callback != null && session == null && mine < 50) session = measured { device.finish(callback) }
                if (callback != null && session == null) lost.incrementAndGet()
                while (mine < 49) when (mine % 4) {
                    0 -> measured { device.relay("api", "echo") }?.let { if (it.status != 200) unexpected += "relay ${it.status}" }
                    1 -> if (measured { device.standing() } is Standing.SignedOut) lost.incrementAndGet()
                    else -> measured { device.session() }?.let { if (it.subject != "user-uma$number") lost.incrementAndGet() }
                }
                measured { device.signOut() }
                if (storage.read()?.session != null) unexpected += "a session stays behind"
                calls.addAndGet(mine)
            }
        }).forEach { it.get() }
        pool.shutdown()
        say(calls.get() == 1000 && answered.get() > 850, "a thousand calls over a bad network → $answered of $calls are answered")
        say(lost.get() == 0 && unexpected.isEmpty(), "a thousand calls over a bad network → no sign-in is lost, and no unexpected error: $lost, $unexpected")
        say(longest.get() < 16_000, "a thousand calls over a bad network → all end by the deadline: $longest ms")
    }
}
