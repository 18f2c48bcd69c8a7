// The move of a signed-in user from the app's old SDK to the broker. docs/apps/moving-in-app.md has the
// rules.
package coatcheck

import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.RandomAccessFile
import java.security.SecureRandom
import java.util.concurrent.TimeUnit
import org.json.JSONException
import org.json.JSONObject

/** The SDK that signed the user in before this app used the broker. docs/apps/moving-in-app.md has implementations. */
interface OldSdk {
    /**
     * Returns when the last refresh of the old tokens has ended. The mark already exists, so each new refresh waits.
     * The client waits at most 30 seconds, and then interrupts the thread.
     */
    fun awaitRefresh()
    /** Reads the stored tokens, or returns null. A refresh is forbidden here. */
    fun tokens(): OldTokens?
    /**
     * Deletes the SDK's record from the device, even if it is already deleted. The SDK's revocation and its
     * log-out are forbidden here. Either one ends the grant at the provider, and the new session ends with it.
     */
    fun erase()
}

/** The tokens of the old SDK. The broker compares [idToken] with the provider's answer. */
class OldTokens(val refreshToken: String, val idToken: String? = null)

/** The outcome of [Coatcheck.moveIn]. */
sealed class MovedIn {
    /** The user is signed in at the broker, and the old tokens are erased. */
    class Moved(val session: Session?) : MovedIn()
    /** The user has to sign in. [problem] has the reason. It is null if an earlier run of the app received it. */
    class SignIn(val problem: Problem?) : MovedIn()
    /**
     * The move waits, for example for the network. The old tokens and the mark stay. Call [Coatcheck.resumeMoveIn] at the next
     * start of the app, or sooner. [problem] is null after a missing answer.
     */
    class Later(val problem: Problem?) : MovedIn()
    /**
     * The app goes on with its old SDK, or with the session that it already has. The mark is gone. Try again at the next start
     * of the app.
     */
    class NotNow(val reason: Reason, val problem: Problem? = null) : MovedIn()

    /** The reason why the app puts the move off. */
    enum class Reason {
        /** The user is already signed in at the broker. */
        SIGNED_IN,
        /** The old SDK lacks tokens. */
        NO_TOKENS,
        /** A refresh of the old SDK was still in progress after 30 seconds. */
        REFRESH_IN_PROGRESS,
        /** Another part of the app took the mark away. */
        MARK_TAKEN,
        /** The broker refused the request, for example because the move is closed (403). */
        REFUSED
    }
}

/**
 * The mark of a move, which exists from before the first request until the old tokens are erased. While it exists, all
 * processes of the app leave the old tokens alone. Each repeated request contains the same [loginToken], so that the broker returns the
 * same session. If [posts] is true, the last refresh has ended, and requests may have been sent.
 */
class MoveInMark(val loginToken: String, val posts: Boolean) {
    fun toJson(): String = JSONObject().put("login_token", loginToken).put("posts", posts).toString()

    companion object {
        /** Creates the mark of a new move. Its login token has 32 random bytes. */
        fun random() = MoveInMark(base64Url(ByteArray(32).also { SecureRandom().nextBytes(it) }), false)

        fun fromJson(text: String): MoveInMark? = try {
            JSONObject(text).let { MoveInMark(it.getString("login_token"), it.getBoolean("posts")) }
        } catch (other: JSONException) {
            null
        }
    }
}

/** A place on the device for the mark that all processes of the app can read. */
interface MarkStorage {
    /** Returns the mark of the move in progress, or null. */
    fun read(): MoveInMark?
    /**
     * Replaces the mark by the result of [work], and returns that result once it is durable. Null deletes the mark. Other
     * processes have to wait from the read until the write.
     */
    fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark?
    /**
     * Whether a move is in progress, which forbids a refresh of the old tokens. Also true if the mark is unreadable at the
     * moment.
     */
    val isMoving: Boolean get() = try { read() != null } catch (locked: Exception) { true }
    /** Deletes the mark, for a user who signs out during the move. Before, cancel the move and erase the old tokens. */
    fun remove() { change { null } }
}

/** A storage for the mark in a file. Use a file in `Context.getNoBackupFilesDir()`, because the mark belongs to the device. */
class FileMarkStorage(private val file: File) : MarkStorage {
    override fun read(): MoveInMark? = if (file.exists()) MoveInMark.fromJson(file.readText()) else null

    /** Changes the mark under a lock of the system, which the end of a process releases. */
    override fun change(work: (MoveInMark?) -> MoveInMark?): MoveInMark? = synchronized(lock) {
        // The system's lock excludes only other processes.
        RandomAccessFile(File(file.path + ".lock"), "rw").use { locked ->
            // The lock ends with its file.
            locked.channel.lock()
            val before = read()
            val after = work(before)
            if (after !== before) write(after)
            after
        }
    }

    private fun write(mark: MoveInMark?) {
        if (mark == null) {
            if (!file.delete() && file.exists()) throw IOException("the mark cannot be deleted")
            return
        }
        val next = File(file.path + ".next")
        FileOutputStream(next).use { it.write(mark.toJson().toByteArray()); it.fd.sync() }
        if (!next.renameTo(file)) throw IOException("the mark cannot be stored")
        // Once more, so that the new name is on the disk, too.
        RandomAccessFile(file, "rw").use { it.fd.sync() }
    }

    private companion object { val lock = Any() }
}

/** The moves of one [Coatcheck]. [made] stores the session of a 201 response. */
internal class Moving(private val calls: Calls, private val keeping: Keeping, private val client: String?, private val made: (Answer) -> Session) {
    /** The longest wait for a refresh of the old SDK. */
    var refreshMillis = 30_000L
    /** The longest wait for an answer of the broker, which may need 20 seconds. */
    var answerMillis = 30_000L
    /** The time for all pauses together. */
    private val pausesMillis = 600_000L
    var pause: (Long) -> Unit = { millis -> pausing { Thread.sleep(millis) } }
    private var moving: SharedCall<MovedIn>? = null

    /** Moves the user. Simultaneous calls share one move. */
    fun moveIn(old: OldSdk, provider: String, marks: MarkStorage, device: String?): MovedIn {
        val call = synchronized(this) {
            moving?.let { if (it.join()) it else null } ?: SharedCall(calls) { moved(old, provider, marks, device) }.also {
                moving = it
                it.join()
                it.begin()
            }
        }
        return call.value()
    }

    private fun moved(old: OldSdk, provider: String, marks: MarkStorage, device: String?): MovedIn {
        if (keeping.kept().session != null) {
            // If the mark exists, the session came after it: from the move itself, or from a sign-in after it.
            return if (marks.read() == null) MovedIn.NotNow(MovedIn.Reason.SIGNED_IN) else settled(old, marks)
        }
        var mark = marks.change { it ?: MoveInMark.random() } ?: return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
        if (!mark.posts && !hasEnded(old)) {
            // Another process of the app may have waited longer. After its first request, the mark must stay.
            mark = marks.change { if (it != null && it.posts) it else null } ?: return MovedIn.NotNow(MovedIn.Reason.REFRESH_IN_PROGRESS)
        }
        // Read the tokens only now, because the refresh replaced them.
        val tokens = old.tokens()
        if (tokens == null) {
            marks.remove()
            return if (mark.posts) MovedIn.SignIn(null) else MovedIn.NotNow(MovedIn.Reason.NO_TOKENS)
        }
        val posting = marks.change { if (it == null || it.posts) it else MoveInMark(it.loginToken, true) }
            ?: return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
        val body = JSONObject().put("provider", provider).put("client", client).put("login_token", posting.loginToken).put("device", device)
            .put("tokens", JSONObject().put("refresh_token", tokens.refreshToken).put("id_token", tokens.idToken))
        return posted(Bytes(body.toString().toByteArray()), old, marks)
    }

    /** Waits for the old SDK's refresh, and returns whether it has ended in time. */
    private fun hasEnded(old: OldSdk): Boolean {
        var failed: Throwable? = null
        val waiting = Thread { try { old.awaitRefresh() } catch (fault: Throwable) { failed = fault } }.apply { isDaemon = true; start() }
        try {
            pausing { waiting.join(refreshMillis) }
        } finally {
            if (waiting.isAlive) waiting.interrupt()
        }
        if (waiting.isAlive) return false
        failed?.let { if (it is InterruptedException) return false else throw it }
        return true
    }

    /** Sends the same request until the broker has decided. */
    private fun posted(body: Bytes, old: OldSdk, marks: MarkStorage): MovedIn {
        var paused = 0L
        while (true) {
            if (keeping.kept().session != null) return settled(old, marks)
            if (marks.read() == null) return MovedIn.NotNow(MovedIn.Reason.MARK_TAKEN)
            val answer = once(body)
            if (answer != null && answer.status == 201 && keeps(answer)) {
                calls.endSessions()
                return settled(old, marks)
            }
            val problem = answer?.problem()
            if (problem != null) decided(problem, old, marks)?.let { return it }
            val millis = (answer?.retryAfter ?: 0) * 1000 + calls.random.nextInt(60_001)
            if (paused + millis > pausesMillis) return MovedIn.Later(problem)
            pause(millis)
            paused += millis
        }
    }

    /** Sends the request, with the nonce that the broker asks for. Returns null after a missing answer. */
    private fun once(body: Bytes): Answer? {
        val caller = calls.http.newBuilder().callTimeout(answerMillis, TimeUnit.MILLISECONDS).build()
        val mending = Mending()
        while (true) {
            try {
                val sent = keeping.kept()
                val shown = calls.proofs.shown(Evidence.SIGN_IN, "POST", "/v1/sessions", sent, mending, answerMillis)
                val request = calls.request("POST", "/v1/sessions", body, sent, shown)
                val answer = calls.send(caller, request)
                val problem = answer.problem() ?: return answer
                if (!calls.proofs.mends(problem, Evidence.SIGN_IN, true, mending, request, sent.session)) return answer
            } catch (lost: IOException) {
                if (Thread.currentThread().isInterrupted) throw lost
                return null
            }
        }
    }

    /**
     * Stores the session of a 201 response. Returns false for a response of another server. If the user has signed in
     * meanwhile, the session of the sign-in stays, and the broker ends the moved session.
     */
    private fun keeps(answer: Answer): Boolean = try {
        if (keeping.kept().session == null) {
            made(answer)
        } else {
            val token = answer.json().optString("session_token").ifEmpty { null }
            val secret = token ?: answer.cookie(calls.cookieName) ?: throw Unreachable("a session without its secret")
            keeping.change { it.with(endings = (it.endings + Ending(secret, token != null)).takeLast(8)) }
        }
        true
    } catch (other: Unreachable) {
        false
    } catch (other: JSONException) {
        false
    }

    /** Returns the outcome after a refusal, or null if the same request may succeed after a pause. */
    private fun decided(problem: Problem, old: OldSdk, marks: MarkStorage): MovedIn? = when {
        problem.code == "login_required" && problem.status == 409 -> {
            old.erase()
            marks.remove()
            MovedIn.SignIn(problem)
        }
        // The tokens became a session, perhaps on another device. A refresh would end that session, so the mark stays until the
        // user has signed in.
        problem.code == "code_already_used" && problem.status == 409 -> if (keeping.kept().session == null) MovedIn.SignIn(problem) else used(problem, old, marks)
        // The broker keeps the tokens, for example until the user has ended another session.
        problem.status == 409 -> MovedIn.Later(problem)
        problem.code == "use_dpop_nonce" || problem.status == 408 || problem.status == 429 || problem.status >= 500 -> null
        else -> {
            marks.remove()
            MovedIn.NotNow(MovedIn.Reason.REFUSED, problem)
        }
    }

    private fun used(problem: Problem, old: OldSdk, marks: MarkStorage): MovedIn = try {
        calls.remembered("GET", "/v1/session")
        settled(old, marks)
    } catch (ended: Problem) {
        if (ended.endsSession) MovedIn.SignIn(problem) else if (ended.passes) MovedIn.Later(ended) else throw ended
    } catch (lost: IOException) {
        if (Thread.currentThread().isInterrupted) throw lost
        MovedIn.Later(null)
    }

    /** Erases the old tokens, and then the mark, because the session is stored. */
    private fun settled(old: OldSdk, marks: MarkStorage): MovedIn {
        old.erase()
        marks.remove()
        return MovedIn.Moved(keeping.kept().lastSession?.let { Session(it) })
    }
}
