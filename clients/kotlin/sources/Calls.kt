// The requests to the broker, and the consequences of their answers.
package coatcheck

import java.io.IOException
import java.io.InterruptedIOException
import java.util.Random
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import okhttp3.Call
import okhttp3.HttpUrl
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import okio.BufferedSink
import org.json.JSONException
import org.json.JSONObject

/** The user, whom a refused call may ask for a missing step. */
internal interface User {
    /** The number of step-ups so far. */
    val stepUps: Int
    fun asksUser(problem: Problem, method: String, path: String, repeatable: Boolean, sent: Credentials, mending: Mending, stepUps: Int): Boolean
}

/** The requests to the broker. A request is repeated and corrected as long as that can help. */
internal class Calls(private val broker: HttpUrl, val deadlineMillis: Long, transport: OkHttpClient, val keeping: Keeping, key: ProofKey?) {
    // There is no cookie jar, because the only cookie is stored with the credentials. Redirects are off, because the app itself
    // decides about an upstream's redirect.
    val http: OkHttpClient = transport.newBuilder().followRedirects(false).followSslRedirects(false)
        .retryOnConnectionFailure(false).readTimeout(40, TimeUnit.SECONDS).build()
    val proofs = Proofs(this, keeping, key)
    /** The user, set once by the constructor of [Coatcheck]. */
    lateinit var user: User
    val random = Random()
    private var ending = false
    val cookieName: String = if (broker.isHttps) "__Host-coatcheck" else "coatcheck"

    fun url(text: String): HttpUrl = broker.resolve(text) ?: throw Unreachable("not a URL of the web")

    fun request(method: String, path: String, body: RequestBody?, kept: Credentials, shown: Shown): Request {
        val url = url(path)
        // OkHttp removes dot segments from a path. Throw if the sent path would differ from the requested path.
        val sent = "/" + url.toString().substringAfter("://").substringAfter('/')
        require(sent.substringBefore('?') == path.substringBefore('?')) { "a path that could be read in more than one way" }
        val builder = Request.Builder().url(url)
        builder.method(method, body ?: if (method in listOf("POST", "PUT", "PATCH")) Bytes(ByteArray(0)) else null)
        if (body is Bytes) builder.header("Content-Type", "application/json")
        if (kept.bearer) {
            if (kept.session != null) builder.header("Authorization", "Bearer ${kept.session}")
            if (shown.pass != null) builder.header("Coatcheck-Pass", shown.pass)
        } else {
            val cookies = ArrayList<String>()
            if (kept.session != null) cookies += "$cookieName=${kept.session}"
            if (kept.login != null) cookies += "$cookieName-login=${kept.login}"
            if (shown.pass != null) cookies += "$cookieName-pass=${shown.pass}"
            if (cookies.isNotEmpty()) builder.header("Cookie", cookies.joinToString("; "))
        }
        if (shown.proof != null) builder.header("DPoP", shown.proof)
        if (shown.presence != null) builder.header("Coatcheck-Presence", shown.presence)
        return builder.build()
    }

    /** Calls the broker with the stored credentials, and requires a successful status. */
    fun call(
        method: String, path: String, body: JSONObject? = null, withSession: Boolean = true, evidence: Evidence = Evidence.SESSION
    ): Answer {
        val bytes = body?.let { Bytes(it.toString().toByteArray()) }
        // A login is started without the session, because the two may belong to different users.
        val credentials = if (withSession) null else keeping.kept().let { Credentials(login = it.login, loginId = it.loginId, bearer = it.bearer) }
        val answer = repeat(path, method, bytes, credentials, true, deadlineMillis, evidence) { it.status in 200..299 }
        endSessions()
        return answer
    }

    /**
     * Sends a request, and repeats it as long as that can help and the deadline allows it. docs/apps/native-apps.md has the
     * table.
     */
    fun repeat(
        path: String, method: String, body: RequestBody?, credentials: Credentials?, idempotent: Boolean, deadline: Long,
        evidence: Evidence, mending: Mending = Mending(), good: (Answer) -> Boolean
    ): Answer {
        var begin = System.nanoTime()
        var tries = 0
        while (true) {
            var failure: Exception
            var pause = (200L shl minOf(tries, 6)) + random.nextInt(200)
            // The first attempt gets at least one second, even with a very short deadline. A relayed body may be long, so only
            // silence ends the attempt of a relayed call.
            val first = if (tries == 0) 1_000L else 1L
            val limit = maxOf(first, deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin))
            val caller = if (path.startsWith("/v1/relay/")) http else http.newBuilder().callTimeout(limit, TimeUnit.MILLISECONDS).build()
            val sent = credentials ?: keeping.kept()
            val stepUps = user.stepUps
            var refusal: Problem? = null
            var isSent = false
            try {
                val shown = try {
                    proofs.shown(evidence, method, path, sent, mending, limit)
                } catch (refused: Problem) {
                    if (refused.passes) throw Unreachable("${refused.code}: no pass") else throw refused
                }
                val request = request(method, path, body, sent, shown)
                isSent = true
                val answer = send(caller, request)
                if (good(answer)) return answer
                // If a proxy's page answers, the state of the session is as unknown as after a missing response.
                val problem = answer.problem() ?: throw Unreachable("status ${answer.status}, not the broker's")
                learn(problem, answer, request)
                if (proofs.mends(problem, evidence, idempotent, mending, request, sent.session)) continue
                // After a 408, the upstream may have received part of the request. After the broker's 503 or 429, it has
                // received nothing.
                if (!problem.passes || (!idempotent && problem.code == "request_timeout")) refusal = problem
                failure = problem
                answer.retryAfter?.let { pause = it * 1000 + random.nextInt(250) }
            } catch (lost: IOException) {
                if ((isSent && !idempotent) || Thread.currentThread().isInterrupted) throw lost
                failure = lost
            }
            if (refusal != null) {
                if (!user.asksUser(refusal, method, path, idempotent, sent, mending, stepUps)) throw refusal
                // The time that the user needs for the prompt does not count for the deadline.
                begin = System.nanoTime()
                tries = 0
                continue
            }
            val left = deadline - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin)
            if (pause > minOf(left, 30_250)) throw failure
            pausing { Thread.sleep(pause) }
            tries += 1
        }
    }

    fun send(caller: OkHttpClient, request: Request): Answer = running(caller.newCall(request)) { call ->
        call.execute().use {
            proofs.keepNonce(it)
            Answer(it)
        }
    }

    /** The running call of each thread. */
    private val calls = ConcurrentHashMap<Thread, Call>()

    private fun <Value> running(call: Call, work: (Call) -> Value): Value {
        calls[Thread.currentThread()] = call
        try {
            if (Thread.currentThread().isInterrupted) throw InterruptedIOException("cancelled")
            return work(call)
        } finally {
            calls.remove(Thread.currentThread())
        }
    }

    /**
     * Cancels the call of a waiting thread. The call returns at once with an [InterruptedIOException] or another
     * [IOException].
     */
    fun cancel(thread: Thread) {
        thread.interrupt()
        calls[thread]?.cancel()
    }

    /** Applies a refusal: forgets an ended session, and keeps a login that the refusal contains. */
    fun learn(problem: Problem, answer: Answer, request: Request) {
        if (problem.endsSession) forget(request)
        problem.json.optJSONObject("login")?.let { keep(it, answer) }
    }

    /** Keeps a started login, and returns the page to open. */
    fun keep(login: JSONObject, answer: Answer): HttpUrl {
        val token = if (login.has("login_token")) login.getString("login_token") else null
        keeping.change {
            Credentials(
                it.session, token ?: answer.cookie("$cookieName-login") ?: it.login, login.getString("login_id"),
                token != null, it.lastSession, it.endings, it.pass)
        }
        return url(login.getString("authorization_url"))
    }

    /** Forgets the session, unless another session replaced it before the response arrived. */
    fun forget(request: Request) {
        val sent = (request.header("Cookie") ?: "") + (request.header("Authorization") ?: "")
        keeping.forget { sent.contains(it) }
    }

    fun remembered(
        method: String, path: String, deadline: Long = deadlineMillis, evidence: Evidence = Evidence.SESSION, mending: Mending = Mending()
    ): Session {
        val sent = keeping.kept()
        val answer = repeat(path, method, if (method == "POST") Bytes(ByteArray(0)) else null, null, true, deadline, evidence, mending) { it.status in 200..299 }
        endSessions()
        return keeping.remember(answer.json(), sent.session)
    }

    /**
     * Ends a session that was signed out on this device, and forgets its secret. With the credentials from before the
     * sign-out, it also requests the provider's logout page.
     */
    fun end(ending: Ending, before: Credentials? = null): Answer {
        // The broker ends a session without evidence, but returns the logout page only with evidence.
        val answer = repeat(
            "/v1/session" + (if (before == null) "" else "?logout_url=true"), "DELETE", null,
            Credentials(ending.session, bearer = ending.bearer, lastSession = before?.lastSession, pass = before?.pass), true, deadlineMillis,
            if (before == null) Evidence.NONE else Evidence.SESSION
        ) { it.status in 200..299 }
        keeping.change { kept -> kept.with(endings = kept.endings.filter { it.session != ending.session }) }
        return answer
    }

    /** Ends the sessions that were signed out while the broker was unreachable. Uses a thread of its own. */
    fun endSessions() {
        val endings = synchronized(keeping) {
            val endings = try { keeping.kept().endings } catch (locked: Exception) { emptyList<Ending>() }
            if (ending || endings.isEmpty()) return
            ending = true
            endings
        }
        Thread {
            try {
                for (one in endings) end(one)
            } catch (later: Exception) {
                // The next successful call tries again.
            } finally {
                synchronized(keeping) { ending = false }
            }
        }.apply { isDaemon = true }.start()
    }
}

/** A body of JSON, or an empty one. */
internal class Bytes(private val bytes: ByteArray) : RequestBody() {
    override fun contentType(): MediaType? = null
    override fun contentLength(): Long = bytes.size.toLong()
    override fun writeTo(sink: BufferedSink) { sink.write(bytes) }
}

/** A response that was read to its end. */
internal class Answer(response: Response) {
    val status: Int = response.code
    val source: String? = response.header("Coatcheck-Source")
    val contentType: String? = response.header("Content-Type")
    val retryAfter: Long? = response.header("Retry-After")?.toLongOrNull()
    val body: ByteArray = response.body?.bytes() ?: ByteArray(0)
    private val cookies: List<String> = response.headers("Set-Cookie")

    fun json(): JSONObject = try {
        JSONObject(String(body, Charsets.UTF_8))
    } catch (other: JSONException) {
        throw Unreachable("not the broker's answer")
    }

    fun problem(): Problem? = try {
        if (contentType?.startsWith("application/problem+json") != true) null
        else json().let { if (it.getInt("status") == 401 && it.getString("code") == "step_up_required") StepUpRequired(it) else Problem(it) }
    } catch (other: JSONException) {
        null
    }

    fun cookie(name: String): String? = cookies.map { it.substringBefore(';').trim() }
        .firstOrNull { it.startsWith("$name=") }?.substringAfter('=')?.ifEmpty { null }
}
