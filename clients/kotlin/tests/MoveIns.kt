// The move from an old SDK through the Kotlin client, against a broker that the tests script
// (Tests/scenarios/clients/kotlin-client.sh).
package coatcheck

import java.io.File
import java.io.IOException
import java.util.Collections
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import kotlin.concurrent.thread
import okhttp3.HttpUrl
import okhttp3.Interceptor
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Protocol
import okhttp3.Request
import okhttp3.Response
import okhttp3.ResponseBody
import okio.Buffer
import org.json.JSONObject

/** The disk of a phone that moves to the broker. It survives the kills of the app. */
private class PhoneDisk {
    @Volatile var credentials: Credentials? = null
    @Volatile var mark: MoveInMark? = null
    @Volatile var old: OldTokens? = OldTokens("old-refresh-token", "h.e.s")
    val isSettled: Boolean get() = old == null && mark == null
}

private class Killed : RuntimeException()

/**
 * One run of the app, which ends at a given step: before or after the step's effect. The steps are the durable writes, the
 * readings of the old tokens and the requests.
 */
private class AppRun(val disk: PhoneDisk, private val last: Int = 0, private val before: Boolean = false, private val refreshMillis: Long = 0) : OldSdk {
    private var count = 0
    @Volatile var dead = false
    @Volatile var fault = false

    fun <Value> step(work: () -> Value): Value = synchronized(disk) {
        if (dead) throw Killed()
        count += 1
        dead = count == last
        if (dead && before) throw Killed()
        val value = work()
        if (dead) throw Killed()
        value
    }

    val storage = object : CredentialStorage {
        override fun read(): Credentials? = if (dead) throw Killed() else disk.credentials
        override fun write(credentials: Credentials?) { step { disk.credentials = credentials } }
    }
    val marks = object : MarkStorage {
        override fun read(): MoveInMark? = if (dead) throw Killed() else disk.mark
        override fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark? = step { work(disk.mark).also { disk.mark = it } }
    }

    override fun awaitRefresh() { Thread.sleep(refreshMillis) }
    override fun tokens(): OldTokens? = step { disk.old }
    override fun erase() = step {
        if (disk.mark == null) fault = true
        disk.old = null
    }
}

private class Reply(val status: Int, val body: String, val type: String = "application/problem+json", val field: Pair<String, String>? = null)

private const val SESSION = "\"handle\":\"ses_1\",\"version\":1,\"provider\":\"oidc\",\"client\":\"ios\",\"subject\":\"user-ana\",\"identity\":{}," +
    "\"expires_at\":\"2027-01-01T00:00:00Z\"}"

private fun refusal(status: Int, code: String, field: Pair<String, String>? = null) =
    Reply(status, "{\"title\":\"t\",\"status\":$status,\"code\":\"$code\",\"reason\":\"not_open\",\"detail\":\"d\",\"request_id\":\"req_1\",\"login\":null}", field = field)

/**
 * A broker that takes over refresh tokens as the real one does: one session for each token and starter. It sends each of the
 * [answers] once, before it decides itself. Null stands for a lost answer.
 */
private class MovingBroker(private val answers: ArrayList<Reply?> = ArrayList()) : Interceptor {
    val bodies: MutableList<String> = Collections.synchronizedList(ArrayList<String>())
    val proofs: MutableList<String?> = Collections.synchronizedList(ArrayList<String?>())
    var starter: String? = null
    var run: AppRun? = null
    var meanwhile: () -> Unit = {}
    var ended: String? = null

    fun app(run: AppRun, key: ProofKey? = null): Coatcheck {
        this.run = run
        return Coatcheck(HttpUrl.get("http://broker.test"), "ios", run.storage, 1_000, OkHttpClient.Builder().addInterceptor(this).build(), key).apply {
            moveInPause = { if (run.dead) throw Killed() }
        }
    }

    override fun intercept(chain: Interceptor.Chain): Response {
        val reply = try {
            run!!.step { decided(chain.request()) }
        } catch (dead: Killed) {
            throw IOException("killed")
        } ?: throw IOException("lost")
        val answer = Response.Builder().request(chain.request()).protocol(Protocol.HTTP_1_1).code(reply.status).message("Status")
            .header("Content-Type", reply.type).body(ResponseBody.create(MediaType.parse(reply.type), reply.body))
        reply.field?.let { answer.header(it.first, it.second) }
        return answer.build()
    }

    private fun decided(request: Request): Reply? {
        if (request.method() == "DELETE") {
            ended = request.header("Authorization")
            return Reply(204, "")
        }
        if (request.method() == "GET") {
            return if (request.header("Authorization") == "Bearer the-session") Reply(200, "{$SESSION", "application/json") else refusal(401, "session_ended")
        }
        val body = Buffer().also { request.body()!!.writeTo(it) }.readUtf8()
        bodies += body
        proofs += request.header("DPoP")?.let { String(java.util.Base64.getUrlDecoder().decode(it.split(".")[1])) }
        val token = JSONObject(body).getString("login_token")
        meanwhile()
        if (answers.isNotEmpty()) {
            // A lost answer is lost after the broker has made the session.
            return answers.removeAt(0).also { if (it == null) starter = starter ?: token }
        }
        starter = starter ?: token
        return if (starter != token) refusal(409, "code_already_used") else Reply(201, "{\"session_token\":\"the-session\",$SESSION", "application/json")
    }
}

class MoveIns(private val say: (Boolean, String) -> Unit) {
    private fun Coatcheck.move(run: AppRun) = moveIn(run, "oidc", run.marks, "Ana's phone")

    /** Starts the app as developers do: first a move that was interrupted, then a new one. */
    private fun Coatcheck.started(run: AppRun) = resumeMoveIn(run, "oidc", run.marks, "Ana's phone") ?: move(run)

    private fun reason(outcome: MovedIn) = (outcome as? MovedIn.NotNow)?.reason

    fun walk() {
        granted()
        for (weather in listOf("granted", "503 and 502", "lost answers", "login_required", "429 and a proxy's page")) for (before in listOf(true, false)) killed(weather, before)
        passing()
        refused()
        conflicts()
        nonce()
        refreshes()
        meanwhile()
        files()
    }

    private fun granted() {
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker())
        val run = AppRun(disk)
        val moved = broker.app(run).move(run) as MovedIn.Moved
        say(moved.session?.handle == "ses_1" && disk.credentials?.session == "the-session" && disk.isSettled && !run.fault, "a move that the broker grants → the session is stored, the old tokens and the mark are erased")
        val body = JSONObject(broker.bodies.single())
        say(body.keys().asSequence().toSet() == setOf("provider", "client", "tokens", "login_token", "device"), "the body of a move → has the members of the contract")
        say(body.getJSONObject("tokens").getString("refresh_token") == "old-refresh-token" && body.getJSONObject("tokens").getString("id_token") == "h.e.s" && body.getString("login_token").length == 43, "the body of a move → has the old tokens and a login token of 32 bytes")
        say(reason(broker.app(run).started(run)) == MovedIn.Reason.SIGNED_IN && broker.bodies.size == 1, "a second move → none, because the user is signed in")
    }

    private fun replies(weather: String): ArrayList<Reply?> = when (weather) {
        "503 and 502" -> arrayListOf(refusal(503, "provider_unavailable"), refusal(502, "provider_error"))
        "lost answers" -> arrayListOf(null, null)
        "login_required" -> ArrayList(List(9) { refusal(409, "login_required") })
        "429 and a proxy's page" -> arrayListOf(refusal(429, "rate_limited"), Reply(404, "a page", "text/html"))
        else -> ArrayList()
    }

    /** Kills the app twice, at each pair of steps. */
    private fun killed(weather: String, before: Boolean) {
        val faults = ArrayList<String>()
        val session = if (weather == "login_required") null else "the-session"
        var first = 0
        var runs: List<AppRun>
        do {
            first += 1
            var second = 0
            do {
                second += 1
                val (disk, broker) = Pair(PhoneDisk(), MovingBroker(replies(weather)))
                runs = listOf(AppRun(disk, first, before), AppRun(disk, second, before), AppRun(disk))
                for (run in runs) {
                    try { broker.app(run).started(run) } catch (end: Killed) {}
                    if (disk.old == null && disk.credentials?.session == null && session != null) faults += "$first, $second: neither old tokens nor a session"
                }
                if (broker.bodies.toSet().size != 1) faults += "$first, $second: ${broker.bodies}"
                if (runs.any { it.fault } || !disk.isSettled || disk.credentials?.session != session) faults += "$first, $second: not settled"
            } while (runs[0].dead && runs[1].dead)
        } while (runs[0].dead)
        say(faults.isEmpty() && first > 5, "$weather, the app is killed twice ${if (before) "before" else "after"} any of ${first - 1} steps → the next start ends the move with the same request: ${faults.take(3)}")
    }

    private fun passing() {
        val replies = mapOf(
            "503" to refusal(503, "provider_unavailable", "Retry-After" to "7"), "502" to refusal(502, "provider_error"), "429" to refusal(429, "rate_limited"),
            "500" to refusal(500, "internal_error"), "a proxy's page" to Reply(404, "a page", "text/html"), "a 201 of a portal" to Reply(201, "a page", "text/html"), "no answer" to null)
        for ((name, reply) in replies) {
            val (disk, broker) = Pair(PhoneDisk(), MovingBroker(arrayListOf(reply, reply)))
            val run = AppRun(disk)
            val pauses = ArrayList<Long>()
            val app = broker.app(run).apply { moveInPause = { pauses += it } }
            val least = if (name == "503") 7_000L else 0L
            say(app.move(run) is MovedIn.Moved && broker.bodies.size == 3 && broker.bodies.toSet().size == 1 && pauses.all { it in least..least + 60_000 }, "$name, twice → the same post after a pause with a random part: $pauses")
        }
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker(ArrayList(List(5) { refusal(503, "provider_unavailable", "Retry-After" to "120") })))
        val run = AppRun(disk)
        val later = broker.app(run).move(run) as? MovedIn.Later
        say(later?.problem?.code == "provider_unavailable" && disk.mark != null && disk.old != null, "a long outage → the move waits, and everything stays")
        say(broker.app(AppRun(disk)).started(broker.run!!) is MovedIn.Moved && broker.bodies.toSet().size == 1, "the start after a long outage → the same post, and the user is moved")
    }

    private fun refused() {
        for ((status, code) in listOf(400 to "invalid_request", 401 to "proof_required", 403 to "client_not_allowed", 404 to "provider_not_found")) {
            val (disk, broker) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(status, code))))
            val run = AppRun(disk)
            val outcome = broker.app(run).move(run) as? MovedIn.NotNow
            val stays = disk.mark == null && disk.old != null && disk.credentials == null
            say(outcome != null && outcome.reason == MovedIn.Reason.REFUSED && outcome.problem?.code == code && outcome.problem.reason == "not_open" && stays, "$status $code → the old tokens stay, and the mark goes")
            say(broker.app(run).started(run) is MovedIn.Moved, "the start after a $status → a new move")
        }
    }

    private fun conflicts() {
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(409, "login_required"))))
        val run = AppRun(disk)
        say((broker.app(run).move(run) as? MovedIn.SignIn)?.problem?.code == "login_required" && disk.isSettled && disk.credentials == null, "409 login_required → the old tokens and the mark are erased, and the user has to sign in")
        say(reason(broker.app(run).started(run)) == MovedIn.Reason.NO_TOKENS, "the start after a 409 login_required → no move")

        val (used, elsewhere) = Pair(PhoneDisk(), MovingBroker().apply { starter = "another device" })
        val other = AppRun(used)
        say((elsewhere.app(other).move(other) as? MovedIn.SignIn)?.problem?.code == "code_already_used" && used.mark != null && used.old != null, "409 code_already_used without a session → nothing is erased before the sign-in")
        used.credentials = Credentials("the-session", bearer = true)
        say(elsewhere.app(other).started(other) is MovedIn.Moved && used.isSettled && elsewhere.bodies.size == 1, "the start after that sign-in → the old tokens and the mark are erased")

        for ((session, good) in listOf("the-session" to true, "an-ended-session" to false)) {
            val (both, asked) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(409, "code_already_used"))))
            asked.meanwhile = { both.credentials = Credentials(session, bearer = true) }
            val one = AppRun(both)
            val outcome = asked.app(one).move(one)
            say(if (good) outcome is MovedIn.Moved && both.isSettled else outcome is MovedIn.SignIn && both.mark != null, "409 code_already_used with a session, good: $good → the broker is asked for the session")
        }

        val (full, many) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(409, "too_many_sessions"))))
        val one = AppRun(full)
        say(many.app(one).move(one) is MovedIn.Later && full.mark != null && full.old != null && many.app(one).started(one) is MovedIn.Moved && many.bodies.toSet().size == 1, "409 too_many_sessions → the move waits, and the next start repeats the same post")
    }

    private fun nonce() {
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(401, "use_dpop_nonce", "DPoP-Nonce" to "n-1"))))
        val run = AppRun(disk)
        val outcome = broker.app(run, SoftwareKey()).move(run)
        say(outcome is MovedIn.Moved && broker.bodies.toSet().size == 1 && broker.proofs.map { it!!.contains("\"nonce\":\"n-1\"") } == listOf(false, true), "401 use_dpop_nonce → the same body with a proof that has the nonce")
    }

    private fun refreshes() {
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker())
        val slow = AppRun(disk, refreshMillis = 60_000)
        val app = broker.app(slow).apply { moveInMillis = Pair(200L, 30_000L) }
        say(reason(app.move(slow)) == MovedIn.Reason.REFRESH_IN_PROGRESS && disk.mark == null && disk.old != null && broker.bodies.isEmpty(), "a refresh of the old SDK that does not end → the mark goes, and the app does not move now")
        val stopped = broker.app(slow)
        var failed: Exception? = null
        val caller = thread { try { stopped.move(slow) } catch (cancelled: Exception) { failed = cancelled } }
        while (disk.mark == null) Thread.sleep(5)
        stopped.cancel(caller)
        caller.join()
        say(failed is IOException && disk.mark != null && disk.old != null && broker.bodies.isEmpty(), "a move that is cancelled during the wait → the mark stays")
        val quick = AppRun(disk, refreshMillis = 300)
        say(broker.app(quick).started(quick) is MovedIn.Moved && broker.bodies.size == 1, "a refresh of the old SDK that ends in time → the move goes on")
    }

    private fun meanwhile() {
        val (disk, broker) = Pair(PhoneDisk(), MovingBroker())
        broker.meanwhile = { disk.credentials = Credentials("another-session", bearer = true) }
        val run = AppRun(disk)
        val app = broker.app(run)
        say(app.move(run) is MovedIn.Moved && disk.credentials?.session == "another-session" && disk.isSettled, "a sign-in while the post is in flight → the session of the sign-in stays")
        while (broker.ended == null) Thread.sleep(5)
        say(broker.ended == "Bearer the-session", "a sign-in while the post is in flight → the broker ends the moved session")
        val (out, pausing) = Pair(PhoneDisk(), MovingBroker(arrayListOf(refusal(503, "provider_unavailable"))))
        val leaving = AppRun(out)
        val phone = pausing.app(leaving).apply { moveInPause = { leaving.erase(); leaving.marks.remove() } }
        say(reason(phone.move(leaving)) == MovedIn.Reason.MARK_TAKEN && pausing.bodies.size == 1, "a sign-out during a pause → the move stops")
    }

    private fun files() {
        val file = File.createTempFile("mark", "").apply { delete() }
        val (app, widget) = Pair(FileMarkStorage(file), FileMarkStorage(file))
        say(!widget.isMoving && app.read() == null, "a missing file → no mark")
        val mark = app.change { MoveInMark.random() }!!
        say(widget.isMoving && widget.read()?.loginToken == mark.loginToken && !widget.read()!!.posts, "a mark in a file → each process reads it")
        app.remove()
        app.remove()
        say(!widget.isMoving && !file.exists(), "a removed mark → the file is gone")
        val pool = Executors.newFixedThreadPool(20)
        val tokens = pool.invokeAll((1..40).map { Callable { FileMarkStorage(file).change { it ?: MoveInMark.random() }?.loginToken } }).map { it.get() }.toSet()
        pool.shutdown()
        say(tokens.size == 1, "forty callers begin a move at the same time → one login token")
        app.remove()
        val script = "import fcntl,sys,time\nlock=open(sys.argv[1]+'.lock','w')\nfcntl.lockf(lock,fcntl.LOCK_EX)\nprint('locked',flush=True)\ntime.sleep(1)\n" +
            "open(sys.argv[1],'w').write('{\"login_token\":\"from-the-other-process\",\"posts\":false}')\n"
        val other = ProcessBuilder("python3", "-c", script, file.path).start()
        other.inputStream.read()
        val found = FileMarkStorage(file).change { it ?: MoveInMark.random() }
        say(found?.loginToken == "from-the-other-process", "another process is about to write its mark → the app waits for it, and uses its login token")
        for (suffix in listOf("", ".lock", ".next")) File(file.path + suffix).delete()
    }
}
