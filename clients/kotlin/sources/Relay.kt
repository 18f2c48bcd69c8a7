// The two answers that the client passes on unchanged: an upstream's response, and the events of a session.
package coatcheck

import java.io.IOException
import java.util.concurrent.TimeUnit
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import org.json.JSONObject

/** Calls an upstream, and returns its response. */
internal fun Calls.relayed(
    asking: Asking, upstream: String, path: String, method: String, body: RequestBody?, presence: Boolean, query: String?
): RelayAnswer {
    val idempotent = method in listOf("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
    require(query == null || '?' !in path) { "the path already contains a query" }
    val address = "/v1/relay/$upstream/$path${if (query == null) "" else "?$query"}"
    val mending = Mending()
    if (presence) {
        asking.askingKey()
        val sent = keeping.kept()
        if (asking.canAsk(sent, mending)) mending.presence = asking.presence(method, address, sent, false)
    }
    val answer = repeat(address, method, body, null, idempotent, deadlineMillis, Evidence.SESSION, mending) { it.source == "upstream" }
    return RelayAnswer(answer.status, answer.contentType, answer.body)
}

/** Passes the session's events to the listener until the session ends. Reconnects if the stream breaks. */
internal fun Calls.listened(listener: SessionListener, listening: Listening) {
    // The broker sends something at least every 25 seconds, so 60 seconds of silence mean that the connection is dead.
    val patient = http.newBuilder().readTimeout(60, TimeUnit.SECONDS).build()
    var tries = 0
    var mending = Mending()
    while (!listening.stopped) {
        var pause = (500L shl minOf(tries, 5)) + random.nextInt(500)
        try {
            val credentials = keeping.kept()
            val sent = credentials.session
            // A proof opens the stream, because a stream that a pass has opened ends with the pass.
            val shown = proofs.shown(Evidence.PROOF, "GET", "/v1/session/events", credentials, mending, deadlineMillis)
            val request = request("GET", "/v1/session/events", null, credentials, shown)
            var mended = false
            val over = listening.begin(patient.newCall(request)).execute().use { response ->
                if (response.code == 200) {
                    tries = 0
                    mending = Mending()
                    proofs.keepNonce(response)
                    events(response, listener, request, sent)
                } else {
                    proofs.keepNonce(response)
                    val answer = Answer(response)
                    val problem = answer.problem() ?: throw Unreachable("status ${answer.status}")
                    learn(problem, answer, request)
                    mended = proofs.mends(problem, Evidence.PROOF, true, mending, request, sent)
                    if (problem.endsSession) listener.ended(problem.reason) else if (!problem.passes && !mended) throw problem
                    answer.retryAfter?.let { pause = maxOf(pause, it * 1000) }
                    problem.endsSession
                }
            }
            if (over) return
            if (mended) continue
        } catch (lost: IOException) {
            // The next attempt follows after the pause.
        } catch (gone: KeyLost) {
            return listener.ended("key_lost")
        }
        listening.pause(pause)
        tries += 1
    }
}

private fun Calls.events(response: Response, listener: SessionListener, request: Request, sent: String?): Boolean {
    val source = response.body!!.source()
    var name = ""
    var data = ""
    while (true) {
        val line = source.readUtf8Line() ?: return false
        when {
            line.startsWith("event: ") -> name = line.substring(7)
            line.startsWith("data: ") -> data += line.substring(6)
            line == "" -> {
                when (name) {
                    "session" -> listener.session(keeping.remember(JSONObject(data), sent))
                    "tokens_refreshed" -> listener.tokensRefreshed()
                    "session_ended" -> {
                        forget(request)
                        listener.ended(JSONObject(data).optString("reason"))
                        return true
                    }
                }
                name = ""
                data = ""
            }
        }
    }
}
